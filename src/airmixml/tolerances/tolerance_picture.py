"""Tolerances as one picture: accuracy against each impairment's size."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from airmixml.output.figures import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    RED,
    error_line,
    finish_axis,
    panel_grid,
    shared_legend,
)
from airmixml.scenario import Scenario
from airmixml.tolerances.impairment_ladder import IMPAIRMENT_LADDERS
from airmixml.wording import plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANEL_INCHES: Final = (3.6, 2.7)
_CLASS_COLOURS: Final = (GREEN, PURPLE, ORANGE)
_CLASS_STYLES: Final = ((0, (5, 2)), (0, (1, 1.5)), (0, (5, 1.5, 1, 1.5)))
_BELOW: Final = 12.0  # drops below the tolerated score that a panel shows at most

Plain = dict[str, Any]


def tolerances_figure(plain: Plain, scenario: Scenario) -> Figure | None:
    """Return the picture of what the JSON file holds; None where nothing could be run."""
    panels = [each for each in plain["tolerances"] if not each["why_not"]]
    if not panels:
        return None
    seeds = plural(len(plain["seeds"]), "seed")
    title = f"{scenario.title}: {plain['metric']} against the size of each impairment, alone ({seeds}; simulation)"
    figure, axes = panel_grid(len(panels), title, inches=_PANEL_INCHES, narrowest=7.2, above=1.0, size=12)
    for axis, each in zip(axes, panels, strict=True):
        _draw_panel(axis, plain, each)
    shared_legend(figure)
    return figure


def _draw_panel(axis: Axes, plain: Plain, each: Plain) -> None:
    ideal, drop = plain["ideal"]["mean"], plain["drop"]
    ladder = next(one for one in IMPAIRMENT_LADDERS if f"air.{one.key}" == each["key"])
    tried = [one for one in each["tried"] if not one["error"]]
    places, scores = [one["size"] for one in tried], [one["score"] for one in tried]
    axis.axhline(ideal, color=GREY, linewidth=1, zorder=1, label="ideal air")
    axis.axhline(ideal - drop, color=RED, linestyle="--", linewidth=1.2, zorder=1, label=f"{points(drop)} less")
    if places and places[0] != ladder.sizes[0]:  # what lies between was not tried: it is no worse than the first
        ends = [ladder.sizes[0], places[0]], [plain["base"]["mean"], scores[0]]
        axis.plot(*ends, color=BLUE, linestyle=":", linewidth=1.2, zorder=3)
    label, spread = "measured (± standard error of the fall)", [one["standard_error"] for one in tried]
    error_line(axis, places, scores, spread, color=BLUE, marker="o", zorder=4, label=label)
    has = {air: found["size"] for air, found in each["delivered"].items() if found["size"] is not None}
    sizes = [*ladder.sizes, *(size for size in has.values() if math.isfinite(size))]
    low, high = min(sizes), max(sizes)
    log = ladder.log and low > 0.0
    axis.set_xscale("log" if ladder.log else "linear")
    low, high = (low / 1.5, high * 1.5) if log else (low - 0.04 * (high - low), high + 0.04 * (high - low))
    # The fall around the tolerated score, rather than all the way down.
    bottom, top = max(min([*scores, ideal - 2.0 * drop]), ideal - (1.0 + _BELOW) * drop), max([ideal, *scores])
    axis.set_ylim(bottom - 0.08 * (top - bottom), top + 0.08 * (top - bottom))
    for number, (air, size) in enumerate(has.items()):
        colour, style = _CLASS_COLOURS[number % 3], _CLASS_STYLES[number % 3]
        axis.axvline(size, color=colour, linestyle=style, linewidth=1.6, zorder=2, label=air)
    if each["privacy"] is not None and (missed := each["privacy"]["missed"]) is not None:
        axis.axvspan(missed, high, color=RED, alpha=0.09, zorder=0, label="epsilon above the target, no margin")
    axis.set_xlim(*((high, low) if ladder.fewer_is_worse else (low, high)))
    axis.set_xlabel(ladder.unit or "number", fontsize=9)
    axis.set_ylabel("%", fontsize=9)
    if ladder.unit == "bits":
        from matplotlib.ticker import MaxNLocator

        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.tick_params(labelsize=8)
    if each["refused"] is None:
        told: dict[str, Any] = {"ha": "center", "va": "bottom", "fontsize": 8.5, "color": "0.35"}
        axis.text(0.5, 0.04, "no size up to the end of the range is too much", transform=axis.transAxes, **told)
    finish_axis(axis, ladder.name, size=10.5)


def points(drop: float) -> str:
    """Return "1 point", "2 points"."""
    return f"{drop:g} point{'' if drop == 1.0 else 's'}"
