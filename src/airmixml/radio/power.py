"""Power control: P = beta q^2 / |h|^2 (Eq. transmit_power), beta from the power limit, the privacy target, or given."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from airmixml.arrays import Doubles
from airmixml.scenario import Scenario
from airmixml.units import dbm_to_watts


@dataclass(frozen=True, kw_only=True)
class TransmitPower:
    """Power of a worker that sends in a slot, and the limit on it, in dBm."""

    median: float
    largest: float
    limit: float


@dataclass(frozen=True, kw_only=True)
class PowerControl:
    """Power of one block of slots."""

    power_scale_watts: Doubles  # beta of each slot; shape slots
    power_watts: Doubles  # P of each scheduled worker; slots x scheduled
    limited: NDArray[np.bool_]  # slots in which P_max forced beta below what was asked; shape slots


def largest_power_scale(ratios: Doubles, magnitude: Doubles, max_power_watts: float) -> Doubles:
    """Return P_max min_i |h_i|^2 / q_i^2, the largest beta that no worker's power limit forbids; shape slots.

    Infinite where nobody sends, as may happen in a Poisson schedule.
    """
    with np.errstate(divide="ignore"):
        return np.asarray(max_power_watts / np.max((ratios / magnitude) ** 2, axis=1))


def transmit_power(power_scale_watts: Doubles, ratios: Doubles, magnitude: Doubles) -> Doubles:
    """Return P = beta q^2 / |h|^2; slots x scheduled."""
    return np.asarray(power_scale_watts[:, None] * (ratios / magnitude) ** 2)


def received_amplitude(power_watts: Doubles, magnitude: Doubles) -> Doubles:
    """Return the normaliser b_t = sum_i sqrt(P_i) |h_i|, which is sqrt(beta) under this power control; shape slots."""
    return np.asarray(np.sum(np.sqrt(power_watts) * magnitude, axis=1))


def largest_shares(scenario: Scenario, ratios: Doubles) -> Doubles:
    """Return max q of each slot, or what a Poisson schedule gives to each worker that sends; shape slots."""
    if scenario.radio.schedule == "poisson":
        return np.full(len(ratios), 1.0 / scenario.radio.scheduled)
    return np.asarray(ratios.max(axis=1))


def control_power(
    scenario: Scenario, private_received_watts: float, ratios: Doubles, magnitude: Doubles
) -> PowerControl:
    """Choose beta for each slot as the scenario asks, never above what P_max allows, and each worker's power.

    ``private_received_watts`` is the beta max q^2 that keeps the privacy target, for ``mixing.power = "dp"``; ratios q
    and magnitude abs(h) are slots x scheduled.
    """
    max_power_watts = dbm_to_watts(scenario.radio.max_power_dbm)
    largest = largest_power_scale(ratios, magnitude, max_power_watts)
    if scenario.mixing.power == "max":
        asked = largest
    elif scenario.mixing.power == "fixed":
        asked = np.full(len(ratios), scenario.mixing.power_scale_watts)
    else:
        asked = private_received_watts / largest_shares(scenario, ratios) ** 2
    beta = np.minimum(asked, largest)
    # Rounding may carry the worker that sets the limit a hair above it.
    power_watts = np.minimum(transmit_power(beta, ratios, magnitude), max_power_watts)
    return PowerControl(power_scale_watts=beta, power_watts=power_watts, limited=asked > largest)
