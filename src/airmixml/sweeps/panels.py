"""Panels, lines with error bars and legends, as all studies draw their means over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from airmixml.output.figures import new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PER_ROW: Final = 4


def panel_grid(
    count: int,
    title: str,
    *,
    inches: tuple[float, float],
    narrowest: float,
    above: float,
    size: float,
    **subplots: Any,
) -> tuple[Figure, list[Axes]]:
    """Return a figure and its panels, at most four beside each other.

    A panel is so many ``inches`` wide and high, the figure at least ``narrowest``; ``above`` is room for the title, in
    letters of that ``size``.
    """
    columns = min(_PER_ROW, count)
    lines = -(-count // columns)
    figure = new_figure(max(narrowest, inches[0] * columns), above + inches[1] * lines, title, size=size)
    axes = list(figure.subplots(lines, columns, squeeze=False, **subplots).ravel())
    for axis in axes[count:]:
        axis.set_visible(False)
    return figure, axes[:count]


def error_line(
    axis: Axes, places: Sequence[float], means: Sequence[float], spreads: Sequence[float] | None, **style: Any
) -> None:
    """Draw means with their spreads along an axis; nothing where there are none."""
    if len(places):
        axis.errorbar(places, means, yerr=spreads, **{"markersize": 4.5, "linewidth": 1.4, "capsize": 2.5, **style})


def shared_legend(figure: Figure) -> None:
    """Name what is drawn in any panel once, below all of them."""
    handles: dict[str, Any] = {}
    for axis in figure.axes:
        for handle, name in zip(*axis.get_legend_handles_labels(), strict=True):
            handles.setdefault(name, handle)
    figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=len(handles), fontsize=9)
