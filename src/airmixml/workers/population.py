"""The workers of one run: how far away each stands and which sample, or which rows, it holds."""

from dataclasses import dataclass

import numpy as np

from airmixml.arrays import Doubles, Integers
from airmixml.data import DataSet
from airmixml.errors import DataError, ScenarioError
from airmixml.scenario import Workers
from airmixml.streams import Streams
from airmixml.workers.holdings import Holdings, deal_rows, gather_rows


def place_coordinates(count: int, side_metres: float, rng: np.random.Generator) -> Doubles:
    """Return where each worker stands, in metres from the server to the east and to the north; workers x 2."""
    return rng.uniform(-side_metres / 2, side_metres / 2, size=(count, 2))


def place_workers(count: int, side_metres: float, min_distance_metres: float, rng: np.random.Generator) -> Doubles:
    """Return the distance in metres of each worker from the server.

    Workers nearer than ``min_distance_metres`` count as being that far: path loss is a law of the far field.
    """
    places_metres = place_coordinates(count, side_metres, rng)
    distance_metres = np.hypot(places_metres[:, 0], places_metres[:, 1])
    return np.maximum(distance_metres, min_distance_metres, out=distance_metres)


HOLDINGS_CHAPTER = 1  # chapter 0 of the stream "data" splits the data set


@dataclass(frozen=True, kw_only=True, eq=False)
class Population:
    """Workers, each with a place and one sample, or several rows.

    Attributes:
        distance_metres: distance of each worker from the server.
        sample_index: row of the training pool that each worker holds; with ``holdings`` the number of its holding.
        holdings: the rows of each holding, where workers hold several.
    """

    distance_metres: Doubles
    sample_index: Integers
    holdings: Holdings | None = None

    @property
    def count(self) -> int:
        """N, number of workers."""
        return int(self.distance_metres.shape[0])


def draw_holding(workers: Workers, available: int, streams: Streams) -> Integers:
    """Return the sample of the pool that ``deploy`` gives each worker where samples are drawn with replacement."""
    return _drawn(workers, available, streams.generator("data", HOLDINGS_CHAPTER))


def _drawn(workers: Workers, available: int, drawing: np.random.Generator) -> Integers:
    return drawing.integers(0, available, size=workers.count, dtype=np.int64)


def deploy(workers: Workers, pool: DataSet | int, streams: Streams) -> Population:
    """Place the workers and give each one sample of the pool (its data, or the number of its samples), or several rows.

    Samples are drawn uniformly with replacement, or dealt in random order so that nobody's sample is on two workers. So
    are the holdings of people where the data say who holds a row; skewed holdings deal the rows themselves.
    """
    available = pool if isinstance(pool, int) else pool.holdings
    if available < 1:
        raise DataError(f"the training pool has {available} samples: must have at least 1 for workers to hold")
    distance_metres = place_workers(
        workers.count, workers.side_metres, workers.min_distance_metres, streams.generator("placement")
    )
    drawing = streams.generator("data", HOLDINGS_CHAPTER)
    if workers.holding.endswith("-skewed"):
        if isinstance(pool, int):
            raise ScenarioError(f'workers.holding = "{workers.holding}": needs the data to deal; give them to deploy')
        holdings: Holdings | None = gather_rows(
            deal_rows(workers, pool, drawing), workers.count, workers.max_rows, drawing
        )
        return Population(distance_metres=distance_metres, sample_index=np.arange(workers.count), holdings=holdings)
    if workers.holding == "dealt":
        if workers.count > available:
            raise ScenarioError(
                f"workers.count = {workers.count}: must be at most the {available} "
                f"{'workers' if workers.worker_column else 'samples'} of the pool for "
                'workers.holding = "dealt"; deploy fewer or use workers.holding = "drawn"'
            )
        sample_index = drawing.permutation(available)[: workers.count].astype(np.int64)
    else:
        sample_index = _drawn(workers, available, drawing)
    found = None if isinstance(pool, int) or pool.holders is None else pool.holders
    holdings = None if found is None else gather_rows(found, available, workers.max_rows, drawing)
    return Population(distance_metres=distance_metres, sample_index=sample_index, holdings=holdings)
