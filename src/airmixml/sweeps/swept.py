"""What a sweep over a grid gave: one row per cell and seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from airmixml.scenario import Scenario
from airmixml.scenario.grid import Grid, Point, value_text
from airmixml.storage.run_folder import REPORT
from airmixml.sweeps.cells import Metric

Command = str
"""What is done with each cell: a name of ``command_cells.CELL_KINDS``."""
FILES: Final = (*(f"sweep.{suffix}" for suffix in ("csv", "md", "tex", "json", "parquet", "png", "svg")), REPORT)


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
