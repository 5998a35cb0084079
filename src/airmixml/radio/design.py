"""From a scenario to what privacy asks about it: sensitivity, adversaries, and the power that meets its target."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from airmixml.errors import PrivacyError
from airmixml.privacy import (
    Adversary,
    Design,
    Eavesdropper,
    Release,
    Sensitivity,
    Server,
    calibrate_power,
    check_target,
)
from airmixml.radio.channel import path_gain
from airmixml.scenario import Scenario
from airmixml.units import dbm_to_watts
from airmixml.workers import declared_bounds

__all__ = [
    "adversary_named",
    "check_privacy_target",
    "planned_design",
    "private_received_watts",
    "sensitivity_of",
    "weakest_gain",
]


def sensitivity_of(scenario: Scenario, input_dim: int, label_dim: int) -> Sensitivity:
    """Return what one worker can move, by the paper's bound or by what its encoder declares."""
    if scenario.privacy.sensitivity == "paper":
        return Sensitivity.paper(input_dim, label_dim)
    squared_norm, squared_distance = declared_bounds(scenario.workers, input_dim)
    return Sensitivity.with_one_hot_label(squared_norm=squared_norm, squared_distance=squared_distance)


def adversary_named(name: str, scenario: Scenario) -> Adversary:
    """Return the adversary of that name, as the scenario describes it."""
    privacy, radio = scenario.privacy, scenario.radio
    if name == "server":
        return Server(colluders=privacy.colluders)
    if name == "release":
        return Release(colluders=privacy.colluders)
    nearest_metres = np.array([privacy.eavesdropper_distance_metres])
    gain = float(path_gain(nearest_metres, radio.path_loss_exponent, radio.unit_path_loss_db)[0]) ** 2
    return Eavesdropper(
        gain=privacy.eavesdropper_antennas * gain,
        own_noise_watts=dbm_to_watts(privacy.eavesdropper_noise_dbm),
        colluders=privacy.colluders,
    )


def weakest_gain(scenario: Scenario, distance_metres: NDArray[np.float64] | None = None) -> float:
    """Return the power gain of the weakest channel a scheduled worker may have; 0 if fading leaves no floor.

    Without fading that is the farthest corner of the square, or the farthest of the given workers.
    """
    radio, workers = scenario.radio, scenario.workers
    if radio.fading != "none":
        return 0.0
    corner = max(workers.side_metres / math.sqrt(2.0), workers.min_distance_metres)
    farthest = corner if distance_metres is None else max(corner, float(distance_metres.max()))
    return float(path_gain(np.array([farthest]), radio.path_loss_exponent, radio.unit_path_loss_db)[0]) ** 2


def planned_design(
    scenario: Scenario, sensitivity: Sensitivity, *, received_watts: float = 1.0, farthest_gain: float | None = None
) -> Design:
    """Return the scenario as equal slots, each received with beta max q^2 = ``received_watts``."""
    radio = scenario.radio
    return Design(
        workers=scenario.workers.count,
        scheduled=radio.scheduled,
        received_watts=(received_watts,),
        counts=(radio.slots,),
        sensitivity=sensitivity,
        noise_watts=dbm_to_watts(radio.noise_dbm),
        weakest_gain=weakest_gain(scenario) if farthest_gain is None else farthest_gain,
        max_power_watts=dbm_to_watts(radio.max_power_dbm),
        max_participations=radio.max_participations,
    )


def check_privacy_target(scenario: Scenario) -> None:
    """Raise a PrivacyError if the scenario sets its power by a target that its bound cannot certify."""
    privacy = scenario.privacy
    if scenario.mixing.power != "dp":
        return
    if privacy.adversary == "eavesdropper" and scenario.radio.fading != "none":
        raise PrivacyError(
            f"privacy.adversary = 'eavesdropper': with radio.fading = {scenario.radio.fading!r} a faded worker may "
            "send at its power limit whatever the target, so none can be met; use fading = none or power = fixed"
        )
    design = planned_design(scenario, Sensitivity(removal=1.0, replacement=1.0))
    check_target(
        design,
        adversary_named(privacy.adversary, scenario),
        privacy.accountant,
        privacy.adjacency,
        privacy.epsilon,
        privacy.delta,
    )


def private_received_watts(
    scenario: Scenario,
    sensitivity: Sensitivity,
    distance_metres: NDArray[np.float64] | None = None,
    *,
    accountant: str | None = None,
) -> float:
    """Return beta max q^2 of every slot, the largest that keeps the scenario's privacy target.

    With the paper's accountant this is Proposition 2.

    Args:
        scenario: holds target, adversary, accountant and neighbours.
        sensitivity: what one worker can move.
        distance_metres: where the workers stand, if that is known; shape workers.
        accountant: to be used instead of the scenario's.
    """
    check_privacy_target(scenario)
    privacy, noise_watts = scenario.privacy, dbm_to_watts(scenario.radio.noise_dbm)
    unit = planned_design(
        scenario,
        sensitivity,
        received_watts=noise_watts / 2.0 / sensitivity.replacement,
        farthest_gain=weakest_gain(scenario, distance_metres),
    )
    factor = calibrate_power(
        unit,
        adversary_named(privacy.adversary, scenario),
        accountant or privacy.accountant,
        adjacency=privacy.adjacency,
        epsilon=privacy.epsilon,
        delta=privacy.delta,
    )
    return factor * unit.received_watts[0]
