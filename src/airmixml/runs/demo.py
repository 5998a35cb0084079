"""The demonstration: the paper's Iris experiment beside a private one on the same data, at the same target.

The run folders get no figures, which would take longer than everything else: one picture shows both.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from airmixml.output.commands import changed_keys, flat
from airmixml.output.figures import GREEN, ORANGE, chance_line, new_figure, saved
from airmixml.progress import Progress
from airmixml.runs.run_page import row_epsilons
from airmixml.scenario import Scenario

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from airmixml.radio import Mixtures
    from airmixml.storage.run_folder import Finish

_COLOURS: Final = (ORANGE, GREEN)
_SLOTS_SHOWN: Final = 4
_ADVERSARIES: Final = {
    "release": "readers of the mixtures,\nwho do not know the schedule",
    "server": "the server,\nwhich knows the schedule",
    "eavesdropper": "an eavesdropper\nbeside a worker",
}


@dataclass(frozen=True, kw_only=True)
class Side:
    """One of the two experiments.

    Attributes:
        scenario: what was run.
        metrics: those of the run folder, which holds the first seed.
        final: accuracy of each seed after the last epoch, as fractions.
        best: accuracy of the best epoch of each seed; empty where the learner has no epochs.
        mixtures: what the server received with the first seed.
    """

    scenario: Scenario
    metrics: dict[str, Any]
    final: list[float]
    best: list[float]
    mixtures: Mixtures

    @property
    def smallest_epsilons(self) -> dict[str, float]:
        """For each adversary the smallest epsilon that any accountant certifies against it, for the worst worker."""
        stated = [each for each in self.metrics["privacy"] if each["adjacency"] == self.scenario.privacy.adjacency]
        return {
            adversary: min(float(each["epsilon"]) for each in stated if each["adversary"] == adversary)
            for adversary in _ADVERSARIES
        }

    @property
    def flower_epsilons(self) -> dict[str, float]:
        """For each adversary the smallest epsilon that is certified for a flower, which many workers hold."""
        found = row_epsilons(self.metrics)
        return {adversary: found[adversary] for adversary in _ADVERSARIES}

    def to_dict(self) -> dict[str, Any]:
        """Return the run's metrics, the accuracies of all seeds and the smallest epsilons, for JSON."""
        seeds = {"final_accuracies": self.final, "best_accuracies": self.best}
        epsilons = {"smallest_epsilons": self.smallest_epsilons, "flower_epsilons": self.flower_epsilons}
        return {**self.metrics, **seeds, **epsilons}


def run_both(seeds: int, epochs: int, progress: Progress, finish: Finish | None = None) -> tuple[Side, Side]:
    """Run the paper's Iris experiment and the private one at the same target; write a run folder for seed 0 of each.

    ``finish`` is that of ``run``, for each of the folders.
    """
    paper = Scenario.preset("paper-iris").with_overrides(f"learner.epochs={epochs}")
    target = (f"privacy.{key}={getattr(paper.privacy, key)}" for key in ("epsilon", "delta", "adjacency"))
    private = Scenario.preset("private-iris").with_overrides(*target)
    from airmixml.edge import simulate, train, train_seeds
    from airmixml.runs import run

    metrics, private_metrics = (
        run(each, pictures=False, progress=progress, finish=finish).to_dict() for each in (paper, private)
    )
    histories = train_seeds([simulate(paper.with_seed(seed)) for seed in range(seeds)])
    final, best = ([getattr(each, name) for each in histories] for name in ("final_accuracy", "best_accuracy"))
    private_final = [train(simulate(private.with_seed(seed))).history.final_accuracy for seed in range(seeds)]
    return (
        Side(scenario=paper, metrics=metrics, final=final, best=best, mixtures=simulate(paper)),
        Side(scenario=private, metrics=private_metrics, final=private_final, best=[], mixtures=simulate(private)),
    )


def percent(accuracies: list[float]) -> str:
    """Return mean and standard deviation of accuracies, given as fractions, in percent."""
    return f"{100 * statistics.fmean(accuracies):.1f} ± {100 * statistics.stdev(accuracies):.1f} %"


def changes_of(side: Side) -> list[str]:
    """Return what the demonstration changed in the preset, such as "learner.epochs = 50 (preset: 500)"."""
    preset = Scenario.preset(side.scenario.name)
    was = flat(preset)
    return [f"{key} = {value} (preset: {was[key]})" for key, value in changed_keys(preset, side.scenario).items()]


def draw_demo(sides: tuple[Side, Side], path: Path | None = None) -> Figure:
    """Draw what was sent and received, how well it was learned, who learns how much, and what was changed."""
    privacy, workers = sides[0].scenario.privacy, sides[0].scenario.workers
    title = f"Iris, {workers.count:,} workers: the paper's way and the private way, both for ε = {privacy.epsilon:g}"
    figure = new_figure(12, 7.6, f"{title}, δ = {privacy.delta:g} ({privacy.adjacency})", size=13)
    (*symbols, accuracy, epsilon) = figure.subplots(2, 2).flat
    for axis, side in zip(symbols, sides, strict=True):
        _draw_first_slots(axis, side)
    _draw_accuracy(accuracy, sides)
    _draw_epsilons(epsilon, sides)
    changed = (f"{side.scenario.name}: {', '.join(changes_of(side)) or 'as the preset'}" for side in sides)
    figure.supxlabel("Changed here. " + ";  ".join(changed), fontsize=9, color="0.3")
    return saved(figure, path)


def _draw_first_slots(axis: Axes, side: Side) -> None:
    """Draw the first slots, symbol by symbol, as sent and as received."""
    from airmixml.runs.pictures import draw_symbols, sent_and_received

    radio = side.scenario.radio
    sent, received = (values[:_SLOTS_SHOWN] for values in sent_and_received(side.mixtures.examples))
    slots, symbols = sent.shape
    draw_symbols(axis, sent.ravel(), received.ravel(), "sum as sent", "as received, with noise")
    for slot in range(1, slots):
        axis.axvline(slot * symbols - 0.5, color="0.6", linewidth=0.8, linestyle=":")
    shown = f"first {slots} of {radio.slots:,} slots" if radio.slots > 1 else "the only slot"
    axis.set(title=f"{side.scenario.name}: {radio.scheduled:,} workers in each slot", ylabel="value of the symbol")
    axis.set(xlabel=f"{symbols} symbols per slot, {shown}", xticks=[])
    axis.margins(y=0.15)
    axis.legend(fontsize=8, loc="upper left", ncols=2)


def _draw_accuracy(axis: Axes, sides: tuple[Side, Side]) -> None:
    names = []
    for place, (side, colour) in enumerate(zip(sides, _COLOURS, strict=True)):
        values = 100 * np.asarray(side.final)
        axis.bar(place, values.mean(), color=colour, alpha=0.5, width=0.6)
        axis.errorbar(place, values.mean(), values.std(ddof=1), color="0.2", capsize=6)
        axis.plot(place + np.linspace(-0.12, 0.12, len(values)), values, ".", color="0.2")
        names.append(f"{side.scenario.name}\n{percent(side.final)}")
    chance_line(axis, 100 / 3)
    axis.legend(fontsize=8, loc="upper left")
    axis.set(title=f"Accuracy on clean flowers, {len(sides[0].final)} seeds", ylabel="%", ylim=(0, 102))
    axis.set_xticks(range(len(sides)), names)


def _draw_epsilons(axis: Axes, sides: tuple[Side, Side]) -> None:
    """Draw the epsilons of a worker as bars, and above each that of a flower as a line."""
    for number, (side, colour) in enumerate(zip(sides, _COLOURS, strict=True)):
        places = np.arange(len(_ADVERSARIES)) + 0.38 * (number - 0.5)
        values, flowers = list(side.smallest_epsilons.values()), list(side.flower_epsilons.values())
        bars = axis.bar(places, values, width=0.36, color=colour, label=side.scenario.name)
        axis.bar_label(bars, [f"{value:.3g}" for value in values], fontsize=8)
        label = f"a flower, on up to {side.metrics['row_copies']} workers" if number else ""
        axis.hlines(flowers, places - 0.18, places + 0.18, color="0.2", linewidth=2, label=label)
        for place, value in zip(places, flowers, strict=True):
            axis.annotate(f"{value:.3g}", (place, value), (0, 2), textcoords="offset points", ha="center", fontsize=8)
    target = sides[0].scenario.privacy.epsilon
    axis.axhline(target, color="0.3", linestyle="--", linewidth=1, label=f"target {target:g}")
    axis.set(title="Who may learn how much: ε of the worst worker and flower", ylabel="ε (log scale)", yscale="log")
    axis.minorticks_off()  # dozens of them, which take a quarter of a second to draw
    axis.set_ylim(0.5, 1e3 * max(side.flower_epsilons["eavesdropper"] for side in sides))
    axis.set_xticks(range(len(_ADVERSARIES)), list(_ADVERSARIES.values()), fontsize=8)
    axis.legend(fontsize=8, loc="upper left", ncols=2)
