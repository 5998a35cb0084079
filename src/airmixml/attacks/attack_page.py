"""An attack for its readers, from what its ``metrics.json`` holds, and its picture."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from airmixml.arrays import ImageShape, Shape, Singles, is_series, planes
from airmixml.messages import NOTHING_PROMISED, PROMISE_TOO_WEAK, epsilon_text, plural, sentence, simulated
from airmixml.output.cards import claimed_card
from airmixml.output.figures import as_picture, new_figure, save_png_and_svg
from airmixml.output.page import Card, Cards, Folded, Page
from airmixml.output.tables import Table
from airmixml.scenario import Scenario

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from airmixml.attacks.result import AttackResult, Group

_COLUMNS: Final = ("what it does", "success", "guessing", "allowed", "certain")
_WORDS: Final = (
    "server: knows the schedule; release: only the mixtures; eavesdropper: listens beside a worker; everyone: hears "
    "each worker without noise; informed: knows all other samples; detects: with the false alarms of guessing; "
    "–: epsilon does not limit it"
)


def attack_page(plain: dict[str, Any], scenario: Scenario) -> Page:
    """Return the verdict, what each adversary does best beside guessing and what epsilon allows, and all figures."""
    left_out = "; ".join(f"{name} ({why})" for name, why in plain["left_out"].items())
    lines = (*plain["details"], *((f"left out: {left_out}",) if left_out else ()), _WORDS)
    best = tuple((each["attacker"], *each["texts"]) for each in plain["measured"] if each["main"])
    every = tuple((each["attack"], *each["texts"]) for each in plain["measured"])
    summary = Table(title="What each adversary does best", columns=("attacker", *_COLUMNS), rows=best, words=2)
    figures = Table(columns=("attack", *_COLUMNS), rows=every)
    return Page.of_result(
        kind="attack",
        title=f"What adversaries learn of {scenario.title}",
        verdict=plain["verdict"],
        notices=(sentence(simulated(plain["seed"])),),
        cards=(Cards(title=scenario.title, cards=_cards(plain, scenario)),),
        tables=(summary, *lines, Folded(summary="All figures", parts=(figures,))),
        command=("attack", *(("--attacks", ",".join(plain["attacks"])) if "attacks" in plain else ())),
    )


def _cards(plain: dict[str, Any], scenario: Scenario) -> tuple[Card, ...]:
    claimed, cards = plain["claimed"], []
    for adversary, bound in plain["naming_bound"].items():
        informed = plain["informed"].get(adversary)
        extra = (
            ("epsilon per row", epsilon_text(plain["claimed_per_row"][adversary])),
            *((("found, informed", _in_words(informed["grade"], claimed[adversary])),) if informed else ()),
            ("found", _in_words((plain.get(adversary) or {}).get("grade", "not attacked"), claimed[adversary])),
            ("can name", f"a worker's sample, one of {plain['held']:,}, with probability {100 * bound:.3g} % at most"),
        )
        about = {"delta": claimed["delta"], "adjacency": claimed["adjacency"], "extra": extra}
        cards.append(claimed_card(adversary, claimed[adversary], scenario, **about))
    return tuple(cards)


def _in_words(grade: str, epsilon: float | None) -> str:
    """Return a grade, in the words of the verdict where an epsilon promises something, but too little."""
    return PROMISE_TOO_WEAK if grade == NOTHING_PROMISED and epsilon is not None else grade


_COLOURS: Final = {
    "hidden": "#3f8a57",
    NOTHING_PROMISED: "#a08c00",
    "leaks": "#d9771a",
    "exposed": "#c8452c",
}
_GAP: Final = 2
_SHOWN: Final = (-0.04, 1.04)
_HEADS: Final = {
    "server": "the server, who knows the schedule",
    "release": "an adversary who sees only the mixtures",
    "eavesdropper": "an eavesdropper",
    "everyone": "everyone: each worker heard without noise",
}
_OF_SUMS: Final = ("release", "eavesdropper")
_PLACES: Final = 10  # for samples, in half of the picture's width


def draw_attack(result: AttackResult, folder: Path | None = None) -> Figure:
    """Draw what each adversary recovered below what it looked for, and how often it succeeds.

    Into ``folder`` as ``attack.png`` and ``attack.svg``.
    """
    scenario, groups = result.scenario, result.groups
    sent_in = f"{scenario.radio.scheduled:,} at a time in {scenario.slots_in_words}"
    title = f"{scenario.title}: {plural(scenario.workers.count, 'worker')}, {sent_in}"
    shapes = (getattr(each.findings, "image_shape", None) for each in result.found.values())
    shape = next((shape for shape in shapes if shape is not None and not is_series(shape)), None)
    shown = [group for group in groups if "examples" in group.best.arrays]
    heights = [2.0 if shape is not None else 3.2] * -(-len(shown) // 2) + [0.7 + 0.32 * len(groups)]
    figure = new_figure(13.0, 0.6 + sum(heights), title)
    # Room between the adversaries, so that nobody takes their samples for one row.
    figure.set_layout_engine("constrained", wspace=0.09, w_pad=0.12, hspace=0.04)
    grid = figure.add_gridspec(len(heights), 4, height_ratios=heights)
    for place, group in enumerate(shown):
        left = 1 if place % 2 == 0 and group is shown[-1] else place % 2 * 2  # in the middle where it is alone
        _draw_samples(figure.add_subplot(grid[place // 2, left : left + 2]), result, group, shape)
    _draw_rates(figure.add_subplot(grid[-1, :]), result, groups)
    if folder is not None:
        save_png_and_svg(figure, folder / "attack")
    return figure


def _draw_samples(axis: Axes, result: AttackResult, group: Group, image_shape: ImageShape) -> None:
    """Draw originals above what the best attack of a group made of them; of other data numbers against true ones."""
    best, colour = group.best, _COLOURS[group.grade]
    samples, truth = (best.arrays[name][:_PLACES] for name in ("examples", "originals"))
    axis.set_title(_HEADS.get(group.attacker, group.attacker), fontsize=10, fontweight="bold")
    sums = "class sums, " if best.attack in _OF_SUMS and result.scenario.workers.sends == "moments" else ""
    above = "samples in the clearest slots" if best.attack in _OF_SUMS else "what workers hold"
    epsilon = result.claimed[best.adversary]
    text = f"{above}, {sums}{best.attack} · ε {epsilon_text(epsilon)}: {_in_words(group.grade, epsilon)}"
    axis.set_xlabel(text, fontsize=8.5, color=colour, fontweight="bold")
    axis.set(xticks=[], yticks=[])
    if image_shape is not None:
        axis.spines[:].set_visible(False)
        strips = np.concatenate([_strip(each, _PLACES, image_shape) for each in (truth, samples)])
        axis.imshow(strips, cmap="gray_r", vmin=0.0, vmax=1.0, interpolation="nearest")
        return
    # A dot is a number against what it is in truth: on the line is found, a cloud is hidden. Beyond it: at the edge.
    axis.plot([0.0, 1.0], [0.0, 1.0], color="#bbbbbb", linewidth=0.8, zorder=1)
    true, found = (np.clip(each.ravel(), *_SHOWN) for each in (truth, samples))
    axis.scatter(true, found, s=9, color=colour, alpha=0.7, zorder=2, clip_on=False)
    axis.set(xlim=_SHOWN, ylim=_SHOWN, ylabel="recovered over true")
    axis.spines[:].set_color("#dddddd")


def _draw_rates(axis: Axes, result: AttackResult, groups: list[Group]) -> None:
    for place, group in enumerate(groups):
        figure, limit = group.figure, result.limit(group.figure, group.adversary)
        # Above its bar: a name beside it would narrow the samples.
        axis.text(0.005, place - 0.24, f"{group.attacker} {figure.what}: {figure.text}", va="center", fontsize=8.5)
        axis.barh(place + 0.2, figure.rate, color=_COLOURS[group.grade], alpha=0.8, height=0.4)
        for rate, style in ((figure.guessing, "-"), (limit, ":")):
            if rate < 1.0:
                axis.plot([rate] * 2, [place - 0.05, place + 0.45], color="black", linewidth=1.5, linestyle=style)
    axis.set(xlim=(0.0, 1.0), ylim=(len(groups) - 0.5, -0.5), yticks=[])
    dots = any(line.get_linestyle() == ":" for line in axis.lines)
    axis.set_xlabel("success; line: guessing" + "; dots: what epsilon allows" * dots, fontsize=8.5)


def _strip(samples: Iterable[Singles], places: int, shape: Shape) -> Singles:
    """Return the images side by side, with paper below, between them and where there are too few."""
    _, height, width = planes(shape)
    coloured = as_picture(np.zeros(math.prod(shape), dtype=np.float32), shape).shape[2:]
    paper = 1.0 if coloured else 0.0  # what is grey is drawn as ink
    strip = np.full((height + _GAP, places * (width + _GAP) - _GAP, *coloured), paper, dtype=np.float32)
    for place, sample in enumerate(samples):
        left = place * (width + _GAP)
        strip[:height, left : left + width] = as_picture(sample, shape)
    return strip
