"""One worker's frame: its vector rounded to integers, with its share of the noise and its masks, modulo 2^b.

All randomness of a frame is the key stream of one secret seed, addressed by the number's place (``Use``), so that any
part of a frame can be formed alone and a microcontroller forms number after number without memory for the vector.
firmware/ does the same in C, to the last bit.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from airmixml.arrays import Doubles, Integers
from airmixml.errors import ProtocolError
from airmixml.integers.exact_sampler import skellam_table
from airmixml.integers.rounding import IntegerCode
from airmixml.masks.expansion import Use, stream_words, word_bytes

Residues = NDArray[np.uint64]
Masks = Callable[[int, int], Residues]
"""Gives the masks of numbers ``first`` to ``first + count - 1`` of a frame, modulo 2^b."""

LARGEST_VARIANCE: Final = 2.0**24
"""Of a worker's noise, in squared steps: its table is made at once."""

_ROUNDING_BYTES: Final = 4
_NOISE_BYTES: Final = 8


class Mean(NamedTuple):
    """What the server has of one slot."""

    vector: Doubles  # shape numbers
    noise_variance: float  # of noise and rounding, on each number
    present: float  # workers in it; of unequal shares q, 1 / sum q^2


@dataclass(frozen=True, kw_only=True)
class FrameCode:
    """How a worker's vector becomes the integers of a frame."""

    code: IntegerCode
    variance: float  # of a worker's Skellam noise, in squared steps

    def __post_init__(self) -> None:
        if not 0.0 < self.variance <= LARGEST_VARIANCE:
            raise ProtocolError(f"variance = {self.variance:g} of a worker's noise: must be above 0 and at most 2^24")

    def noisy(self, vector: NDArray[np.floating], seed: bytes, slot: int) -> Integers:
        """Return the vector rounded and with noise, before masks; shape numbers."""
        count = len(vector)
        words = stream_words(seed, Use.ROUNDING, slot, 0, count, _ROUNDING_BYTES)
        rounded = self.code.rounded_by(vector[None, :], words[None, :])[0]

        def tie(place: tuple[int, ...]) -> int:
            return int(stream_words(seed, Use.NOISE_TIES, slot, place[0], 1, _NOISE_BYTES)[0])

        drawn = skellam_table(self.variance).at(stream_words(seed, Use.NOISE, slot, 0, count, _NOISE_BYTES), tie)
        return np.asarray(rounded + drawn)

    def residues(self, vector: NDArray[np.floating], seed: bytes, slot: int, masks: Masks) -> Residues:
        """Return what is sent: integers from 0 to 2^b - 1; shape numbers."""
        noisy = self.noisy(vector, seed, slot).astype(np.uint64)  # modulo 2^64, so modulo 2^b too
        return (noisy + masks(0, len(vector))) & self.modulus

    @property
    def modulus(self) -> np.uint64:
        """2^b - 1, which keeps the lowest bits."""
        return np.uint64((1 << self.code.bits) - 1)

    @property
    def frame_bytes(self) -> int:
        """How long a packed frame is."""
        return self.code.numbers * word_bytes(self.code.bits)

    def packed(self, residues: Residues) -> bytes:
        """Return the frame as bytes, each number as the smallest word that holds it, little end first."""
        return residues.astype(f"<u{word_bytes(self.code.bits)}").tobytes()

    def unpacked(self, frame: bytes) -> Residues:
        """Return the numbers of a frame; refuse one of a wrong length or with numbers of too many bits."""
        if len(frame) != self.frame_bytes:
            raise ProtocolError(f"frame of {len(frame)} bytes must have {self.frame_bytes}")
        found = np.frombuffer(frame, dtype=f"<u{word_bytes(self.code.bits)}").astype(np.uint64)
        if (found > self.modulus).any():
            raise ProtocolError(f"frame has numbers of more than {self.code.bits} bits")
        return found
