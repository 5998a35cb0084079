"""The paper's figures drawn again, and its tables as pictures, made of what the JSON file of a reproduction holds."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

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
)
from airmixml.reproduction.paper_cells import AS_PRINTED
from airmixml.reproduction.verdicts import MixingRatios
from airmixml.wording import power_of_ten

Cells = Sequence[dict[str, Any]]
_ABOUT_CURVES: Final = {
    "fig3": "Fig. 3: path loss and mixing, no fading",
    "fig4": "Fig. 4: fading and assignment, DirMix(5), n = 4",
}


def draw_ratios_figure(drawn: Sequence[MixingRatios], stem: Path) -> list[Path]:
    """Fig. 2: each step is one slot, each colour one worker's share."""
    title = "Fig. 2: who is in a mixture? Each step is one slot, each colour one of its eight workers"
    figure = new_figure(11, 2.9, title)
    for axis, each in zip(figure.subplots(1, len(drawn), sharey=True), drawn, strict=True):
        axis.stackplot(np.arange(len(each.ratios)), each.ratios.T, step="mid")
        name = re.sub(r"10\^(\d+)", r"$10^{\1}$", f"α = {power_of_ten(each.alpha)}")
        axis.set_title(f"{name}\nmean largest share {each.largest_share:.2f}", fontsize=10)
        axis.set(xticks=[], xlabel="slots", xlim=(0, len(each.ratios) - 1), ylim=(0, 1))
    figure.axes[0].set_ylabel("mixing ratio q")
    return save_png_and_svg(figure, stem)


def draw_curves(cells: Cells, stem: Path, title: str) -> list[Path]:
    """Fig. 3 or 4: accuracy against epochs, a panel for each row and a line for each column."""
    rows = list(dict.fromkeys(cell["row"] for cell in cells))
    about = _ABOUT_CURVES[cells[0]["target"]]
    figure = new_figure(10, 7.6, f"{about}, maximum power ({title}; bands: standard deviation)")
    for axis, row in zip(figure.subplots(2, len(rows) // 2, sharey=True).flat, rows, strict=True):
        for colour, cell in zip(COLOURS, [cell for cell in cells if cell["row"] == row], strict=False):
            if not cell["curve"]:
                continue
            mean, deviation = np.array(cell["curve"]).T
            epochs = np.arange(1, len(mean) + 1)
            axis.plot(epochs, mean, color=colour, label=cell["column"], linewidth=1.6)
            low, high = np.maximum(mean - deviation, 0.0), np.minimum(mean + deviation, 100.0)
            axis.fill_between(epochs, low, high, color=colour, alpha=0.12, linewidth=0)
        axis.set(xlabel="epoch", ylabel="test accuracy [%]")
        finish_axis(axis, f"{row} at once", size=10, legend=8)
    return save_png_and_svg(figure, stem)


def draw_beside_print(cells: Cells, stem: Path, title: str) -> list[Path]:
    """Table I or II as a picture: a point for each entry; an accuracy lies above its print, an energy is over it."""
    accuracy = cells[0]["quantity"] == "accuracy"
    figure = new_figure(7.2, 5.2)
    axis = figure.subplots()
    for kind, reread, colour, label in (
        ("measured", False, BLUE, "final epoch" if accuracy else "as printed"),
        ("best_epoch", False, YELLOW, "best epoch on the test set"),
        ("measured", True, GREEN, "final epoch, read otherwise" if accuracy else "read otherwise"),
    ):
        found = [cell for cell in cells if (cell["reading"] != AS_PRINTED) == reread and cell[kind]]
        sizes = [1.0 if accuracy else cell["printed"] for cell in found]
        means = [cell[kind]["mean"] / size for cell, size in zip(found, sizes, strict=True)]
        spreads = [(cell[kind]["deviation"] or 0.0) / size for cell, size in zip(found, sizes, strict=True)]
        error_line(axis, [cell["printed"] for cell in found], means, spreads, fmt="o", color=colour, label=label)
    ends = [pick(cell["printed"] for cell in cells) for pick in (min, max)]
    axis.plot(ends, ends if accuracy else (1.0, 1.0), color=BLACK, linewidth=0.8, label="printed")
    if accuracy:
        axis.set(xlabel="printed test accuracy [%]", ylabel="test accuracy [%]")
    else:
        axis.set(xscale="log", yscale="log", xlabel="printed energy [J]", ylabel="recomputed / printed energy")
        axis.set_yticks([0.2, 0.5, 1.0, 2.0, 5.0], ["0.2", "0.5", "1", "2", "5"])
        axis.set_yticks([], minor=True)
    finish_axis(axis, f"Table {'I' if accuracy else 'II'} ({title}; bars: standard deviation)", legend=9)
    return save_png_and_svg(figure, stem)


DRAWINGS: Final[dict[str, Callable[[Cells, Path, str], list[Path]]]] = {
    "table1": draw_beside_print,
    "table2": draw_beside_print,
    "fig3": draw_curves,
    "fig4": draw_curves,
}
