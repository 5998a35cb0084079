"""The picture of ``airmix demo``: what was sent and received, how well it was learned, who learns how much."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from airmixml.output.figures import BLUE, GREEN, ORANGE, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from airmixml.cli.demo_runs import Side

_COLOURS = (ORANGE, GREEN)
_SLOTS_SHOWN = 4


def draw_demo(sides: tuple[Side, Side], path: Path) -> None:
    """Draw both experiments side by side into ``path``."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 7.2), layout="constrained")
    privacy = sides[0].scenario.privacy
    figure.suptitle(
        f"Iris, {sides[0].scenario.workers.count:,} workers: the paper's way and the private way, "
        f"both for ε = {privacy.epsilon:g}, δ = {privacy.delta:g}",
        fontsize=13,
    )
    (first, second), (accuracy, epsilon) = figure.subplots(2, 2)
    for axis, side in ((first, sides[0]), (second, sides[1])):
        _draw_symbols(axis, side)
    _draw_accuracy(accuracy, sides)
    _draw_epsilons(epsilon, sides)
    save_figure(figure, path)


def _draw_symbols(axis: Axes, side: Side) -> None:
    """Draw the first slots, symbol by symbol, as sent and as received."""
    examples, radio = side.mixtures.examples, side.scenario.radio
    slots = min(_SLOTS_SHOWN, examples.slots)
    sent, received = (
        np.hstack([inputs[:slots].cpu().numpy(), labels[:slots].cpu().numpy()])
        for inputs, labels in ((examples.clean_inputs, examples.clean_labels), (examples.inputs, examples.labels))
    )
    symbols = sent.shape[1]
    places = np.arange(sent.size)
    axis.vlines(places, sent.ravel(), received.ravel(), color="0.8", linewidth=1.5)
    axis.plot(places, sent.ravel(), "o", color=BLUE, label="sum as sent")
    axis.plot(places, received.ravel(), "x", color=ORANGE, markeredgewidth=2, label="as received, with noise")
    for slot in range(1, slots):
        axis.axvline(slot * symbols - 0.5, color="0.6", linewidth=0.8, linestyle=":")
    shown = f"first {slots} of {radio.slots:,} slots" if radio.slots > 1 else "the only slot"
    axis.set(
        title=f"{side.scenario.name}: {radio.scheduled:,} workers in each slot",
        xlabel=f"{symbols} symbols per slot, {shown}",
        ylabel="value of the symbol",
        xticks=[],
    )
    axis.legend(fontsize=8)


def _draw_accuracy(axis: Axes, sides: tuple[Side, Side]) -> None:
    names = []
    for place, (side, colour) in enumerate(zip(sides, _COLOURS, strict=True)):
        percent = 100 * np.asarray(side.final)
        axis.bar(place, percent.mean(), color=colour, alpha=0.5, width=0.6)
        axis.errorbar(place, percent.mean(), percent.std(ddof=1), color="0.2", capsize=6)
        axis.plot(np.full(len(percent), place) + np.linspace(-0.12, 0.12, len(percent)), percent, ".", color="0.2")
        names.append(f"{side.scenario.name}\n{percent.mean():.1f} ± {percent.std(ddof=1):.1f} %")
    axis.axhline(100 / 3, color="0.5", linestyle="--", linewidth=1)
    axis.annotate("guessing", (0.5, 100 / 3), ha="center", va="bottom", fontsize=8, color="0.4")
    axis.set(title=f"Accuracy on clean flowers, {len(sides[0].final)} seeds", ylabel="%", ylim=(0, 102))
    axis.set_xticks(range(len(sides)), names)


def _draw_epsilons(axis: Axes, sides: tuple[Side, Side]) -> None:
    adversaries = {
        "release": "readers of the mixtures,\nwho do not know the schedule",
        "server": "the server,\nwhich knows the schedule",
        "eavesdropper": "an eavesdropper\nbeside a worker",
    }
    for number, (side, colour) in enumerate(zip(sides, _COLOURS, strict=True)):
        places = np.arange(len(adversaries)) + 0.38 * (number - 0.5)
        values = [side.epsilon(adversary) for adversary in adversaries]
        bars = axis.bar(places, values, width=0.36, color=colour, label=side.scenario.name)
        axis.bar_label(bars, [f"{value:.3g}" for value in values], fontsize=8)
    target = sides[0].scenario.privacy.epsilon
    axis.axhline(target, color="0.3", linestyle="--", linewidth=1, label=f"target {target:g}")
    axis.set(title="Who may learn how much: ε of the worst worker", ylabel="ε (log scale)", yscale="log")
    axis.set_ylim(0.5, 10 * max(side.epsilon("eavesdropper") for side in sides))
    axis.set_xticks(range(len(adversaries)), list(adversaries.values()), fontsize=8)
    axis.legend(fontsize=8)
