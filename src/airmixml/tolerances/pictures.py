"""One picture of all tolerances: a panel for each impairment, accuracy against its size."""

from __future__ import annotations

import math
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airmixml.output.figures import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, finish_axis, new_figure, save_png_and_svg
from airmixml.output.numbers import plural
from airmixml.tolerances.findings import Tolerance, Tolerances

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLUMNS: Final = 4
_PANEL_INCHES: Final = (3.6, 2.7)
_CLASS_COLOURS: Final = (GREEN, PURPLE, ORANGE)
_CLASS_STYLES: Final = ((0, (5, 2)), (0, (1, 1.5)), (0, (5, 1.5, 1, 1.5)))
_BELOW: Final = 12.0  # drops below the tolerated score that a panel shows at most


def draw_tolerances(found: Tolerances, stem: Path) -> list[Path]:
    """Draw the picture and return the files."""
    panels = [each for each in found.found if not each.why_not]
    if not panels:
        return []
    columns = min(_COLUMNS, len(panels))
    lines = -(-len(panels) // columns)
    wide, high = _PANEL_INCHES
    seeds = plural(len(found.seeds), "seed")
    title = f"{found.scenario.title}: {found.compared} against the size of each impairment, alone ({seeds}; simulation)"
    figure = new_figure(max(7.2, wide * columns), 1.0 + high * lines, title, size=12)
    axes = figure.subplots(lines, columns, squeeze=False).ravel()
    for axis, each in zip(axes, panels, strict=False):
        _draw_panel(axis, found, each)
    for axis in axes[len(panels) :]:
        axis.set_visible(False)
    handles: dict[str, Any] = {}
    for axis in axes[: len(panels)]:
        for handle, name in zip(*axis.get_legend_handles_labels(), strict=True):
            handles.setdefault(name, handle)
    figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=len(handles), fontsize=9)
    return save_png_and_svg(figure, stem)


def _draw_panel(axis: Axes, found: Tolerances, each: Tolerance) -> None:
    sizes, ideal = each.sizes, statistics.fmean(found.ideal)
    tried = [one for one in each.tried if not one.error]
    axis.axhline(ideal, color=GREY, linewidth=1, zorder=1, label="ideal air")
    axis.axhline(found.floor, color=RED, linestyle="--", linewidth=1.2, zorder=1, label=f"{points(found.drop)} less")
    mildest, first = sizes.ladder[0], tried[0] if tried else None
    if first is not None and first.size != mildest:  # what lies between was not tried: it is no worse than the first
        ends = [mildest, first.size], [statistics.fmean(found.base), first.score]
        axis.plot(*ends, color=BLUE, linestyle=":", linewidth=1.2, zorder=3)
    axis.errorbar(
        [one.size for one in tried],
        [one.score for one in tried],
        yerr=[one.standard_error for one in tried],
        color=BLUE,
        marker="o",
        markersize=4.5,
        linewidth=1.4,
        capsize=2.5,
        zorder=4,
        label="measured (± standard error of the fall)",
    )
    if sizes.log:
        axis.set_xscale("log")
    _set_ranges(axis, found, each)
    for number, has in enumerate(each.delivered):
        if has.size is not None and math.isfinite(has.size):
            colour = _CLASS_COLOURS[number % len(_CLASS_COLOURS)]
            style = _CLASS_STYLES[number % len(_CLASS_STYLES)]
            axis.axvline(has.size, color=colour, linestyle=style, linewidth=1.6, zorder=2, label=has.air)
    if each.asks_privacy and each.revealing is not None:
        low, high = axis.get_xlim()
        axis.axvspan(each.revealing, high, color=RED, alpha=0.09, zorder=0, label="epsilon above the target, no margin")
        axis.set_xlim(low, high)
    if sizes.fewer_is_worse:
        axis.invert_xaxis()
    axis.set_xlabel(sizes.unit or "number", fontsize=9)
    axis.set_ylabel("%", fontsize=9)
    if sizes.unit == "bits":
        from matplotlib.ticker import MaxNLocator

        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.tick_params(labelsize=8)
    if each.refused is None:
        told: dict[str, Any] = {"ha": "center", "va": "bottom", "fontsize": 8.5, "color": "0.35"}
        axis.text(0.5, 0.04, "no size up to the end of the range is too much", transform=axis.transAxes, **told)
    finish_axis(axis, sizes.name, size=10.5)


def points(drop: float) -> str:
    """Return "1 point", "2 points"."""
    return f"{drop:g} point{'' if drop == 1.0 else 's'}"


def _set_ranges(axis: Axes, found: Tolerances, each: Tolerance) -> None:
    """Show the whole ladder, and the fall around the tolerated score rather than all the way down."""
    shown = [*each.sizes.ladder, *(has.size for has in each.delivered if has.size is not None)]
    low, high = min(shown), max(shown)
    if each.sizes.log and low > 0.0:
        axis.set_xlim(low / 1.5, high * 1.5)
    else:
        axis.set_xlim(low - 0.04 * (high - low), high + 0.04 * (high - low))
    ideal, scores = statistics.fmean(found.ideal), [one.score for one in each.tried if not one.error]
    bottom = max(min([*scores, found.floor - found.drop]), found.floor - _BELOW * found.drop)
    top = max([ideal, *scores])
    axis.set_ylim(bottom - 0.08 * (top - bottom), top + 0.08 * (top - bottom))
