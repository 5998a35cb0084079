"""A sweep as tables for the terminal, in files for people and other programs, and as one picture with error bars.

The picture depends on the number of keys. One: a line. Two: a line for each value of the second, or a heat map where
both have many. Three: a panel for each value of the third. Of more keys the others stay at their first value.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airmixml.output.figures import COLOURS, GREY, error_line, finish_axis, panel_grid, save_png_and_svg
from airmixml.output.tables import Table, rows_csv, wide_table, write_all
from airmixml.scenario import keys_in_force
from airmixml.scenario.grid import Point
from airmixml.scenario.toml import finite, value_text
from airmixml.storage.files import write_bytes, writing_to
from airmixml.sweeps.swept import (
    FILES,
    Summary,
    Swept,
    SweptRow,
    by_reason,
    plain_value,
    summarise,
    summary_text,
    unit_of,
)
from airmixml.wording import plural, sentence

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NO_PARQUET: Final = "no sweep.parquet: pyarrow is not installed; pip install 'airmixml[parquet]' and repeat the command"
_MOST_LINES: Final = 6
_MOST_PANELS: Final = 12
# Largest over smallest from which the axis of a key, or of the metric, is logarithmic.
_DECADE: Final = 10.0
_DECADES: Final = 100.0
_MOST_TEXTS: Final = 100  # cells of a heat map that have room for their numbers
_MARKERS: Final = "osD^vP"
_ASIDE: Final = 0.08  # between the lines at one word
_PANEL_INCHES: Final = (4.6, 3.7)

Means = dict[tuple[Any, ...], Summary]


def write_sweep(swept: Swept) -> list[Path]:
    """Write rows as CSV and Parquet, the summary as Markdown, LaTeX and JSON, and the picture; return the files."""
    stem, table = swept.out / "sweep", summary_table(swept)
    picture = f"\n![{metric}](sweep.png)\n" if (metric := drawn_metric(swept)) else ""
    shown_in_part = picture_note(swept)
    texts = {
        ".csv": rows_csv(swept.long_rows()),
        ".md": table.to_markdown() + picture + (f"\n{shown_in_part}.\n" if shown_in_part else ""),
        ".tex": table.to_latex(booktabs=False),
        ".json": json.dumps(sweep_dict(swept), indent=1, allow_nan=False) + "\n",
    }
    with writing_to(swept.out):
        files = write_all(stem, texts)
        if find_spec("pyarrow") is not None:
            content = io.BytesIO()
            swept.to_frame().to_parquet(content, engine="pyarrow", index=False)
            files.append(stem.with_name("sweep.parquet"))
            write_bytes(files[-1], content.getvalue())
        if (figure := sweep_figure(swept)) is not None:
            files += save_png_and_svg(figure, stem)
        for name in FILES:
            if swept.out / name not in files:  # of an earlier command, which it no longer fits
                (swept.out / name).unlink(missing_ok=True)
    return files


def sweep_dict(swept: Swept) -> dict[str, Any]:
    """Return the summary of every metric as plain values for JSON; a number that is not finite is null."""
    return {
        "name": swept.scenario.name,
        "air": keys_in_force(swept.scenario.air),
        "command": swept.command,
        "mode": "simulation",
        "grid": {key: [plain_value(value) for value in values] for key, values in swept.grid.axes.items()},
        "seeds": swept.seeds,
        "metrics": list(swept.metrics),
        "cells": [_cell_dict(swept, point, rows) for point, rows in swept.cells()],
        "failures": {why: len(rows) for why, rows in swept.failures.items()},
        "notes": list(swept.notes),
        "scenario": swept.scenario.to_json(),
    }


def _cell_dict(swept: Swept, point: Point, rows: Sequence[SweptRow]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in swept.names:
        summary = summarise(rows, name)
        if summary.mean is not None:
            found[name] = {"mean": finite(summary.mean), "deviation": summary.deviation}
        elif summary.values:
            found[name] = {"values": list(summary.values)}
    return {
        "values": {key: plain_value(value) for key, value in point.items()},
        "metrics": found,
        "errors": {str(row.seed): row.error for row in rows if row.error},
    }


def summary_table(swept: Swept) -> Table:
    """Return one line per cell: its values, mean and deviation of each chosen metric, and why seeds failed."""
    failed = bool(swept.failures)
    rows = []
    for point, cell in swept.cells():
        errors = [f"{plural(len(alike), 'seed')}: {why}" for why, alike in by_reason(cell).items()]
        rows.append((*_texts(swept, point, cell), *(("; ".join(errors),) if failed else ())))
    spread = "mean ± standard deviation over " if len(swept.seeds) > 1 else ""
    note = f"{spread}{plural(len(swept.seeds), 'seed')} of airmix {swept.command}. "
    return Table(
        title=f"{swept.scenario.title}: {', '.join(swept.grid.keys)}",
        note=note + " ".join(map(sentence, swept.notes)),
        columns=(*swept.grid.keys, *swept.metrics, *(("failed",) if failed else ())),
        rows=tuple(rows),
    )


def terminal_summary(swept: Swept) -> Table:
    """Return the table for a terminal; metrics that have no room in it are named below."""
    from rich.markup import escape

    seeds = plural(len(swept.seeds), "seed")
    # Heads of two lines leave the metrics more room.
    keys = [key.replace(".", ".\n") if len(swept.grid.keys) > 2 else key for key in swept.grid.keys]
    return wide_table(
        (*keys, *swept.metrics),
        [_texts(swept, point, cell) for point, cell in swept.cells()],
        title=f"{escape(swept.scenario.title)}, airmix {swept.command}, {seeds}, simulation (protects nobody)",
        words=len(keys),
    ).plain


def _texts(swept: Swept, point: Point, rows: Sequence[SweptRow]) -> tuple[str, ...]:
    failed, counted = sum(bool(row.error) for row in rows), len(rows)
    some = f" ({counted - failed} of {counted})" if failed else ""
    metrics = (
        "failed" if failed == counted else summary_text(summarise(rows, name), name) + some for name in swept.metrics
    )
    return (*map(value_text, point.values()), *metrics)


def picture_note(swept: Swept) -> str:
    """Return what the picture leaves out, in one line; empty where it shows everything."""
    left_out = []
    if len(swept.grid.keys) > 3:
        fixed = ", ".join(f"{key} = {value_text(swept.grid.axes[key][0])}" for key in swept.grid.keys[3:])
        left_out.append(f"the picture shows the first three keys at {fixed}")
    if len(swept.grid.keys) > 2 and (panels := len(swept.grid.axes[swept.grid.keys[2]])) > _MOST_PANELS:
        left_out.append(f"the picture shows the first {_MOST_PANELS} of {panels} values of {swept.grid.keys[2]}")
    return "; ".join(left_out)


def drawn_metric(swept: Swept) -> str:
    """Return the first of the tables' metrics that is a number in some cell; empty where none is."""
    numbers = {name for row in swept.rows for name, value in row.metrics.items() if isinstance(value, int | float)}
    return next((name for name in swept.metrics if name in numbers), "")


def sweep_figure(swept: Swept) -> Figure | None:
    """Return the picture as a Matplotlib figure; None where there is no number to draw."""
    metric, keys = drawn_metric(swept), swept.grid.keys[:3]
    fixed: Point = {key: values[0] for key, values in swept.grid.axes.items() if key not in keys}
    means: Means = {
        tuple(point[key] for key in keys): summary
        for point, rows in swept.cells()
        if all(point[key] == value for key, value in fixed.items())
        and (summary := summarise(rows, metric)).mean is not None
        and math.isfinite(summary.mean or 0.0)
    }
    if not means:
        return None
    panels: Sequence[Any] = swept.grid.axes[keys[2]][:_MOST_PANELS] if len(keys) == 3 else (None,)
    spread = ", ± standard deviation" if len(swept.seeds) > 1 else ""
    title = f"{swept.scenario.title}: {metric}, {plural(len(swept.seeds), 'seed')}{spread}; simulation"
    look: dict[str, Any] = {"inches": _PANEL_INCHES, "narrowest": 6.4, "above": 0.5, "size": 10.5}
    figure, axes = panel_grid(len(panels), title, sharex=True, sharey=True, **look)
    scale = _Scale(metric, means.values())
    for axis, value in zip(axes, panels, strict=True):
        here = {point[:2]: summary for point, summary in means.items() if len(keys) < 3 or point[2] == value}
        name = "" if len(keys) < 3 else f"{keys[2]} = {value_text(value)}"
        _draw_panel(figure, axis, swept, keys[:2], here, scale, name)
    return figure


class _Scale:
    """Unit of the metric, and whether its axis is logarithmic; the same in all panels."""

    def __init__(self, metric: str, summaries: Any) -> None:
        means = [summary.mean for summary in summaries]
        self.metric = metric
        self.unit, self.size = unit_of(metric, max(map(abs, means)))
        lowest = [summary.mean - (summary.deviation or 0.0) for summary in summaries]
        self.log = self.unit not in ("%", "dB", "dBm") and min(lowest) > 0.0 and max(means) / min(means) >= _DECADES
        self.lowest, self.highest = min(means) / self.size, max(means) / self.size

    @property
    def label(self) -> str:
        return f"{self.metric} [{self.unit}]" if self.unit else self.metric


def _draw_panel(
    figure: Figure, axis: Axes, swept: Swept, keys: Sequence[str], means: Means, scale: _Scale, name: str
) -> None:
    """Draw one panel: a line, several lines, or a heat map."""
    sizes = [len(swept.grid.axes[key]) for key in keys]
    if len(keys) == 2 and min(sizes) > _MOST_LINES:
        _heat_map(figure, axis, swept, keys, means, scale)
        finish_axis(axis, name, size=10)
        axis.grid(visible=False)
        return
    swapped = len(keys) == 2 and sizes[1] > _MOST_LINES  # the key with few values gives the lines
    along, across = (keys[1], keys[0]) if swapped else (keys[0], keys[1] if len(keys) == 2 else None)
    values = swept.grid.axes[along]
    places, logarithmic, words = _places(values)
    lines = (None,) if across is None else swept.grid.axes[across]
    for number, value in enumerate(lines):
        aside = _ASIDE * (number - (len(lines) - 1) / 2) if words else 0.0  # else bars would hide each other
        points = [(each,) if across is None else (value, each) if swapped else (each, value) for each in values]
        there = [(place, means[point]) for place, point in zip(places, points, strict=True) if point in means]
        error_line(
            axis,
            [place + aside for place, _ in there],
            [(summary.mean or 0.0) / scale.size for _, summary in there],
            [(summary.deviation or 0.0) / scale.size for _, summary in there] if len(swept.seeds) > 1 else None,
            color=COLOURS[number % len(COLOURS)],
            marker=_MARKERS[number % len(_MARKERS)],
            linestyle="none" if words else "-",  # nothing lies between two words
            label=None if across is None else value_text(value),
        )
    axis.set(xlabel=along, ylabel=scale.label, yscale="log" if scale.log else "linear")
    axis.margins(x=0.08, y=0.12)
    if logarithmic:
        axis.set_xscale("log")
    if len(places) <= 12:
        axis.set_xticks(places, [value_text(value) for value in values])
        axis.set_xticks([], minor=True)
        axis.tick_params(axis="x", labelrotation=30 if max(len(value_text(value)) for value in values) > 6 else 0)
    axis.label_outer()
    finish_axis(axis, name, size=10, legend=8)
    if (legend := axis.get_legend()) is not None:
        legend.set_title(across or "")
        legend.get_title().set_fontsize(8)


def _places(values: Sequence[Any]) -> tuple[list[float], bool, bool]:
    """Return where values stand on their axis, whether it is logarithmic, and whether they stand side by side."""
    words = any(isinstance(value, str | tuple) or not math.isfinite(value) for value in values)
    if words:
        return [float(place) for place in range(len(values))], False, True
    numbers = [float(value) for value in values]
    return numbers, min(numbers) > 0.0 and max(numbers) / min(numbers) >= _DECADE, False


def _heat_map(figure: Figure, axis: Axes, swept: Swept, keys: Sequence[str], means: Means, scale: _Scale) -> None:
    """Draw the means as colours, one square for each pair of values, with the numbers where there is room."""
    from matplotlib.colors import LogNorm, Normalize

    across, up = (swept.grid.axes[key] for key in keys)
    table = [[(means[x, y].mean or 0.0) / scale.size if (x, y) in means else math.nan for x in across] for y in up]
    norm = LogNorm(scale.lowest, scale.highest) if scale.log else Normalize(scale.lowest, scale.highest)
    axis.set_facecolor(GREY)  # where a cell failed
    drawn = axis.pcolormesh(table, norm=norm, cmap="viridis", edgecolors="white", linewidth=0.5)
    axis.set_xticks([place + 0.5 for place in range(len(across))], list(map(value_text, across)), rotation=45)
    axis.set_yticks([place + 0.5 for place in range(len(up))], list(map(value_text, up)))
    axis.set(xlabel=keys[0], ylabel=keys[1])
    figure.colorbar(drawn, ax=axis, label=scale.label)
    if len(across) * len(up) > _MOST_TEXTS:
        return
    for (x, y), summary in means.items():
        text = summary_text(summary, scale.metric).replace(" ± ", "\n± ")
        place = across.index(x) + 0.5, up.index(y) + 0.5
        bright = norm((summary.mean or 0.0) / scale.size) > 0.6
        axis.annotate(text, place, ha="center", va="center", fontsize=5.5, color="black" if bright else "white")
