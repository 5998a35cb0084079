"""What a scenario leaves to its data: how many workers there are, how many of them send at once, and delta.

The number of rows counts as public, as it does in every statement: a worker knows how many others there are.
"""

from pathlib import Path
from typing import Final

import numpy as np

from airmixml.arrays import Integers
from airmixml.data.dataset import known_dataset
from airmixml.errors import DataError
from airmixml.progress import Progress, silent
from airmixml.scenario import Scenario, Workers
from airmixml.streams import Streams
from airmixml.workers.loading import load_raw, pool_rows, units_of
from airmixml.workers.population import draw_holding

_MOST_DRAWN: Final = 10_000_000


def settle(
    scenario: Scenario, *, data_dir: Path | None = None, progress: Progress = silent, test_rows: bool = True
) -> Scenario:
    """Return the scenario with a number for every key that says "as many as there are"; as it is where none does.

    A user's file is read to count its rows. ``test_rows`` is that of ``load_dataset``.
    """
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
    held = draw_holding(workers, available, Streams(scenario.seed))
    return np.unique(held, return_inverse=True)[1].reshape(-1).astype(np.int64)
