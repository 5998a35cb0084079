"""Power control: P = beta q^2 / |h|^2 (Eq. transmit_power), beta from the power limit, the privacy target, or given."""

from dataclasses import dataclass, replace

import torch

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

    power_scale_watts: torch.Tensor  # beta of each slot; shape slots
    power_watts: torch.Tensor  # P of each scheduled worker; slots x scheduled
    limited: torch.Tensor  # whether P_max forced beta below what was asked; shape slots


def largest_power_scale(ratios: torch.Tensor, magnitude: torch.Tensor, max_power_watts: float) -> torch.Tensor:
    """Return P_max min_i |h_i|^2 / q_i^2, the largest beta that no worker's power limit forbids; shape slots.

    Infinite where nobody sends, as may happen in a Poisson schedule.
    """
    return max_power_watts / (ratios / magnitude).amax(dim=1).square_()


def transmit_power(power_scale_watts: torch.Tensor, ratios: torch.Tensor, magnitude: torch.Tensor) -> torch.Tensor:
    """Return P = beta q^2 / |h|^2; slots x scheduled."""
    return (ratios / magnitude).square_().mul_(power_scale_watts[:, None])


def largest_shares(scenario: Scenario, ratios: torch.Tensor) -> torch.Tensor:
    """Return the largest share of each slot, or what a Poisson schedule gives all who send; shape slots."""
    if scenario.radio.schedule == "poisson":
        return ratios.new_full((len(ratios),), 1.0 / scenario.radio.scheduled)
    return ratios.amax(dim=1)


def control_power(
    scenario: Scenario,
    private_received_watts: float,
    ratios: torch.Tensor,
    magnitude: torch.Tensor,
    reached: torch.Tensor | None = None,
) -> PowerControl:
    """Choose beta for each slot as the scenario asks, never above what P_max allows, and each worker's power.

    ``private_received_watts`` is the beta max q^2 that keeps the privacy target, for ``mixing.power = "dp"``; ratios q
    and magnitude abs(h) are slots x scheduled. Where only some channels are good enough (``reached``), it is chosen for
    those, and the others are silent. Where nobody is reached the scale is that of perfect channels: it must not tell
    who was scheduled, and nothing is sent.
    """
    if reached is not None:
        some = (reached & (ratios > 0.0)).any(dim=1, keepdim=True)
        shares = torch.where(some, ratios * reached, ratios)
        power = control_power(scenario, private_received_watts, shares, torch.where(some, magnitude, 1.0))
        return replace(power, power_watts=power.power_watts * reached, limited=power.limited & some[:, 0])
    max_power_watts = dbm_to_watts(scenario.radio.max_power_dbm)
    largest = largest_power_scale(ratios, magnitude, max_power_watts)
    if scenario.mixing.power == "max":
        asked = largest
    elif scenario.mixing.power == "fixed":
        asked = torch.full_like(largest, scenario.mixing.power_scale_watts)
    else:
        asked = private_received_watts / largest_shares(scenario, ratios) ** 2
    beta = torch.minimum(asked, largest)
    # Rounding may carry the worker that sets the limit a hair above it.
    power_watts = transmit_power(beta, ratios, magnitude).clamp_(max=max_power_watts)
    return PowerControl(power_scale_watts=beta, power_watts=power_watts, limited=asked > largest)
