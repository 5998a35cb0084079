"""The pictures of an account (epsilon against slots) and of a plan (signal, energy, learning noise)."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from airmixml.output.figures import BLUE, GREEN, ORANGE, accountant_colour, finish_axis, new_figure, saved
from airmixml.wording import plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from airmixml.planning.account import Account
    from airmixml.planning.design_search import DesignSearch, TriedDesign
    from airmixml.planning.planned import Plan
    from airmixml.planning.recommend import Recommendation
    from airmixml.planning.slot_designs import Option
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


def frontier(options: tuple[Option, ...]) -> list[Option]:
    """Return the options that no other one beats in both energy and SNR, the cheapest first."""
    kept: list[Option] = []
    for option in sorted(options, key=lambda each: (each.energy_joules, -each.snr_inputs_db)):
        if not kept or option.snr_inputs_db > kept[-1].snr_inputs_db:
            kept.append(option)
    return kept


def draw_plan(plan: Plan, scenario: Scenario, path: Path | None = None) -> Figure:
    """Draw designs at the same privacy: signal and energy, and accuracy or, where that is not known, learning noise."""
    privacy, found = scenario.privacy, plan.recommended
    panels = [partial(_energy, plan=plan, scenario=scenario)] if plan.options else []
    if found is not None and found.rehearsal is not None:
        panels.append(partial(_accuracy, rehearsal=found.rehearsal))
    elif found is not None:
        panels.append(partial(_learning_noise, found=found))
    target = f"ε = {privacy.epsilon:g}, δ = {privacy.delta:g} ({privacy.accountant}, {privacy.adversary})"
    figure = new_figure(7 * len(panels), 5, f"{plan.title}: designs with {target}")
    for axis, draw in zip(figure.subplots(1, len(panels), squeeze=False).flat, panels, strict=True):
        draw(axis)
    return saved(figure, path)


def _energy(axis: Axes, plan: Plan, scenario: Scenario) -> None:
    lengths = sorted({option.slots for option in plan.options})
    for slots, marker in zip(lengths, "v.^", strict=False):
        these = [option for option in plan.options if option.slots == slots]
        alphas, label = np.log10([option.alpha for option in these]), plural(slots, "slot")
        dots = axis.scatter(*_places(these), c=alphas, s=22, marker=marker, cmap="viridis", alpha=0.8, label=label)
    axis.figure.colorbar(dots, ax=axis, label="log10 alpha")
    axis.plot(*_places(frontier(plan.options)), color=ORANGE, label="frontier")
    own = [option for option in plan.options if _is_own(option, scenario)]
    axis.plot(*_places(own), **{**_MARKS["recommended"], "label": "this scenario"})
    axis.set(xscale="log", xlabel="energy of all workers (J)", ylabel="SNR of the inputs per slot (dB)")
    finish_axis(axis, "Signal and energy at the same privacy", size=12, legend=8)


def _places(options: list[Option]) -> tuple[list[float], list[float]]:
    return [option.energy_joules for option in options], [option.snr_inputs_db for option in options]


def _is_own(option: Option, scenario: Scenario) -> bool:
    if scenario.mixing.policy != "dirmix" or scenario.mixing.prior:
        return False
    own = (scenario.mixing.alpha, scenario.radio.scheduled, scenario.radio.slots)
    return (option.alpha, option.scheduled, option.slots) == own


def _learning_noise(axis: Axes, found: Recommendation) -> None:
    """Draw what was tried, and mark the scenario and what is recommended."""
    for sends, colour in (("samples", BLUE), ("moments", GREEN)):
        some = {each: noise for each, noise in found.tried.items() if each.sends == sends}
        if some:
            decibels = 10.0 * np.log10(list(some.values()))
            axis.plot([each.scheduled for each in some], decibels, ".", color=colour, label=sends)
    for option, name in ((found.own, "this scenario"), (found.best, "recommended")):
        if math.isfinite(option.learning_noise_db):  # else no signal at all: it has no place in the picture
            axis.plot(option.sending.scheduled, option.learning_noise_db, **_MARKS[name])
    axis.set(xscale="log", xlabel="workers per slot", ylabel="learning noise (dB)")
    finish_axis(axis, "Noise in the learner's moments, by |N_t|", size=12, legend=8)


def _accuracy(axis: Axes, rehearsal: DesignSearch) -> None:
    """Draw accuracy against uplink symbols: one slot, or rounds after it, with the best of the rest."""
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
