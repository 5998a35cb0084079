"""What a sweep over a grid gave: one row per cell and seed, and what the seeds of a cell give together.

Units follow from the words in the name of a metric.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from airmixml.scenario import Scenario
from airmixml.scenario.grid import Grid, Point
from airmixml.scenario.toml import value_text
from airmixml.storage.run_folder import REPORT
from airmixml.sweeps.cells import Metric
from airmixml.wording import JOULES, NONE, SECONDS, unit_for

Command = str  #: what is done with each cell, a name of ``command_cells.CELL_KINDS``
FILES: Final = (*(f"sweep.{suffix}" for suffix in ("csv", "md", "tex", "json", "parquet", "png", "svg")), REPORT)
_SHARES: Final = ("accuracy", "share", "rate", "caught", "passed", "right", "match")
_UNITS: Final = {"joules": JOULES, "seconds": SECONDS, "dbm": (("dBm", 1.0),), "db": (("dB", 1.0),)}
_FIXED_DECIMALS: Final = ("%", "dB", "dBm")
_LARGE: Final = 1e4
_NO_SPREAD: Final = 1e-9  # of the mean: what rounding leaves of equal values


@dataclass(frozen=True, kw_only=True)
class SweptRow:
    """One cell with one seed: its metrics, or why there are none."""

    point: Point
    seed: int
    metrics: dict[str, Metric]
    error: str = ""


@dataclass(frozen=True, kw_only=True)
class Swept:
    """Everything that a sweep gave."""

    scenario: Scenario  #: what is swept; the grid changes some of its keys
    grid: Grid  #: keys and values
    command: Command  #: whose metrics they are
    seeds: list[int]  #: seeds of each cell
    rows: tuple[SweptRow, ...]  #: one per cell and seed, seed after seed within a cell
    metrics: tuple[str, ...]  #: names of those that the tables show; the first that is a number is drawn
    notes: tuple[str, ...]  #: what a reader must know
    kept: int  #: rows that were there already
    out: Path  #: folder with everything
    seconds: float  #: how long it took

    @cached_property
    def names(self) -> list[str]:
        """Names of all metrics that some row has, in the order of the first row that has them."""
        return list(dict.fromkeys(name for row in self.rows for name in row.metrics))

    @cached_property
    def failures(self) -> dict[str, list[SweptRow]]:
        """Rows that failed, by the reason."""
        return by_reason(self.rows)

    def cells(self) -> Sequence[tuple[Point, Sequence[SweptRow]]]:
        """Return each combination with its rows, one per seed."""
        size = len(self.seeds)
        return [(self.rows[at].point, self.rows[at : at + size]) for at in range(0, len(self.rows), size)]

    def long_rows(self) -> list[dict[str, Any]]:
        """Return one dictionary per cell and seed: keys, seed, mode, every metric, and the error (empty: none)."""
        return [
            {
                **{key: plain_value(value) for key, value in row.point.items()},
                "seed": row.seed,
                "command": self.command,
                "mode": "simulation",
                **{name: row.metrics.get(name) for name in self.names if name not in ("mode", *row.point)},
                "error": row.error,
            }
            for row in self.rows
        ]

    def to_frame(self) -> Any:
        """Return the long rows as a pandas DataFrame."""
        pandas: Any = import_module("pandas")
        frame = pandas.DataFrame(self.long_rows())
        for name in frame.columns[[len(set(map(type, frame[each]))) > 1 for each in frame.columns]]:
            if any(isinstance(each, str) for each in frame[name]):  # numbers beside "auto"
                frame[name] = [each if each is None else str(each) for each in frame[name]]
        frame.attrs = {"mode": "simulation", "command": self.command, "out": str(self.out)}
        return frame


def by_reason(rows: Sequence[SweptRow]) -> dict[str, list[SweptRow]]:
    """Return the rows that failed, by the reason."""
    found: dict[str, list[SweptRow]] = {}
    for row in rows:
        if row.error:
            found.setdefault(row.error, []).append(row)
    return found


def plain_value(value: Any) -> Any:
    """Return a value of a key as a table of another program can hold it: lists as text."""
    return value_text(value) if isinstance(value, tuple) else value


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
    units = next((units for ending, units in _UNITS.items() if ending in words), (("", 1.0),))
    return unit_for(value, units)


def _number(value: float, digits: int) -> str:
    if math.isinf(value):
        return "unbounded"
    return f"{value:.{digits - 1}e}" if abs(value) >= _LARGE else f"{value:.{digits}g}"
