"""The pictures of an account (epsilon against slots) and of a plan (accuracy against symbols)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from airmixml.output.figures import ORANGE, accountant_colour, finish_axis, new_figure, saved

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from airmixml.planning.account import Account
    from airmixml.planning.design_search import TriedDesign
    from airmixml.planning.planned import Plan
    from airmixml.scenario import Scenario

_ADVERSARY_LINES: Final = {"release": "-", "server": "--", "eavesdropper": ":"}
_BESIDE: Final[dict[str, Any]] = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)}
_FEW_SLOTS: Final = 8
_MARK: Final[dict[str, Any]] = {"linestyle": "", "color": ORANGE, "markeredgecolor": "black"}
_MARKS: Final[dict[str, dict[str, Any]]] = {
    "this scenario": {**_MARK, "label": "this scenario", "marker": "o", "markersize": 9},
    "recommended": {**_MARK, "label": "recommended", "marker": "*", "markersize": 16},
}


def draw_account(
    account: Account, slots: list[int], curves: dict[tuple[str, str], list[float]], path: Path | None = None
) -> Figure:
    """Draw epsilon against the number of slots for every accountant and adversary."""
    design, figure = account.design, new_figure(9, 5.4)
    axis = figure.subplots()
    for (adversary, accountant), epsilons in curves.items():
        marker = "." if adversary == "release" or np.isfinite(epsilons).sum() == 1 else ""
        look: dict[str, Any] = {
            "color": accountant_colour(accountant),
            "marker": marker,
            "label": f"{adversary}: {accountant}",
        }
        axis.plot(slots, np.maximum(epsilons, 1e-6), _ADVERSARY_LINES.get(adversary, "-."), **look)
    label = f"slots, the last {account.rounds:,} of them rounds" if account.rounds else "slots"
    axis.set(xscale="log", yscale="log", xlabel=label, ylabel=f"ε at δ = {account.delta:g} (log)")
    title = f"{account.title}: {design.scheduled:,} of {design.workers:,} workers per slot, "
    title += f"noise multiplier {design.noise_multiplier(account.adjacency):.3g}, {account.adjacency}"
    if len(set(slots)) <= _FEW_SLOTS:
        axis.set_xticks(slots, [f"{count:,}" for count in slots])
        axis.set_xticks([], minor=True)
    finish_axis(axis, title, legend=8, **_BESIDE)
    return saved(figure, path)


def draw_plan(plan: Plan, scenario: Scenario, path: Path | None = None) -> Figure:
    """Draw accuracy against uplink symbols of the designs tried at the same privacy: one slot, or rounds after it."""
    assert plan.recommended is not None
    rehearsal, privacy = plan.recommended.rehearsal, scenario.privacy
    assert rehearsal is not None
    target = f"ε = {privacy.epsilon:g}, δ = {privacy.delta:g} ({privacy.accountant}, {privacy.adversary})"
    figure = new_figure(8, 5, f"{plan.title}: designs with {target}")
    axis = figure.subplots()
    lines: dict[str, dict[int, TriedDesign]] = {}
    for each in rehearsal.tried:  # the best first
        name = f"{each.design.encoder} {each.design.features or ''}".rstrip()
        lines.setdefault(name, {}).setdefault(each.design.rounds, each)
    for name, by_rounds in lines.items():
        some = [by_rounds[rounds] for rounds in sorted(by_rounds)]
        axis.plot([each.uplink_symbols for each in some], [100.0 * each.accuracy for each in some], ".-", label=name)
        for each in some[1:]:
            place = (each.uplink_symbols, 100.0 * each.accuracy)
            axis.annotate(f"R = {each.design.rounds}", place, (0, 5), textcoords="offset points", fontsize=7)
    for each, name in ((rehearsal.own, "this scenario"), (rehearsal.best, "recommended")):
        axis.plot(each.uplink_symbols, 100.0 * each.accuracy, **_MARKS[name])
    axis.set(xscale="log", xlabel="uplink symbols", ylabel=f"accuracy on {rehearsal.basis} (%)")
    finish_axis(axis, "One slot of moments, or R rounds after it", size=12, legend=8)
    return saved(figure, path)
