"""Who of the scheduled workers sends at all, with which power, and from when on. Nobody's data decide it.

A transmitter has powers that it can send with: none below its lowest, and those between in steps. A worker that cannot
send with the power it should takes the next lower one, or stays silent: it is never louder than planned. How soft a
seat is depends on who sits in it; a hidden schedule still hides, since its vector keeps within the same bounds.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from airmixml.arrays import db_to_ratio, dbm_to_watts
from airmixml.impairments.fading import fades
from airmixml.impairments.gains import Impairment, SeatDraws, SeatGains
from airmixml.scenario import Scenario


def truncates(scenario: Scenario) -> bool:
    """Return whether workers in a fade stay silent."""
    return scenario.air.truncation_db > -math.inf and fades(scenario)


def within_reach(scenario: Scenario, magnitude: torch.Tensor, path_gain: torch.Tensor) -> torch.Tensor:
    """Return which workers' fading abs(h)^2 / path_gain^2 is not below ``air.truncation_db``; slots x scheduled.

    Truncated inversion (Goldsmith and Varaiya 1997, IEEE Trans. Inf. Theory 43(6); over the air Zhu, Wang and Huang
    2020, IEEE Trans. Wireless Commun. 19(1)): the others stay silent, and the server, which knows them, does not lower
    the power scale of a slot for them.

    Fading is drawn for a seat, by a law that is the same for every worker, and compared with the worker's own mean. So
    which seats are silent is independent of who sits in them, and a hidden schedule hides as before.
    """
    return (magnitude / path_gain).square() >= db_to_ratio(scenario.air.truncation_db)


def present(scenario: Scenario, draws: SeatDraws) -> torch.Tensor:
    """Return which scheduled workers are not absent; slots x scheduled."""
    absent = scenario.air.absent
    if not absent:
        return torch.ones_like(draws.workers, dtype=torch.bool)
    return draws.uniforms("absent")[:, :, 0] >= absent


def possible_power(scenario: Scenario, power_watts: torch.Tensor, radiated_share: float) -> torch.Tensor:
    """Return the power that each worker sends with instead of P: the next on the grid at or below it, or 0; same shape.

    The grid is P_max less whole steps of ``air.power_step_db``. What is radiated on average over a slot, P times
    ``radiated_share``, must be at least ``air.min_power_dbm``, less attenuators. Nobody's data decide who is silent.
    """
    air, limit_watts = scenario.air, dbm_to_watts(scenario.radio.max_power_dbm)
    possible = power_watts
    if air.power_step_db:
        step = 10.0 ** (air.power_step_db / 10.0)
        # A hair less than a whole number of steps is rounding.
        steps = torch.ceil(torch.log(limit_watts / power_watts) / math.log(step) - 1e-9)
        possible = torch.minimum(limit_watts * step**-steps, power_watts)
    return possible * (possible * radiated_share >= dbm_to_watts(air.lowest_power_dbm))


class Impaired(NamedTuple):
    """Shares, powers and gains of consecutive slots as they happen."""

    ratios: torch.Tensor  # slots x scheduled
    power_watts: torch.Tensor  # slots x scheduled
    gains: SeatGains


def impair(
    scenario: Scenario, seats: SeatDraws, ratios: torch.Tensor, power_watts: torch.Tensor, radiated_share: float
) -> Impaired:
    """Return what happens on the scenario's air to planned shares and powers, slots x scheduled.

    Who does not send has share and power 0, and who sends with less power than planned a smaller share; the power scale
    of the slot was set before anybody knew.
    """
    there = present(scenario, seats)
    ratios, power_watts = ratios * there, power_watts * there
    if scenario.air.power_step_db > 0.0 or math.isfinite(scenario.air.min_power_dbm):
        possible = possible_power(scenario, power_watts, radiated_share)
        kept = (possible / power_watts).nan_to_num_(nan=0.0)
        ratios = ratios * kept.sqrt_()
        power_watts = possible
    return Impaired(ratios, power_watts, SeatGains(scenario=scenario, draws=seats))


@dataclass(frozen=True)
class LateWorkers(Impairment):
    """With that probability a worker comes at a time u uniform over the slot, and g = 0 until the next block begins.

    A block begins with what its phases are aligned to and with the pilot that tells the server its mean gain, so nobody
    can join in the middle: a late worker waits for the next, and misses a slot of one block. Block b, which begins at
    the share t_b of the slot, is missed with probability p (1 - t_b), half a block more than it is late.
    """

    about = "workers that join late"
    key = "late"
    probability: float

    def gains(self, draws: SeatDraws) -> torch.Tensor:
        chance, frame = draws.uniforms("late", 2), draws.frame
        late, came_at = chance[:, :, :1] < self.probability, chance[:, :, 1:]
        lengths = torch.tensor(frame.lengths, dtype=torch.float64, device=chance.device)
        begins = ((lengths.cumsum(dim=0) - lengths) / lengths.sum())[
            torch.from_numpy(np.flatnonzero(np.diff(frame.blocks, prepend=-1)))
        ]
        return draws.by_block((~late | (came_at <= begins)).double())
