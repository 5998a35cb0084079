"""What a plan or an account assumes of the data before anything is read: dimensions, columns, moments, rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from airmixml.arrays import Doubles, Integers
from airmixml.data import KnownDataSet, known_dataset
from airmixml.messages import ScenarioError
from airmixml.progress import silent
from airmixml.registries import DATASETS
from airmixml.scenario import Scenario, Workers
from airmixml.scenario.rules import Whole
from airmixml.streams import Streams
from airmixml.workers import encoded_dim, encoder_of, load_dataset
from airmixml.workers.loading import load_raw


@dataclass(frozen=True, kw_only=True)
class InputMoments:
    """Mean and deviation of an input symbol, assumed or known, for the SNR of mixtures of them."""

    mean: float
    deviation: float

    def encoded(self, workers: Workers, features: int) -> InputMoments:
        """Return about what the encoder leaves of them; features other than inputs count as centred, of full norm."""
        encoder = encoder_of(workers)
        if not encoder.bounds_norm:
            return self
        if not encoder.keeps_inputs:
            return InputMoments(mean=0.0, deviation=workers.clip_norm / math.sqrt(features))
        # The public centre is the middle of the bounds; an image's is about its own mean.
        mean = {"none": self.mean, "public": self.mean - 0.5}.get(workers.centre, 0.0)
        length = math.sqrt(features * (mean**2 + self.deviation**2))  # all are taken as equally long
        share = workers.clip_norm / length if workers.norm == "unit" else min(1.0, workers.clip_norm / length)
        return InputMoments(mean=share * mean, deviation=share * self.deviation)


class KnownInputs(NamedTuple):
    """What a plan takes as known of the data."""

    dimensions: tuple[int, int]  # d_X as it leaves the encoder, and d_Y
    moments: InputMoments  # what is assumed of an input symbol
    held_dim: int | None = None  # columns of a table before they are encoded; None where inputs are no rows of a table
    named: bool = False  # whether the data are those that the scenario names, so that public rows may be read


def data_dimensions(
    scenario: Scenario, input_dim: int | None, label_dim: int | None, *, data_dir: Path | None = None
) -> tuple[int, int]:
    """Return d_X as it leaves the encoder and d_Y: given, known of the data set, or counted in the user's file."""
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
    dataset = load_dataset(scenario.workers, Streams(scenario.seed), data_dir=data_dir)
    return encoded_dim(scenario.workers, dataset.held_dim or dataset.input_dim), dataset.label_dim


def table_columns(scenario: Scenario, input_dim: int | None) -> int | None:
    """Return how many columns the rows of a table have; None where inputs are images or series."""
    if input_dim is not None:
        return input_dim
    known = known_dataset(scenario.workers.dataset)
    if known is not None:
        return None if known.image_shape else known.input_dim
    raw = load_raw(scenario.workers, None, silent)
    return None if raw.image_shape else int(raw.inputs.shape[1])


def input_moments(scenario: Scenario, mean: float | None, deviation: float | None, *, named: bool) -> InputMoments:
    """Return what is assumed of a scaled input; ``named``: that of the scenario's data set, if it is a known one."""
    for name, value in (("--input-mean", mean), ("--input-deviation", deviation)):
        if value is not None and not 0.0 < value <= 1.0:
            raise ScenarioError(f"{name} = {value:g}: must be above 0 and at most 1, for inputs scaled to [0, 1]")
    known = known_dataset(scenario.workers.dataset) if named else None
    # Of a table with round bounds about those of the two public ones; of other inputs those of even spread.
    own = (0.37, 0.12) if scenario.workers.encoder in ("clip", "mixed") else (0.5, 0.29)
    assumed_mean, assumed_deviation = own if known is None else _known_moments(known, scenario.workers)
    return InputMoments(mean=mean or assumed_mean, deviation=deviation or assumed_deviation)


def is_public(scenario: Scenario) -> bool:
    """Whether the scenario's rows are a table that comes with the package, which anybody may read."""
    known = known_dataset(scenario.workers.dataset)
    return known is not None and known.name in DATASETS.own and known.image_shape is None


def _known_moments(known: KnownDataSet, workers: Workers) -> tuple[float, float]:
    """Return mean and deviation of a data set's inputs, scaled by the bounds that the scenario declares."""
    lower, upper = np.broadcast_arrays(known.lower, known.upper)
    low, high = np.asarray(workers.input_lower or lower), np.asarray(workers.input_upper or upper)
    means = (lower + known.scaled_mean * (upper - lower) - low) / (high - low)
    deviations = known.scaled_deviation * (upper - lower) / (high - low)
    return float(means.mean()), float(np.sqrt((deviations**2).mean() + means.var()))


@dataclass(frozen=True, kw_only=True)
class RowsPlan:
    """A bound on rows, and why."""

    bound: float  # the best ``workers.rows_bound``
    error: float  # of the received moments there, over those of one row; 1 would be a single row without noise
    error_of_one: float  # the error of the default, a bound of one row


def plan_rows_bound(rows: Integers, *, noise_multiplier: float, symbols: int) -> RowsPlan:
    """Return the best ``workers.rows_bound`` for workers that are assumed to hold so many rows; shape workers.

    A worker sends the sum of its rows' products, shortened to the norm of B rows and divided by B. Of n rows that point
    the same way, min(n, B) / B arrives, so a small B makes the most of the noise; but then a row of a worker with n
    rows counts only min(1, B / n). The error of the received moments, over what one row's are, adds up from both:
    z^2 m / (N a)^2 + sum n v^2 / (sum n v)^2, with the noise multiplier z, m symbols, N workers, a = mean of
    min(n, B) / B, and v = min(1, B / n) the weight of a row.

    The counts must be a public assumption (``assumed_rows``), never those of private data. The noise multiplier is that
    of one worker's largest contribution, as ``airmix plan`` prints it; all workers send once, at the same time.
    """
    counts = np.asarray(rows, dtype=np.float64)
    if not len(counts) or counts.min() < 1:
        raise ScenarioError("rows: must be at least 1 for each of at least one worker")
    tried = np.unique(np.geomspace(1.0, max(counts.max(), 1.0), 64).round())
    noise, sampling = (np.array(each) for each in zip(*(_errors(counts, bound) for bound in tried), strict=True))
    noise = noise * noise_multiplier**2 * symbols
    errors = noise + sampling
    best = int(errors.argmin())
    return RowsPlan(bound=float(tried[best]), error=float(errors[best]), error_of_one=float(errors[0]))


def _errors(counts: Doubles, bound: float) -> tuple[float, float]:
    """Return 1 / (N a)^2 and sum n v^2 / (sum n v)^2."""
    weights = np.minimum(1.0, bound / counts)
    entering = float((counts * weights).sum())
    return (bound / entering) ** 2, float((counts * weights**2).sum()) / entering**2


def assumed_rows(workers: int, mean: float) -> Integers:
    """Return row counts of which only the mean is assumed: quantiles of the geometric distribution from 1 on.

    It is the one of largest entropy with that mean.
    """
    if mean <= 1.0:
        return np.ones(workers, dtype=np.int64)
    chance = (np.arange(workers) + 0.5) / workers
    counts = np.ceil(np.log1p(-chance) / np.log1p(-1.0 / mean))
    return np.asarray(np.maximum(counts, 1), dtype=np.int64)
