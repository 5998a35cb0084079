"""Who of the scheduled workers sends at all, and from when on. Nobody's data decide it."""

import math
from dataclasses import dataclass
from typing import Self

import torch

from airmixml.impairments.fading_floor import fades
from airmixml.impairments.gains import SeatDraws
from airmixml.scenario import Scenario
from airmixml.units import db_to_ratio


def truncates(scenario: Scenario) -> bool:
    """Return whether workers in a fade stay silent."""
    return scenario.air.truncation_db > -math.inf and fades(scenario)


def within_reach(scenario: Scenario, magnitude: torch.Tensor, path_gain: torch.Tensor) -> torch.Tensor:
    """Return which workers' fading abs(h)^2 / path_gain^2 is not below ``air.truncation_db``; slots x scheduled.

    Truncated inversion (Goldsmith and Varaiya 1997, IEEE Trans. Inf. Theory 43(6); over the air Zhu, Wang and Huang
    2020, IEEE Trans. Wireless Commun. 19(1)): the others stay silent. The server, which sets the power
    scale of a slot from the channels, knows who they are, so that a worker in a fade does not lower it for all.

    Fading is drawn for a seat, by a law that is the same for every worker, and it is compared with the worker's own
    mean. Which seats are silent is therefore independent of who sits in them. Given all fading, a slot is one in which
    some shares are 0, and a hidden schedule hides as before; weak seats being silent, the power limit binds for none.
    """
    return (magnitude / path_gain).square() >= db_to_ratio(scenario.air.truncation_db)


def present(scenario: Scenario, draws: SeatDraws) -> torch.Tensor:
    """Return which scheduled workers are not absent; slots x scheduled."""
    absent = scenario.air.absent
    if not absent:
        return torch.ones_like(draws.workers, dtype=torch.bool)
    return draws.uniforms("absent")[:, :, 0] >= absent


@dataclass(frozen=True)
class LateWorkers:
    """With that probability a worker comes at a time u uniform over the slot, and g = 0 until the next block begins.

    A block begins with what its phases are aligned to and with the pilot that tells the server its mean gain, so nobody
    can join in the middle: a late worker waits for the next, and misses a slot of one block. Block b, which begins at
    the share t_b of the slot, is missed with probability p (1 - t_b), half a block more than it is late.
    """

    about = "workers that join late"
    follows_worker = False
    probability: float

    @classmethod
    def of(cls, scenario: Scenario) -> Self | None:
        """Return it where the air has some."""
        return cls(scenario.air.late) if scenario.air.late else None

    def gains(self, draws: SeatDraws) -> torch.Tensor:
        """Draw g, 0 or 1; slots x scheduled x pieces."""
        chance, frame = draws.uniforms("late", 2), draws.frame
        late, came_at = chance[:, :, :1] < self.probability, chance[:, :, 1:]
        lengths = torch.tensor(frame.lengths, dtype=torch.float64, device=chance.device)
        begins = ((lengths.cumsum(dim=0) - lengths) / lengths.sum())[frame.first_pieces]
        return draws.by_block((~late | (came_at <= begins)).double())

    def largest_power_gain(self, failure: float) -> float:
        """Silence adds no power."""
        return 1.0
