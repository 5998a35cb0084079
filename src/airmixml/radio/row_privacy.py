"""What adversaries can learn of one row of the data, or of a person, who may be on several workers of a scenario."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from airmixml.arrays import Integers
from airmixml.errors import PrivacyError
from airmixml.privacy import Design, PrivacyStatement
from airmixml.privacy.adversaries import DRAWN
from airmixml.privacy.statements import drawn_alike, state_row
from airmixml.radio.centring import CentringSlot
from airmixml.radio.power_calibration import slots_target
from airmixml.radio.system import adversary_named
from airmixml.registries import ADVERSARIES
from airmixml.scenario import Scenario
from airmixml.wording import against, epsilon_text
from airmixml.workers.population import held_by, row_name


@dataclass(frozen=True, kw_only=True)
class RowPrivacy:
    """What is planned for a row of the data, or a person, where that is not what one worker holds alone."""

    name: str  # "a row of the data", "a person", "one of its rows"
    held: str  # by whom it is held, in words
    copies: int  # by how many workers at most
    statements: tuple[PrivacyStatement, ...]  # the smallest epsilon against each adversary that has one

    @property
    def epsilons(self) -> dict[str, float]:
        """The epsilons by adversary."""
        return {each.adversary: each.epsilon for each in self.statements}

    def told(self, adversary: str) -> str:
        """Return what is certified against one adversary, in words."""
        epsilon = self.epsilons.get(adversary)
        said = "no guarantee stated" if epsilon is None else f"epsilon {epsilon_text(epsilon)}"
        return f"{said} {against(adversary)}, {self.held}"

    @property
    def when(self) -> str:
        """Whether that holds before schedule and places are drawn, in words after others; empty where none count."""
        drawn = any(each.given == DRAWN for each in self.statements)
        counts = self.copies > 1 or any(each.schedule_failure for each in self.statements)
        return ", before the draw" if counts and not drawn else ""

    @property
    def before_the_draw(self) -> dict[str, float]:
        """The epsilons before the schedule was drawn, by adversary, of statements for a drawn one."""
        return {each.adversary: each.before_the_draw for each in self.statements if each.before_the_draw is not None}

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values for JSON, named as in the metrics of a run."""
        return {"row_copies": self.copies, "row_statements": [each.to_dict() for each in self.statements]}


def plan_row_privacy(
    scenario: Scenario, holding: Integers | None, state: Callable[[int], Sequence[PrivacyStatement]]
) -> RowPrivacy | None:
    """Return what ``state`` says of a row on so many workers as ``holding`` puts it on; None where a worker says it."""
    copies = 1 if holding is None else int(np.bincount(holding).max())
    name = row_name(scenario.workers, copies)
    if not name:
        return None
    return RowPrivacy(name=name, held=held_by(scenario.workers, copies), copies=copies, statements=tuple(state(copies)))


def row_amplitude(scenario: Scenario) -> float:
    """Return how much one row of a worker moves what it sends, at most, as a share of what all its rows may move.

    A row adds its own products to the sum, whose norm is that of ``rows_bound`` rows at most: 1 / rows_bound, since
    shortening sets no sums farther apart. Where at most ``max_rows`` enter, another row may take the place of one that
    is removed: twice that. Rounding comes after the sum: there one row may move all of it.
    """
    workers = scenario.workers
    if not workers.several_rows or workers.bits or scenario.air.dac_bits:
        return 1.0
    replaced = workers.max_rows and scenario.privacy.adjacency == "remove-one"
    return min(1.0, (2.0 if replaced else 1.0) / workers.rows_bound)


def row_statement(
    scenario: Scenario,
    design: Design,
    adversary: str,
    copies: int,
    centring: CentringSlot | None = None,
    joined: Design | None = None,
) -> PrivacyStatement:
    """Return what an adversary can learn of a row that so many workers hold; see ``privacy.statements``.

    On several workers the statement is for the person with all rows. ``joined`` has all copies as one worker, where the
    draws tell. Raises a PrivacyError where nothing is certified.
    """
    alone, several = copies == 1, scenario.workers.several_rows

    def of(design: Design, joined: Design | None) -> PrivacyStatement:
        return state_row(
            design.scaled(row_amplitude(scenario) ** 2) if alone else design,
            adversary_named(adversary, scenario),
            copies,
            adjacency=scenario.privacy.adjacency,
            delta=slots_target(scenario)[1],
            joined=joined,
            whole=design if several and alone else None,
            unit="person" if several and not alone else "row",
        )

    stated = of(design, joined)
    if centring is None and drawn_alike(design):
        before = of(design.before_the_draw(), None).epsilon
        if before > stated.epsilon * (1.0 + 1e-9):
            why = f"{stated.why}; before the draw epsilon {epsilon_text(before)}, for any schedule and any places"
            stated = replace(stated, before_the_draw=before, why=why)
    return stated if centring is None else centring.added_to(stated, copies)


def row_statements(
    scenario: Scenario,
    design: Design,
    copies: int,
    centring: CentringSlot | None = None,
    joined: Design | None = None,
) -> list[PrivacyStatement]:
    """Return the same for every adversary that something is certified against, the scenario's own first."""
    stated = []
    for adversary in dict.fromkeys([scenario.privacy.adversary, *ADVERSARIES.names]):
        with suppress(PrivacyError):
            stated.append(row_statement(scenario, design, adversary, copies, centring, joined))
    return stated
