"""Frames of masked integers: a worker's vector, rounded, with its share of the noise and its masks, modulo 2^b.

All randomness of a frame is the key stream of one secret seed, addressed by the number's place (``Use``), so that any
part of a frame can be formed alone and a microcontroller forms number after number without memory for the vector.
firmware/ does the same in C, to the last bit.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from airmixml.arrays import Doubles, Integers
from airmixml.deploy.wire import Message, Type
from airmixml.integers.encoding import IntegerCode, signed, skellam_table
from airmixml.masks.keys import Use, stream_words, word_bytes
from airmixml.messages import ProtocolError

if TYPE_CHECKING:
    from airmixml.masks.recovery import RecoveringWorker
    from airmixml.masks.rules import Rules

Residues = NDArray[np.uint64]
Masks = Callable[[int, int], Residues]
"""Gives the masks of numbers ``first`` to ``first + count - 1`` of a frame, modulo 2^b."""

LARGEST_VARIANCE: Final = 2.0**24
"""Of a worker's noise, in squared steps: its table is made at once."""

_ROUNDING_BYTES: Final = 4
_NOISE_BYTES: Final = 8


class Sender(NamedTuple):
    """A worker that sends a frame."""

    slot: int
    seed: bytes  # of its noise, new for each frame
    masks: "RecoveringWorker | None"  # its side of the agreement, where frames have masks
    say: Callable[[Type, bytes], Message]  # signs a message of the round that it is in


@dataclass(frozen=True, kw_only=True)
class FrameKind(IntegerCode):
    """How a worker's vector becomes the integers of a frame, what that costs, and how many it sends at most."""

    on_air: ClassVar[bool] = False  # whether an air adds them up; if not, the server does, and removes their masks

    sends: str  # moments or gradients
    variance: float  # of a worker's Skellam noise, in squared steps
    cost: int  # in ``contract.UNITS``
    releases: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.variance <= LARGEST_VARIANCE:
            raise ProtocolError(f"variance = {self.variance:g} of a worker's noise: must be above 0 and at most 2^24")

    def rules(self, agreed: "Sequence[Rules]") -> "list[Rules]":
        """Return the rules of its masks; of all that were agreed on, for fewer and fewer workers."""
        return [replace(each, bits=self.bits) for each in agreed]

    def noisy(self, vector: NDArray[np.floating], seed: bytes, slot: int) -> Integers:
        """Return the vector rounded and with noise, before masks; shape numbers."""
        count = len(vector)
        words = stream_words(seed, Use.ROUNDING, slot, 0, count, _ROUNDING_BYTES)
        rounded = self.rounded(vector[None, :], words[None, :])[0]

        def tie(place: tuple[int, ...]) -> int:
            return int(stream_words(seed, Use.NOISE_TIES, slot, place[0], 1, _NOISE_BYTES)[0])

        drawn = skellam_table(self.variance).at(stream_words(seed, Use.NOISE, slot, 0, count, _NOISE_BYTES), tie)
        return np.asarray(rounded + drawn)

    def residues(self, vector: NDArray[np.floating], seed: bytes, slot: int, masks: Masks) -> Residues:
        """Return what is sent: integers from 0 to 2^b - 1; shape numbers."""
        noisy = self.noisy(vector, seed, slot).astype(np.uint64)  # modulo 2^64, so modulo 2^b too
        return (noisy + masks(0, len(vector))) & self.modulus

    def messages(self, vector: NDArray[np.floating], by: Sender) -> list[Message]:
        """Return what a worker says that sends a vector."""
        assert by.masks is not None
        masks = partial(by.masks.masks, by.slot)
        return [by.say(Type.FRAME, self.packed(self.residues(vector, by.seed, by.slot, masks)))]

    @property
    def modulus(self) -> np.uint64:
        """2^b - 1, which keeps the lowest bits."""
        return np.uint64((1 << self.bits) - 1)

    @property
    def frame_bytes(self) -> int:
        return self.numbers * word_bytes(self.bits)

    def packed(self, residues: Residues) -> bytes:
        """Return the frame as bytes, each number as the smallest word that holds it, little end first."""
        return residues.astype(f"<u{word_bytes(self.bits)}").tobytes()

    def unpacked(self, frame: bytes) -> Residues:
        """Return the numbers of a frame; refuse one of a wrong length or with numbers of too many bits."""
        if len(frame) != self.frame_bytes:
            raise ProtocolError(f"frame of {len(frame)} bytes must have {self.frame_bytes}")
        found = np.frombuffer(frame, dtype=f"<u{word_bytes(self.bits)}").astype(np.uint64)
        if (found > self.modulus).any():
            raise ProtocolError(f"frame has numbers of more than {self.bits} bits")
        return found

    check = unpacked

    def mean(self, frames: Mapping[int, bytes], correction: Residues) -> tuple[Doubles, float]:
        """Return the mean over those who sent these, without what masks have left in their sum; and its variance."""
        total = sum(map(self.unpacked, frames.values()), np.zeros(self.numbers, dtype=np.uint64))
        mean = signed((total - correction) & self.modulus, self.bits) * self.step / len(frames)
        return mean, self.noise_variance(len(frames))

    def noise_variance(self, count: int) -> float:
        """Return the variance of noise and rounding in a number of the mean over so many workers."""
        return (self.variance + self.rounding_variance) * self.step**2 / count
