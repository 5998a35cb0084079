"""What a plan or an account assumes of the data before anything is read: dimensions, columns, mean and deviation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airmixml.errors import ScenarioError
from airmixml.progress import silent
from airmixml.scenario import Scenario, Workers
from airmixml.scenario.rules import Whole

if TYPE_CHECKING:
    from airmixml.data import KnownDataSet
    from airmixml.planning.slot_designs import InputMoments


def data_dimensions(scenario: Scenario, input_dim: int | None, label_dim: int | None) -> tuple[int, int]:
    """Return d_X as it leaves the encoder and d_Y: given, known of the data set, or counted in the user's file."""
    from airmixml.data import known_dataset
    from airmixml.streams import Streams
    from airmixml.workers import encoded_dim, load_dataset

    if (input_dim is None) != (label_dim is None):
        raise ScenarioError("--input-dim and --label-dim: go together; give both or none")
    if input_dim is not None and label_dim is not None:
        Whole(low=1, high=10**9).check("--input-dim", input_dim)
        fewest = 2 if scenario.workers.task == "classification" else 1
        Whole(low=fewest, high=10**9).check("--label-dim", label_dim)
        return encoded_dim(scenario.workers, input_dim), label_dim
    known = known_dataset(scenario.workers.dataset)
    if known is not None:
        return encoded_dim(scenario.workers, known.input_dim), known.label_dim
    dataset = load_dataset(scenario.workers, Streams(scenario.seed))
    return encoded_dim(scenario.workers, dataset.held_dim or dataset.input_dim), dataset.label_dim


def table_columns(scenario: Scenario, input_dim: int | None) -> int | None:
    """Return how many columns the rows of a table have; None where inputs are images or series."""
    from airmixml.data import known_dataset
    from airmixml.workers.loading import load_raw

    if input_dim is not None:
        return input_dim
    known = known_dataset(scenario.workers.dataset)
    if known is not None:
        return None if known.image_shape else known.input_dim
    raw = load_raw(scenario.workers, None, silent)
    return None if raw.image_shape else int(raw.inputs.shape[1])


def input_moments(scenario: Scenario, mean: float | None, deviation: float | None, *, named: bool) -> InputMoments:
    """Return what is assumed of a scaled input; ``named``: that of the scenario's data set, if it is a known one."""
    from airmixml.data import known_dataset
    from airmixml.planning.slot_designs import InputMoments

    for name, value in (("--input-mean", mean), ("--input-deviation", deviation)):
        if value is not None and not 0.0 < value <= 1.0:
            raise ScenarioError(f"{name} = {value:g}: must be above 0 and at most 1, for inputs scaled to [0, 1]")
    known = known_dataset(scenario.workers.dataset) if named else None
    # Of a table with round bounds about those of the two public ones; of other inputs those of even spread.
    own = (0.37, 0.12) if scenario.workers.encoder in ("clip", "mixed") else (0.5, 0.29)
    assumed_mean, assumed_deviation = own if known is None else _known_moments(known, scenario.workers)
    return InputMoments(mean=mean or assumed_mean, deviation=deviation or assumed_deviation)


def _known_moments(known: KnownDataSet, workers: Workers) -> tuple[float, float]:
    """Return mean and deviation of a data set's inputs, scaled by the bounds that the scenario declares."""
    import numpy as np

    lower, upper = np.broadcast_arrays(known.lower, known.upper)
    low, high = np.asarray(workers.input_lower or lower), np.asarray(workers.input_upper or upper)
    means = (lower + known.scaled_mean * (upper - lower) - low) / (high - low)
    deviations = known.scaled_deviation * (upper - lower) / (high - low)
    return float(means.mean()), float(np.sqrt((deviations**2).mean() + means.var()))
