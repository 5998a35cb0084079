"""Pictures of privacy: what each worker spent against the server, and what accountants certify."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from airmixml.output.figures import BLUE, GREEN, ORANGE, accountant_colour, finish_axis, new_figure, saved
from airmixml.privacy import PrivacyStatement
from airmixml.registries import ACCOUNTANTS, ADVERSARIES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw_ledger(epsilons: NDArray[np.float64], statements: list[PrivacyStatement], path: Path | None = None) -> Figure:
    """Draw what the server can learn of each worker, and what every accountant certifies against every adversary."""
    figure, own = new_figure(11, 4.2, _assumed(statements[0]), size=10), statements[0]
    ledger, certified = figure.subplots(1, 2)
    _certified(certified, statements)
    median, worst = float(np.median(epsilons)), float(epsilons.max())
    ledger.hist(epsilons, bins=40, range=(0.0, max(worst, 1e-6)), color=BLUE, alpha=0.75)  # ends at the worst worker
    ledger.axvline(median, color="0.3", label=f"median {median:.3g}")
    ledger.axvline(worst, color=ORANGE, label=f"worst {worst:.3g}")
    if own.adversary == "server" and own.target_epsilon is not None:
        ledger.axvline(own.target_epsilon, color=GREEN, linestyle="--", label=f"target {own.target_epsilon:g}")
    ledger.set(xlabel="ε of a worker against the server", ylabel="workers", title="Privacy ledger")
    ledger.set_xlim(0.0, 1.15 * max(worst, own.target_epsilon or 0.0, 1e-6))
    ledger.locator_params(axis="x", nbins=5)
    finish_axis(ledger, legend=8, loc="upper left")
    return saved(figure, path)


def draw_statements(statements: Sequence[PrivacyStatement], path: Path | None = None) -> Figure:
    """Draw what every accountant certifies against every adversary, for the neighbours of the first statement."""
    figure = new_figure(7, 4.2, _assumed(statements[0]), size=10)
    _certified(figure.subplots(), [each for each in statements if each.adjacency == statements[0].adjacency])
    return saved(figure, path)


def _assumed(statement: PrivacyStatement) -> str:
    return f"δ = {statement.delta:g}, {statement.adjacency} neighbours"


def _certified(certified: Axes, statements: list[PrivacyStatement]) -> None:
    from matplotlib.ticker import NullFormatter

    adversaries = [name for name in ADVERSARIES.names if any(each.adversary == name for each in statements)]
    for place, name in enumerate(ACCOUNTANTS.names):
        beside = 0.1 * (place - len(ACCOUNTANTS.names) // 2)  # so that equal epsilons do not hide each other
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
