"""An attack for its readers, from what its ``metrics.json`` holds, and its picture."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from airmixml.arrays import ImageShape, Shape, Singles, is_series, planes
from airmixml.attacks.measured import LISTENERS, TOO_FEW
from airmixml.output.cards import claimed_card
from airmixml.output.figures import as_picture, new_figure, save_png_and_svg
from airmixml.output.page import Card, Cards, Folded, Lines, Page
from airmixml.output.tables import Table
from airmixml.scenario import Scenario
from airmixml.wording import NOTHING_PROMISED, epsilon_text, plural, sentence, simulated

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from airmixml.attacks.case_result import AttackResult, CaseResult, Found

_COLUMNS: Final = ("attacker", "what it does", "success", "guessing", "allowed", "certain")
_WORDS: Final = (
    "server: knows the schedule; release: only the mixtures; eavesdropper: listens beside a worker; everyone: hears "
    "each worker without noise; informed: knows all other samples; detects: with the false alarms of guessing; "
    "–: epsilon does not limit it"
)


def attack_page(plain: dict[str, Any], scenario: Scenario) -> Page:
    """Return verdicts, what each adversary does best beside guessing and what epsilon allows, and all figures."""
    cases, lines = plain["cases"], list[str]()
    several = len(cases) > 1
    for case in cases:
        left_out = "; ".join(f"{name} ({why})" for name, why in case["left_out"].items())
        told = [*case["details"], *([f"left out: {left_out}"] if left_out else [])]
        lines += [f"{case['label']}: {line}" if several else line for line in told]
    every = [(case["label"], each) for case in cases for each in case["measured"]]
    summary = Table(
        title="What each adversary does best",
        columns=("setting", *_COLUMNS)[not several :],
        rows=tuple((label, each["attacker"], *each["texts"])[not several :] for label, each in every if each["main"]),
        words=3 if several else 2,
    )
    figures = Table(
        title="All figures",
        columns=("setting", "attack", *_COLUMNS[1:]),
        rows=tuple((label, each["attack"], *each["texts"]) for label, each in every),
    )
    return Page.of_result(
        kind="attack",
        title=f"What adversaries learn of {scenario.title}",
        verdict="" if several else plain["verdict"],
        notices=(sentence(simulated(plain["seed"])),),
        asked=(("settings", ", ".join(case["label"] for case in cases)),),
        results=tuple((case["label"], case["verdict"]) for case in cases) if several else (),
        cards=tuple(Cards(title=case["label"], cards=_cards(case)) for case in cases),
        tables=(summary, Lines((*lines, _WORDS)), Folded(summary="Every attack", parts=(figures,))),
        command=("attack",),
    )


def _cards(case: dict[str, Any]) -> tuple[Card, ...]:
    """Return a card for each adversary: what is claimed, what was found, whom it can name at most."""
    scenario, claimed, cards = Scenario.from_json(case["scenario"]), case["claimed"], []
    for adversary, bound in case["naming_bound"].items():
        informed = case["informed"].get(adversary)
        extra = (
            ("epsilon per row", epsilon_text(case["claimed_per_row"][adversary])),
            *((("found, informed", informed["grade"]),) if informed else ()),
            ("found", (case.get(adversary) or {}).get("grade", "not attacked")),
            ("can name", f"a worker's sample, one of {case['held']:,}, with probability {100 * bound:.3g} % at most"),
        )
        about = {"delta": claimed["delta"], "adjacency": claimed["adjacency"], "extra": extra}
        cards.append(claimed_card(adversary, claimed[adversary], scenario, **about))
    return tuple(cards)


_COLOURS: Final = {
    "hidden": "#3f8a57",
    NOTHING_PROMISED: "#a08c00",
    TOO_FEW: "#6f6f6f",
    "leaks": "#d9771a",
    "exposed": "#c8452c",
    "": "#444444",
}
_GAP: Final = 2
_SHOWN: Final = (-0.04, 1.04)
# Who attacks, in the order of the columns, and how many samples of each are shown.
_PLACES: Final = {
    "server": ("the server, who knows the schedule", 10),
    "release": ("an adversary who sees only the mixtures", 5),
    "eavesdropper": ("an eavesdropper", 5),
    "everyone": ("everyone: each worker heard without noise", 5),
}
_OF_SUMS: Final = ("release", "eavesdropper")
_LETTERS_PER_PLACE: Final = 11
_HELD: Final = "what the workers hold"
_CLEAREST: Final = "samples in the clearest slots"


@dataclass(frozen=True, kw_only=True, eq=False)
class _Cell:
    """Samples in a row with a line of text below, in the colour of the grade.

    The samples are to be like ``truth``, which is drawn of data that are no images; both samples x inputs.
    """

    samples: Singles
    truth: Singles
    text: str
    grade: str = ""


# One line of the picture: a name, and the cells by column.
_Row = tuple[str, dict[str, _Cell]]


def draw_attack(result: AttackResult, folder: Path | None = None) -> Figure:
    """Draw the picture of an attack, into ``folder`` as ``attack.png`` and ``attack.svg``."""
    shapes = (getattr(each.findings, "image_shape", None) for case in result.cases for each in case.found.values())
    shape = next((shape for shape in shapes if shape is not None and not is_series(shape)), None)
    figure = _draw(_rows(result.cases), shape, _title(result.cases))
    if folder is not None:
        save_png_and_svg(figure, folder / "attack")
    return figure


def _title(cases: list[CaseResult]) -> str:
    scenario = cases[0].scenario
    workers, radio = scenario.workers, scenario.radio
    if len(cases) > 1:
        return f"What an adversary learns about {workers.count:,} workers"
    sent_in = f"{radio.scheduled:,} at a time in {scenario.slots_in_words}"
    return f"{scenario.title}: {plural(workers.count, 'worker')}, {sent_in}"


def _rows(cases: list[CaseResult]) -> list[_Row]:
    """Return the originals, then what each adversary recovers of each setting; the server by its best method.

    Listeners show samples that differ from setting to setting: only those of a single one have originals.
    """
    rows: list[_Row] = []
    originals: dict[str, _Cell] = {}
    for case in cases:
        shown: dict[str, Found] = {name: case.found[name] for name in LISTENERS if name in case.found}
        if case.server is not None:
            shown["server"] = case.server.best
        rows.append((case.label, {name: _cell(case, found) for name, found in shown.items()}))
        for name, found in shown.items():
            truth = found.arrays["originals"]
            if name == "server" or len(cases) == 1:
                text = _CLEAREST if name in _OF_SUMS else _HELD
                originals.setdefault(name, _Cell(samples=truth, truth=truth, text=text))
    return [("originals", originals), *rows] if originals else rows


def _cell(case: CaseResult, found: Found) -> _Cell:
    """Return examples of what was found, with the claimed epsilon and what was found in words."""
    group, claimed = case.group_of(found.attack), epsilon_text(case.claimed[found.adversary])
    figure, grade = group.telling(found.findings.measured()), group.grade
    sums = "class sums · " if found.attack in _OF_SUMS and case.scenario.workers.sends == "moments" else ""
    near = case.scenario.privacy.eavesdropper_distance_metres if found.attack == "eavesdropper" else 0.0
    method = f"{found.attack} " if found.findings.kind == "server" else ""
    told = f"{method}{figure.what}: {figure.text} (guessing {figure.like(figure.guessing)})"
    silent = f": {grade}" if grade in (NOTHING_PROMISED, TOO_FEW) else ""
    text = f"{f'{near:g} m · ' if near else ''}{sums}ε {claimed} · {told}{silent}"
    return _Cell(samples=found.arrays["examples"], truth=found.arrays["originals"], text=text, grade=grade)


def _draw(rows: list[_Row], image_shape: ImageShape, title: str) -> Figure:
    shown = [column for column in _PLACES if any(column in cells for _, cells in rows)] or ["server"]
    widths = [_PLACES[column][1] for column in shown]
    tall = 1.0 if image_shape is not None else 1.9
    dots = "" if image_shape is not None else "\na dot is one number: recovered (up) against true (right)"
    figure = new_figure(1.8 + 0.72 * sum(widths), 1.0 + tall * len(rows), title + dots)
    # Room between the adversaries, so that nobody takes their samples for one row.
    figure.set_layout_engine("constrained", wspace=0.09, w_pad=0.12, hspace=0.02)
    axes = figure.subplots(len(rows), len(shown), width_ratios=widths, squeeze=False)
    for column, name in enumerate(shown):
        head, places = _PLACES[name]
        axes[0][column].set_title(head, fontsize=10, fontweight="bold", pad=8)
        for axis, (_, cells) in zip(axes[:, column], rows, strict=True):
            axis.set_xticks([])
            axis.set_yticks([])
            axis.spines[:].set_visible(False)
            _draw_cell(axis, cells.get(name), places, image_shape)
    for axis, (label, _) in zip(axes[:, 0], rows, strict=True):
        axis.set_ylabel(label, rotation=0, ha="right", va="center", fontsize=9.5, labelpad=6)
    return figure


def _draw_cell(axis: Axes, cell: _Cell | None, places: int, image_shape: ImageShape) -> None:
    """Draw the samples; an empty cell takes the room of one, so that all lines stay level."""
    colour = _COLOURS[cell.grade if cell else ""]
    if cell:
        weight = "bold" if cell.grade else "normal"
        text = textwrap.fill(cell.text, _LETTERS_PER_PLACE * places)
        axis.set_xlabel(text, fontsize=7.5, color=colour, fontweight=weight, labelpad=3)
    if image_shape is not None:
        strip = _strip(cell.samples[:places] if cell else [], places, image_shape)
        axis.imshow(strip, cmap="gray_r", vmin=0.0, vmax=1.0, interpolation="nearest")
    elif cell:  # every number against what it is in truth: on the line is found, a cloud is hidden
        axis.plot([0.0, 1.0], [0.0, 1.0], color="#bbbbbb", linewidth=0.8, zorder=1)
        # A number beyond the picture is drawn at its edge, and no dot is cut in two.
        true, found = (np.clip(each[:places].ravel(), *_SHOWN) for each in (cell.truth, cell.samples))
        axis.scatter(true, found, s=9, color=colour, alpha=0.7, zorder=2, clip_on=False)
        axis.set(xlim=_SHOWN, ylim=_SHOWN)
        axis.spines[:].set_visible(True)
        axis.spines[:].set_color("#dddddd")


def _strip(samples: Iterable[Singles], places: int, shape: Shape) -> Singles:
    """Return the images side by side, with paper between them and where there are too few."""
    _, height, width = planes(shape)
    coloured = as_picture(np.zeros(math.prod(shape), dtype=np.float32), shape).shape[2:]
    paper = 1.0 if coloured else 0.0  # what is grey is drawn as ink
    strip = np.full((height, places * (width + _GAP) - _GAP, *coloured), paper, dtype=np.float32)
    for place, sample in enumerate(samples):
        left = place * (width + _GAP)
        strip[:, left : left + width] = as_picture(sample, shape)
    return strip
