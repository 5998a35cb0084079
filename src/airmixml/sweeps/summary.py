"""What the seeds of a cell give together: means and deviations, with the units that the names of metrics end in."""

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from airmixml.output.numbers import NONE
from airmixml.sweeps.swept import SweptRow

_SHARES: Final = ("accuracy", "share", "rate", "caught", "passed", "right", "match")
_UNITS: Final = {
    "joules": (("J", 1.0), ("mJ", 1e-3), ("µJ", 1e-6), ("nJ", 1e-9), ("pJ", 1e-12)),
    "seconds": (("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)),
    "dbm": (("dBm", 1.0),),
    "db": (("dB", 1.0),),
}
_FIXED_DECIMALS: Final = ("%", "dB", "dBm")
_LARGE: Final = 1e4
_NO_SPREAD: Final = 1e-9  # of the mean: what rounding leaves of equal values


@dataclass(frozen=True, kw_only=True)
class Summary:
    """One metric of one cell over its seeds."""

    mean: float | None  #: of numbers (true counts as 1); None for words or nothing
    deviation: float | None  #: sample standard deviation; None for fewer than two numbers
    values: tuple[Any, ...]  #: what was there, seed after seed


def summarise(rows: Sequence[SweptRow], metric: str) -> Summary:
    """Return mean and deviation of a metric over the rows that have it."""
    values = tuple(value for row in rows if (value := row.metrics.get(metric)) is not None)
    numbers = [float(value) for value in values if not isinstance(value, str)]
    if not numbers or len(numbers) < len(values):
        return Summary(mean=None, deviation=None, values=values)
    if not all(map(math.isfinite, numbers)):
        return Summary(mean=math.inf, deviation=None, values=values)
    deviation = statistics.stdev(numbers) if len(numbers) > 1 else None
    return Summary(mean=statistics.fmean(numbers), deviation=deviation, values=values)


def summary_text(summary: Summary, metric: str) -> str:
    """Return "97.2 ± 1.1 %", "9.46 nJ", "hidden", or how often each word was given."""
    if summary.mean is None:
        counts = Counter(map(str, summary.values))
        if len(counts) <= 1:
            return next(iter(counts), NONE)
        return ", ".join(f"{word} {times}" for word, times in counts.most_common())
    unit, size = unit_of(metric, abs(summary.mean))
    fixed, deviation = unit in _FIXED_DECIMALS, summary.deviation
    spread = ""
    if deviation is not None and (fixed or deviation > _NO_SPREAD * abs(summary.mean)):
        spread = f" ± {deviation / size:.2f}" if fixed else f" ± {_number(deviation / size, 2)}"
    mean = f"{summary.mean / size:.2f}" if fixed else _number(summary.mean / size, 4)
    return f"{mean}{spread}{' ' if unit else ''}{unit}"


def unit_of(metric: str, value: float) -> tuple[str, float]:
    """Return the unit in which a metric of that size is readable, and its size."""
    words = metric.replace(".", "_").split("_")
    if any(word in _SHARES for word in words) and "value" not in words and "epoch" not in words:
        return "%", 0.01
    for ending, units in _UNITS.items():
        if ending in words:
            return next((each for each in units if value >= each[1]), units[-1])
    return "", 1.0


def _number(value: float, digits: int) -> str:
    if math.isinf(value):
        return "unbounded"
    return f"{value:.{digits - 1}e}" if abs(value) >= _LARGE else f"{value:.{digits}g}"
