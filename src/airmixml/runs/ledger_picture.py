"""The picture of a run's privacy: what each worker has spent, and what every accountant certifies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from airmixml.doors import ACCOUNTANTS, ADVERSARIES
from airmixml.output.figures import BLUE, GREEN, ORANGE, accountant_colour, save_figure
from airmixml.privacy import PrivacyStatement

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_ledger(epsilons: NDArray[np.float64], statements: list[PrivacyStatement], path: Path) -> None:
    """Draw what the server can learn of each worker, and what every accountant says against every adversary."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    own = statements[0]
    _workers(left, epsilons, own.target_epsilon if own.adversary == "server" else None)
    _statements(right, statements)
    save_figure(figure, path)


def _workers(axis: Axes, epsilons: NDArray[np.float64], target_epsilon: float | None) -> None:
    from matplotlib.ticker import MaxNLocator

    highest = max(float(epsilons.max()), 1e-6)  # the last bar ends at the worst worker, not beyond it
    axis.hist(epsilons, bins=40, range=(0.0, highest), color=BLUE, alpha=0.75)
    axis.axvline(float(np.median(epsilons)), color="0.3", label=f"median {np.median(epsilons):.3g}")
    axis.axvline(float(epsilons.max()), color=ORANGE, label=f"worst {epsilons.max():.3g}")
    if target_epsilon is not None:
        axis.axvline(target_epsilon, color=GREEN, linestyle="--", label=f"target {target_epsilon:g}")
    axis.set(xlabel="ε of a worker against the server", ylabel="workers", title="Privacy ledger")
    axis.xaxis.set_major_locator(MaxNLocator(5))
    axis.legend(fontsize=8)


def _statements(axis: Axes, statements: list[PrivacyStatement]) -> None:
    accountants, adversaries = ACCOUNTANTS.names, ADVERSARIES.names
    for statement in statements:
        # Side by side, so that equal figures do not hide each other.
        beside = 0.1 * (accountants.index(statement.accountant) - len(accountants) // 2)
        axis.plot(
            max(statement.epsilon, 1e-6),
            adversaries.index(statement.adversary) - beside,
            "o",
            color=accountant_colour(statement.accountant),
            alpha=0.8,
        )
    for name in accountants:
        axis.plot([], [], "o", color=accountant_colour(name), label=name)
    axis.set(xscale="log", xlabel="ε (log)", title="Who says what", yticks=range(len(adversaries)))
    axis.set_yticklabels(adversaries)
    axis.set_ylim(-0.5, len(adversaries) - 0.5)
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)
