"""Pages of attacks, audits, plans, comparisons, sweeps, studies of tolerances and reproductions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airmixml.output.cards import claimed_card
from airmixml.output.commands import command_for
from airmixml.output.page import Cards, Page, Rows
from airmixml.scenario import Scenario
from airmixml.wording import (
    joules,
    sentence,
    simulated,
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
