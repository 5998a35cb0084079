"""Power control: P = beta q^2 / |h|^2 (Eq. transmit_power), beta from the power limit, the privacy target, or given."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from airmixml.privacy import power_scale_for_privacy
from airmixml.scenario import Scenario
from airmixml.units import dbm_to_watts

__all__ = [
    "PowerControl",
    "check_privacy_target",
    "control_power",
    "largest_power_scale",
    "private_power_scale",
    "received_amplitude",
    "transmit_power",
]


@dataclass(frozen=True, kw_only=True)
class PowerControl:
    """Power of one block of slots.

    Attributes:
        power_scale_watts: beta of each slot; shape slots.
        power_watts: P of each scheduled worker; slots x scheduled.
        limited: slots in which P_max forced beta below what was asked; shape slots.
    """

    power_scale_watts: NDArray[np.float64]
    power_watts: NDArray[np.float64]
    limited: NDArray[np.bool_]


def largest_power_scale(
    ratios: NDArray[np.float64], magnitude: NDArray[np.float64], max_power_watts: float
) -> NDArray[np.float64]:
    """Return P_max min_i |h_i|^2 / q_i^2, the largest beta that no worker's power limit forbids; shape slots."""
    return np.asarray(max_power_watts / np.max((ratios / magnitude) ** 2, axis=1))


def transmit_power(
    power_scale_watts: NDArray[np.float64], ratios: NDArray[np.float64], magnitude: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return P = beta q^2 / |h|^2; slots x scheduled."""
    return np.asarray(power_scale_watts[:, None] * (ratios / magnitude) ** 2)


def received_amplitude(power_watts: NDArray[np.float64], magnitude: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the normaliser b_t = sum_i sqrt(P_i) |h_i|, which is sqrt(beta) under this power control; shape slots."""
    return np.asarray(np.sum(np.sqrt(power_watts) * magnitude, axis=1))


def check_privacy_target(scenario: Scenario) -> None:
    """Raise a PrivacyError if the scenario sets its power by a target that its bound cannot certify."""
    if scenario.mixing.power == "dp":
        private_power_scale(scenario, np.ones(1), sensitivity=1.0)


def private_power_scale(
    scenario: Scenario, largest_ratio: NDArray[np.float64], sensitivity: float
) -> NDArray[np.float64]:
    """Return beta of Proposition 2 for the scenario's privacy target; shape slots."""
    return power_scale_for_privacy(
        largest_ratio,
        epsilon=scenario.privacy.epsilon,
        delta=scenario.privacy.delta,
        slots=scenario.radio.slots,
        sampling_rate=scenario.sampling_rate,
        noise_watts=dbm_to_watts(scenario.radio.noise_dbm),
        sensitivity=sensitivity,
    )


def control_power(
    scenario: Scenario, sensitivity: float, ratios: NDArray[np.float64], magnitude: NDArray[np.float64]
) -> PowerControl:
    """Choose beta for each slot as the scenario asks, never above what P_max allows, and each worker's power."""
    max_power_watts = dbm_to_watts(scenario.radio.max_power_dbm)
    largest = largest_power_scale(ratios, magnitude, max_power_watts)
    if scenario.mixing.power == "max":
        asked = largest
    elif scenario.mixing.power == "fixed":
        asked = np.full(len(ratios), scenario.mixing.power_scale_watts)
    else:
        asked = private_power_scale(scenario, ratios.max(axis=1), sensitivity)
    beta = np.minimum(asked, largest)
    # Rounding may carry the worker that sets the limit a hair above it.
    power_watts = np.minimum(transmit_power(beta, ratios, magnitude), max_power_watts)
    return PowerControl(power_scale_watts=beta, power_watts=power_watts, limited=asked > largest)
