"""What a scenario leaves to its data: how many workers there are, how many of them send at once, and delta.

The number of rows counts as public, as it does in every statement: a worker knows how many others there are.
"""

from pathlib import Path

from airmixml.data.dataset import known_dataset
from airmixml.progress import Progress, silent
from airmixml.scenario import Scenario
from airmixml.workers.loading import load_raw, pool_rows, units_of


def settle(
    scenario: Scenario, *, data_dir: Path | None = None, progress: Progress = silent, test_rows: bool = True
) -> Scenario:
    """Return the scenario with a number for every key that says "as many as there are"; as it is where none does.

    A user's file is read to count its rows. ``test_rows`` is that of ``load_dataset``.
    """
    if scenario.is_settled:
        return scenario
    known = known_dataset(scenario.workers.dataset)
    if known is not None:
        rows, inputs, own_test = known.train_samples, known.input_dim, known.test_samples > 0
    else:
        raw = load_raw(scenario.workers, data_dir, progress)
        rows, inputs, own_test = units_of(raw), int(raw.inputs.shape[1]), raw.test_labels is not None
    return scenario.settled(pool_rows(scenario.workers, rows, own_test=own_test, test_rows=test_rows), inputs)
