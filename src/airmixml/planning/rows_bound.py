"""How many rows of a worker may count, ``workers.rows_bound``: chosen from assumptions about workers, not from data.

A worker sends the sum of its rows' products, shortened to the norm of B rows and divided by B. Of n rows that point the
same way, min(n, B) / B arrives, so a small B makes the most of the noise; but then a row of a worker with n rows counts
only min(1, B / n), and the others' rows are worth less than they could be. The error of the received moments, over what
one row's are, adds up from both: z^2 m / (N a)^2 + sum n v^2 / (sum n v)^2, with the noise multiplier z, m symbols, N
workers, a = mean of min(n, B) / B, and v = min(1, B / n) the weight of a row.
"""

from dataclasses import dataclass

import numpy as np

from airmixml.arrays import Doubles, Integers
from airmixml.errors import ScenarioError

_MOST_TRIED = 64


@dataclass(frozen=True, kw_only=True)
class RowsPlan:
    """A bound on rows, and why."""

    bound: float  # the best ``workers.rows_bound``
    error: float  # of the received moments there, over those of one row; 1 would be a single row without noise
    error_of_one: float  # the error of the default, a bound of one row


def plan_rows_bound(rows: Integers, *, noise_multiplier: float, symbols: int) -> RowsPlan:
    """Return the best bound for workers that are assumed to hold so many rows; shape workers.

    The counts must be a public assumption (``assumed_rows``), never those of private data. The noise multiplier is that
    of one worker's largest contribution, as ``airmix plan`` prints it; all workers send once, at the same time.
    """
    counts = np.asarray(rows, dtype=np.float64)
    if not len(counts) or counts.min() < 1:
        raise ScenarioError("rows: must be at least 1 for each of at least one worker")
    tried = np.unique(np.geomspace(1.0, max(counts.max(), 1.0), _MOST_TRIED).round())
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
