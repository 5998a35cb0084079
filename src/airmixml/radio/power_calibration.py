"""The power that meets a scenario's privacy target, and how the target is shared between slots and a private mean."""

import math
from dataclasses import replace
from functools import partial
from numbers import Real
from typing import Final

from airmixml.arrays import Doubles, dbm_to_watts
from airmixml.errors import ScenarioError
from airmixml.impairments.fading import best_power_gain
from airmixml.privacy import Design, Question, Sensitivity, calibrate_power, facts
from airmixml.privacy.gaussian import gaussian_epsilon, gaussian_mu
from airmixml.radio.mixing import PowerPolicy, wrong_policy
from airmixml.radio.system import System, adversary_named, assumed_noise_watts
from airmixml.scenario import Scenario
from airmixml.wording import shown

_ROUNDING_MARGIN: Final = 1.0 - 1e-12


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
    system, privacy = System.moving(scenario, sensitivity, distance_metres), scenario.privacy
    needed_watts = system.noise.needed_watts(scenario, sensitivity, system.floor)
    if needed_watts is not None:
        return needed_watts
    epsilon, delta = slots_target(scenario)
    unit_watts, unit = _unit_design(system)
    hidden = replace(unit, facts=tuple(each for each in unit.facts if not isinstance(each, facts.PowerTells)))

    def calibrated_watts(design: Design) -> float:
        factor = calibrate_power(
            design,
            adversary_named(privacy.adversary, scenario),
            privacy.accountant,
            adjacency=privacy.adjacency,
            epsilon=epsilon,
            delta=delta,
            quickly=quickly,
        )
        return factor * unit_watts

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


def _unit_design(system: System) -> tuple[float, Design]:
    """Return the received power at which a replaced sample moves a slot by the noise's deviation, and such slots."""
    watts = assumed_noise_watts(system.scenario) / 2.0 / system.sensitivity.replacement
    return watts, system.design(watts)
