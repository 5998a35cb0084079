"""What an air that is not ideal makes of drawn slots: who does not send after all, and with which gain others do."""

from typing import NamedTuple

import torch

from airmixml.impairments.gains import SeatDraws, SeatGains
from airmixml.impairments.presence import has_levels, possible_power, present
from airmixml.radio.power import PowerControl, control_power
from airmixml.scenario import Scenario


class Impaired(NamedTuple):
    """Shares, powers and gains of consecutive slots as they happen."""

    ratios: torch.Tensor  # slots x scheduled
    power_watts: torch.Tensor  # slots x scheduled
    gains: SeatGains


def control_power_within_reach(
    scenario: Scenario,
    private_received_watts: float,
    ratios: torch.Tensor,
    magnitude: torch.Tensor,
    reached: torch.Tensor,
) -> PowerControl:
    """Choose the power scale for those whose channel is good enough (``reached``), and let the others be silent.

    All are slots x scheduled; see ``control_power``. Where nobody is reached the scale is that of perfect channels: it
    must not tell who was scheduled, and nothing is sent.
    """
    some = (reached & (ratios > 0.0)).any(dim=1, keepdim=True)
    shares = torch.where(some, ratios * reached, ratios)
    power = control_power(scenario, private_received_watts, shares, torch.where(some, magnitude, 1.0))
    return PowerControl(
        power_scale_watts=power.power_scale_watts,
        power_watts=power.power_watts * reached,
        limited=power.limited & some[:, 0],
    )


def impair(
    scenario: Scenario, seats: SeatDraws, ratios: torch.Tensor, power_watts: torch.Tensor, radiated_share: float
) -> Impaired:
    """Return what happens on the scenario's air to planned shares and powers, slots x scheduled.

    Who does not send has share and power 0, and who sends with less power than planned a smaller share; the power
    scale of the slot was set before anybody knew. ``radiated_share`` is what is radiated on average over P.
    """
    there = present(scenario, seats)
    ratios, power_watts = ratios * there, power_watts * there
    if has_levels(scenario):
        possible = possible_power(scenario, power_watts, radiated_share)
        kept = (possible / power_watts).nan_to_num_(nan=0.0)
        ratios = ratios * kept.sqrt_()
        power_watts = possible
    return Impaired(ratios, power_watts, SeatGains(scenario=scenario, draws=seats))
