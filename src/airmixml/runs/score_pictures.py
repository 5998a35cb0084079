"""Pictures of scores and epsilons of all seeds, of all workers, and by accountant and adversary."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from airmixml.output.figures import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    accountant_colour,
    chance_line,
    finish_axis,
    new_figure,
    saved,
)
from airmixml.privacy import PrivacyStatement
from airmixml.reading import open_lines
from airmixml.registries import ACCOUNTANTS, ADVERSARIES
from airmixml.wording import epsilon_text, plural

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from airmixml.runs.results import SeedsResult

SCORE_NAMES: Final = {"r2": "R²", "labels_right": "labels right"}


def draw_seeds(result: SeedsResult, folder: Path, path: Path | None = None) -> Figure:
    """Draw all seeds of a run; ``folder`` holds those of the seeds, whose learning curves are read."""
    score, own = "r2" if "r2" in result.scores else next(iter(result.scores), "accuracy"), result.privacy[0]
    factor, name = (1.0, "R²") if score == "r2" else (100.0, f"{SCORE_NAMES.get(score, score)} (%)")
    final = factor * np.array(
        [run.scores[score] if run.accuracy is None else run.accuracy.final for run in result.runs]
    )
    files = (folder / f"seed-{run.seed}" / "learning_curve.csv" for run in result.runs)
    curves = [factor * read_curve(file, score) for file in files]
    epochs = min(map(len, curves))
    first, step = (1, "epoch") if result.rounds is None else (0, "round")
    spread = f"{final.mean():.{1 if factor > 1.0 else 3}f} ± {final.std(ddof=1):.{1 if factor > 1.0 else 3}f}"
    target = f"ε = {epsilon_text(own.epsilon)}, δ = {own.delta:g} ({own.accountant}, {own.adversary}, {own.adjacency})"
    title = f"{result.name}, {plural(len(result.runs), 'seed')}  ·  {name} {spread}  ·  worst {target}"
    figure = new_figure(11 if epochs > 1 else 8, 4.4, title, size=11.5)
    scores, *learning = figure.subplots(1, 2 if epochs > 1 else 1, squeeze=False)[0]
    seeds = [run.seed for run in result.runs]
    low, high = final.mean() - final.std(ddof=1), min(final.mean() + final.std(ddof=1), factor)
    scores.axhspan(low, high, color=BLUE, alpha=0.15, linewidth=0)
    scores.axhline(final.mean(), color=BLUE, label=f"mean and deviation {spread}")
    scores.plot(seeds, final, "o", color=ORANGE, label="final")
    best = [factor * run.accuracy.best for run in result.runs if run.accuracy is not None]
    if best and best != final.tolist():
        scores.plot(seeds, best, "^", color=GREEN, label=f"best {step}, chosen on the test set", alpha=0.7)
    for axis in learning:
        steps = np.arange(first, first + epochs)
        for curve in curves:
            axis.plot(steps, curve[:epochs], color=BLUE, alpha=0.35, linewidth=1)
        mean = np.mean([curve[:epochs] for curve in curves], axis=0)
        axis.plot(steps, mean, color=BLUE, linewidth=2.2, label="mean of all seeds")
        axis.set(xlabel=step)
        axis.locator_params(axis="x", integer=True)
    for axis, heading in zip((scores, *learning), ("Score of each seed", "Learning curves"), strict=False):
        if best:
            chance_line(axis, 100.0 / result.dataset.label_dim)
        elif score == "r2":
            axis.axhline(0.0, color=GREY, linestyle="--", linewidth=1, label="always the mean")
        axis.set(ylabel=f"{name} on clean test set", ylim=(1.1 * min(0.0, *final), 1.04 * factor))
        finish_axis(axis, heading, legend=8, loc="lower left" if axis is scores else "lower right")
    scores.set(xlabel="seed", xlim=(seeds[0] - 0.6, seeds[-1] + 0.6))
    scores.locator_params(axis="x", integer=True, nbins=10)
    return saved(figure, path)


def read_curve(path: Path, score: str = "accuracy") -> NDArray[np.float64]:
    """Return the score after each epoch, as ``learning_curve.csv`` of a simulation has it; epochs."""
    with open_lines(path) as lines:
        return np.array([float(row[f"test_{score}"]) for row in csv.DictReader(lines)])


def draw_statements(statements: Sequence[PrivacyStatement], path: Path | None = None) -> Figure:
    """Draw what every accountant certifies against every adversary, for the neighbours of the first statement."""
    from matplotlib.ticker import NullFormatter

    own = statements[0]
    figure = new_figure(7, 4.2, f"δ = {own.delta:g}, {own.adjacency} neighbours", size=10)
    certified, statements = figure.subplots(), [each for each in statements if each.adjacency == own.adjacency]
    found = {each.adversary for each in statements}
    adversaries = [*filter(found.__contains__, ADVERSARIES.names), *sorted(found - set(ADVERSARIES.names))]
    accountants = [*dict.fromkeys((*ACCOUNTANTS.names, *(each.accountant for each in statements)))]
    for place, name in enumerate(accountants):
        beside = 0.1 * (place - len(accountants) // 2)  # so that equal epsilons do not hide each other
        stated = [each for each in statements if each.accountant == name]
        rows = [adversaries.index(each.adversary) - beside for each in stated]
        values = [max(each.epsilon, 1e-6) for each in stated]
        certified.plot(values, rows, "o", color=accountant_colour(name), alpha=0.8, label=name)
    certified.set(xscale="log", xlabel="ε (log)", title="What accountants certify", ylim=(-0.5, len(adversaries) - 0.5))
    certified.set_yticks(range(len(adversaries)), adversaries)
    certified.margins(x=0.1)
    certified.xaxis.set_major_formatter("{x:g}")  # formulas take a quarter of a second
    certified.xaxis.set_minor_formatter(NullFormatter())
    low, high = certified.get_xlim()
    if high < 20.0 * low:  # else the axis might show no number at all
        certified.set_xlim(low / 3.0, 3.0 * high)
    finish_axis(certified, legend=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return saved(figure, path)
