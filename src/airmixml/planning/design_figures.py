"""The pictures of an account (epsilon against slots) and of a plan (signal, energy, learning noise)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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
    from airmixml.planning.recommend import LearningOption, Recommendation
    from airmixml.planning.slot_designs import Option
    from airmixml.scenario import Scenario

_ADVERSARY_LINES: Final = {"release": "-", "server": "--", "eavesdropper": ":"}
_BESIDE: Final[dict[str, Any]] = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)}
_FEW_SLOTS: Final = 8
_COLOURS: Final = {"samples": BLUE, "moments": GREEN}


def draw_account(
    account: Account, slots: list[int], curves: dict[tuple[str, str], list[float]], path: Path | None = None
) -> Figure:
    """Draw epsilon against the number of slots for every accountant and adversary."""
    design, figure = account.design, new_figure(9, 5.4)
    axis = figure.subplots()
    for (adversary, accountant), epsilons in curves.items():
        alone = np.isfinite(epsilons).sum() == 1
        line, marker = _ADVERSARY_LINES.get(adversary, "-."), "." if adversary == "release" or alone else ""
        label, colour = f"{adversary}: {accountant}", accountant_colour(accountant)
        axis.plot(slots, np.maximum(epsilons, 1e-6), line, color=colour, marker=marker, label=label)
    axis.set(xscale="log", yscale="log", xlabel=_slots_label(account), ylabel=f"ε at δ = {account.delta:g} (log)")
    title = f"{account.title}: {design.scheduled:,} of {design.workers:,} workers per slot, "
    title += f"noise multiplier {design.noise_multiplier(account.adjacency):.3g}, {account.adjacency}"
    if len(set(slots)) <= _FEW_SLOTS:
        axis.set_xticks(slots, [f"{count:,}" for count in slots])
        axis.set_xticks([], minor=True)
    finish_axis(axis, title, legend=8, **_BESIDE)
    return saved(figure, path)


def _slots_label(account: Account) -> str:
    return f"slots, the last {account.rounds:,} of them rounds" if account.rounds else "slots"


def frontier(options: tuple[Option, ...]) -> list[Option]:
    """Return the options that no other one beats in both energy and SNR, the cheapest first."""
    kept: list[Option] = []
    for option in sorted(options, key=lambda each: (each.energy_joules, -each.snr_inputs_db)):
        if not kept or option.snr_inputs_db > kept[-1].snr_inputs_db:
            kept.append(option)
    return kept


def draw_plan(plan: Plan, scenario: Scenario, path: Path | None = None) -> Figure:
    """Draw signal against energy with the frontier, and signal against alpha; then what is recommended, if it is."""
    rehearsal = None if plan.recommended is None else plan.recommended.rehearsal
    with_rounds = rehearsal is not None and any(each.design.rounds for each in rehearsal.tried)
    rows = bool(plan.options) + (plan.recommended is not None) + (rehearsal is not None) + with_rounds
    privacy = scenario.privacy
    target = f"ε = {privacy.epsilon:g}, δ = {privacy.delta:g} ({privacy.accountant}, {privacy.adversary})"
    figure = new_figure(13.5, 5 * rows, f"{plan.title}: designs with {target}")
    axes = figure.subplots(rows, 2, squeeze=False)
    if plan.options:
        _energy(axes[0, 0], plan, scenario)
        _dispersion(axes[0, 1], plan, scenario)
    if plan.recommended is not None:
        place = int(bool(plan.options))
        _by_scheduled(axes[place, 0], plan.recommended)
        _by_weight(axes[place, 1], plan.recommended)
        if rehearsal is not None:
            for axis, model in zip(axes[place + 1], ("ridge", "lda"), strict=True):
                _by_encoder(axis, rehearsal, model)
            if with_rounds:
                _by_rounds(axes[place + 2, 0], axes[place + 2, 1], rehearsal)
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
    axis.plot(*_places(own), "*", markersize=16, color=ORANGE, markeredgecolor="black", label="this scenario")
    axis.set(xscale="log", xlabel="energy of all workers (J)", ylabel="SNR of the inputs per slot (dB)")
    finish_axis(axis, "Signal and energy at the same privacy", size=12, legend=8)


def _places(options: list[Option]) -> tuple[list[float], list[float]]:
    return [option.energy_joules for option in options], [option.snr_inputs_db for option in options]


def _dispersion(axis: Axes, plan: Plan, scenario: Scenario) -> None:
    for size in sorted({option.scheduled for option in plan.options}):
        line = sorted(
            (option.alpha, option.snr_inputs_db, option.contrast_db)
            for option in plan.options
            if option.scheduled == size and option.slots == scenario.radio.slots
        )
        if not line:
            continue
        alphas, snr, contrast = zip(*line, strict=True)
        (drawn,) = axis.plot(alphas, snr, marker=".", label=f"{plural(size, 'worker')} per slot")
        axis.plot(alphas, contrast, color=drawn.get_color(), linestyle=":")
    axis.set(xscale="log", xlabel="alpha", ylabel="dB per slot, inputs")
    title = f"SNR (solid), contrast (dotted), {plural(scenario.radio.slots, 'slot')}"
    finish_axis(axis, title, size=12, legend=8, **_BESIDE)


def _is_own(option: Option, scenario: Scenario) -> bool:
    if scenario.mixing.policy != "dirmix" or scenario.mixing.prior:
        return False
    own = (scenario.mixing.alpha, scenario.radio.scheduled, scenario.radio.slots)
    return (option.alpha, option.scheduled, option.slots) == own


def _by_scheduled(axis: Axes, found: Recommendation) -> None:
    """Draw the best that each |N_t| gives, whatever the other choices, for samples and for moments."""
    best = found.by_scheduled
    lines = {f"best {sends}": [each for each in best if each.sending.sends == sends] for sends in _COLOURS}
    _learning_noise(axis, found, "scheduled", lines)
    axis.set(xscale="log", xlabel="workers per slot")
    finish_axis(axis, "Noise in the learner's moments, by |N_t|", size=12, legend=8)


def _by_weight(axis: Axes, found: Recommendation) -> None:
    """Draw what other label weights would make of the recommended design."""
    _learning_noise(axis, found, "label_weight", {"recommended design": found.by_weight})
    axis.set(xlabel="label weight w")
    finish_axis(axis, "Power for inputs against labels", size=12, legend=8)


def _encoder(tried: TriedDesign) -> str:
    return f"{tried.design.encoder} {tried.design.features}" if tried.design.features else tried.design.encoder


def _place(tried: TriedDesign) -> str:
    return f"{_encoder(tried)}, {tried.design.centre}, {tried.design.norm}"


def _by_encoder(axis: Axes, rehearsal: DesignSearch, model: str) -> None:
    """Draw what each encoder and centre gave on the synthetic tables, with that learner and the best of the rest."""
    best: dict[str, TriedDesign] = {}
    for each in rehearsal.tried:
        if each.design.model == model and not each.design.rounds:
            best.setdefault(_place(each), each)
    names = list(best)[::-1]
    marked = {
        _place(each): colour
        for each, colour in ((rehearsal.own, ORANGE), (rehearsal.best, GREEN))
        if each.design.model == model
    }
    colours = [marked.get(name, BLUE) for name in names]
    accuracies, errors = ([100.0 * getattr(best[name], key) for name in names] for key in ("accuracy", "error"))
    axis.barh(names, accuracies, xerr=errors, color=colours, ecolor="grey")
    axis.axvline(100.0 / rehearsal.classes, color="grey", linestyle=":", label="guessing")
    # Room above the bars for the legend, which would hide how exact the best one is.
    axis.set(xlabel=f"accuracy on {rehearsal.basis} (%)", xlim=(0, 100), ylim=(-0.6, len(names) + 0.2))
    finish_axis(axis, f"{model}, one slot: encoder, centre, norm (green: recommended)", size=12, legend=8)


def _by_rounds(by_symbols: Axes, by_rounds: Axes, rehearsal: DesignSearch) -> None:
    """Draw accuracy against uplink symbols, and against how often workers must be reachable: one slot, or rounds."""
    lines: dict[str, dict[int, TriedDesign]] = {}
    for each in rehearsal.tried:  # the best first
        lines.setdefault(_encoder(each), {}).setdefault(each.design.rounds, each)
    for name, found in lines.items():
        some = [found[rounds] for rounds in sorted(found)]
        accuracies, symbols = ([100.0 * each.accuracy for each in some], [each.uplink_symbols for each in some])
        (line,) = by_symbols.plot(symbols, accuracies, ".-", label=name)
        for each in some[1:]:
            place = (each.uplink_symbols, 100.0 * each.accuracy)
            by_symbols.annotate(f"R = {each.design.rounds}", place, (0, 5), textcoords="offset points", fontsize=7)
        times = [1 + each.design.rounds for each in some]
        by_rounds.plot(times, accuracies, ".-", color=line.get_color(), label=name)
    for each, name, marker, size in (
        (rehearsal.own, "this scenario", "o", 9),
        (rehearsal.best, "recommended", "*", 16),
    ):
        look: dict[str, Any] = {"markersize": size, "color": ORANGE, "markeredgecolor": "black", "label": name}
        by_symbols.plot(each.uplink_symbols, 100.0 * each.accuracy, marker, **look)
        by_rounds.plot(1 + each.design.rounds, 100.0 * each.accuracy, marker, **look)
    for axis, quantity in ((by_symbols, "uplink symbols"), (by_rounds, "times that workers must be reachable")):
        axis.set(xscale="log", xlabel=quantity, ylabel=f"accuracy on {rehearsal.basis} (%)")
        finish_axis(axis, "One slot of moments, or R rounds after it", size=12, legend=8)


def _learning_noise(
    axis: Axes, found: Recommendation, choice: str, lines: Mapping[str, Sequence[LearningOption]]
) -> None:
    """Draw learning noise along one choice of the sending plan; mark the scenario and what is recommended."""
    for label, line in lines.items():
        if line:
            places, colour = [getattr(each.sending, choice) for each in line], _COLOURS[line[0].sending.sends]
            axis.plot(places, [each.learning_noise_db for each in line], ".-", color=colour, label=label)
    for option, label, marker, size in ((found.own, "this scenario", "o", 9), (found.best, "recommended", "*", 16)):
        if math.isfinite(option.learning_noise_db):  # else no signal at all: it has no place in the picture
            place = ([getattr(option.sending, choice)], [option.learning_noise_db])
            axis.plot(*place, marker, markersize=size, color=ORANGE, markeredgecolor="black", label=label)
    axis.set(ylabel="learning noise (dB)")
