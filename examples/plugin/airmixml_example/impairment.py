"""An impairment: a person sometimes blocks the path of a worker, which the server then receives 10 dB weaker."""

from typing import Self

import torch

from airmixml.impairments.gains import SeatDraws
from airmixml.scenario import Scenario

PROBABILITY = 0.1
LOSS_DB = 10.0


class Blockage:
    """A gain of -10 dB with probability 0.1, drawn anew for every worker in every slot."""

    about = "a person blocks the path"
    follows_worker = False

    @classmethod
    def of(cls, scenario: Scenario) -> Self | None:
        """Return it for every scenario whose air.also names it."""
        return cls()

    def gains(self, draws: SeatDraws) -> torch.Tensor:
        """Draw abs(g); slots x scheduled x 1, the same for the whole slot."""
        blocked = draws.uniforms("blockage") < PROBABILITY
        return 1.0 - (1.0 - 10.0 ** (-LOSS_DB / 20.0)) * blocked.double()

    def largest_power_gain(self, failure: float) -> float:
        """No worker is ever received more strongly than planned."""
        return 1.0
