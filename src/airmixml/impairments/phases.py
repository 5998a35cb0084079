"""Phases and amplitudes that are off: after a resynchronisation, by an oscillator of one's own, by its noise.

A turned phase moves part of a signal to the imaginary part. It arrives with the power it was to have, so none of this
changes what the server can learn of a worker.
"""

import math
from dataclasses import dataclass

import torch

from airmixml.arrays import db_to_ratio
from airmixml.impairments.frame import Frame
from airmixml.impairments.gain_laws import UniformError
from airmixml.impairments.gains import Impairment, SeatDraws


@dataclass(frozen=True)
class PhaseError(Impairment):
    """phi ~ N(0, s^2) after each resynchronisation, then constant."""

    about = "phase error after a resynchronisation"
    key = "phase_error_radians"
    deviation_radians: float

    def angle(self, draws: SeatDraws) -> torch.Tensor:
        """Draw one angle per block; slots x scheduled x pieces."""
        return draws.by_block(self.deviation_radians * draws.normals("phase-error", draws.frame.block_count))


@dataclass(frozen=True)
class FrequencyOffset(Impairment):
    """phi = 2 pi f t, t from the last resynchronisation on, with f ~ N(0, s^2) for the slot."""

    about = "carrier frequency offset between resynchronisations"
    key = "frequency_offset_hz"
    deviation_hz: float

    def angle(self, draws: SeatDraws) -> torch.Tensor:
        """Draw a frequency per seat; slots x scheduled x pieces."""
        return 2.0 * math.pi * self.deviation_hz * draws.normals("frequency-offset") * draws.seconds


@dataclass(frozen=True)
class PhaseNoise(Impairment):
    """A Wiener process from each resynchronisation on: phi has variance 2 pi w t for a linewidth w."""

    about = "phase noise of an oscillator"
    key = "phase_noise_hz"
    linewidth_hz: float

    def angle(self, draws: SeatDraws) -> torch.Tensor:
        """Draw the walk at the middle of each piece; slots x scheduled x pieces."""
        frame = draws.frame
        walk = draws.normals("phase-noise", frame.block_count * frame.per_block)
        walk[:, :, : frame.pieces] *= draws.over_pieces(2.0 * math.pi * self.linewidth_hz * frame.steps).sqrt()
        in_blocks = walk.view(*walk.shape[:2], frame.block_count, frame.per_block)
        for piece in range(1, frame.per_block):
            in_blocks[..., piece] += in_blocks[..., piece - 1]
        return walk[:, :, : frame.pieces]


@dataclass(frozen=True)
class AmplitudeError(Impairment):
    """abs(g) uniform in dB, at most so many above or below; new in every slot."""

    about = "error of a transmitter's amplitude"
    key = "amplitude_error_db"
    largest_db: float

    def gains(self, draws: SeatDraws) -> torch.Tensor:
        """Draw abs(g); slots x scheduled x 1."""
        off_db = self.largest_db * (2.0 * draws.uniforms("amplitude-error") - 1.0)
        return torch.exp(off_db * (math.log(10.0) / 20.0))

    def largest_power_gain(self, failure: float) -> float:
        """It never exceeds its bound."""
        return db_to_ratio(self.largest_db)

    def law(self, frame: Frame | None = None) -> UniformError:
        """Return how far ln abs(g) may be off."""
        return UniformError(self.largest_db * math.log(10.0) / 20.0)
