"""One worker's analog frame as complex baseband, and the way back from a received sum to the mean of vectors.

A number of a vector is one complex sample, in phase: sqrt(beta) q v_j, the worker's own noise and its masks, in the
square root of watts as received. A worker whose channel has the power gain g sends it divided by sqrt(g). Samples lie
on a grid, as a converter's do, that is coarse enough for float32 to add up all workers of a slot without rounding, in
any order: whatever adds them up, the sum is exact, and masks cancel in it up to the grid.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from airmixml.arrays import watts_to_dbm
from airmixml.deploy.air import MOST_WORKERS, Samples
from airmixml.deploy.frames import Mean
from airmixml.errors import ProtocolError
from airmixml.masks.expansion import standard_normals

Masks = Callable[[int, int], NDArray[np.float64]]
"""Gives the masks of numbers ``first`` to ``first + count - 1`` of a frame."""

_EXACT_BITS: Final = 23  # of a whole number that float32 holds, besides its sign; half of them are to spare
_DEVIATIONS: Final = 9.0  # that noise and masks never exceed: normal values of the masks end at 8.57
_ROUNDING: Final = 1.0 + 1e-9


@dataclass(frozen=True, kw_only=True)
class Baseband:
    """How one kind of vectors becomes samples; fixed before the first slot, and no order changes it."""

    numbers: int
    norm: float  # that no vector exceeds
    most_watts: float  # beta q^2 that a worker is received with at most: its privacy rests on it
    limit_watts: float  # of a worker's transmitter
    workers: int  # of a slot at most
    own_watts: float = 0.0  # variance of a worker's own noise on a number
    mask_watts: float = 0.0  # of all its masks
    receiver_watts: float = 0.0  # noise power per complex sample of the receiver

    def __post_init__(self) -> None:
        if not 1 <= self.workers <= MOST_WORKERS:
            raise ProtocolError(
                f"slot of {self.workers:,} workers: must be 1 to {MOST_WORKERS:,} for complex baseband: float32 adds "
                'up no more without rounding; use privacy.arithmetic = "integers"'
            )

    def step(self, largest_watts: float) -> float:
        """Return the grid of a slot in which nobody is received with more than this; a power of two."""
        reach = math.sqrt(largest_watts) * self.norm + _DEVIATIONS * math.sqrt(self.own_watts + self.mask_watts)
        return float(2.0 ** (math.ceil(math.log2(reach)) - self._bits))

    def largest_sample(self, largest_watts: float) -> float:
        """Return what no sample of such a slot exceeds as received."""
        return self.step(largest_watts) * (1 << self._bits)

    @property
    def _bits(self) -> int:
        return _EXACT_BITS - math.ceil(math.log2(self.workers))

    def samples(
        self,
        vector: NDArray[np.floating],
        watts: float,
        *,
        largest_watts: float,
        seed: bytes,
        slot: int = 0,
        masks: Masks | None = None,
        gain: float = 1.0,
    ) -> Samples:
        """Return the frame of a worker that is to be received with ``watts``; refuse what its owner did not agree to.

        Args:
            vector: what it sends; shape numbers.
            watts: beta q^2.
            largest_watts: the same of the strongest worker of the slot, which gives the grid.
            seed: 32 new bytes from the operating system, for the worker's noise of this slot alone.
            slot: number of the slot.
            masks: what its masks are, where there are some.
            gain: power gain of its channel, which it makes up for.
        """
        self._check(vector, watts, largest_watts, gain)
        total = math.sqrt(watts) * vector.astype(np.float64)
        if self.own_watts:
            total += math.sqrt(self.own_watts) * standard_normals(seed, slot, 0, self.numbers)
        if masks is not None:
            total += masks(0, self.numbers)
        step, most = self.step(largest_watts), float(1 << self._bits)
        levels = np.clip(np.rint(total / step), -most, most)
        return (levels * (step / math.sqrt(gain))).astype(np.complex64)

    def _check(self, vector: NDArray[np.floating], watts: float, largest_watts: float, gain: float) -> None:
        if len(vector) != self.numbers or not np.linalg.norm(vector) <= self.norm * (1.0 + 1e-5):
            raise ProtocolError(
                f"vector of {len(vector)} numbers: must have {self.numbers} and a norm of at most {self.norm:.6g}"
            )
        if not 0.0 < watts <= largest_watts <= self.most_watts * _ROUNDING:
            raise ProtocolError(
                f"order: asks to be received with {watts:.6g} W in a slot of at most {largest_watts:.6g} W; must be "
                f"above 0 and at most the agreed {self.most_watts:.6g} W"
            )
        self.check_power(watts, self.limit_watts, gain)

    def check_power(self, watts: float, limit_watts: float, gain: float) -> None:
        """Refuse to be received with so much through a channel of this power gain where the transmitter is too weak."""
        # The paper's P is that of a symbol of amplitude 1; what is radiated on average over a slot counts as well.
        for what, needed in (
            ("a symbol", watts),
            ("a slot", watts * self.norm**2 / self.numbers + self.own_watts + self.mask_watts),
        ):
            if not needed <= limit_watts * gain * _ROUNDING:
                raise ProtocolError(
                    f"order: {what} would have to arrive with {watts_to_dbm(needed):.1f} dBm through a gain of "
                    f"{gain:g}, and the power limit of this worker is {watts_to_dbm(limit_watts):.1f} dBm; "
                    "it sends nothing"
                )

    def mean(
        self, total: Samples, watts: NDArray[np.float64], largest_watts: float, correction: NDArray[np.float64] | None
    ) -> Mean:
        """Return the mean of the vectors in a sum, weighted by shares.

        Args:
            total: the received sum; shape numbers.
            watts: beta q^2 of each worker that is in the sum.
            largest_watts: as the slot was ordered.
            correction: what masks leave in the sum, where there are some.
        """
        if len(total) != self.numbers or not len(watts):
            raise ProtocolError(
                f"sum of {len(watts)} workers with {len(total)} samples: must have a worker and {self.numbers} samples"
            )
        amplitudes = np.sqrt(watts)
        divisor = float(amplitudes.sum())
        in_phase = total.real.astype(np.float64)
        if correction is not None:
            in_phase -= correction
        of_each = self.own_watts + self.step(largest_watts) ** 2 / 12.0  # and of rounding to the grid
        variance = (self.receiver_watts / 2.0 + len(watts) * of_each) / divisor**2
        return Mean(in_phase / divisor, variance, divisor**2 / float(watts.sum()))
