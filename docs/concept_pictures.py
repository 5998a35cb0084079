"""Draw the pictures of docs/concepts.md again: python docs/concept_pictures.py

Numbers in them are computed by the package; nothing is measured.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch
from scipy.special import ndtr, ndtri
from sklearn.datasets import load_digits

from airmixml.output.figures import BLUE, GREEN, GREY, ORANGE, PURPLE
from airmixml.privacy import gaussian_epsilon
from airmixml.privacy.gaussian import bracket_root

IMAGES = Path(__file__).parent / "images"
DELTA = 0.01


def main() -> None:
    """Draw all of them."""
    for draw in (mixing, power, privacy, adversaries, air):
        save(draw(), f"concept-{draw.__name__}")


def save(figure: Figure, name: str) -> None:
    """Write one picture, with the same bytes each time."""
    with mpl.rc_context({"svg.fonttype": "path", "svg.hashsalt": name}):
        figure.savefig(IMAGES / f"{name}.svg", metadata={"Date": None}, facecolor="white")


def bare(axis: Axes) -> Axes:
    """Leave only what is drawn into an axis."""
    axis.set(xticks=[], yticks=[])
    for spine in axis.spines.values():
        spine.set_visible(False)
    return axis


def mixing() -> Figure:
    """Four workers, their shares, the sum on the air, noise, and the server."""
    figure, rng = Figure(figsize=(9, 3.1)), np.random.default_rng(3)
    images = load_digits().images[[10, 21, 13, 44]] / 16
    shares = np.array([0.40, 0.28, 0.20, 0.12])
    for place, (image, share) in enumerate(zip(images, shares, strict=True)):
        axis = bare(figure.add_axes((0.03, 0.79 - 0.22 * place, 0.08, 0.19)))
        axis.imshow(image, cmap="gray_r")
        figure.text(0.155, 0.885 - 0.22 * place, f"x {share:.2f}", va="center", fontsize=11, color=BLUE)
        arrow(figure, (0.225, 0.885 - 0.22 * place), (0.375, 0.5), BLUE, 1 + 5 * share)
    mixed = np.tensordot(shares, images, 1)
    for left, image, title in (
        (0.385, mixed, "the air adds up"),
        (0.595, mixed + 0.12 * rng.standard_normal(mixed.shape), "the server receives"),
    ):
        axis = bare(figure.add_axes((left, 0.25, 0.17, 0.5)))
        axis.imshow(image, cmap="gray_r")
        axis.set_title(title, fontsize=11)
    figure.text(0.573, 0.5, "+", fontsize=18, ha="center", va="center")
    figure.text(0.573, 0.15, "noise", fontsize=11, ha="center", color=ORANGE)
    figure.text(0.07, 0.01, "workers", fontsize=11, ha="center", va="bottom")
    arrow(figure, (0.775, 0.5), (0.845, 0.5), GREY, 2)
    figure.text(0.92, 0.5, "trains a model\non many such\nmixtures", fontsize=11, ha="center", va="center")
    return figure


def arrow(figure: Figure, start: tuple[float, float], end: tuple[float, float], colour: str, width: float) -> None:
    """Draw an arrow between two places of a figure."""
    style = "-|>,head_length=5,head_width=3"
    figure.add_artist(
        FancyArrowPatch(start, end, arrowstyle=style, color=colour, lw=width, transform=figure.transFigure)
    )


def power() -> Figure:
    """What the server receives with and without one worker, at two powers."""
    figure = Figure(figsize=(9, 2.7), layout="constrained")
    grid = np.linspace(-4, 8, 120)
    for axis, (mu, title) in zip(
        figure.subplots(1, 2, sharey=True), ((0.5, "little power: hidden"), (4.0, "much power: seen")), strict=True
    ):
        for shift, colour, label in ((0, GREY, "without the worker"), (mu, BLUE, "with the worker")):
            density = np.exp(-((grid - shift) ** 2) / 2) / np.sqrt(2 * np.pi)
            axis.fill_between(grid, density, color=colour, alpha=0.35, lw=0)
            axis.plot(grid, density, color=colour, label=label)
        epsilon = gaussian_epsilon(mu, DELTA)
        axis.set(yticks=[], xlabel="a received number, in units of the noise")
        axis.set_title(f"{title}\nmu = {mu:g}, epsilon = {epsilon:.2g} at delta = {DELTA}", fontsize=11)
        axis.spines[["left", "top", "right"]].set_visible(False)
        axis.set_ylim(0, 0.62)
        axis.legend(frameon=False, fontsize=9, loc="upper center", ncols=2)
    return figure


def privacy() -> Figure:
    """How well the best test can tell whether a worker took part, for a few epsilons."""
    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axis, alarms = figure.subplots(), np.linspace(0, 1, 200)[1:-1]
    for epsilon, colour in ((0.5, GREEN), (1.0, BLUE), (5.0, PURPLE), (26.7, ORANGE)):
        mu, _ = bracket_root(
            lambda mu, target=epsilon: gaussian_epsilon(mu, DELTA) - target, 1e-3, 20.0, tolerance=1e-9
        )
        axis.plot(alarms, 1 - ndtr(ndtri(1 - alarms) - mu), color=colour, label=f"epsilon {epsilon:g}")
    axis.plot([0, 1], [0, 1], ":", color=GREY, label="guessing")
    axis.set(xlabel="false alarms", ylabel="detected, if the worker took part", xlim=(0, 1), ylim=(0, 1.01))
    axis.set_title(f"The best test of one worker, delta = {DELTA}", fontsize=11)
    axis.legend(frameon=False, loc="lower right")
    return figure


def adversaries() -> Figure:
    """Where each adversary sits, and what it has."""
    figure, rng = Figure(figsize=(9, 4)), np.random.default_rng(8)
    axis = bare(figure.add_axes((0.01, 0.02, 0.46, 0.96)))
    places = rng.uniform(-250, 250, (70, 2))
    scheduled = places[np.argsort(np.arctan2(*places.T))[[4, 20, 38, 57]]]
    axis.scatter(*places.T, s=14, color=GREY, alpha=0.6)
    axis.scatter(*scheduled.T, s=36, color=BLUE, zorder=3)
    for place in scheduled:
        axis.plot(*np.column_stack([place, (0, 0)]), color=BLUE, lw=1, alpha=0.6)
    far = scheduled[np.hypot(*scheduled.T).argmax()]
    listener = far * (1 + 34 / np.hypot(*far))
    axis.scatter(0, 0, s=130, marker="^", color="black", zorder=4)
    axis.scatter(*listener, s=80, marker="v", color=ORANGE, zorder=4)
    axis.annotate("server", (0, 0), (12, -34), textcoords="data", fontsize=11)
    axis.annotate(
        "eavesdropper", listener, (listener[0] - 30, listener[1] - 38), textcoords="data", fontsize=11, color=ORANGE
    )
    axis.set(xlim=(-290, 340), ylim=(-280, 300), aspect="equal")
    lines = (
        ("release", BLUE, "gets the mixtures,\nand does not know who sent when"),
        ("server", "black", "has the mixtures, drew the schedule,\nknows ratios and channels"),
        ("eavesdropper", ORANGE, "has a receiver of its own,\nand hears who stands close"),
        ("everyone", PURPLE, "hears every worker separately\nand without noise"),
    )
    for number, (name, colour, text) in enumerate(lines):
        y = 0.88 - 0.24 * number
        figure.text(0.50, y, name, color=colour, fontsize=12, weight="bold", va="center")
        figure.text(0.655, y, text, fontsize=11, va="center")
    return figure


def air() -> Figure:
    """Three contributions as arrows in the complex plane: on the ideal air, and on another."""
    figure = Figure(figsize=(9, 2.7), layout="constrained")
    shares = np.array([0.4, 0.35, 0.25])
    gains = np.array([0.95 * np.exp(0.35j), 1.1 * np.exp(-0.55j), 0.8 * np.exp(0.8j)])
    for axis, turned, title in zip(
        figure.subplots(1, 2),
        (shares.astype(complex), shares * gains),
        ("ideal: amplitudes add up", "real: phases, clocks and amplitudes err"),
        strict=True,
    ):
        ends = np.concatenate([[0], np.cumsum(turned)])
        for start, end, colour, number in zip(ends[:-1], ends[1:], (BLUE, GREEN, PURPLE), (1, 2, 3), strict=True):
            look = {"arrowstyle": "-|>", "color": colour, "lw": 3}
            axis.annotate("", (end.real, end.imag), (start.real, start.imag), arrowprops=look)
            middle = (start + end) / 2
            axis.text(middle.real, middle.imag + 0.05, f"worker {number}", ha="center", color=colour, fontsize=10)
        axis.plot([0, ends[-1].real], [-0.14, -0.14], color="black", lw=2)
        axis.text(ends[-1].real / 2, -0.26, f"received: {ends[-1].real:.2f} of 1", ha="center", fontsize=10)
        bare(axis).set(xlim=(-0.05, 1.1), ylim=(-0.32, 0.36))
        axis.set_title(title, fontsize=11)
    return figure


if __name__ == "__main__":
    main()
