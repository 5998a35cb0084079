"""A metric of several seeds in words; its unit follows from the words in its name."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from airmixml.wording import JOULES, NONE, SECONDS, unit_for

_SHARES: Final = ("accuracy", "share", "rate", "caught", "passed", "right", "match")
_UNITS: Final = {"joules": JOULES, "seconds": SECONDS, "dbm": (("dBm", 1.0),), "db": (("dB", 1.0),)}
_FIXED_DECIMALS: Final = ("%", "dB", "dBm")
_LARGE: Final = 1e4
_NO_SPREAD: Final = 1e-9  # of the mean: what rounding leaves of equal values


def metric_text(found: Mapping[str, Any], metric: str) -> str:
    """Return "97.2 ± 1.1 %", "9.46 nJ", "hidden", or how often each word was given, of what ``summarise`` returned."""
    if "mean" not in found:
        counts = Counter(map(str, found.get("values", ())))
        if len(counts) <= 1:
            return next(iter(counts), NONE)
        return ", ".join(f"{word} {times}" for word, times in counts.most_common())
    mean, deviation = found["mean"], found["deviation"]
    if mean is None:
        return "unbounded"
    unit, size = unit_of(metric, abs(mean))
    fixed, spread = unit in _FIXED_DECIMALS, ""
    if deviation is not None and (fixed or deviation > _NO_SPREAD * abs(mean)):
        spread = f" ± {deviation / size:.2f}" if fixed else f" ± {_number(deviation / size, 2)}"
    text = f"{mean / size:.2f}" if fixed else _number(mean / size, 4)
    return f"{text}{spread}{' ' if unit else ''}{unit}"


def unit_of(metric: str, value: float) -> tuple[str, float]:
    """Return the unit in which a metric of that size is readable, and its size."""
    words = metric.replace(".", "_").split("_")
    if any(word in _SHARES for word in words) and "value" not in words and "epoch" not in words:
        return "%", 0.01
    units = next((units for ending, units in _UNITS.items() if ending in words), (("", 1.0),))
    return unit_for(value, units)


def _number(value: float, digits: int) -> str:
    return f"{value:.{digits - 1}e}" if abs(value) >= _LARGE else f"{value:.{digits}g}"
