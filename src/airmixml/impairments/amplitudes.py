"""Amplitudes that are off: a transmitter is louder or softer than it should be."""

import math
from dataclasses import dataclass
from typing import Self

import torch

from airmixml.impairments.gains import SeatDraws
from airmixml.scenario import Scenario
from airmixml.units import db_to_ratio


@dataclass(frozen=True)
class AmplitudeError:
    """abs(g) uniform in dB, at most so many above or below; new in every slot."""

    about = "error of a transmitter's amplitude"
    follows_worker = False
    largest_db: float

    @classmethod
    def of(cls, scenario: Scenario) -> Self | None:
        """Return it where the air has one."""
        largest = scenario.air.amplitude_error_db
        return cls(largest) if largest else None

    def gains(self, draws: SeatDraws) -> torch.Tensor:
        """Draw abs(g); slots x scheduled x 1."""
        off_db = self.largest_db * (2.0 * draws.uniforms("amplitude-error") - 1.0)
        return torch.exp(off_db * (math.log(10.0) / 20.0))

    def largest_power_gain(self, failure: float) -> float:
        """It never exceeds its bound."""
        return db_to_ratio(self.largest_db)
