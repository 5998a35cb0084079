"""Analog frames: a worker's vector as complex baseband, and the way back from a received sum to the mean of vectors.

A number of a vector is one complex sample, in phase: sqrt(beta) q v_j and the worker's own noise, in the square root of
watts as received, as if each had made up for its channel. Samples lie on a grid, as a converter's do, that is coarse
enough for float32 to add up all workers of a slot without rounding, in any order: whatever adds them up, the sum is
exact.

Samples travel to an air, which adds them up (``air_link``). Of them a worker tells the server the digest alone, and its
own noise hides it from all who hear the frame by itself, as the air does.
"""

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from airmixml.arrays import Doubles
from airmixml.deploy.frames import Sender
from airmixml.deploy.wire import LARGEST_BODY, SIGNATURE_BYTES, Message, Reader, Type, pack_list, pack_names
from airmixml.masks.keys import standard_normals
from airmixml.messages import ProtocolError

if TYPE_CHECKING:
    from airmixml.masks.rules import Rules

Samples = NDArray[np.complex64]

MOST_WORKERS: Final = 4096
"""Of a slot: float32 adds up so many frames on a grid of 12 bits without rounding."""

_EXACT_BITS: Final = 23  # of a whole number that float32 holds, besides its sign; half of them are to spare
_DEVIATIONS: Final = 9.0  # that noise never exceeds: ``standard_normals`` end at 8.57
_SAMPLE_BYTES: Final = 8
_OPENING: Final = struct.Struct(">II")
_DIGEST_BYTES: Final = 32
_PROOF_BYTES: Final = _DIGEST_BYTES + SIGNATURE_BYTES


class Opening(NamedTuple):
    """What the server says of a slot: how many samples a frame has, whether to wait, and for whom, who alone may send.

    The same again with fewer workers waits for these alone; without waiting it closes the slot.
    """

    samples: int
    waits: int  # 1, or 0
    workers: tuple[int, ...]

    def packed(self) -> bytes:
        return _OPENING.pack(self.samples, self.waits) + pack_names(self.workers)

    @classmethod
    def of(cls, body: bytes) -> "Opening":
        reader = Reader(body)
        (samples, waits), workers = reader.numbers(_OPENING), tuple(reader.entries(0))
        reader.end()
        if not workers or waits > 1 or not 0 < samples * _SAMPLE_BYTES <= LARGEST_BODY:
            raise ProtocolError(
                f"opening of {len(workers)} workers with {samples} samples: must name at least one worker and 1 to "
                f"{LARGEST_BODY // _SAMPLE_BYTES} samples"
            )
        return cls(samples, waits, workers)


class SumOnAir(NamedTuple):
    """What the air hands the server: who is in the sum, the sum, and what proves who is in it."""

    present: tuple[int, ...]
    samples: Samples
    proofs: tuple[bytes, ...] = ()  # of each: the digest of its samples, and its signature under that

    def packed(self) -> bytes:
        return pack_list(dict(zip(self.present, self.proofs, strict=True))) + as_bytes(self.samples)

    @classmethod
    def of(cls, body: bytes) -> "SumOnAir":
        reader = Reader(body)
        proofs = reader.entries(_PROOF_BYTES)
        return cls(tuple(proofs), as_samples(reader.take(reader.left)), tuple(proofs.values()))

    def acknowledgements(self, of: Message) -> dict[int, Message]:
        """Return the FRAME message that each worker in the sum signed; whether it did is left to the caller."""
        return {
            each: Message(Type.FRAME, each, of.run, of.round, of.attempt, proof[:_DIGEST_BYTES], proof[_DIGEST_BYTES:])
            for each, proof in zip(self.present, self.proofs, strict=True)
        }


def frame_messages(frame: bytes, say: Callable[[Type, bytes], Message]) -> list[Message]:
    """Return what a worker says when it sends samples: their digest to the server, and to the air the samples."""
    acknowledged = say(Type.FRAME, sha256(frame).digest())
    return [acknowledged, say(Type.SAMPLES, acknowledged.signed + frame)]


def as_bytes(samples: NDArray[np.complexfloating]) -> bytes:
    """Return samples in GNU Radio's format."""
    return samples.astype("<c8").tobytes()


def as_samples(content: bytes) -> Samples:
    """Return the samples of such bytes; refuse a broken sample, or one that is not finite."""
    if len(content) % _SAMPLE_BYTES:
        raise ProtocolError(f"frame of {len(content)} bytes ends within a sample; must be a multiple of 8")
    found = np.frombuffer(content, dtype="<c8").astype(np.complex64, copy=False)
    if not np.isfinite(found).all():
        raise ProtocolError("frame has samples that are not finite, which would spoil the sum")
    return found


@dataclass(frozen=True, kw_only=True)
class AnalogKind:
    """How one kind of vectors becomes samples, what a frame costs, and how many a worker sends at most."""

    on_air: ClassVar[bool] = True

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
        """Return the frame of a vector (numbers), which is shortened where it exceeds the norm that was agreed on.

        ``seed`` are 32 new bytes from the operating system, for the worker's noise of this slot alone.
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
        return total.samples.real.astype(np.float64) / divisor, self.noise_variance(count)

    def noise_variance(self, count: int) -> float:
        """Return the variance of noise and rounding in a number of the mean over so many workers."""
        of_each = self.own_watts + self.step**2 / 12.0  # and of rounding to the grid
        return (self.receiver_watts / 2.0 + count * of_each) / (count * math.sqrt(self.watts)) ** 2

    def rules(self, agreed: "Sequence[Rules]") -> "list[Rules]":
        """Return none: such frames have no masks."""
        return []

    def messages(self, vector: NDArray[np.floating], by: Sender) -> list[Message]:
        """Return the digest of the samples, for the server, and the samples."""
        return frame_messages(as_bytes(self.samples(vector, by.seed, by.slot)), by.say)

    def check(self, body: bytes) -> None:
        if len(body) != sha256().digest_size:
            raise ProtocolError(f"FRAME has {len(body)} bytes and must be the digest of samples")
