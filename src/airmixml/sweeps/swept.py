"""What a sweep over a grid gave: one row per cell and seed, and what the seeds of a cell give together."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from airmixml.scenario import Scenario, keys_in_force
from airmixml.scenario.grid import Grid, Point
from airmixml.scenario.toml import finite, value_text
from airmixml.sweeps.cells import Metric
from airmixml.wording import NONE

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
    command: str  #: whose metrics they are
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
        reasons = dict.fromkeys(row.error for row in self.rows if row.error)
        return {why: [row for row in self.rows if row.error == why] for why in reasons}

    def long_rows(self) -> list[dict[str, Any]]:
        """Return one dictionary per cell and seed: keys, seed, mode, every metric, and the error (empty: none)."""
        return [
            {
                **{key: _plain_value(value) for key, value in row.point.items()},
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

    def to_dict(self) -> dict[str, Any]:
        """Return the summary of every metric as plain values for JSON; a number that is not finite is null."""
        size = len(self.seeds)
        return {
            "name": self.scenario.name,
            "air": keys_in_force(self.scenario.air),
            "command": self.command,
            "mode": "simulation",
            "grid": {key: [_plain_value(value) for value in values] for key, values in self.grid.axes.items()},
            "seeds": self.seeds,
            "metrics": list(self.metrics),
            "cells": [self._cell(self.rows[at : at + size]) for at in range(0, len(self.rows), size)],
            "failures": {why: len(rows) for why, rows in self.failures.items()},
            "notes": list(self.notes),
            "scenario": self.scenario.to_json(),
        }

    def _cell(self, rows: Sequence[SweptRow]) -> dict[str, Any]:
        found = {name: summarise([row.metrics.get(name) for row in rows]) for name in self.names}
        return {
            "values": {key: _plain_value(value) for key, value in rows[0].point.items()},
            "metrics": {name: summary for name, summary in found.items() if summary},
            "errors": {str(row.seed): row.error for row in rows if row.error},
        }


def _plain_value(value: Any) -> Any:
    """Return a value of a key as a table of another program can hold it: lists as text."""
    return value_text(value) if isinstance(value, tuple) else value


def summarise(values: Sequence[Metric]) -> dict[str, Any]:
    """Return mean and deviation of numbers (true counts as 1), or the words; nothing where there are none.

    A mean that is not finite is None, and so is the deviation of fewer than two numbers.
    """
    there = [value for value in values if value is not None]
    numbers = [float(value) for value in there if not isinstance(value, str)]
    if not numbers or len(numbers) < len(there):
        return {"values": there} if there else {}
    if not all(map(math.isfinite, numbers)):
        return {"mean": None, "deviation": None}
    deviation = statistics.stdev(numbers) if len(numbers) > 1 else None
    return {"mean": finite(statistics.fmean(numbers)), "deviation": deviation}


def metric_text(found: Mapping[str, Any]) -> str:
    """Return "0.972 ± 0.011", "hidden", or how often each word was given, of what ``summarise`` returned."""
    if "mean" not in found:
        counts = Counter(map(str, found.get("values", ())))
        if len(counts) <= 1:
            return next(iter(counts), NONE)
        return ", ".join(f"{word} {times}" for word, times in counts.most_common())
    if found["mean"] is None:
        return "unbounded"
    mean, deviation = found["mean"], found["deviation"] or 0.0
    return f"{mean:.4g}" + (f" ± {deviation:.2g}" if deviation > _NO_SPREAD * abs(mean) else "")
