"""What a sweep over a grid gave: as a page, as a picture with error bars and in files, made of what its JSON holds.

It has one row per cell and seed. In the picture one key is a line. Two are a line for each value of the second. Further
keys stay at their first value.
"""

from __future__ import annotations

import json
import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airmixml.files import write_together, writing_to
from airmixml.messages import NONE, plural, sentence
from airmixml.output.cards import seeds_option
from airmixml.output.figures import COLOURS, error_line, figure_bytes, finish_axis, new_figure
from airmixml.output.page import Page
from airmixml.output.tables import Table, rows_csv
from airmixml.scenario import Scenario, keys_in_force
from airmixml.scenario.grid import Grid, Point
from airmixml.scenario.toml import finite, value_text
from airmixml.sweeps.cells import Metric

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NO_SPREAD: Final = 1e-9  # of the mean: what rounding leaves of equal values
_MOST_ROWS: Final = 500  # of a page that opens quickly
_MOST_LINES: Final = 6
_MARKERS: Final = "osD^vP"
BARE: Final = {"box": None, "padding": (0, 1, 0, 0)}  # a table of many columns: on a terminal every bar saved helps
SIMULATED_SEEDS: Final = "Simulation: noise and schedule follow from the seeds, so anyone can remove them."
Plain = dict[str, Any]


def write_study(stem: Path, page: Page, plain: dict[str, Any], figure: Figure | None, **texts: str) -> list[Path]:
    """Write the page as Markdown, its JSON, other ``texts`` by suffix, and the picture where there is one."""
    pictures = [stem.with_name(f"{stem.name}.{suffix}") for suffix in ("png", "svg")]
    markdown = page.to_markdown() + (f"\n![{page.title}]({pictures[0].name})\n" if figure else "")
    texts = {"md": markdown, "json": json.dumps(plain, indent=1, allow_nan=False) + "\n", **texts}
    contents = {stem.with_name(f"{stem.name}.{suffix}"): text.encode("utf-8") for suffix, text in texts.items()}
    contents |= {path: figure_bytes(figure, path.suffix[1:]) for path in pictures} if figure else {}
    with writing_to(stem.parent):
        write_together(contents)
        if figure is None:
            for path in pictures:  # of an earlier command, which they no longer fit
                path.unlink(missing_ok=True)
    return list(contents)


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
    given: tuple[str, ...] = ()  #: options that the command needs besides to make it again
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
            "given": list(self.given),
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


def sweep_page(plain: Plain, scenario: Scenario) -> Page:
    """Return what a sweep tells."""
    cells, grid, seeds = plain["cells"], plain["grid"], plural(len(plain["seeds"]), "seed")
    failed = f"; {plural(sum(plain['failures'].values()), 'run')} failed" if plain["failures"] else ""
    words = [word for key, values in grid.items() for word in ("--grid", f"{key}={','.join(map(value_text, values))}")]
    command = [] if plain["command"] == "run" else ["--command", plain["command"]]
    command += plain.get("given", ())
    more = f"{plural(len(cells) - _MOST_ROWS, 'more row')} in sweep.csv" if len(cells) > _MOST_ROWS else ""
    return Page.of_result(
        kind="sweep",
        title=f"{scenario.title}: {', '.join(grid)}",
        verdict=f"{plural(len(cells), 'cell')} of airmix {plain['command']}, {seeds} each{failed}.",
        notices=tuple(map(sentence, plain["notes"])),
        tables=(sweep_table(plain, cells[:_MOST_ROWS]), *map(sentence, filter(None, (more, picture_note(plain))))),
        command=("sweep", *words, *command, *seeds_option(len(plain["seeds"]))),
    )


def sweep_table(plain: Plain, cells: list[Plain]) -> Table:
    """Return one line per cell: its values, mean and deviation of each chosen metric, and why seeds failed."""
    seeds, metrics, failed = len(plain["seeds"]), plain["metrics"], bool(plain["failures"])
    rows = []
    for cell in cells:
        errors = list(cell["errors"].values())
        some = f" ({seeds - len(errors)} of {seeds})" if errors else ""
        texts = [metric_text(cell["metrics"].get(name, {})) + some for name in metrics]
        why = "; ".join(f"{plural(errors.count(each), 'seed')}: {each}" for each in dict.fromkeys(errors))
        values = map(value_text, cell["values"].values())
        rows.append((*values, *(["failed"] * len(metrics) if len(errors) == seeds else texts), *[why] * failed))
    keys = list(plain["grid"])
    short = [key.rpartition(".")[2] for key in keys]  # which leave the metrics more room
    return Table(
        title="Mean ± standard deviation" if seeds > 1 else "One seed",
        columns=(*(short if len(set(short)) == len(keys) > 2 else keys), *metrics, *["failed"] * failed),
        rows=tuple(rows),
        words=len(keys),
        options=BARE,
    )


def write_sweep(swept: Swept) -> list[Path]:
    """Write CSV, Markdown, JSON and the picture; return the files."""
    plain = swept.to_dict()
    return write_study(
        swept.out / "sweep",
        sweep_page(plain, swept.scenario),
        plain,
        sweep_figure(plain, swept.scenario.title),
        csv=rows_csv(swept.long_rows()),
    )


def picture_note(plain: Plain) -> str:
    """Return what the picture leaves out, in one line; empty where it shows everything."""
    grid, left_out = plain["grid"], []
    if len(grid) > 2:
        fixed = ", ".join(f"{key} = {value_text(values[0])}" for key, values in list(grid.items())[2:])
        left_out.append(f"the picture shows the first two keys at {fixed}")
    if len(grid) > 1 and (count := len(list(grid.values())[1])) > _MOST_LINES:
        left_out.append(f"the picture shows the first {_MOST_LINES} of {count} values of {list(grid)[1]}")
    return "; ".join(left_out)


def drawn_metric(plain: Plain) -> str:
    """Return the first of the tables' metrics that is a number in some cell; empty where none is."""
    numbers = {
        name for cell in plain["cells"] for name, found in cell["metrics"].items() if found.get("mean") is not None
    }
    return next((name for name in plain["metrics"] if name in numbers), "")


def sweep_figure(plain: Plain, title: str) -> Figure | None:
    """Return the picture as a Matplotlib figure, ``title`` above it; None where there is no number to draw."""
    metric, grid, seeds = drawn_metric(plain), plain["grid"], len(plain["seeds"])
    if not metric:
        return None
    (along, values), *others = grid.items()
    across, lines = others[0] if others else ("", [None])
    cells = [cell for cell in plain["cells"] if all(cell["values"][key] == each[0] for key, each in others[1:])]
    words = any(isinstance(value, str) or not math.isfinite(value) for value in values)
    places = list(range(len(values))) if words else list(map(float, values))
    spread = ", ± standard deviation" if seeds > 1 else ""
    figure = new_figure(6.4, 4.2, f"{title}: {metric}, {plural(seeds, 'seed')}{spread}; simulation", 10.5)
    axis, means = figure.subplots(), list[float]()
    for number, line in enumerate(lines[:_MOST_LINES]):
        drawn = [
            (places[values.index(cell["values"][along])], found["mean"], found["deviation"])
            for cell in cells
            if (not across or cell["values"][across] == line)
            and (found := cell["metrics"].get(metric, {})).get("mean") is not None
        ]
        at, mean, deviation = map(list, zip(*drawn, strict=True)) if drawn else ([], [], [])
        means += mean
        error_line(
            axis,
            at,
            mean,
            None if None in deviation else deviation,
            color=COLOURS[number % len(COLOURS)],
            marker=_MARKERS[number % len(_MARKERS)],
            linestyle="none" if words else "-",  # nothing lies between two words
            label=value_text(line) if across else None,
        )
    log = means and min(means) > 0.0 and max(means) >= 100.0 * min(means)
    axis.set(xlabel=along, ylabel=metric, yscale="log" if log else "linear")
    axis.margins(x=0.08, y=0.12)
    if not words and min(places) > 0.0 and max(places) / min(places) >= 10.0:
        axis.set_xscale("log")
    if len(places) <= 12:
        texts = list(map(value_text, values))
        axis.set_xticks(places, texts, rotation=30 if max(map(len, texts)) > 6 else 0)
        axis.set_xticks([], minor=True)
    if across:
        axis.legend(fontsize=8, title=across, title_fontsize=8)
    finish_axis(axis)
    return figure
