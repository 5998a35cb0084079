"""The picture of an attack: originals above, and below them what each adversary recovers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from airmixml.attacks.listener_findings import ListenerFindings
from airmixml.attacks.results import LISTENERS, AttackResult, CaseResult, Found, epsilon_text
from airmixml.attacks.server_attacks import ServerFindings
from airmixml.output.figures import save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS: Final = {
    "hidden": "#3f8a57",
    "not found": "#a08c00",
    "leaks": "#d9771a",
    "exposed": "#c8452c",
    "": "#444444",
}
_GAP: Final = 2
_SERVER_IMAGES: Final = 10
_LISTENER_IMAGES: Final = 5
_WIDTHS: Final = (_SERVER_IMAGES, _LISTENER_IMAGES, _LISTENER_IMAGES)
_HEADS: Final = ("the server, who knows the schedule", "an adversary who sees only the mixtures", "an eavesdropper")
_HELD: Final = "what the workers hold"


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


def draw_attack(result: AttackResult, folder: Path) -> None:
    """Draw ``attack.png`` and ``attack.svg``."""
    every = [each.findings for case in result.cases for each in case.found.values()]
    shape = next((each.image_shape for each in every if isinstance(each, ServerFindings | ListenerFindings)), None)
    rows = _rows_of_methods(result.cases[0]) if len(result.cases) == 1 else _rows_of_cases(result.cases)
    figure = _draw(rows, shape, _title(result.cases))
    for suffix in (".png", ".svg"):
        save_figure(figure, folder / f"attack{suffix}")


def _title(cases: list[CaseResult]) -> str:
    scenario = cases[0].scenario
    workers, radio = scenario.workers, scenario.radio
    if len(cases) > 1:
        return f"What an adversary learns about {workers.count:,} workers"
    slots = "1 slot" if radio.slots == 1 else f"{radio.slots:,} slots"
    name = scenario.name.replace("$", r"\$")  # not the beginning of a formula
    return f"{name}: {workers.count:,} workers, {radio.scheduled:,} at a time in {slots}"


def _rows_of_cases(cases: list[CaseResult]) -> list[_Row]:
    """Return the originals, then one line for each setting with the best that each adversary can do."""
    rows: list[_Row] = []
    for case in cases:
        best = max(_methods(case), key=lambda found: found.findings.strength, default=None)
        if best is not None and not any(row.cells[0] for row in rows):
            rows.insert(0, _Row(name="originals", cells=(_originals(best, _SERVER_IMAGES, _HELD), None, None)))
        server = None if best is None else _cell(case, best, _SERVER_IMAGES)
        rows.append(_Row(name=case.label, cells=(server, *_listeners(case))))
    return rows


def _methods(case: CaseResult) -> list[Found]:
    """Return the server's reconstructions that have something to show."""
    return [] if case.server is None else [found for found in case.server.found if "examples" in found.arrays]


def _rows_of_methods(case: CaseResult) -> list[_Row]:
    """Return the originals, then one line for each way in which the server can solve for them."""
    methods = _methods(case)
    heard = _listeners(case)
    release, eavesdropper = (
        _originals(case.found[name], _LISTENER_IMAGES, "samples in the clearest slots") if name in case.found else None
        for name in LISTENERS
    )
    first = _originals(methods[0], _SERVER_IMAGES, _HELD) if methods else None
    rows = [_Row(name="originals", cells=(first, release, eavesdropper))]
    for number, found in enumerate(methods):
        beside = heard if number == 0 else (None, None)
        rows.append(_Row(name=found.attack, cells=(_cell(case, found, _SERVER_IMAGES), *beside)))
    return rows if methods else [*rows, _Row(name="received", cells=(None, *heard))]


def _originals(found: Found, most: int, text: str) -> _Cell:
    samples = found.arrays["originals"][:most]
    return _Cell(samples=samples, truth=samples, text=text)


def _listeners(case: CaseResult) -> tuple[_Cell | None, _Cell | None]:
    release, eavesdropper = (
        _cell(case, case.found[name], _LISTENER_IMAGES) if name in case.found else None for name in LISTENERS
    )
    return release, eavesdropper


def _cell(case: CaseResult, found: Found, most: int) -> _Cell:
    """Return examples of what was found, with the claimed epsilon and what was found in words."""
    group, claimed = case.group_of(found.attack), epsilon_text(case.claimed[found.adversary])
    server = isinstance(found.findings, ServerFindings)
    sums = "" if server or case.scenario.workers.sends != "moments" else "class sums · "
    told = f"{found.attack} {found.findings.caption()}" if server else found.findings.caption()
    return _Cell(
        samples=found.arrays["examples"][:most],
        truth=found.arrays["originals"][:most],
        text=f"{sums}ε {claimed} · {'our attacks found nobody' if group.grade == 'not found' else told}",
        grade=group.grade,
    )


def _draw(rows: list[_Row], image_shape: tuple[int, int] | None, title: str) -> Figure:
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    shown = [place for place in range(3) if any(row.cells[place] is not None for row in rows)] or [0]
    widths = [_WIDTHS[place] for place in shown]
    tall = 1.0 if image_shape is not None else 1.9
    # Room between the adversaries, so that nobody takes their samples for one row.
    layout = ConstrainedLayoutEngine(wspace=0.09, w_pad=0.12, hspace=0.02)
    figure = Figure(figsize=(1.8 + 0.72 * sum(widths), 1.0 + tall * len(rows)), layout=layout)
    axes = figure.subplots(len(rows), len(shown), width_ratios=widths, squeeze=False)
    for line, row in enumerate(rows):
        for column, place in enumerate(shown):
            axis, cell = axes[line, column], row.cells[place]
            axis.set_xticks([])
            axis.set_yticks([])
            for side in axis.spines.values():
                side.set_visible(False)
            if line == 0:
                axis.set_title(_HEADS[place], fontsize=10, fontweight="bold", pad=8)
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
