"""Devices that cannot align phases at all: each sends with a phase of its own, which nobody knows."""

import math
from dataclasses import dataclass
from typing import Self

import torch

from airmixml.impairments.gains import SeatDraws
from airmixml.impairments.phases import Turn
from airmixml.scenario import Scenario


@dataclass(frozen=True)
class RandomPhase(Turn):
    """phi uniform over the circle, new in every block, for ``air.detection = "energy"``.

    It belongs to a seat, whoever sits there: where another worker takes a seat, the phase may stay. Where seats follow
    channels (max-min), one worker more moves others to other seats and so to other phases: no hidden schedule is then
    credited.
    """

    about = "phases that nobody aligns, for detection by energy"
    follows_worker: bool = False

    @classmethod
    def of(cls, scenario: Scenario) -> Self | None:
        """Return it where the server detects energies."""
        if scenario.air.is_coherent:
            return None
        return cls(follows_worker=scenario.mixing.assignment == "max-min")

    def angle(self, draws: SeatDraws) -> torch.Tensor:
        """Draw one angle per block; slots x scheduled x pieces."""
        return draws.by_block(2.0 * math.pi * draws.uniforms("random-phase", draws.frame.block_count))
