"""Pictures inside a page: those of the folder, and learning curves drawn for it, as data that need no other file."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from airmixml.output.figures import BLUE, GREEN, GREY, ORANGE, figure_bytes, finish_axis, new_figure
from airmixml.output.numbers import plural
from airmixml.output.tables import TextTable
from airmixml.reading import read_regular
from airmixml.reports.content import Curve, Drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# A page of 3 MB, base64 and words taken off.
MOST_BYTES: Final = 2_000_000
_MOST_ROWS: Final = 12
_MOST_NAMED: Final = 8
_COLOURS: Final = (BLUE, ORANGE, GREEN, "#7b5ea7", "#8c564b", GREY)
_STYLES: Final = ("-", "--", "-.", ":")
_NAMES: Final = {"training_loss": "training loss", "test_accuracy": "accuracy on the test set (%)"}


@dataclass(frozen=True, kw_only=True)
class Embedded:
    """A picture as the page has it; without ``source`` it was too large and is named only."""

    caption: str
    shows: str
    source: str
    file: str


def embed(drawings: Sequence[Drawing], most_bytes: int = MOST_BYTES) -> list[Embedded]:
    """Return pictures whose data are at most so many bytes together.

    If they are more, each loses colours that nobody sees; those that still do not fit are named by their file.
    """
    contents = [read_regular(drawing.path) for drawing in drawings]
    if sum(map(len, contents)) > most_bytes:
        contents = [min(content, _fewer_colours(content), key=len) for content in contents]
    found, left = [], most_bytes
    for drawing, content in zip(drawings, contents, strict=True):
        fits = len(content) <= left
        left -= len(content) if fits else 0
        source = _data("image/png", content) if fits else ""
        found.append(Embedded(caption=drawing.caption, shows=drawing.shows, source=source, file=drawing.path.name))
    return found


def _fewer_colours(content: bytes) -> bytes:
    """Return a PNG with 256 colours; as it is where it cannot be read."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(content)) as picture:
            smaller = io.BytesIO()
            picture.convert("RGB").quantize(256).save(smaller, "png", optimize=True)
            return smaller.getvalue()
    except (OSError, UnidentifiedImageError):
        return content


def draw_curves(curves: Sequence[Curve], *, named: bool = False) -> Embedded | None:
    """Return learning curves over each other, one axis for each quantity; None where nothing has epochs.

    What has no epochs is a level line. ``named``: a legend even of a single curve.
    """
    names = list(dict.fromkeys(name for curve in curves for name, points in curve.columns.items() if len(points) > 1))
    if not names:
        return None
    names.sort(key=lambda name: name == "training_loss")  # what counts comes first
    figure = new_figure(5.2 * len(names), 3.6)
    for axis, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        _draw(axis, curves, name, legend=named or len(curves) > 1)
    shows = " ".join(_in_words(curve, name) for curve in curves[:_MOST_NAMED] for name in names[:1])
    if len(curves) > _MOST_NAMED:
        shows += f" And {plural(len(curves) - _MOST_NAMED, 'more curve')}."
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # a name in another script
        source = _data("image/svg+xml", figure_bytes(figure, "svg"))
    return Embedded(caption="Learning curve" + "s" * (len(curves) > 1), shows=shows.strip(), source=source, file="")


def _draw(axis: Axes, curves: Sequence[Curve], name: str, *, legend: bool) -> None:
    factor = _factor(name)
    for number, curve in enumerate(curves):
        points = curve.columns.get(name)
        if not points:
            continue
        look: dict[str, Any] = {"color": _COLOURS[number % len(_COLOURS)], "linestyle": _STYLES[number % len(_STYLES)]}
        epochs, values = [epoch for epoch, _ in points], [factor * value for _, value in points]
        label = curve.label.replace("$", r"\$") if number < _MOST_NAMED else "_"
        if len(points) == 1:
            axis.axhline(values[0], label=label, **look)
            continue
        axis.plot(epochs, values, marker="." if len(points) < 40 else "", label=label, **look)
    axis.set(xlabel="epoch", ylabel=_NAMES.get(name, name.replace("_", " ").replace("$", r"\$")))
    if name == "test_accuracy":
        axis.set_ylim(0, 103)
    finish_axis(axis, legend=8 if legend else 0.0)


def _in_words(curve: Curve, name: str) -> str:
    points, factor = curve.columns.get(name, ()), _factor(name)
    if not points:
        return ""
    (first, begins), (last, ends) = points[0], points[-1]
    what, unit = (name.replace("_", " "), " %") if factor == 100.0 else (name.replace("_", " "), "")
    if len(points) == 1:
        return f"{curve.label}: {what} {factor * ends:.3g}{unit}, without epochs."
    low, high = min(value for _, value in points), max(value for _, value in points)
    return (
        f"{curve.label}: {what} goes from {factor * begins:.3g}{unit} after epoch {first} to {factor * ends:.3g}{unit} "
        f"after epoch {last}, between {factor * low:.3g}{unit} and {factor * high:.3g}{unit}."
    )


def _factor(name: str) -> float:
    return 100.0 if name == "test_accuracy" else 1.0


def curve_table(curve: Curve) -> TextTable:
    """Return some epochs of a curve as a table: the first, the last and evenly chosen ones between."""
    epochs = sorted({epoch for points in curve.columns.values() for epoch, _ in points})
    step = max(1, -(-(len(epochs) - 1) // (_MOST_ROWS - 1)))
    chosen = [*epochs[:-1:step], epochs[-1]]
    values = {name: dict(points) for name, points in curve.columns.items()}
    rows = tuple(
        (
            f"{epoch:,}",
            *(f"{_factor(name) * found[epoch]:.4g}" if epoch in found else "" for name, found in values.items()),
        )
        for epoch in chosen
    )
    columns = ("epoch", *(_NAMES.get(name, name.replace("_", " ")) for name in curve.columns))
    return TextTable(title=f"Learning curve of {curve.label}", note="", columns=columns, rows=rows)


def _data(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"
