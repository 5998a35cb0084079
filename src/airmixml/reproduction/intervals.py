"""Means over seeds with their confidence, and what they decide."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal

import numpy as np
from scipy import stats

Decision = Literal["holds", "does not hold", "undecided"]
_CONFIDENCE: Final = 0.95


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A mean with its 95 % confidence interval; the interval is the whole line where there is only one value."""

    mean: float
    low: float
    high: float

    def percent(self) -> str:
        """Return the interval of an accuracy in words."""
        spread = "(one seed)" if math.isinf(self.high) else f"({self.low:.1f} to {self.high:.1f})"
        return f"{self.mean:.1f} {spread} %"

    def points(self, what: str = "") -> str:
        """Return the interval in words: points of accuracy, and of what."""
        if math.isnan(self.mean):
            return "no seed could be compared"
        spread = "(one seed)" if math.isinf(self.high) else f"({self.low:+.1f} to {self.high:+.1f})"
        return f"{self.mean:+.1f} {spread} points{what}"


def mean_interval(values: Sequence[float]) -> Interval:
    """Return the mean of the values with Student's confidence interval."""
    if not values:
        return Interval(mean=math.nan, low=-math.inf, high=math.inf)
    mean = float(np.mean(values))
    if len(values) < 2:
        return Interval(mean=mean, low=-math.inf, high=math.inf)
    half = _quantile(len(values) - 1) * float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return Interval(mean=mean, low=mean - half, high=mean + half)


@cache
def _quantile(degrees_of_freedom: int) -> float:
    """Return Student's quantile of the two-sided interval."""
    return float(stats.t.ppf(0.5 + _CONFIDENCE / 2.0, degrees_of_freedom))


def decide(interval: Interval, *, above: float = -math.inf, below: float = math.inf) -> Decision:
    """Decide whether a mean lies strictly between two bounds, if its whole confidence interval says so."""
    if (above < interval.low or above == -math.inf) and (interval.high < below or below == math.inf):
        return "holds"
    return "does not hold" if interval.high < above or interval.low > below else "undecided"
