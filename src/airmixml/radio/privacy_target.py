"""What a scenario's privacy target comes to: the power that meets it, and what follows for one row of the data.

The target is shared between slots and a private mean. A row, or a person, may be on several workers of a scenario.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real
from typing import Any, Final

import numpy as np

from airmixml.arrays import Doubles, Integers, dbm_to_watts
from airmixml.impairments.fading import best_power_gain
from airmixml.messages import PrivacyError, ScenarioError, epsilon_text, shown
from airmixml.privacy import Design, PrivacyStatement, Question, Sensitivity, calibrate_power, facts
from airmixml.privacy.adversaries import DRAWN
from airmixml.privacy.gaussian import gaussian_epsilon, gaussian_mu
from airmixml.privacy.statements import drawn_alike, exceeds, state_row
from airmixml.radio.mixing import PowerPolicy, wrong_policy
from airmixml.radio.system import System, adversary_named
from airmixml.registries import ADVERSARIES
from airmixml.scenario import Scenario
from airmixml.workers.population import held_by, row_name

_ROUNDING_MARGIN: Final = 1.0 - 1e-12
_ROUNDED_UP: Final = 1.0 + 1e-5  # of an epsilon that is written with six digits


def slots_target(scenario: Scenario) -> tuple[float, float]:
    """Return epsilon and delta that the slots may spend: all of them, less the share of a private mean.

    Where both are accounted for as one Gaussian mechanism, the share is one of mu^2.
    """
    workers, privacy = scenario.workers, scenario.privacy
    if not workers.centre_on_air:
        return privacy.epsilon, privacy.delta
    rest = 1.0 - workers.centre_share
    if composes_exactly(scenario):
        mu, delta = math.sqrt(rest) * _exact_mu(scenario), rest * privacy.delta
        return gaussian_epsilon(mu, delta), delta
    return rest * privacy.epsilon, rest * privacy.delta


def target_question(scenario: Scenario) -> Question:
    """Return what the scenario's target asks of its slots."""
    privacy = scenario.privacy
    return Question(
        adversary=adversary_named(privacy.adversary, scenario),
        accountant=privacy.accountant,
        adjacency=privacy.adjacency,
        delta=slots_target(scenario)[1],
    )


def centring_target(scenario: Scenario) -> tuple[float, float]:
    """Return mu that the slot for a mean may spend, and the share of delta that is counted as its own."""
    privacy, (slots_epsilon, slots_delta) = scenario.privacy, slots_target(scenario)
    delta = privacy.delta - slots_delta
    if composes_exactly(scenario):
        return math.sqrt(scenario.workers.centre_share) * _exact_mu(scenario), delta
    return gaussian_mu(privacy.epsilon - slots_epsilon, delta), delta


def _exact_mu(scenario: Scenario) -> float:
    """Return mu of the slots and the one for a mean together, one Gaussian mechanism."""
    return gaussian_mu(scenario.privacy.epsilon, scenario.privacy.delta)


def composes_exactly(scenario: Scenario) -> bool:
    """Whether the slot for a mean and all others are accounted for as one Gaussian mechanism."""
    return scenario.workers.centre == "refined" and scenario.privacy.accountant == "gdp"


def is_one_gaussian(scenario: Scenario) -> bool:
    """Whether one release, its mean included, is one Gaussian mechanism, so that several compose exactly."""
    return scenario.privacy.noise_kind.real and (not scenario.workers.centre_on_air or composes_exactly(scenario))


def check_privacy_target(scenario: Scenario) -> None:
    """Raise a PrivacyError if the scenario's accountant cannot treat its adversary, or certify its target."""
    if not scenario.is_settled:
        raise ScenarioError(
            "workers.count, radio.scheduled or privacy.delta is 0: the number of rows decides it; use "
            "airmixml.settle(scenario) to read that from the data, or scenario.settled(rows)"
        )
    if scenario.workers.sends == "gradients" and scenario.learner.rounds:
        raise ScenarioError(
            f'learner.rounds = {scenario.learner.rounds}: must be 0 where workers.sends = "gradients": all slots are '
            "rounds there, as many as radio.slots says"
        )
    silent = System.moving(scenario, Sensitivity(removal=1.0, replacement=1.0)).design(0.0)
    epsilon, _ = slots_target(scenario)
    asked = target_question(scenario)
    if scenario.mixing.power_policy.keeps_target:
        asked.check_target(silent, epsilon)
    else:
        asked.epsilon(silent)


def private_received_watts(
    scenario: Scenario, sensitivity: Sensitivity, distance_metres: Doubles | None = None, *, quickly: bool = False
) -> float:
    """Return beta max q^2 of every slot, the largest that keeps the scenario's privacy target.

    With the paper's accountant this is Proposition 2. Where the power limit might bind, and so tell the schedule, the
    power is lowered until it cannot, or until the target is met without credit for a hidden schedule. ``quickly``: a
    few per cent less than the largest will do.
    """
    check_privacy_target(scenario)
    scenario = scenario.met
    system, asked = System.moving(scenario, sensitivity), vars(target_question(scenario))
    if distance_metres is not None:
        system = replace(system, farthest_metres=float(distance_metres.max()))
    needed_watts = system.noise.needed_watts(scenario, sensitivity, system.floor)
    if needed_watts is not None:
        return needed_watts
    epsilon, _ = slots_target(scenario)
    # The received power at which a replaced sample moves a slot by the noise's deviation, and such slots.
    unit_watts: float = scenario.privacy.noise_kind.stated_watts(scenario) / 2.0 / sensitivity.replacement
    unit = system.design(unit_watts)
    hidden = replace(unit, facts=tuple(each for each in unit.facts if not isinstance(each, facts.PowerTells)))

    def calibrated_watts(design: Design) -> float:
        return calibrate_power(design, **asked, epsilon=epsilon, quickly=quickly) * unit_watts

    told = hidden.stating(facts.PowerTells())
    if system.floor == 0.0 or system.air.gains_tell_schedule(scenario):  # no power, however low, would hide it
        return calibrated_watts(told)
    hidden_watts = calibrated_watts(hidden)
    if not system.power_may_tell_schedule(hidden_watts):
        return hidden_watts
    limit_watts = dbm_to_watts(scenario.radio.max_power_dbm)
    # A target that the power limit alone keeps allows any power; no more is received than from the nearest place.
    most_watts = limit_watts * best_power_gain(scenario, scenario.workers.min_distance_metres)
    hidden_watts = _ROUNDING_MARGIN * limit_watts * system.floor / max(system.strengths)
    return min(max(hidden_watts, calibrated_watts(told)), most_watts)


def asked_received_watts(scenario: Scenario, sensitivity: Sensitivity, distance_metres: Doubles | None) -> float:
    """Return beta max q^2 of every slot as the scenario's power policy plans it; 0 where it plans none."""
    private_watts = partial(private_received_watts, scenario, sensitivity, distance_metres)
    policy = scenario.mixing.power_policy
    watts: float = policy.received_watts(scenario, private_watts)
    if not isinstance(watts, Real) or not 0.0 <= watts < math.inf:
        raise wrong_policy(
            scenario, f"its received_watts returns {shown(watts)}; must return watts, a number of at least 0"
        )
    if watts == 0.0 and getattr(type(policy), "power_scale", None) is PowerPolicy.power_scale:
        raise wrong_policy(
            scenario, "plans no power; give received_watts that returns watts, or power_scale that returns beta"
        )
    return watts


def check_target_met(
    scenario: Scenario, input_dim: int, label_dim: int, distance_metres: Doubles | None = None
) -> None:
    """Refuse a release whose statement, before anything is drawn, exceeds its target.

    Power that is planned by AirMixML keeps it; that of another policy may not.
    """

    def stated(asked: Scenario) -> float:
        system, policy = System.of(asked, input_dim, label_dim, distance_metres), asked.mixing.power_policy
        watts = asked_received_watts(asked, system.sensitivity, distance_metres)
        design = system.design(policy.largest_received_watts(asked, watts))
        return target_question(asked).epsilon(design)[0]

    privacy, (target, _) = scenario.privacy, slots_target(scenario)
    if not scenario.mixing.power_policy.keeps_target or not exceeds(found := stated(scenario), target):
        return
    least = float(f"{found * _ROUNDED_UP * privacy.epsilon / target:.6g}")
    raised = replace(scenario, privacy=replace(privacy, epsilon=least))
    mend = "let it plan less power"
    if math.isfinite(least) and not exceeds(stated(raised), slots_target(raised)[0]):
        mend = f"must be at least {least:g}, or {mend}"
    raise PrivacyError(
        f"privacy.epsilon = {privacy.epsilon:g}: with mixing.power = {shown(scenario.mixing.power)} what would be sent "
        f"has epsilon {epsilon_text(found)} by {privacy.accountant} against {privacy.adversary}; {mend}"
    )


@dataclass(frozen=True, kw_only=True)
class RowPrivacy:
    """What is planned for a row of the data, or a person, where that is not what one worker holds alone."""

    name: str  # "a row of the data", "a person", "one of its rows"
    held: str  # by whom it is held, in words
    copies: int  # by how many workers at most
    statements: tuple[PrivacyStatement, ...]  # the smallest epsilon against each adversary that has one

    @property
    def epsilons(self) -> dict[str, float]:
        return {each.adversary: each.epsilon for each in self.statements}

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
    centring: Any | None = None,
    joined: Design | None = None,
) -> PrivacyStatement:
    """Return what an adversary can learn of a row that so many workers hold; see ``privacy.statements``.

    On several workers the statement is for the person with all rows. ``centring`` is the ``CentringSlot`` that
    estimated a mean, where there was one. ``joined`` has all copies as one worker, where the draws tell. Raises a
    PrivacyError where nothing is certified.
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
    scenario: Scenario, design: Design, copies: int, centring: Any | None = None, joined: Design | None = None
) -> list[PrivacyStatement]:
    """Return the same for every adversary that something is certified against, the scenario's own first."""
    stated = []
    for adversary in dict.fromkeys([scenario.privacy.adversary, *ADVERSARIES.names]):
        with suppress(PrivacyError):
            stated.append(row_statement(scenario, design, adversary, copies, centring, joined))
    return stated
