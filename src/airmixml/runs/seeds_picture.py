"""The picture of a run with several seeds: accuracy, learning curves and epsilon of all of them."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from airmixml.output.figures import BLUE, GREEN, ORANGE, chance_line, finish_axis, new_figure, save_figure
from airmixml.output.numbers import plural
from airmixml.runs.results import SeedsResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw_seeds(result: SeedsResult, folder: Path, path: Path | None = None) -> Figure:
    """Draw all seeds of a run; ``folder`` holds those of the seeds, whose learning curves are read."""
    curves = [read_curve(folder / f"seed-{run.seed}" / "learning_curve.csv") for run in result.runs]
    epochs = min(map(len, curves))
    own, accuracy = result.privacy[0], result.accuracy
    mean = f"final accuracy {100 * accuracy.final:.1f} ± {100 * accuracy.final_deviation:.1f} %"
    target = f"ε = {own.epsilon:.4g}, δ = {own.delta:g} ({own.accountant}, {own.adversary}, {own.adjacency})"
    title = f"{result.name}, {plural(len(result.runs), 'seed')}  ·  {mean}  ·  worst {target}"
    figure = new_figure(13 if epochs > 1 else 9.5, 4.4, title, size=11.5)
    first, *middle, last = figure.subplots(1, 3 if epochs > 1 else 2)
    _accuracies(first, result)
    for axis in middle:
        _curves(axis, [curve[:epochs] for curve in curves], result)
    _epsilons(last, result)
    if path is not None:
        save_figure(figure, path)
    return figure


def read_curve(path: Path) -> NDArray[np.float64]:
    """Return the accuracy after each epoch in per cent, as ``learning_curve.csv`` of a simulation has it; epochs."""
    with path.open(newline="") as lines:
        return 100.0 * np.array([float(row["test_accuracy"]) for row in csv.DictReader(lines)])


def _seeds(axis: Axes, result: SeedsResult) -> NDArray[np.int64]:
    seeds = np.array([run.seed for run in result.runs])
    axis.set(xlabel="seed", xlim=(seeds[0] - 0.6, seeds[-1] + 0.6))
    axis.locator_params(axis="x", integer=True, nbins=10)
    return seeds


def _accuracies(axis: Axes, result: SeedsResult) -> None:
    seeds, accuracy = _seeds(axis, result), result.accuracy
    mean, deviation = 100 * accuracy.final, 100 * accuracy.final_deviation
    axis.axhspan(max(mean - deviation, 0.0), min(mean + deviation, 100.0), color=BLUE, alpha=0.15, linewidth=0)
    axis.axhline(mean, color=BLUE, label=f"mean {mean:.1f} %, band ± {deviation:.1f}")
    axis.plot(seeds, [100 * run.accuracy.final for run in result.runs], "o", color=ORANGE, label="final epoch")
    if any(run.accuracy.best > run.accuracy.final for run in result.runs):
        best = [100 * run.accuracy.best for run in result.runs]
        axis.plot(seeds, best, "^", color=GREEN, label="best epoch, chosen on the test set", alpha=0.7)
    chance_line(axis, 100.0 / result.dataset.label_dim)
    axis.set(ylabel="accuracy on clean test set (%)", ylim=(0, 104))
    finish_axis(axis, "Accuracy of each seed", legend=8, loc="lower left")


def _curves(axis: Axes, curves: Sequence[NDArray[np.float64]], result: SeedsResult) -> None:
    epochs = np.arange(1, len(curves[0]) + 1)
    for curve in curves:
        axis.plot(epochs, curve, color=BLUE, alpha=0.35, linewidth=1)
    axis.plot(epochs, np.mean(curves, axis=0), color=BLUE, linewidth=2.2, label="mean of all seeds")
    chance_line(axis, 100.0 / result.dataset.label_dim)
    axis.set(xlabel="epoch", ylabel="accuracy on clean test set (%)", ylim=(0, 104))
    axis.locator_params(axis="x", integer=True)
    finish_axis(axis, "Learning curves", legend=8, loc="lower right")


def _epsilons(axis: Axes, result: SeedsResult) -> None:
    seeds, own = _seeds(axis, result), result.privacy[0]
    stated = [run.privacy[0].epsilon for run in result.runs]
    axis.plot(seeds, stated, "s", color=BLUE, label=f"{own.adversary} ({own.accountant})")
    worst = [run.ledger.worst_epsilon for run in result.runs]
    axis.plot(seeds, worst, "o", color=ORANGE, label="server, worst worker (gdp)", fillstyle="none", markersize=9)
    if own.target_epsilon is not None:
        axis.axhline(own.target_epsilon, color=GREEN, linestyle="--", label=f"target {own.target_epsilon:g}")
    axis.set(ylabel=f"ε at δ = {own.delta:g}", ylim=(0.0, 1.35 * max(*stated, *worst, own.target_epsilon or 0.0)))
    finish_axis(axis, "Privacy of each seed", legend=8, loc="upper left")
