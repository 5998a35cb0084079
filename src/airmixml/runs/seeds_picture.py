"""The picture of a run with several seeds: score, learning curves and epsilon of all of them."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from airmixml.output.figures import BLUE, GREEN, GREY, ORANGE, chance_line, finish_axis, new_figure, save_figure
from airmixml.output.numbers import plural
from airmixml.reading import open_lines
from airmixml.runs.results import SeedsResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class _Score:
    """What all seeds are judged by: the accuracy in per cent, or the leading score of another task.

    ``best`` is that of the best epoch, ``curve`` the name of the column in ``learning_curve.csv``, ``guessing`` what
    can be had without any data; nan where that is not known.
    """

    name: str
    curve: str
    factor: float
    final: list[float]
    best: list[float]
    guessing: float

    @classmethod
    def of(cls, result: SeedsResult) -> _Score:
        known = [run.accuracy for run in result.runs if run.accuracy is not None]
        if len(known) == len(result.runs):
            final, best = [100 * each.final for each in known], [100 * each.best for each in known]
            guessing = 100.0 / result.dataset.label_dim
            return cls(name="accuracy (%)", curve="accuracy", factor=100.0, final=final, best=best, guessing=guessing)
        leading = "r2" if "r2" in result.runs[0].scores else "labels_right"
        final = [run.scores[leading] for run in result.runs]
        name = "R²" if leading == "r2" else "share of labels right"
        guessing = 0.0 if leading == "r2" else math.nan
        return cls(name=name, curve=leading, factor=1.0, final=final, best=final, guessing=guessing)

    @property
    def mean(self) -> float:
        """Mean of the final scores."""
        return float(np.mean(self.final))

    @property
    def deviation(self) -> float:
        """Standard deviation of the final scores."""
        return float(np.std(self.final, ddof=1))

    def text(self) -> str:
        """Return mean and deviation."""
        digits = 1 if self.factor > 1.0 else 3
        return f"{self.mean:.{digits}f} ± {self.deviation:.{digits}f}"

    def finish(self, axis: Axes) -> None:
        """Give an axis of scores its limits and what guessing gives."""
        if self.factor > 1.0:
            chance_line(axis, self.guessing)
        elif not math.isnan(self.guessing):
            axis.axhline(self.guessing, color=GREY, linestyle="--", linewidth=1, label="always the mean")
        lowest = min(0.0, *self.final)
        axis.set(ylabel=f"{self.name} on clean test set", ylim=(1.1 * lowest, 1.04 * self.factor))


def draw_seeds(result: SeedsResult, folder: Path, path: Path | None = None) -> Figure:
    """Draw all seeds of a run; ``folder`` holds those of the seeds, whose learning curves are read."""
    score, own = _Score.of(result), result.privacy[0]
    files = (folder / f"seed-{run.seed}" / "learning_curve.csv" for run in result.runs)
    curves = [score.factor * read_curve(file, score.curve) for file in files]
    epochs = min(map(len, curves))
    target = f"ε = {own.epsilon:.4g}, δ = {own.delta:g} ({own.accountant}, {own.adversary}, {own.adjacency})"
    title = f"{result.name}, {plural(len(result.runs), 'seed')}  ·  {score.name} {score.text()}  ·  worst {target}"
    figure = new_figure(13 if epochs > 1 else 9.5, 4.4, title, size=11.5)
    first, *middle, last = figure.subplots(1, 3 if epochs > 1 else 2)
    _finals(first, result, score)
    for axis in middle:
        _curves(axis, [curve[:epochs] for curve in curves], score)
    _epsilons(last, result)
    if path is not None:
        save_figure(figure, path)
    return figure


def read_curve(path: Path, score: str = "accuracy") -> NDArray[np.float64]:
    """Return the score after each epoch, as ``learning_curve.csv`` of a simulation has it; epochs."""
    with open_lines(path) as lines:
        return np.array([float(row[f"test_{score}"]) for row in csv.DictReader(lines)])


def _seeds(axis: Axes, result: SeedsResult) -> NDArray[np.int64]:
    seeds = np.array([run.seed for run in result.runs])
    axis.set(xlabel="seed", xlim=(seeds[0] - 0.6, seeds[-1] + 0.6))
    axis.locator_params(axis="x", integer=True, nbins=10)
    return seeds


def _finals(axis: Axes, result: SeedsResult, score: _Score) -> None:
    seeds = _seeds(axis, result)
    low, high = score.mean - score.deviation, min(score.mean + score.deviation, score.factor)
    axis.axhspan(low, high, color=BLUE, alpha=0.15, linewidth=0)
    axis.axhline(score.mean, color=BLUE, label=f"mean and deviation {score.text()}")
    axis.plot(seeds, score.final, "o", color=ORANGE, label="final")
    if score.best != score.final:
        axis.plot(seeds, score.best, "^", color=GREEN, label="best epoch, chosen on the test set", alpha=0.7)
    score.finish(axis)
    finish_axis(axis, "Score of each seed", legend=8, loc="lower left")


def _curves(axis: Axes, curves: Sequence[NDArray[np.float64]], score: _Score) -> None:
    epochs = np.arange(1, len(curves[0]) + 1)
    for curve in curves:
        axis.plot(epochs, curve, color=BLUE, alpha=0.35, linewidth=1)
    axis.plot(epochs, np.mean(curves, axis=0), color=BLUE, linewidth=2.2, label="mean of all seeds")
    score.finish(axis)
    axis.set(xlabel="epoch")
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
