"""From bounded vectors to integers: every number is rounded up or down at random, so that it is right on average.

A vector v with ||v|| <= D is divided by a step, and u = v / step is cut off, towards zero, to a grid of 2^-32. Then
z = floor(u + r) for r uniform on that grid, in integer arithmetic: z has exactly the mean u. The norm is checked on the
grid, with a margin for the check's own floats; a longer vector is shortened. So ||u|| <= D / step holds whatever the
input, and integer_noise.py says what that is worth. The random words must be secret, like the noise. Sums, and masks,
are taken modulo 2^b (docs/trust.md).
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from airmixml.arrays import Integers
from airmixml.errors import PrivacyError

LARGEST_BITS: Final = 62
_FRACTION_BITS: Final = 32
FINEST: Final = 2.0**29
"""The most steps that a vector may be long."""

FEWEST_STEPS: Final = 0.1
"""Less than this no vector that is to be sent is long: rounding would be all there is."""
Residues = NDArray[np.uint64]
_NORM_MARGIN: Final = 1e-9  # more than the rounding of a sum of 10^6 squares


@dataclass(frozen=True, kw_only=True)
class IntegerCode:
    """How vectors become integers."""

    numbers: int  #: d, numbers of a vector
    norm: float  #: D, the largest Euclidean norm of a vector
    step: float  #: what 1 stands for
    bits: int  #: b; sums are taken modulo 2^b

    def __post_init__(self) -> None:
        if not 2 <= self.bits <= LARGEST_BITS:
            raise PrivacyError(
                f"privacy.modulus_bits = {self.bits}: must be 2 to {LARGEST_BITS} where sums are integers"
            )
        if not (0.0 < self.norm < math.inf and 0.0 < self.step < math.inf and self.numbers > 0):
            raise PrivacyError(
                f"norm = {self.norm:g}, step = {self.step:g}, numbers = {self.numbers}: must be above 0 and finite"
            )
        if self.steps > FINEST:
            raise PrivacyError(
                f"step = {self.step:g}: must be at least norm / 2^29 = {self.norm / FINEST:.3g}; use fewer bits"
            )

    @property
    def steps(self) -> float:
        """D / step, the largest norm of a vector in steps."""
        return self.norm / self.step

    @property
    def rounding_variance(self) -> float:
        """A bound on the variance that rounding adds to one worker's number, in squared steps, averaged over numbers.

        A part f of a step has variance f (1 - f), which is at most 1 / 4, or a (1 - a) on average where the mean
        a <= D / (step sqrt(d)) of all |u| is below one half.
        """
        mean = min(self.steps / math.sqrt(self.numbers), 0.5)
        return mean * (1.0 - mean)

    def rounded(self, vectors: NDArray[np.floating], generator: np.random.Generator) -> Integers:
        """Return integers; workers x numbers, as the vectors."""
        places = self._places(vectors)
        return _up_or_down(places, generator.integers(0, 1 << _FRACTION_BITS, size=vectors.shape, dtype=np.uint32))

    def rounded_by(self, vectors: NDArray[np.floating], words: NDArray[np.unsignedinteger]) -> Integers:
        """Return the same with uniform words of 32 bits that are given, of the vectors' shape."""
        return _up_or_down(self._places(vectors), words)

    def _places(self, vectors: NDArray[np.floating]) -> Integers:
        """Return vectors in units of 2^-32 steps, none longer than the norm; workers x numbers."""
        with np.errstate(over="ignore"):
            in_steps = vectors / np.float64(self.step)
            lengths = np.sqrt(np.einsum("wd,wd->w", in_steps, in_steps))
        if not np.isfinite(in_steps).all():  # infinity times 0 would become whatever integer a processor makes of it
            raise PrivacyError("vectors: must be finite, in steps too; a worker without data sends zeros")
        factors = np.minimum(self.steps * (1.0 - _NORM_MARGIN) / np.maximum(lengths, 1e-300), 1.0)
        in_steps *= factors[:, None] * 2.0**_FRACTION_BITS
        return np.asarray(in_steps.astype(np.int64))  # towards zero: no number grows

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)


def _up_or_down(places: Integers, words: NDArray[np.unsignedinteger]) -> Integers:
    """Round, in place, numbers in units of 2^-32 by uniform words of 32 bits."""
    places += words.astype(np.uint32)
    places >>= _FRACTION_BITS
    return places


def grid_margin(numbers: int) -> float:
    """Return how much farther apart two vectors may be on the grid than they were, in units of the largest norm.

    Every number of both is cut off by less than 2^-32 steps, and a norm has at least ``FEWEST_STEPS``; shortening to a
    norm never sets two vectors farther apart.
    """
    return 2.0 * math.sqrt(numbers) * 2.0**-_FRACTION_BITS / FEWEST_STEPS


def measured_rounding_variance(vectors: NDArray[np.floating], step: float) -> NDArray[np.float64]:
    """Return sum_i f (1 - f), the variance that rounding adds to the sum, in squared steps; numbers."""
    parts = vectors / step
    parts -= np.floor(parts)
    return np.asarray((parts * (1.0 - parts)).sum(axis=0, dtype=np.float64))


def reduce(integers: Integers | Residues, bits: int) -> Residues:
    """Return the integers modulo 2^b; any shape."""
    return np.asarray(integers).astype(np.uint64) & np.uint64((1 << bits) - 1)


def signed(residues: Residues, bits: int) -> Integers:
    """Return the representatives in [-2^(b-1), 2^(b-1)); any shape."""
    values = residues.astype(np.int64)
    return np.where(values >= 1 << (bits - 1), values - (1 << bits), values)
