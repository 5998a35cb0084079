"""The workers of one run: which rows each holds, whose they are, where each stands; what a scenario leaves to the data.

Label-skewed: every worker holds as many rows, in classes by shares of its own, drawn from a symmetric Dirichlet
distribution. Size-skewed: every worker holds a row, and the remaining rows go to workers with such shares. The number
of rows counts as public, as it does in every statement.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.random import Generator

from airmixml.arrays import Doubles, Integers, physical_memory_bytes
from airmixml.data import DataSet
from airmixml.data.dataset import RawData, known_dataset
from airmixml.messages import DataError, ScenarioError, plural, shown
from airmixml.progress import Progress, silent
from airmixml.scenario import Scenario, Workers
from airmixml.streams import Streams
from airmixml.workers.encoder import encoder_of
from airmixml.workers.loading import load_raw, pool_and_test, pool_rows, units_of
from airmixml.workers.signal import Holdings

NOBODY = -1
_BYTES_PER_WORKER: Final = 64


def gather_rows(holders: Integers, count: int, max_rows: int, rng: Generator) -> Holdings:
    """Return the rows of each of ``count`` holders, of which ``holders`` says who holds which; shape rows.

    Rows of ``NOBODY`` are left out. Where one has more than ``max_rows`` (0: no limit), chance picks those that enter:
    for each holder by itself, as the order of its rows in one permutation is. Where data are protected the chance must
    be secret, or the pick of others would tell how many rows one has.
    """
    order = rng.permutation(len(holders)) if max_rows else np.arange(len(holders))
    order = order[holders[order] != NOBODY]
    order = order[np.argsort(holders[order], kind="stable")]
    holder = holders[order]
    sizes = np.bincount(holder, minlength=count)
    place = np.arange(len(order)) - (np.cumsum(sizes) - sizes)[holder]
    enters = place < max_rows if max_rows else np.ones(len(order), dtype=bool)
    most = int(min(sizes.max(initial=1), max_rows or len(holders)))
    rows = np.zeros((count, max(1, most)), dtype=np.int64)
    present = np.zeros(rows.shape, dtype=bool)
    rows[holder[enters], place[enters]] = order[enters]
    present[holder[enters], place[enters]] = True
    return Holdings(rows=rows, present=present)


def deal_rows(workers: Workers, dataset: DataSet, rng: Generator) -> Integers:
    """Deal the rows of the pool to the scenario's workers; return who holds each row, or ``NOBODY``; shape rows."""
    samples, count = dataset.train_samples, workers.count
    wanted = workers.rows_per_worker * count or samples
    if wanted > samples or count > samples:
        key, value = ("rows_per_worker", workers.rows_per_worker) if wanted > samples else ("count", count)
        raise ScenarioError(
            f"workers.{key} = {value}: must be at most {samples // (count if wanted > samples else 1)} for "
            f'workers.holding = "{workers.holding}" with {count} workers and the {samples} rows of the pool'
        )
    order = rng.permutation(samples)[:wanted]
    owners = np.full(samples, NOBODY, dtype=np.int64)
    if workers.holding == "size-skewed":
        shares = rng.dirichlet(np.full(count, workers.skew))
        sizes = 1 + rng.multinomial(wanted - count, shares)
        owners[order] = np.repeat(np.arange(count), sizes)
    else:
        seats = np.repeat(np.arange(count), wanted // count)
        labels = np.asarray(dataset.train_labels)[order[: len(seats)]]
        owners[order[: len(seats)]] = _seated(seats, labels, dataset.label_dim, workers, rng)
    return owners


def _seated(seats: Integers, labels: Integers, classes: int, workers: Workers, rng: Generator) -> Integers:
    """Return the worker of each row: every seat asks for a class by its worker's shares and gets such a row.

    Where more seats ask for a class than there are rows of it, chance fills the others with what is left. The seats'
    workers and the rows' classes are of one shape.
    """
    # The classes that are in the pool more often are asked for more often, so that few seats remain.
    frequency = np.bincount(labels, minlength=classes) / len(labels)
    shares = rng.dirichlet(np.maximum(workers.skew * classes * frequency, 1e-9), size=workers.count)
    cumulative = np.cumsum(shares, axis=1)
    asked = (rng.random(len(seats))[:, None] > cumulative[seats] / cumulative[seats][:, -1:]).sum(axis=1)
    mixed = rng.permutation(len(seats))
    found = np.full(len(labels), NOBODY, dtype=np.int64)
    taken = np.zeros(len(seats), dtype=bool)
    for kind in range(classes):
        there, asking = np.flatnonzero(labels == kind), mixed[asked[mixed] == kind]
        matched = min(len(there), len(asking))
        found[there[:matched]] = seats[asking[:matched]]
        taken[asking[:matched]] = True
    left = rng.permutation(np.flatnonzero(~taken))
    found[found == NOBODY] = seats[left]
    return found


def check_workers_fit(count: int) -> None:
    """Refuse more workers than fit into memory, rather than be killed half-way."""
    physical = physical_memory_bytes()
    if count * _BYTES_PER_WORKER > physical:
        raise ScenarioError(
            f"workers.count = {count}: needs more memory than the {physical / 1e9:.0f} GB of this machine; deploy "
            "fewer workers"
        )


def place_coordinates(count: int, side_metres: float, rng: np.random.Generator) -> Doubles:
    """Return where each worker stands, in metres from the server to the east and to the north; workers x 2."""
    check_workers_fit(count)
    return rng.uniform(-side_metres / 2, side_metres / 2, size=(count, 2))


def place_workers(count: int, side_metres: float, min_distance_metres: float, rng: np.random.Generator) -> Doubles:
    """Return how far each worker is from the server in metres, as the far field has it: at least the given distance."""
    places_metres = place_coordinates(count, side_metres, rng)
    distance_metres = np.hypot(places_metres[:, 0], places_metres[:, 1])
    return np.maximum(distance_metres, min_distance_metres, out=distance_metres)


HOLDINGS_CHAPTER = 1  # chapter 0 of the stream "data" splits the data set


@dataclass(frozen=True, kw_only=True, eq=False)
class Population:
    """Workers, each with a place and one sample, or several rows."""

    distance_metres: Doubles  #: distance of each worker from the server
    #: row of the training pool that each worker holds; with ``holdings`` the number of its holding
    sample_index: Integers
    holdings: Holdings | None = None  #: the rows of each holding, where workers hold several

    @property
    def count(self) -> int:
        """N, number of workers."""
        return int(self.distance_metres.shape[0])


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
    held_by_whom, holders = None if isinstance(pool, int) else pool.holders, available
    if workers.holding.endswith("-skewed"):
        if isinstance(pool, int):
            raise ScenarioError(f'workers.holding = "{workers.holding}": needs the data to deal; give them to deploy')
        held_by_whom, holders = deal_rows(workers, pool, drawing), workers.count
        sample_index = np.arange(workers.count)
    elif workers.holding == "dealt":
        if workers.count > available:
            raise ScenarioError(
                f"workers.count = {workers.count}: must be at most the {available} "
                f"{'workers' if workers.worker_column else 'samples'} of the pool for "
                'workers.holding = "dealt"; deploy fewer or use workers.holding = "drawn"'
            )
        sample_index = drawing.permutation(available)[: workers.count].astype(np.int64)
    else:
        sample_index = drawing.integers(0, available, size=workers.count, dtype=np.int64)
    holdings = None if held_by_whom is None else gather_rows(held_by_whom, holders, workers.max_rows, drawing)
    return Population(distance_metres=distance_metres, sample_index=sample_index, holdings=holdings)


@dataclass(frozen=True, kw_only=True, eq=False)
class Owners:
    """The owners of the data of one run."""

    label: str  #: what their numbers or names are of
    count: int  #: rows that the data set has to train on; 0 where owners have names
    who: Integers | tuple[str, ...]  #: number of each owner, or its name; one for each holding of the pool
    #: the holding that each worker has; shape workers. None where a secret decides that, and nobody has two
    holding: Integers | None

    @property
    def workers_each(self) -> Integers:
        """On how many workers the data of each owner lie, at most; shape of ``who``."""
        if self.holding is None:
            return np.ones(len(self.who), dtype=np.int64)
        return np.bincount(self.holding, minlength=len(self.who))


def owners_of(workers: Workers, raw: RawData, seed: int, *, protected: bool, test_rows: bool = True) -> Owners:
    """Return whose data the workers of a run with that seed hold; refuse holdings that are nobody's twice.

    ``test_rows`` is that of ``load_dataset``. In protection who is which worker stays secret, so that everybody in the
    pool counts as one of them.
    """
    if workers.holding.endswith("-skewed"):
        raise ScenarioError(
            f'workers.holding = "{workers.holding}": deals rows to new workers with each seed, so that no ledger can '
            'know them again; use "dealt", or name who holds a row (workers.worker_column)'
        )
    if protected and workers.holding == "drawn":
        raise ScenarioError(
            'workers.holding = "drawn": chance decides in secret on how many workers a row lies, and nothing bounds '
            'beforehand what its owner loses; use workers.holding = "dealt" with a ledger'
        )
    streams = Streams(seed)
    pool, _ = pool_and_test(raw, workers, streams.generator("data"), test_rows)
    available = len(pool) if raw.holders is None else len(np.unique(raw.holders[pool]))
    dealt = deploy(workers, available, streams).sample_index  # in protection for its refusals alone
    holding = None if protected else dealt
    if raw.holders is None:
        who = np.sort(pool) if holding is None else pool
        return Owners(label=f"rows of {raw.name}", count=units_of(raw), who=who, holding=holding)
    names = tuple(raw.holder_names[number] for number in np.unique(raw.holders[pool]).tolist())
    return Owners(label=f"column {workers.worker_column}", count=0, who=names, holding=holding)


_MOST_DRAWN: Final = 10_000_000


def settle(
    scenario: Scenario, *, data_dir: Path | None = None, progress: Progress = silent, test_rows: bool = True
) -> Scenario:
    """Return the scenario with a number for each key that says "as many as there are"; rows of a file are counted."""
    if not isinstance(scenario, Scenario):
        given = shown(scenario)
        raise ScenarioError(f"scenario = {given}: must be a Scenario; use Scenario.preset or Scenario.load")
    if scenario.is_settled:
        return scenario
    return scenario.settled(*_pool_and_inputs(scenario.workers, data_dir, progress, test_rows))


def _pool_and_inputs(workers: Workers, data_dir: Path | None, progress: Progress, test_rows: bool) -> tuple[int, int]:
    """Return how many rows, or people, the pool has, and how many inputs a row has."""
    known = known_dataset(workers.dataset)
    if known is not None:
        rows, inputs, own_test = known.train_samples, known.input_dim, known.test_samples > 0
    else:
        raw = load_raw(workers, data_dir, progress)
        rows, inputs, own_test = units_of(raw), int(raw.inputs.shape[1]), raw.test_labels is not None
    return pool_rows(workers, rows, own_test=own_test, test_rows=test_rows), inputs


def planned_holding(scenario: Scenario) -> Integers | None:
    """Return the row that the seed gives each worker of a settled scenario, rows counted as they are held; workers.

    None where no row lies on two workers, where the data are not there to be counted, or for more workers than a plan
    draws one by one.
    """
    workers = scenario.workers
    if workers.holding != "drawn" or workers.count > _MOST_DRAWN:
        return None
    try:
        available, _ = _pool_and_inputs(workers, None, silent, True)
    except DataError:
        return None
    held = deploy(workers, available, Streams(scenario.seed)).sample_index
    return np.unique(held, return_inverse=True)[1].reshape(-1).astype(np.int64)


def inputs_in_words(workers: Workers, encoded_dim: int) -> str:
    """Return how many inputs or features a sample has; the constant that the encoder appends is none of the user's."""
    count = encoded_dim - (1 if workers.constant else 0)
    return plural(count, "input" if encoder_of(workers).keeps_inputs else "feature")


def row_name(workers: Workers, copies: int) -> str:
    """Return what is protected otherwise than a worker; empty where each worker holds one row that no other holds."""
    if workers.several_rows:
        return "a person" if copies > 1 else "one of its rows"
    return "a row of the data" if copies > 1 else ""


def held_by(workers: Workers, copies: int) -> str:
    """Return why the epsilon of a row, or of a person, is not that of a worker."""
    if copies == 1:
        return f"where all rows of a worker together count as {workers.rows_bound:g} at most"
    return f"{'with all rows on' if workers.several_rows else 'held by'} up to {copies:,} workers"
