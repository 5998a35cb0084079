"""What is claimed of a setting, to stand beside what was found: by every accountant, and the least of it."""

import math
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from airmixml.data import DataSet
from airmixml.errors import PrivacyError
from airmixml.planning.account import state_slots
from airmixml.privacy import Design, Question
from airmixml.radio.centring import CentringSlot
from airmixml.radio.power_calibration import slots_target
from airmixml.radio.system import adversary_named
from airmixml.radio.tally import rehearse
from airmixml.scenario import Scenario
from airmixml.workers import Population, encoded_dim


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One accountant's epsilon, None where it refuses, and why."""

    accountant: str
    epsilon: float | None
    why: str


def claims_of(
    scenario: Scenario,
    design: Design,
    adversary: str,
    accountants: Iterable[str],
    *,
    adjacency: str,
    delta: float,
    centring: CentringSlot | None = None,
) -> list[Claim]:
    """Return what each accountant claims of the slots of a design, and of the slot for a mean where one is given."""
    whom, claims = adversary_named(adversary, scenario), []
    for name in accountants:
        asked = Question(adversary=whom, accountant=name, adjacency=adjacency, delta=delta)
        try:
            stated = state_slots(asked, design, centring)
            finite = math.isfinite(stated.epsilon)
            epsilon, why = (stated.epsilon, stated.why) if finite else (None, "no finite epsilon holds")
        except PrivacyError as problem:
            epsilon, why = None, str(problem)
        claims.append(Claim(accountant=name, epsilon=epsilon, why=why))
    return claims


def sharpest_of(claims: Iterable[Claim]) -> Claim | None:
    """Return the claim with the least epsilon; None where no accountant claims anything."""
    stated = [claim for claim in claims if claim.epsilon is not None]
    return min(stated, key=lambda claim: claim.epsilon or 0.0, default=None)


def least_epsilons(
    scenario: Scenario, dataset: DataSet, population: Population, adversaries: Iterable[str]
) -> dict[str, Any]:
    """Return the least epsilons that the exact accountants certify against each adversary, as ``CaseResult`` has them.

    They are for the schedule that was drawn, and together with the slot that estimates a mean.
    """
    dimensions = encoded_dim(scenario.workers, dataset.held_dim), dataset.label_dim
    holding = None if scenario.workers.several_rows else population.sample_index
    tally = rehearse(scenario, *dimensions, holding=holding)
    adjacency, delta = scenario.privacy.adjacency, slots_target(scenario)[1]
    copies = int(np.bincount(population.sample_index).max())
    worker: dict[str, float | None] = {}
    by: dict[str, str] = {}
    row: dict[str, float | None] = {}
    for name in adversaries:
        accountants = ("gdp",) if name == "server" or tally.design.schedule_told else ("gdp", "pld")
        about = scenario, tally.design, name, accountants
        least = sharpest_of(claims_of(*about, adjacency=adjacency, delta=delta, centring=tally.centring))
        worker[name], by[name] = (None, "") if least is None else (least.epsilon, least.accountant)
        row[name] = None
        if copies == 1 and not scenario.workers.several_rows:
            row[name] = worker[name]  # a row is a worker
            continue
        with suppress(PrivacyError):
            row[name] = tally.privacy_of_a_row(copies, name).epsilon
    return {"claimed": worker, "claimed_by": by, "claimed_per_row": row, "copies": copies}
