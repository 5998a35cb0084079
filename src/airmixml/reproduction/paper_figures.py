"""The paper's figures drawn again, and its tables as pictures."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from airmixml.output.figures import (
    BLACK,
    BLUE,
    COLOURS,
    GREEN,
    YELLOW,
    error_line,
    finish_axis,
    new_figure,
    save_png_and_svg,
    shared_legend,
)
from airmixml.reproduction.paper_cells import ASSIGNMENTS, EXPONENTS, FADINGS, POLICIES, SCHEDULED
from airmixml.reproduction.verdicts import CellResult, MixingRatios
from airmixml.wording import power_of_ten

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_ratios_figure(drawn: Sequence[MixingRatios], stem: Path) -> list[Path]:
    """Fig. 2: each bar is one slot, each colour one worker's share."""
    from matplotlib.collections import PolyCollection

    title = "Fig. 2: who is in a mixture? Each bar is one slot, each colour one of its eight workers"
    figure = new_figure(11, 2.9, title)
    for axis, each in zip(figure.subplots(1, len(drawn), sharey=True), drawn, strict=True):
        slots = np.arange(len(each.ratios))
        heights = np.cumsum(np.pad(each.ratios, ((0, 0), (1, 0))), axis=1)
        sides = np.stack([slots - 0.45, slots - 0.45, slots + 0.45, slots + 0.45], axis=1)
        for worker, (bottom, top) in enumerate(zip(heights.T[:-1], heights.T[1:], strict=True)):
            # All bars of a worker at once: one by one they take most of the time of a quick reproduction.
            corners = np.stack([sides, np.stack([bottom, top, top, bottom], axis=1)], axis=2)
            axis.add_collection(PolyCollection(list(corners), facecolors=f"C{worker}"))
        name = _pretty(f"α = {power_of_ten(each.alpha)}")
        axis.set_title(f"{name}\nmean largest share {each.largest_share:.2f}", fontsize=10)
        axis.set(xticks=[], xlabel="slots", xlim=(-1, len(slots)), ylim=(0, 1))
    figure.axes[0].set_ylabel("mixing ratio q")
    return save_png_and_svg(figure, stem)


def draw_path_loss(results: Sequence[CellResult], stem: Path, title: str) -> list[Path]:
    """Fig. 3: accuracy against epochs for each policy and path-loss exponent."""
    about = f"Fig. 3: path loss and mixing, maximum power, no fading ({title}; bands: standard deviation)"
    figure = new_figure(10, 4.2, about)
    for axis, scheduled in zip(figure.subplots(1, len(SCHEDULED), sharey=True), SCHEDULED, strict=True):
        for colour, policy in zip(COLOURS, POLICIES, strict=False):
            for line, exponent in zip(("-", "--"), EXPONENTS, strict=True):
                row = f"n = {exponent}, {scheduled} workers"
                _curve(axis, results, row, policy, f"{policy}, n = {exponent}", colour, line)
        _finish_curves(axis, f"{scheduled} workers at once")
    return save_png_and_svg(figure, stem)


def draw_fading(results: Sequence[CellResult], stem: Path, title: str) -> list[Path]:
    """Fig. 4: accuracy against epochs under fading, random assignment on the left, max-min on the right."""
    about = f"Fig. 4: fading, DirMix(5), n = 4, maximum power ({title}; bands: standard deviation)"
    figure = new_figure(10, 7.6, about)
    axes = figure.subplots(len(SCHEDULED), len(ASSIGNMENTS), sharey=True)
    for row_axes, scheduled in zip(axes, SCHEDULED, strict=True):
        for axis, letter, assignment in zip(row_axes, "ab", ASSIGNMENTS, strict=True):
            for colour, fading in zip(COLOURS, FADINGS, strict=True):
                _curve(axis, results, f"{assignment}, {scheduled} workers", fading, fading, colour, "-")
            _finish_curves(axis, f"({letter}) {assignment} assignment, {scheduled} workers at once")
    return save_png_and_svg(figure, stem)


def _curve(
    axis: Axes, results: Sequence[CellResult], row: str, column: str, label: str, colour: str, line: str
) -> None:
    result = next((each for each in results if (each.cell.row, each.cell.column) == (row, column)), None)
    if result is None or not result.curve:
        return
    mean, deviation = np.array(result.curve).T
    epochs = np.arange(1, len(mean) + 1)
    axis.plot(epochs, mean, line, color=colour, label=label, linewidth=1.6)
    low, high = np.maximum(mean - deviation, 0.0), np.minimum(mean + deviation, 100.0)
    axis.fill_between(epochs, low, high, color=colour, alpha=0.12, linewidth=0)


def _finish_curves(axis: Axes, title: str) -> None:
    axis.set(xlabel="epoch", ylabel="test accuracy [%]")
    finish_axis(axis, title, size=10, legend=8)


def draw_accuracies(results: Sequence[CellResult], stem: Path, title: str) -> list[Path]:
    """Table I as a picture: one panel per column of the table, its rows from left to right."""
    rows, columns = _rows_and_columns(results)
    figure = new_figure(11, 6.2, f"Table I: test accuracy ({title}; bars: standard deviation over seeds)")
    for axis, column in zip(figure.subplots(2, len(columns) // 2, sharex=True, sharey=True).flat, columns, strict=True):
        stated = [each for each in results if each.cell.column == column and not each.cell.reading]
        reread = [each for each in results if each.cell.column == column and each.cell.reading]
        _points(axis, rows, stated, "measured", -0.09, label="final epoch", color=BLUE, fmt="o-")
        _points(axis, rows, stated, "best_epoch", 0.0, label="best epoch on the test set", color=YELLOW, fmt="^:")
        _points(axis, rows, reread, "measured", 0.09, label="final epoch, other reading", color=GREEN, fmt="s--")
        printed = [(rows.index(each.cell.row), each.cell.printed) for each in stated if each.cell.printed is not None]
        if printed:
            axis.plot(*zip(*printed, strict=True), "x", color=BLACK, label="printed", markersize=9, markeredgewidth=2)
        axis.set_xticks(range(len(rows)), [_pretty(row) for row in rows], rotation=25, fontsize=8)
        axis.set_ylim(0, 106)
        finish_axis(axis, _pretty(column), size=10, formula=True)
    for axis in figure.axes[:: len(columns) // 2]:
        axis.set_ylabel("test accuracy [%]")
    shared_legend(figure)
    return save_png_and_svg(figure, stem)


def _rows_and_columns(results: Sequence[CellResult]) -> tuple[list[str], list[str]]:
    places = [result.cell.place for result in results]
    return list(dict.fromkeys(row for *_, row, _ in places)), list(dict.fromkeys(column for *_, column in places))


def _pretty(label: str) -> str:
    """Return a label with Greek letters and powers of ten."""
    return re.sub(r"10\^(\d+)", r"$10^{\1}$", label.replace("epsilon", "ε").replace("alpha", "α"))


def _points(
    axis: Axes, rows: list[str], results: Sequence[CellResult], quantity: str, offset: float, **style: Any
) -> None:
    known = [
        (rows.index(each.cell.row) + offset, getattr(each, quantity)) for each in results if getattr(each, quantity)
    ]
    means, deviations = [each.mean for _, each in known], [each.deviation or 0.0 for _, each in known]
    error_line(axis, [place for place, _ in known], means, deviations, **style)


def draw_energies(results: Sequence[CellResult], stem: Path, title: str) -> list[Path]:
    """Table II as a picture: recomputed over printed energy, entry by entry; without print, the energies."""
    figure = new_figure(9.5, 4.4)
    axis = figure.subplots()
    rows, columns = _rows_and_columns(results)
    has_print = any(result.cell.printed is not None for result in results)
    for reread, marker, colour, label in (
        (False, "o", BLUE, "as printed" if has_print else "energy"),
        (True, "s", GREEN, "other reading"),
    ):
        points = []
        for cell, measured in ((each.cell, each.measured) for each in results):
            if bool(cell.reading) == reread and measured is not None:
                beside = (columns.index(cell.column) - (len(columns) - 1) / 2) * 0.13
                points.append((rows.index(cell.row) + beside, measured.mean / (cell.printed or 1.0)))
        if points:
            axis.plot(*zip(*points, strict=True), marker, color=colour, label=label, markersize=5, alpha=0.85)
    axis.set(yscale="log", ylabel="recomputed / printed energy" if has_print else "energy [J]")
    axis.set_xticks(range(len(rows)), [_pretty(row) for row in rows])
    if has_print:
        axis.set_yticks([0.2, 0.5, 1.0, 2.0, 5.0], ["0.2", "0.5", "1", "2", "5"])
        axis.set_yticks([], minor=True)
        axis.axhspan(0.95, 1.05, color=GREEN, alpha=0.15, linewidth=0, label="within 5 %")
        axis.axhline(1.0, color=BLACK, linewidth=0.8)
    finish_axis(axis, f"Table II: energy, in each row the six columns from left to right ({title})", legend=9)
    return save_png_and_svg(figure, stem)
