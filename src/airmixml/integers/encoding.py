"""From bounded vectors to integers in noise: every number is rounded up or down at random, right on average.

A vector v with ||v|| <= D is divided by a step, and u = v / step is cut off, towards zero, to a grid of 2^-32. Then
z = floor(u + r) for r uniform on that grid, in integer arithmetic: z has exactly the mean u. The norm is checked on the
grid, with a margin for the check's own floats; a longer vector is shortened. So ||u|| <= D / step holds whatever the
input, and integer_noise.py says what that is worth. The random words must be secret, like the noise. Sums, and masks,
are taken modulo 2^b (docs/trust.md).

Skellam numbers come from random bits by integer arithmetic alone: no float decides what is drawn. NumPy's Poisson
numbers come from floats of 53 bits and from logarithms of chances that are rounded: at a mean of 1e9 those are off by
1e-6, and chances below 2^-53 are not met at all. Here the chances of every value, as integers over 2^128, are tabulated
once; 128 random bits then name the value. The table is right to within a total variation distance of (values + 4)
2^-128, for whatever generator gives uniform words. The recurrence I_(t-1) = I_(t+1) + (2 t / V) I_t, started far out in
the tail, adds up positive integers only (Miller's algorithm), and their sum, not exp(V), makes chances of them.
"""

from __future__ import annotations  # NumPy's generators take 8 ms to import, and a worker needs none

import math
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from airmixml.arrays import Integers
from airmixml.messages import PrivacyError

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

    def rounded(
        self, vectors: NDArray[np.floating], words: NDArray[np.unsignedinteger] | np.random.Generator
    ) -> Integers:
        """Return integers; workers x numbers, as the vectors, and as uniform words of 32 bits, or of a generator."""
        with np.errstate(over="ignore"):
            in_steps = vectors / np.float64(self.step)
            lengths = np.sqrt(np.einsum("wd,wd->w", in_steps, in_steps))
        if not np.isfinite(in_steps).all():  # infinity times 0 would become whatever integer a processor makes of it
            raise PrivacyError("vectors: must be finite, in steps too; a worker without data sends zeros")
        factors = np.minimum(self.steps * (1.0 - _NORM_MARGIN) / np.maximum(lengths, 1e-300), 1.0)
        in_steps *= factors[:, None] * 2.0**_FRACTION_BITS
        places: Integers = in_steps.astype(np.int64)  # towards zero: no number grows
        if not isinstance(words, np.ndarray):
            words = words.integers(0, 1 << _FRACTION_BITS, size=vectors.shape, dtype=np.uint32)
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


_BITS: Final = 128
_WORD: Final = 64
_CUT_BITS: Final = 132  # the tails beyond the table together have a smaller chance than 2 to minus this
_START_BITS: Final = 210  # where the recurrence starts, so that its start is forgotten where the table begins
_GUARD_BITS: Final = 192  # of the first number of the recurrence: what a rounding is relative to
_LARGEST_TABLE_VARIANCE: Final = 2.0**24  # beyond it several numbers are added up; a table takes half a second
_MOST_PARTS: Final = 1 << 16


@dataclass(frozen=True, eq=False)
class SkellamTable:
    """For each value but the largest the chance, times 2^128, of being at most that value."""

    smallest: int
    high: NDArray[np.uint64]  # the upper 64 bits; values
    low: NDArray[np.uint64]  # the lower 64 bits; values

    def draw(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Integers:
        words = generator.integers(0, 1 << _WORD, size=shape, dtype=np.uint64)
        return self.at(words, lambda _: int(generator.integers(0, 1 << _WORD, dtype=np.uint64)))

    def at(self, words: NDArray[np.uint64], more: Callable[[tuple[int, ...]], int]) -> Integers:
        """Return the numbers that these words name; where 64 bits do not decide, ``more`` of that place do."""
        places = np.searchsorted(self.high, words, side="right")
        # The first 64 bits decide, unless they are those of a threshold: then 64 more do, once in 1e14 draws or so.
        for place in zip(*np.nonzero(self.high[np.maximum(places - 1, 0)] == words), strict=True):
            first = int(np.searchsorted(self.high, words[place], side="left"))
            equal = self.low[first : int(places[place])]
            places[place] = first + int(np.searchsorted(equal, np.uint64(more(place)), side="right"))
        return np.asarray(places + self.smallest, dtype=np.int64)


def draw_skellam(
    variance: float, generator: np.random.Generator, shape: tuple[int, ...], *, simulated: bool = False
) -> Integers:
    """Return independent Skellam numbers of exactly that variance, mean 0.

    A large variance is drawn in equal parts; ``simulated``, which protects nobody, by NumPy's Poisson numbers instead.
    """
    if simulated and variance > _LARGEST_TABLE_VARIANCE:
        first, second = (generator.poisson(variance / 2.0, size=shape) for _ in range(2))
        return np.asarray(first - second, dtype=np.int64)
    parts = max(1, math.ceil(variance / _LARGEST_TABLE_VARIANCE))
    if not 0.0 < variance < math.inf or parts > _MOST_PARTS:
        most = _MOST_PARTS * _LARGEST_TABLE_VARIANCE
        raise PrivacyError(f"variance = {variance:g}: must be above 0 and at most {most:.3g}; use fewer bits")
    parts = 1 << (parts - 1).bit_length()  # a division by it is exact
    table = skellam_table(variance / parts)
    total = table.draw(generator, shape)
    for _ in range(parts - 1):
        total += table.draw(generator, shape)
    return total


@lru_cache(maxsize=16)
def skellam_table(variance: float) -> SkellamTable:
    """Return the table of a variance, taken as the fraction that the float is."""
    ratio = Fraction(variance)
    largest, start = skellam_tail(variance, _CUT_BITS), skellam_tail(variance, _START_BITS)
    total = sum((1 if order == 0 else 2) * weight for order, weight in _weights(ratio, start))
    below, mask = 0, (1 << _WORD) - 1  # what lies beyond the table goes to its ends
    # Gone through twice, and filled one by one: lists of large numbers would take most of a device's memory.
    high, low, carries = array("Q"), array("Q"), array("Q")
    for order, weight in _weights(ratio, start):
        if order == 0:
            break
        below += weight
        if order <= largest:
            threshold, left = divmod(below << _BITS, total)
            high.append(threshold >> _WORD)
            low.append(threshold & mask)
            carries.append(left == 0)
    negative = [np.array(each, dtype=np.uint64) for each in (high, low)]
    # As much lies above t as below -t: the threshold of t - 1 is 2^128 less that of -t, rounded down.
    positive_low = ~negative[1] + np.array(carries, dtype=np.uint64)
    positive_high = ~negative[0] + (positive_low < np.array(carries, dtype=np.uint64))
    return SkellamTable(
        -largest,
        np.concatenate([negative[0], positive_high[::-1]]),
        np.concatenate([negative[1], positive_low[::-1]]),
    )


def _weights(ratio: Fraction, start: int) -> Iterator[tuple[int, int]]:
    """Yield order and I_order from ``start`` down to 0, all times the same unknown number."""
    before, weight = 0, 1 << _GUARD_BITS
    yield start, weight
    for order in range(start, 0, -1):
        before, weight = weight, before + 2 * order * ratio.denominator * weight // ratio.numerator
        yield order - 1, weight


def skellam_tail(variance: float, bits: float) -> int:
    """Return a value beyond which both tails together have a chance below 2^-bits.

    By Chernoff's bound P(X >= t) <= exp(-(t asinh(t / V) - sqrt(t^2 + V^2) + V)).
    """

    def exponent(value: int) -> float:
        # sqrt(t^2 + V^2) - V without cancellation.
        return value * math.asinh(value / variance) - value**2 / (math.hypot(value, variance) + variance)

    high = 1
    while exponent(high) < (bits + 2) * math.log(2.0):
        high *= 2
    return bisect_right(range(high), (bits + 2) * math.log(2.0), key=exponent) + 1
