"""An account as a page: epsilons, what a draw and better receivers do to them, and what each assumes."""

from collections.abc import Iterator

from airmixml.output.page import Facts, Lines, Page, Part, section
from airmixml.output.tables import Table
from airmixml.planning.account import Account
from airmixml.privacy import facts
from airmixml.privacy.evaluation import air_in_words
from airmixml.registries import ACCOUNTANTS
from airmixml.wording import epsilon_text, if_uninformed, own_slots, plural, slots_text, unstated


def account_page(account: Account, *, brief: bool = False) -> Page:
    """Return what an account says; a ``brief`` one without the assumptions."""
    columns, rows = account.cells()
    table = Table(columns=tuple(columns), rows=tuple(map(tuple, rows)))
    parts: list[Part] = [table, *filter(None, (account.draw_in_words,))]
    if (row := account.row) is not None:
        dash = " (- no guarantee stated)" if len(row.statements) < len(account.adversaries) else ""
        parts.append(f"{row.name}, {row.held}: the smallest epsilon that holds{row.when}{dash}")
    parts += _what_if(account)
    refused = {each for each, _ in account.refusals}
    if brief:
        on_graph = [each.adversary for each in account.statements if each.hidden_failure]
        parts += [if_uninformed(on_graph)] if on_graph else []
        refused -= {each.adversary for each in account.statements}
    else:
        parts.append(Facts(caption="What is assumed", rows=tuple(_assumptions(account))))
    parts.append(Lines(tuple(_refused(account, refused))))
    return Page(
        kind="account",
        title=f"{account.title}: epsilon at delta = {account.delta:g}, {account.adjacency} neighbours",
        sections=(section("epsilons", "Epsilon by accountant and adversary", *parts),),
    )


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
    multiplier = design.noise_multiplier(account.adjacency)
    slots = slots_text(design.slots - account.rounds, account.rounds, mean=mean)
    yield "workers", f"{design.workers:,}, {design.scheduled:,} at a time in {slots}"
    yield "power", f"{account.power}; noise multiplier {multiplier:.4g} in the strongest slot"
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
