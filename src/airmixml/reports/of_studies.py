"""Pages of attacks, audits, plans, comparisons, sweeps, studies of tolerances and reproductions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airmixml.output.cards import claimed_card
from airmixml.output.commands import command_for
from airmixml.output.page import Card, Cards, Lines, Page, Part, Rows
from airmixml.output.records import table_of
from airmixml.scenario import Scenario
from airmixml.wording import (
    epsilon_text,
    joules,
    sentence,
    simulated,
)


def attack_page(plain: dict[str, Any], scenario: Scenario) -> Page:
    """Return what an attack folder tells: one group of cards for each setting."""
    from airmixml.attacks.attack_report import read_attack, summary_of, tables_of  # here: it loads torch

    cases = plain["cases"]
    told = tuple(f"{case['label']}: {line}" for case in cases for line in case.get("details", ()))  # older have none
    read = read_attack(plain)
    tables = tables_of(read)
    notes = tuple(
        dict.fromkeys(
            [each.attackers for each in read.cases] + [each.note.replace("*", "") for each in tables if each.note]
        )
    )
    return _study(
        scenario,
        title=f"What adversaries learn of {scenario.title}",
        verdict=plain["verdict"],
        more_asked=(("settings", ", ".join(case["label"] for case in cases)),),
        results=tuple((case["label"], case["verdict"]) for case in cases),
        cards=tuple(Cards(title=case["label"], cards=_attacked(case)) for case in cases),
        tables=(*((Lines(told),) if told else ()), summary_of(read), *tables, Lines(notes)),
        kind="attack",
        command=("attack",),
    )


def _attacked(case: dict[str, Any]) -> tuple[Card, ...]:
    """Return a card for each adversary: what is claimed, what was found, whom it can name at most."""
    scenario, claimed = Scenario.from_json(case["scenario"]), case["claimed"]
    cards = []
    for adversary, bound in case["naming_bound"].items():
        named = f"a worker's sample, one of {case['held']:,}, with probability {100 * bound:.3g} % at most"
        extra = [("found", (case.get(adversary) or {}).get("grade") or "not attacked"), ("can name", named)]
        if informed := case.get("informed", {}).get(adversary):  # older folders have none
            extra.insert(0, ("found, informed", informed["grade"]))
        if "claimed_per_row" in case:
            extra.insert(0, ("epsilon per row", epsilon_text(case["claimed_per_row"][adversary])))
        told = {"delta": claimed["delta"], "adjacency": claimed["adjacency"], "extra": tuple(extra)}
        cards.append(claimed_card(adversary, claimed[adversary], scenario, **told))
    return tuple(cards)


def audit_page(plain: dict[str, Any], scenario: Scenario) -> Page:
    """Return what an audit folder tells."""
    cards: list[Card] = []
    tables: list[Part] = []
    for each in plain["audits"]:
        lower = f"epsilon is at least {epsilon_text(each['epsilon_lower'])}"
        how = f"{lower} with {100 * each['confidence']:g} % confidence ({each['method']})"
        refuted = "the claim is refuted" if each["caught"] else "the claim is not refuted, which is no proof"
        scope: Rows = (("scope", each["scope"]),) if "scope" in each else ()
        extra: Rows = (*scope, ("found", f"{how}; {refuted}"), ("trials", each["trials"]["how"]))
        epsilon, delta = each["epsilon_claimed"], each["delta"]
        if whole := each.get("whole_run"):  # a card is about all that a run sends
            epsilons = [claim["epsilon"] for claim in whole["claims"] if claim["epsilon"] is not None]
            epsilon, delta = min(epsilons, default=None), whole["delta"]
        told = {"delta": delta, "adjacency": each["adjacency"], "extra": extra}
        cards.append(claimed_card(each["adversary"], epsilon, scenario, **told))
        tables += table_of(f"Claimed against {each['adversary']}", each["claims"], "metrics.json")
        together = f"{100 * each['confidence']:g} % for all adversaries together"
        tables += table_of(f"Lower bounds of {each['adversary']}, {together}", each["bounds"], "metrics.json")
        tables.append(Lines(tuple(each["notes"])))
    trials = plain["audits"][0]["trials"]
    count = trials["with_canary"] + trials["without"]
    return _study(
        scenario,
        title=f"Audit of {scenario.title}",
        verdict=plain["verdict"],
        more_asked=(("trials", f"{count:,} per adversary"), ("fault", plain["fault"] or "none injected")),
        results=(("verdict", plain["verdict"]),),
        cards=(Cards(title=scenario.title, cards=tuple(cards)),),
        tables=tuple(tables),
        kind="audit",
        command=("audit", "--trials", str(count), *(("--fault", plain["fault"]) if plain["fault"] else ())),
    )


def plan_page(plain: dict[str, Any], scenario: Scenario) -> Page:
    """Return what the folder of a plan tells."""
    from airmixml.planning.plan_page import plan_parts  # here: it loads torch, which other reports need not

    results: list[tuple[str, str]] = [("feasible", "yes" if plain["feasible"] else "no")]
    if "energy_joules" in plain:
        results.append(("energy", f"{joules(plain['energy_joules'])} in total"))
        results.append(("per worker", f"{joules(plain['worker_energy_joules'])} mean"))
    return _study(
        scenario,
        title=f"Plan of {scenario.title}",
        verdict=plain["verdict"],
        notices=(),
        results=tuple(results),
        cards=_target(scenario, scenario.privacy.epsilon if plain["feasible"] else None),
        tables=tuple(plan_parts(plain, scenario, command_for("run", scenario))),
        kind="plan",
        command=("plan",),
    )


def _study(scenario: Scenario, *, more_asked: Rows = (), notices: Sequence[str] | None = None, **others: Any) -> Page:
    """Return the page of a study of one scenario."""
    said = (sentence(simulated(scenario.seed)),) if notices is None else tuple(notices)
    return Page.of_result(asked=more_asked, notices=said, **others)


def _target(scenario: Scenario, epsilon: float | None) -> tuple[Cards, ...]:
    """Return the card of the scenario's own target."""
    return (Cards(title=scenario.title, cards=(claimed_card(scenario.privacy.adversary, epsilon, scenario),)),)
