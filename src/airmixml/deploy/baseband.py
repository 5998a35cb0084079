"""Analog frames: a worker's vector as complex baseband, and the way back from a received sum to the mean of vectors.

A number of a vector is one complex sample, in phase: sqrt(beta) q v_j and the worker's own noise, in the square root of
watts as received, as if each had made up for its channel. Samples lie on a grid, as a converter's do, that is coarse
enough for float32 to add up all workers of a slot without rounding, in any order: whatever adds them up, the sum is
exact.

Samples travel to an air, which adds them up. Of them a worker tells the server the digest alone, and its own noise
hides it from all who hear the frame by itself, as the air does.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from airmixml.arrays import Doubles
from airmixml.deploy.air import MOST_WORKERS, Samples, SumOnAir, as_bytes, frame_messages
from airmixml.deploy.frames import Sender
from airmixml.deploy.wire import Message
from airmixml.errors import ProtocolError
from airmixml.masks.keys import standard_normals

if TYPE_CHECKING:
    from airmixml.masks.rules import Rules

_EXACT_BITS: Final = 23  # of a whole number that float32 holds, besides its sign; half of them are to spare
_DEVIATIONS: Final = 9.0  # that noise never exceeds: ``standard_normals`` end at 8.57


@dataclass(frozen=True, kw_only=True)
class AnalogKind:
    """How one kind of vectors becomes samples, what a frame costs, and how many a worker sends at most."""

    on_air: ClassVar[bool] = True
    rounds: ClassVar[str] = "airmixml.deploy.rounds:AttemptOnAir"

    sends: str  # moments or gradients
    cost: int
    releases: int
    numbers: int
    norm: float  # that no vector exceeds
    watts: float  # beta q^2 that a worker is received with at most: its privacy rests on it
    workers: int  # of a slot at most
    own_watts: float = 0.0  # variance of a worker's own noise on a number, as received
    receiver_watts: float = 0.0  # noise power per complex sample of the receiver, behind which nobody hides

    def __post_init__(self) -> None:
        if not 1 <= self.workers <= MOST_WORKERS:
            raise ProtocolError(
                f"slot of {self.workers:,} workers: must be 1 to {MOST_WORKERS:,} for complex baseband: float32 adds "
                'up no more without rounding; use privacy.arithmetic = "integers"'
            )

    @property
    def step(self) -> float:
        """The grid, a power of two."""
        reach = math.sqrt(self.watts) * self.norm + _DEVIATIONS * math.sqrt(self.own_watts)
        return float(2.0 ** (math.ceil(math.log2(reach)) - self._bits))

    @property
    def loudest(self) -> float:
        """The largest sample that an air adds up."""
        return self.step * (1 << self._bits)

    @property
    def _bits(self) -> int:
        return _EXACT_BITS - math.ceil(math.log2(self.workers))

    def samples(self, vector: NDArray[np.floating], seed: bytes, slot: int = 0) -> Samples:
        """Return the frame of a worker; a vector that is longer than the norm that was agreed on is shortened.

        Args:
            vector: what it sends; shape numbers.
            seed: 32 new bytes from the operating system, for the worker's noise of this slot alone.
            slot: number of the slot.
        """
        length = float(np.linalg.norm(vector.astype(np.float64)))
        total = math.sqrt(self.watts) * vector.astype(np.float64) * min(1.0, self.norm / max(length, self.norm))
        if self.own_watts:
            total += math.sqrt(self.own_watts) * standard_normals(seed, slot, 0, self.numbers)
        most = float(1 << self._bits)
        return (np.clip(np.rint(total / self.step), -most, most) * self.step).astype(np.complex64)

    def mean(self, total: SumOnAir) -> tuple[Doubles, float]:
        """Return the mean of the vectors of the workers in a sum, and the variance of noise and rounding in it."""
        count = len(total.present)
        divisor = count * math.sqrt(self.watts)
        of_each = self.own_watts + self.step**2 / 12.0  # and of rounding to the grid
        variance = (self.receiver_watts / 2.0 + count * of_each) / divisor**2
        return total.samples.real.astype(np.float64) / divisor, variance

    def rules(self, agreed: "Sequence[Rules]") -> "list[Rules]":
        """Return none: such frames have no masks."""
        return []

    def messages(self, vector: NDArray[np.floating], by: Sender) -> list[Message]:
        """Return the digest of the samples, for the server, and the samples."""
        return frame_messages(as_bytes(self.samples(vector, by.seed, by.slot)), by.say)

    def check(self, body: bytes) -> None:
        """Refuse what is no digest."""
        if len(body) != sha256().digest_size:
            raise ProtocolError(f"FRAME has {len(body)} bytes and must be the digest of samples")


def loudest_samples(kinds: Iterable[AnalogKind]) -> dict[int, float]:
    """Return the largest sample that an air adds up, by the number of samples of a frame."""
    found: dict[int, float] = {}
    for each in kinds:
        found[each.numbers] = max(each.loudest, found.get(each.numbers, 0.0))
    return found
