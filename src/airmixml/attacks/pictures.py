"""The picture of an attack: originals above, and below them what each adversary makes of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from airmixml.attacks.parts import LISTENERS, Part
from airmixml.attacks.reconstruction import RECONSTRUCTIONS
from airmixml.attacks.tables import epsilon_text
from airmixml.output.figures import save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS: Final = {"hidden": "#3f8a57", "leaks": "#c98a1b", "exposed": "#c8452c", "": "#444444"}
_GAP: Final = 2
_SERVER_IMAGES: Final = 10
_LISTENER_IMAGES: Final = 5
_WIDTHS: Final = (_SERVER_IMAGES, _LISTENER_IMAGES, _LISTENER_IMAGES)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Cell:
    """Samples in a row with a line of text below.

    Attributes:
        samples: what is shown; samples x inputs.
        truth: what they are to be like, for data that are no images; samples x inputs.
        text: below them.
        grade: decides the colour of the text.
    """

    samples: NDArray[np.float32]
    truth: NDArray[np.float32]
    text: str
    grade: str = ""


@dataclass(frozen=True, kw_only=True, eq=False)
class _Row:
    """One line of the picture: a name, and a cell for each adversary (None leaves it empty)."""

    name: str
    cells: tuple[_Cell | None, _Cell | None, _Cell | None]


def draw_attack(metrics: dict[str, Any], found: list[dict[str, Part]], folder: Path) -> None:
    """Draw ``attack.png`` and ``attack.svg``."""
    parts = [part for by_name in found for part in by_name.values()]
    shape = next((part.figures["image_shape"] for part in parts), None)
    cases = metrics["cases"]
    rows = _rows_of_methods(cases[0], found[0]) if len(cases) == 1 else _rows_of_cases(cases, found)
    figure = _draw(rows, None if shape is None else (shape[0], shape[1]), _title(metrics))
    for suffix in (".png", ".svg"):
        save_figure(figure, folder / f"attack{suffix}")


def _title(metrics: dict[str, Any]) -> str:
    first = metrics["cases"][0]
    slots = "1 slot" if first["slots"] == 1 else f"{first['slots']:,} slots"
    if len(metrics["cases"]) > 1:
        return f"What an adversary learns of {first['workers']:,} workers"
    name = first["name"].replace("$", r"\$")  # not the beginning of a formula
    return f"{name}: {first['workers']:,} workers, {first['scheduled']:,} at a time in {slots}"


def _rows_of_cases(cases: list[dict[str, Any]], found: list[dict[str, Part]]) -> list[_Row]:
    """Return the originals, then one line for each setting with the best that each adversary can do."""
    rows = []
    with_server = next((by_name for by_name in found if any(name in by_name for name in RECONSTRUCTIONS)), None)
    if with_server is not None:
        part = next(with_server[name] for name in RECONSTRUCTIONS if name in with_server)
        rows.append(
            _Row(name="originals", cells=(_originals(part, _SERVER_IMAGES, "what the workers hold"), None, None))
        )
    for case, by_name in zip(cases, found, strict=True):
        server = case["server"]
        cell = None if server is None else _server_cell(case, by_name[server["best"]], server["best"])
        rows.append(_Row(name=case["label"], cells=(cell, *_listener_cells(case, by_name))))
    return rows


def _rows_of_methods(case: dict[str, Any], by_name: dict[str, Part]) -> list[_Row]:
    """Return the originals, then one line for each way in which the server can solve for them."""
    methods = [name for name in RECONSTRUCTIONS if name in by_name]
    heard = _listener_cells(case, by_name)
    samples = [
        _originals(by_name[name], _LISTENER_IMAGES, "samples in the clearest slots") if name in by_name else None
        for name in LISTENERS
    ]
    first = _originals(by_name[methods[0]], _SERVER_IMAGES, "what the workers hold") if methods else None
    rows = [_Row(name="originals", cells=(first, samples[0], samples[1]))]
    for number, name in enumerate(methods):
        beside = heard if number == 0 else (None, None)
        rows.append(_Row(name=name, cells=(_server_cell(case, by_name[name], name), *beside)))
    return rows if methods else [*rows, _Row(name="received", cells=(None, *heard))]


def _originals(part: Part, most: int, text: str) -> _Cell:
    samples = part.arrays["originals"][:most]
    return _Cell(samples=samples, truth=samples, text=text)


def _server_cell(case: dict[str, Any], part: Part, method: str) -> _Cell:
    figures, claimed = part.figures, epsilon_text(case["claimed"]["server"])
    ssim = "" if figures["ssim"] is None else f", SSIM {figures['ssim']['median']:.2f}"
    return _Cell(
        samples=part.arrays["examples"][:_SERVER_IMAGES],
        truth=part.arrays["originals"][:_SERVER_IMAGES],
        text=f"ε {claimed} · {method} reads {100 * figures['recognised_share']:.0f} % "
        f"(guessing {100 * figures['guessing']:.0f} %), PSNR {figures['psnr_db']['median']:.1f} dB{ssim}",
        grade=case["server"]["grade"],
    )


def _listener_cells(case: dict[str, Any], by_name: dict[str, Part]) -> tuple[_Cell | None, _Cell | None]:
    release, eavesdropper = (
        _listener_cell(case, by_name[name], name) if name in by_name else None for name in LISTENERS
    )
    return release, eavesdropper


def _listener_cell(case: dict[str, Any], part: Part, name: str) -> _Cell:
    figures, claimed = case[name], epsilon_text(case["claimed"][name])
    clearest, beside = figures["clearest_slots"], figures["beside"]
    seen = "class sums · " if case["scenario"]["workers"]["sends"] == "moments" else ""
    nearby = f", neighbour {beside['identified']} of {beside['looked_at']}" if beside and beside["looked_at"] else ""
    return _Cell(
        samples=part.arrays["examples"][:_LISTENER_IMAGES],
        truth=part.arrays["originals"][:_LISTENER_IMAGES],
        text=f"{seen}ε {claimed} · names {clearest['identified']} of {clearest['looked_at']} workers{nearby}",
        grade=case[name]["grade"],
    )


def _draw(rows: list[_Row], image_shape: tuple[int, int] | None, title: str) -> Figure:
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    shown = [place for place in range(3) if any(row.cells[place] is not None for row in rows)]
    widths = [_WIDTHS[place] for place in shown]
    tall = 1.0 if image_shape is not None else 1.9
    # Room between the adversaries, so that nobody takes their samples for one row.
    layout = ConstrainedLayoutEngine(wspace=0.09, w_pad=0.12, hspace=0.02)
    figure = Figure(figsize=(1.8 + 0.72 * sum(widths), 1.0 + tall * len(rows)), layout=layout)
    axes = figure.subplots(len(rows), len(shown), width_ratios=widths, squeeze=False)
    heads = ("the server, who knows who sent", "whoever gets the mixtures", "an eavesdropper near a worker")
    for line, row in enumerate(rows):
        for column, place in enumerate(shown):
            axis, cell = axes[line, column], row.cells[place]
            axis.set_xticks([])
            axis.set_yticks([])
            for side in axis.spines.values():
                side.set_visible(False)
            if line == 0:
                axis.set_title(heads[place], fontsize=10, fontweight="bold", pad=8)
            if column == 0:
                axis.set_ylabel(row.name, rotation=0, ha="right", va="center", fontsize=9.5, labelpad=6)
            _draw_cell(axis, cell, _WIDTHS[place], image_shape)
    dots = "" if image_shape is not None else "\na dot is one number: recovered (up) against true (right)"
    figure.suptitle(title + dots, fontsize=12)
    return figure


def _draw_cell(axis: Axes, cell: _Cell | None, places: int, image_shape: tuple[int, int] | None) -> None:
    if cell is None:  # takes the room of a cell, so that all lines stay level
        if image_shape is not None:
            axis.imshow(_strip(np.zeros((0, 1), np.float32), places, image_shape), cmap="gray_r", vmin=0.0, vmax=1.0)
        return
    colour = _COLOURS[cell.grade]
    axis.set_xlabel(cell.text, fontsize=7.5, color=colour, fontweight="bold" if cell.grade else "normal", labelpad=3)
    if image_shape is None:
        _draw_values(axis, cell, colour)
        return
    axis.imshow(_strip(cell.samples, places, image_shape), cmap="gray_r", vmin=0.0, vmax=1.0, interpolation="nearest")


def _strip(samples: NDArray[np.float32], places: int, image_shape: tuple[int, int]) -> NDArray[np.float32]:
    """Return the images side by side, with white between them and where there are too few."""
    height, width = image_shape
    strip = np.zeros((height, places * (width + _GAP) - _GAP), dtype=np.float32)
    for place, sample in enumerate(samples[:places]):
        left = place * (width + _GAP)
        strip[:, left : left + width] = sample.reshape(image_shape)
    return strip


def _draw_values(axis: Axes, cell: _Cell, colour: str) -> None:
    """Draw every number of the samples against what it is in truth: on the line is found, a cloud is hidden."""
    axis.plot([0.0, 1.0], [0.0, 1.0], color="#bbbbbb", linewidth=0.8, zorder=1)
    axis.scatter(cell.truth.ravel(), cell.samples.ravel(), s=9, color=colour, alpha=0.7, zorder=2)
    axis.set_xlim(-0.03, 1.03)
    axis.set_ylim(-0.03, 1.03)
    for side in axis.spines.values():
        side.set_visible(True)
        side.set_color("#dddddd")
