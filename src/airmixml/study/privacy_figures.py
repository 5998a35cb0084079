"""Pictures of privacy: epsilon against slots, and what each worker of a run has spent."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from airmixml.privacy import ADVERSARIES, PrivacyStatement
from airmixml.study.files import write_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from airmixml.study.account import Account

__all__ = ["draw_account", "draw_ledger", "save_figure"]

_COLOURS: Final = {
    "paper-loose": "#d1603d",
    "paper-tight": "#e0a030",
    "rdp": "#8a63a8",
    "pld": "#3b6ea8",
    "gdp": "#4a8f5d",
}
_LINES: Final = {"release": "-", "server": "--", "eavesdropper": ":"}


def save_figure(figure: Figure, path: Path) -> None:
    """Write the figure whole or not at all."""
    from matplotlib import rc_context

    content = io.BytesIO()
    kind = path.suffix.lstrip(".").lower() or "png"
    with rc_context({"svg.hashsalt": "airmixml"}):  # the same picture is the same file
        figure.savefig(content, format=kind, dpi=110, metadata={"Date": None} if kind == "svg" else None)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, content.getvalue())


def draw_account(account: Account, slots: list[int], curves: dict[tuple[str, str], list[float]], path: Path) -> None:
    """Draw epsilon against the number of slots for every accountant and adversary."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5.4), layout="constrained")
    axis = figure.subplots()
    for (adversary, accountant), epsilons in curves.items():
        axis.plot(
            slots,
            np.maximum(epsilons, 1e-6),
            _LINES[adversary],
            color=_COLOURS[accountant],
            marker="." if adversary == "release" else "",
            label=f"{adversary}: {accountant}",
        )
    axis.set(xscale="log", yscale="log", xlabel="slots", ylabel=f"ε at δ = {account.delta:g} (log)")
    name = account.name.replace("$", r"\$")  # not the beginning of a formula
    axis.set_title(
        f"{name}: {account.design.scheduled:,} of {account.design.workers:,} workers per slot, "
        f"noise multiplier {account.design.noise_multiplier(account.adjacency):.3g}, {account.adjacency}",
        fontsize=11,
    )
    axis.grid(alpha=0.3, which="both")
    axis.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    save_figure(figure, path)


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
    axis.hist(epsilons, bins=40, range=(0.0, highest), color=_COLOURS["pld"], alpha=0.75)
    axis.axvline(float(np.median(epsilons)), color="0.3", label=f"median {np.median(epsilons):.3g}")
    axis.axvline(float(epsilons.max()), color=_COLOURS["paper-loose"], label=f"worst {epsilons.max():.3g}")
    if target_epsilon is not None:
        axis.axvline(target_epsilon, color=_COLOURS["gdp"], linestyle="--", label=f"target {target_epsilon:g}")
    axis.set(xlabel="ε of a worker against the server", ylabel="workers", title="Privacy ledger")
    axis.xaxis.set_major_locator(MaxNLocator(5))
    axis.legend(fontsize=8)


def _statements(axis: Axes, statements: list[PrivacyStatement]) -> None:
    names = list(_COLOURS)
    for statement in statements:
        # Side by side, so that equal figures do not hide each other.
        beside = 0.1 * (names.index(statement.accountant) - 2)
        axis.plot(
            max(statement.epsilon, 1e-6),
            ADVERSARIES.index(statement.adversary) - beside,
            "o",
            color=_COLOURS[statement.accountant],
            alpha=0.8,
        )
    for name, colour in _COLOURS.items():
        axis.plot([], [], "o", color=colour, label=name)
    axis.set(xscale="log", xlabel="ε (log)", title="Who says what", yticks=range(len(ADVERSARIES)))
    axis.set_yticklabels(ADVERSARIES)
    axis.set_ylim(-0.5, len(ADVERSARIES) - 0.5)
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)
