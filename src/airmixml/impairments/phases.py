"""Phases that are off: after a resynchronisation, by a carrier frequency of one's own, by an oscillator's noise.

A turned phase moves part of a signal to the imaginary part. It arrives with the power it was to have, so none of this
changes what the server can learn of a worker.
"""

import math
from dataclasses import dataclass
from typing import Self

import torch

from airmixml.impairments.gains import SeatDraws
from airmixml.scenario import Scenario


class Turn:
    """A gain of magnitude 1 that is drawn anew in every slot."""

    follows_worker = False

    def gains(self, draws: SeatDraws) -> torch.Tensor:
        """Draw exp(j phi); slots x scheduled x pieces."""
        angle = self.angle(draws)
        return torch.polar(torch.ones_like(angle), angle)

    def angle(self, draws: SeatDraws) -> torch.Tensor:
        """Draw phi in radians; slots x scheduled x pieces."""
        raise NotImplementedError

    def largest_power_gain(self, failure: float) -> float:
        """Turning adds no power."""
        return 1.0


@dataclass(frozen=True)
class PhaseError(Turn):
    """phi ~ N(0, s^2) after each resynchronisation, then constant."""

    about = "phase error after a resynchronisation"
    deviation_radians: float

    @classmethod
    def of(cls, scenario: Scenario) -> Self | None:
        """Return it where the air has one."""
        deviation = scenario.air.phase_error_radians
        return cls(deviation) if deviation else None

    def angle(self, draws: SeatDraws) -> torch.Tensor:
        """Draw one angle per block; slots x scheduled x pieces."""
        return draws.by_block(self.deviation_radians * draws.normals("phase-error", draws.frame.block_count))


@dataclass(frozen=True)
class FrequencyOffset(Turn):
    """phi = 2 pi f t, t from the last resynchronisation on, with f ~ N(0, s^2) for the slot."""

    about = "carrier frequency offset between resynchronisations"
    deviation_hz: float

    @classmethod
    def of(cls, scenario: Scenario) -> Self | None:
        """Return it where the air has one."""
        deviation = scenario.air.frequency_offset_hz
        return cls(deviation) if deviation else None

    def angle(self, draws: SeatDraws) -> torch.Tensor:
        """Draw a frequency per seat; slots x scheduled x pieces."""
        return 2.0 * math.pi * self.deviation_hz * draws.normals("frequency-offset") * draws.seconds


@dataclass(frozen=True)
class PhaseNoise(Turn):
    """A Wiener process from each resynchronisation on: phi has variance 2 pi w t for a linewidth w."""

    about = "phase noise of an oscillator"
    linewidth_hz: float

    @classmethod
    def of(cls, scenario: Scenario) -> Self | None:
        """Return it where the air has one."""
        linewidth = scenario.air.phase_noise_hz
        return cls(linewidth) if linewidth else None

    def angle(self, draws: SeatDraws) -> torch.Tensor:
        """Draw the walk at the middle of each piece; slots x scheduled x pieces."""
        frame, seconds = draws.frame, draws.seconds
        starts = torch.zeros_like(seconds, dtype=torch.bool)
        starts[frame.first_pieces] = True
        since = torch.where(starts, seconds, seconds - seconds.roll(1))
        steps = draws.normals("phase-noise", frame.pieces) * (2.0 * math.pi * self.linewidth_hz * since).sqrt()
        walk = steps.cumsum(dim=2)
        before = (walk - steps)[:, :, frame.first_pieces]
        return walk - draws.by_block(before)
