"""A sweep as one picture with error bars, of what its JSON file holds.

The picture depends on the number of keys. One: a line. Two: a line for each value of the second, or of the first where
that has fewer. Three: a panel for each value of the third. Of more keys the others stay at their first value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from airmixml.output.figures import COLOURS, error_line, finish_axis, panel_grid
from airmixml.scenario.toml import value_text
from airmixml.sweeps.metric_text import unit_of
from airmixml.wording import plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_LINES: Final = 6
_MOST_PANELS: Final = 12
# Largest over smallest from which the axis of a key, or of the metric, is logarithmic.
_DECADE: Final = 10.0
_DECADES: Final = 100.0
_MARKERS: Final = "osD^vP"
_ASIDE: Final = 0.08  # between the lines at one word
_PANEL_INCHES: Final = (4.6, 3.7)

Plain = dict[str, Any]
Means = dict[tuple[Any, ...], tuple[float, float]]  # mean and deviation by the values of the keys


def picture_note(plain: Plain) -> str:
    """Return what the picture leaves out, in one line; empty where it shows everything."""
    grid, left_out = plain["grid"], []
    if len(grid) > 3:
        fixed = ", ".join(f"{key} = {value_text(values[0])}" for key, values in list(grid.items())[3:])
        left_out.append(f"the picture shows the first three keys at {fixed}")
    *first, third = [*map(len, grid.values()), 0, 0, 0][:3]
    for most, count, key in ((_MOST_LINES, min(first), list(grid)[:2][-1]), (_MOST_PANELS, third, list(grid)[-1])):
        if count > most:
            left_out.append(f"the picture shows the first {most} of {count} values of {key}")
    return "; ".join(left_out)


def drawn_metric(plain: Plain) -> str:
    """Return the first of the tables' metrics that is a number in some cell; empty where none is."""
    numbers = {name for cell in plain["cells"] for name, found in cell["metrics"].items() if "mean" in found}
    return next((name for name in plain["metrics"] if name in numbers), "")


def sweep_figure(plain: Plain, title: str) -> Figure | None:
    """Return the picture as a Matplotlib figure, ``title`` above it; None where there is no number to draw."""
    metric, grid = drawn_metric(plain), plain["grid"]
    keys, seeds = list(grid)[:3], len(plain["seeds"])
    means: Means = {
        tuple(cell["values"][key] for key in keys): (found["mean"], found["deviation"] or 0.0)
        for cell in plain["cells"]
        if all(cell["values"][key] == values[0] for key, values in grid.items() if key not in keys)
        and (found := cell["metrics"].get(metric, {})).get("mean") is not None
    }
    if not means:
        return None
    panels: Sequence[Any] = grid[keys[2]][:_MOST_PANELS] if len(keys) == 3 else (None,)
    spread = ", ± standard deviation" if seeds > 1 else ""
    about = f"{title}: {metric}, {plural(seeds, 'seed')}{spread}; simulation"
    look: dict[str, Any] = {"inches": _PANEL_INCHES, "narrowest": 6.4, "above": 0.5, "size": 10.5}
    figure, axes = panel_grid(len(panels), about, sharex=True, sharey=True, **look)
    unit, size = unit_of(metric, max(abs(mean) for mean, _ in means.values()))
    wide = max(mean for mean, _ in means.values()) >= _DECADES * min(mean for mean, _ in means.values())
    positive = min(mean - deviation for mean, deviation in means.values()) > 0.0
    log = unit not in ("%", "dB", "dBm") and positive and wide
    for axis, value in zip(axes, panels, strict=True):
        here = {
            point[:2]: (mean / size, deviation / size if seeds > 1 else None)
            for point, (mean, deviation) in means.items()
            if len(keys) < 3 or point[2] == value
        }
        _draw_panel(axis, {key: grid[key] for key in keys[:2]}, here)
        axis.set(ylabel=f"{metric} [{unit}]" if unit else metric, yscale="log" if log else "linear")
        axis.label_outer()
        finish_axis(axis, "" if len(keys) < 3 else f"{keys[2]} = {value_text(value)}", size=10)
    return figure


def _draw_panel(axis: Axes, grid: dict[str, list[Any]], means: dict[tuple[Any, ...], tuple[float, Any]]) -> None:
    """Draw a line, or one for each value of the second key."""
    along, across = [*grid, ""][:2]
    swapped = bool(across) and len(grid[across]) > _MOST_LINES and len(grid[across]) > len(grid[along])
    if swapped:  # the key with few values gives the lines
        along, across = across, along
    values, lines = grid[along], grid[across][:_MOST_LINES] if across else [None]
    places, logarithmic, words = _places(values)
    for number, value in enumerate(lines):
        aside = _ASIDE * (number - (len(lines) - 1) / 2) if words else 0.0  # else bars would hide each other
        points = [(each,) if not across else (value, each) if swapped else (each, value) for each in values]
        there = [(place + aside, *means[point]) for place, point in zip(places, points, strict=True) if point in means]
        at, mean, spread = map(list, zip(*there, strict=True)) if there else ([], [], [])
        error_line(
            axis,
            at,
            mean,
            None if None in spread else spread,
            color=COLOURS[number % len(COLOURS)],
            marker=_MARKERS[number % len(_MARKERS)],
            linestyle="none" if words else "-",  # nothing lies between two words
            label=value_text(value) if across else None,
        )
    axis.set_xlabel(along)
    axis.margins(x=0.08, y=0.12)
    if logarithmic:
        axis.set_xscale("log")
    if len(places) <= 12:
        texts = list(map(value_text, values))
        axis.set_xticks(places, texts, rotation=30 if max(map(len, texts)) > 6 else 0)
        axis.set_xticks([], minor=True)
    if across and means:
        axis.legend(fontsize=8, title=across, title_fontsize=8)


def _places(values: Sequence[Any]) -> tuple[list[float], bool, bool]:
    """Return where values stand on their axis, whether it is logarithmic, and whether they stand side by side."""
    if any(isinstance(value, str) or not math.isfinite(value) for value in values):
        return [float(place) for place in range(len(values))], False, True
    numbers = [float(value) for value in values]
    return numbers, min(numbers) > 0.0 and max(numbers) / min(numbers) >= _DECADE, False
