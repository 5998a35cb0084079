"""The picture of an account: epsilon against the number of slots."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from airmixml.output.figures import accountant_colour, save_figure
from airmixml.planning.account import Account

_ADVERSARY_LINES: Final = {"release": "-", "server": "--", "eavesdropper": ":"}


def draw_account(account: Account, slots: list[int], curves: dict[tuple[str, str], list[float]], path: Path) -> None:
    """Draw epsilon against the number of slots for every accountant and adversary."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5.4), layout="constrained")
    axis = figure.subplots()
    for (adversary, accountant), epsilons in curves.items():
        axis.plot(
            slots,
            np.maximum(epsilons, 1e-6),
            _ADVERSARY_LINES.get(adversary, "-."),
            color=accountant_colour(accountant),
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
