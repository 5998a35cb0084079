"""An account as a page and a picture: epsilons, what a draw and better receivers do to them, and what each assumes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from airmixml.messages import (
    against,
    epsilon_text,
    if_uninformed,
    own_slots,
    plural,
    slots_text,
    unstated,
    withstands,
)
from airmixml.output.cards import delta_notices, target_notices
from airmixml.output.figures import accountant_colour, finish_axis, new_figure, save_figure
from airmixml.output.page import Facts, Page, Part, Section
from airmixml.output.tables import Table
from airmixml.planning.account import Account
from airmixml.planning.multipliers import multipliers_in_words
from airmixml.privacy import Adversary, facts
from airmixml.privacy.evaluation import air_in_words
from airmixml.progress import Progress, silent
from airmixml.registries import ACCOUNTANTS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ADVERSARY_LINES: Final = {"release": "-", "server": "--", "eavesdropper": ":"}


def account_page(account: Account, *, brief: bool = False) -> Page:
    """Return what an account says; a ``brief`` one without the assumptions."""
    columns, rows = account.cells()
    table = Table(columns=tuple(columns), rows=tuple(map(tuple, rows)))
    parts: list[Part] = [table, account.draw_in_words] if account.draw_in_words else [table]
    if (row := account.row) is not None:
        dash = " (- no guarantee stated)" if len(row.statements) < len(account.adversaries) else ""
        parts.append(f"{row.name}, {row.held}: the smallest epsilon that holds{row.when}{dash}")
    parts += [*_withstands(account), *_what_if(account)]
    refused = {each for each, _ in account.refusals}
    if brief:
        on_graph = [each.adversary for each in account.statements if each.hidden_failure]
        parts += [if_uninformed(on_graph)] if on_graph else []
        refused -= {each.adversary for each in account.statements}
    else:
        parts.append(Facts(caption="What is assumed", rows=tuple(_assumptions(account))))
    parts += _refused(account, refused)
    missed = [told for each in account.statements for told in target_notices(each.epsilon, each.target_epsilon)]
    return Page(
        kind="account",
        title=f"{account.title}: epsilon at delta = {account.delta:g}, {account.adjacency} neighbours",
        notices=(*missed, *delta_notices(account.delta, account.design.workers)),
        sections=(Section("epsilons", "Epsilon by accountant and adversary", *parts),),
    )


def _withstands(account: Account) -> Iterator[Part]:
    """Yield how many more colluders than assumed the epsilons beside it withstand, and what they are then."""
    colluders = account.design.fact(facts.WorkersNoise).withstands
    if colluders is None:
        return
    found = next((each.epsilons for each in account.what_if if each.colluders == colluders), {})
    then = ", ".join(f"{epsilon_text(epsilon)} {against(name)}" for name, epsilon in reversed(found.items()))
    yield withstands(colluders, account.design.scheduled) + f": epsilon by gdp then {then}" * bool(then)


def _what_if(account: Account) -> Iterator[Part]:
    if not account.what_if:
        return
    names = sorted({name for each in account.what_if for name in each.epsilons}, reverse=True)
    rows = (
        (each.name, *(epsilon_text(each.epsilons[name]) if name in each.epsilons else "-" for name in names))
        for each in account.what_if
    )
    title = "Epsilon at most, with the same noise, masks and power"
    if not account.design.says(facts.WorkersNoise):
        title = f"Epsilon if received better ({account.receivers})"
    yield Table(title=title, columns=("what if", *names), rows=tuple(rows))
    if others := account.what_if[0].accountants:
        by = ", ".join(f"{adversary} by {accountant}" for adversary, accountant in others.items())
        yield f"{by}; others by gdp"
    yield from (f"{each.name}: {each.note}" for each in account.what_if if each.note)


def _refused(account: Account, adversaries: set[str]) -> list[str]:
    """Return why there is no epsilon in a cell of the table, each reason once."""
    told: dict[str, list[str]] = {}
    for adversary, why in dict.fromkeys((adversary, why) for (adversary, _), why in account.refusals.items()):
        by = [name for (other, name), reason in account.refusals.items() if (other, reason) == (adversary, why)]
        line = f": {unstated(why)}" if set(by) == account.asked else f" by {' and '.join(by)}: {why}"
        if adversary in adversaries:
            told.setdefault(line, []).append(adversary)
    return [f"- {' and '.join(names)}{line}" for line, names in told.items()]


def _assumptions(account: Account) -> Iterator[tuple[str, str]]:
    design, mean = account.design, account.centring is not None
    slots = slots_text(design.slots - account.rounds, account.rounds, mean=mean)
    yield "workers", f"{design.workers:,}, {design.scheduled:,} at a time in {slots}"
    multipliers = multipliers_in_words(account.noise_multipliers, limited=design.says(facts.PowerTells))
    yield "power", f"{account.power}; noise multiplier {multipliers}"
    yield "unit", account.unit
    if air := air_in_words(design, next(each for each in account.adversaries if not each.own_receiver)):
        yield "air", air
    for each in account.adversaries:
        with_mean = f"; {design.participations + 1:,} with that for the mean" if mean and each.knows_schedule else ""
        yield each.name, f"knows {each.knows}; {each.why(design)}{with_mean}"
    median = f"epsilon {epsilon_text(account.median_epsilon)} against the server"
    if account.tally is None:
        yield "median worker", f"{median}, in {plural(int(account.median_slots), 'slot')}"
        if design.schedule_failure and not design.max_participations:
            rare = f"no worker sends in more than {design.participations:,} slots, except with probability 1e-9"
            yield "before a run", f"{rare} (--ledger draws the schedule)"
    else:
        yield "median worker", median
        found = account.tally.ledger.summary(account.tally.worker_epsilons())
        worst, sent = epsilon_text(found["worst_epsilon"]), own_slots(found["worst_worker_slots"], mean=mean)
        yield "worst worker", f"epsilon {worst} against the server, in {sent}"
        yield "schedule", f"drawn from seed {account.seed}: a simulation; a real run draws another one"
    yield from ((name, ACCOUNTANTS.load(name).about) for name in ACCOUNTANTS.names)


def epsilon_curves(
    account: Account, *, progress: Progress = silent
) -> tuple[list[int], dict[tuple[str, str], list[float]]]:
    """Return numbers of slots, and for each (adversary, accountant) the epsilon after that many.

    Fewer slots are as strong as the design's strongest one, before any is drawn. Where that does not lead to what is
    stated of all slots, since they were drawn or differ, only that one is known, and the others are NaN.
    """
    longest = max(account.design.slots, 2)
    slots = np.unique(np.geomspace(max(1.0, longest / 100), longest, 7).round().astype(int))  # over two decades
    pairs: list[tuple[Adversary, str]] = []
    for each in account.adversaries:  # every accountant against the release, and the tightest one against the others
        stated = [statement for statement in account.statements if statement.adversary == each.name]
        if each.name != "release":
            stated = sorted(stated, key=lambda statement: (statement.epsilon, statement.accountant))[:1]
        pairs += [(each, statement.accountant) for statement in stated]
    curves: dict[tuple[str, str], list[float]] = {}
    for done, count in enumerate(slots.tolist()):
        progress("epsilon against slots", done, len(slots))
        for adversary, accountant in pairs:
            value = account.epsilon_after(count, adversary, accountant)
            curves.setdefault((adversary.name, accountant), []).append(value)
    progress("epsilon against slots", len(slots), len(slots))
    own = slots.tolist().index(account.design.slots)
    for stated_one in account.statements:
        curve = curves.get((stated_one.adversary, stated_one.accountant), [])
        if curve and not math.isclose(curve[own], stated_one.epsilon, rel_tol=1e-3):
            curve[:] = [stated_one.epsilon if place == own else math.nan for place in range(len(curve))]
    return slots.tolist(), curves


def draw_account(
    account: Account, slots: list[int], curves: dict[tuple[str, str], list[float]], path: Path | None = None
) -> Figure:
    """Draw epsilon against the number of slots for every accountant and adversary."""
    design, figure = account.design, new_figure(9, 5.4)
    axis = figure.subplots()
    for (adversary, accountant), epsilons in curves.items():
        style = _ADVERSARY_LINES.get(adversary, "-.")
        style += "." if adversary == "release" or np.isfinite(epsilons).sum() == 1 else ""
        colour, label = accountant_colour(accountant), f"{adversary}: {accountant}"
        axis.plot(slots, np.maximum(epsilons, 1e-6), style, color=colour, label=label)
    label = f"slots, the last {account.rounds:,} of them rounds" if account.rounds else "slots"
    axis.set(xscale="log", yscale="log", xlabel=label, ylabel=f"ε at δ = {account.delta:g} (log)")
    title = f"{account.title}: {design.scheduled:,} of {design.workers:,} workers per slot, "
    title += f"noise multiplier {design.noise_multiplier(account.adjacency):.3g}, {account.adjacency}"
    if len(set(slots)) <= 8:
        axis.set_xticks(slots, [f"{count:,}" for count in slots])
        axis.set_xticks([], minor=True)
    finish_axis(axis, title, legend=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return save_figure(figure, path)
