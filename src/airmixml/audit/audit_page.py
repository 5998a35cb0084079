"""An audit for its readers, from what its ``metrics.json`` holds."""

from typing import Any

from airmixml.output.cards import claimed_card
from airmixml.output.page import Card, Cards, Folded, Lines, Page, Part
from airmixml.output.tables import Table
from airmixml.scenario import Scenario
from airmixml.wording import NONE, against, epsilon_text, sentence, simulated


def audit_page(plain: dict[str, Any], scenario: Scenario) -> Page:
    """Return the verdict, claims beside lower bounds, and in files what each of them rests on."""
    audits = plain["audits"]
    trials = audits[0]["trials"]
    count = trials["with_canary"] + trials["without"]
    other = "no worker" if plain["adjacency"] == "remove-one" else "another sample"
    every = [(each, bound) for each in audits for bound in each["bounds"]]
    lines = [
        f"found, {bound['method']}: assumes {bound['assumes']}" for _, bound in every if bound["epsilon"] is not None
    ]
    lines += [
        f"{each['adversary']}: {bound['method']} {bound['detail']}" for each, bound in every if bound["epsilon"] is None
    ]
    lines += [
        f"{each['adversary']}: {note}" for each in audits for note in each["notes"] if note not in plain["verdict"]
    ]
    return Page.of_result(
        kind="audit",
        title=f"Audit of {scenario.title}",
        verdict=plain["verdict"],
        notices=(sentence(simulated(plain["seed"])),),
        asked=(
            (
                "trials",
                f"{count:,} per adversary, half of them with {other} in place of the canary, the audited worker",
            ),
            ("fault", plain["fault"] or "none injected"),
        ),
        results=tuple((check["of"].removeprefix("the "), check["told"]) for check in plain["noise_checks"]),
        cards=(Cards(title=scenario.title, cards=tuple(_card(each, scenario) for each in audits)),),
        tables=(_overview(plain), Lines(tuple(dict.fromkeys(lines))), *map(_details, audits)),
        command=("audit", "--trials", str(count), *(("--fault", plain["fault"]) if plain["fault"] else ())),
    )


def _overview(plain: dict[str, Any]) -> Table:
    """Return claims and lower bounds, with a column for each adversary."""
    audits, rows = plain["audits"], dict[str, list[str]]()
    for place, each in enumerate(audits):
        found = {f"claimed, {claim['accountant']}": epsilon_text(claim["epsilon"]) for claim in each["claims"]}
        for bound in each["bounds"]:
            found[f"found, {bound['method']}"] = _at_least(bound)
        for name, text in found.items():
            rows.setdefault(name, [""] * len(audits))[place] = text
    return Table(
        title=f"epsilon at delta = {plain['delta']:.3g}, {plain['adjacency']} neighbours",
        columns=("", *(each["adversary"] for each in audits)),
        rows=tuple((name, *texts) for name, texts in rows.items()),
        sections=(len(audits[0]["claims"]),),
    )


def _at_least(bound: dict[str, Any]) -> str:
    return NONE if bound["epsilon"] is None else f">= {epsilon_text(bound['epsilon'])}"


def _details(each: dict[str, Any]) -> Part:
    claims = [(claim["accountant"], epsilon_text(claim["epsilon"]), claim["why"]) for claim in each["claims"]]
    bounds = [(one["method"], _at_least(one), one["assumes"], one["detail"]) for one in each["bounds"]]
    together = f"Lower bounds, {100 * each['confidence']:g} % for all adversaries together"
    return Folded(
        summary=f"{each['adversary']}: {each['trials']['how']}",
        parts=(
            Table(
                title=f"Claimed {against(each['adversary'])}",
                columns=("accountant", "epsilon", "why"),
                rows=tuple(claims),
            ),
            Table(title=together, columns=("method", "epsilon", "assumes", "from"), rows=tuple(bounds)),
        ),
    )


def _card(each: dict[str, Any], scenario: Scenario) -> Card:
    """Return what is claimed against an adversary of all that a run sends, and what was found."""
    lower = f"epsilon is at least {epsilon_text(each['epsilon_lower'])}"
    refuted = "the claim is refuted" if each["caught"] else "the claim is not refuted, which is no proof"
    found = f"{lower} with {100 * each['confidence']:g} % confidence ({each['method']}); {refuted}"
    epsilon, delta, scope = each["epsilon_claimed"], each["delta"], each.get("scope", "")
    if whole := each.get("whole_run"):
        epsilons = [claim["epsilon"] for claim in whole["claims"] if claim["epsilon"] is not None]
        epsilon, delta = min(epsilons, default=None), whole["delta"]
    extra = (*((("scope", scope),) if scope else ()), ("found", found), ("trials", each["trials"]["how"]))
    return claimed_card(each["adversary"], epsilon, scenario, delta=delta, adjacency=each["adjacency"], extra=extra)
