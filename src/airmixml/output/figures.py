"""One style for all figures, and how they get into files."""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from airmixml.arrays import Shape, planes
from airmixml.files import write_bytes
from airmixml.registries import ACCOUNTANTS

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

COLOURS: Final = ("#3b6ea8", "#d1603d", "#4a8f5d", "#8a63a8", "#e0a030")
BLUE, ORANGE, GREEN, PURPLE, YELLOW = COLOURS
GREY, BLACK = "#8c8c8c", "#222222"
RED: Final = "#c8402f"  # something is wrong
_DPI: Final = 110
_ACCOUNTANT_COLOURS: Final = (ORANGE, YELLOW, PURPLE, BLUE, GREEN)


def accountant_colour(name: str) -> str:
    """Return the colour that stands for an accountant in every figure; more than there are colours share them."""
    return _ACCOUNTANT_COLOURS[ACCOUNTANTS.names_with(name).index(name) % len(_ACCOUNTANT_COLOURS)]


@cache
def _figure_class() -> type[Figure]:
    from matplotlib.figure import Figure  # here: it takes a second to import

    class ShownFigure(Figure):
        """A figure that a notebook shows where it is the last value of a cell; pyplot is not needed."""

        def _repr_png_(self) -> bytes:
            return figure_bytes(self, "png")

    return ShownFigure


def new_figure(
    width: float,
    height: float,
    title: str = "",
    size: float = 12.0,
    *,
    layout: Literal["constrained"] | None = "constrained",
    **title_style: Any,
) -> Figure:
    """Return an empty figure, inches wide and high; ``title`` stands above all of its axes.

    The constrained ``layout`` finds room for every text, which takes as long as drawing; with None all have
    places of their own.
    """
    figure = _figure_class()(figsize=(width, height), layout=layout)
    if title:
        figure.suptitle(title, fontsize=size, parse_math=False, **title_style)
    return figure


def as_picture(sample: NDArray[np.float32], shape: Shape) -> NDArray[np.float32]:
    """Return numbers as an image to show: height x width, or height x width x 3 of three channels, cut to [0, 1].

    Of any other number of channels it is their mean.
    """
    image = sample.reshape(planes(shape))
    if len(image) == 3:
        return image.clip(0.0, 1.0).transpose(1, 2, 0)
    averaged: NDArray[np.float32] = image.mean(axis=0)
    return averaged


def finish_axis(axis: Axes, title: str = "", *, size: float = 11.0, legend: float = 0.0, **legend_options: Any) -> None:
    """Give an axis its title, its grid, and a legend of that font size where something is drawn."""
    if title:
        axis.set_title(title, fontsize=size, parse_math=False)  # a user's name may have dollar signs
    axis.grid(alpha=0.25)
    if legend and axis.get_legend_handles_labels()[0]:
        axis.legend(fontsize=legend, **legend_options)


def figure_bytes(figure: Figure, kind: str) -> bytes:
    """Return the content of a file of that kind: png, svg or pdf; the figure keeps the layout that it gets here."""
    content = io.BytesIO()
    if kind == "png":  # drawn once; ``savefig`` draws it twice
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from PIL import Image

        figure.set_dpi(_DPI)
        canvas: Any = FigureCanvasAgg(figure)
        canvas.draw()
        drawn = Image.frombuffer("RGBA", canvas.get_width_height(), canvas.buffer_rgba(), "raw", "RGBA", 0, 1)
        drawn.convert("RGB").save(content, "png", dpi=(_DPI, _DPI))
    else:
        from matplotlib import rc_context

        with rc_context({"svg.hashsalt": "airmixml"}):  # the same picture is the same file
            figure.savefig(content, format=kind, dpi=_DPI, metadata={"Date": None} if kind == "svg" else None)
    figure.set_layout_engine("none")
    return content.getvalue()


def save_figure(figure: Figure, path: Path | None) -> Figure:
    """Return the figure, written to ``path``, where there is one, whole or not at all."""
    if path is not None:
        content = figure_bytes(figure, path.suffix.lstrip(".").lower() or "png")
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, content)
    return figure


def chance_line(axis: Axes, percent: float) -> None:
    """Draw the accuracy of guessing across an axis of accuracies in per cent, and name it."""
    axis.axhline(percent, color=GREY, linestyle="--", linewidth=1, zorder=1, label=f"guessing {percent:.0f} %")


def save_png_and_svg(figure: Figure, stem: Path) -> list[Path]:
    """Write the figure as ``stem``.png and ``stem``.svg and return both."""
    paths = [stem.with_name(stem.name + suffix) for suffix in (".png", ".svg")]
    for path in paths:
        save_figure(figure, path)
    return paths


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
