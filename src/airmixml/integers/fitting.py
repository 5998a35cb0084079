"""Which step and how many bits a target takes, so that sums do not wrap around; decided before anything is sent.

The sum of N vectors of norm at most D has no number beyond N D. Rounding adds to it an error of which every worker's
part is within one step and 0 on average, so that its moment generating function is at most exp(N t^2 / 8) (Hoeffding
1963), which is at most that of Skellam noise of variance N / 4. Noise of variance V and rounding together therefore
pass x steps with at most the chance that Chernoff's bound gives for Skellam noise of variance V + N / 4, and 2^b steps
must hold twice N D / step + x. Privacy never depends on it: a sum that wraps around only forgets.
"""

import math
from dataclasses import dataclass, replace
from typing import Final

from airmixml.errors import PrivacyError
from airmixml.integers.exact_sampler import skellam_tail
from airmixml.integers.integer_noise import IntegerNoise, variance_for_target
from airmixml.integers.rounding import FEWEST_STEPS, FINEST, LARGEST_BITS, IntegerCode
from airmixml.privacy.gaussian import gaussian_mu

WRAP_FAILURE: Final = 1e-9
"""No number of any sum wraps around, except with this probability."""

_ENOUGH: Final = 1.01  # variance of noise and rounding over that of Gaussian noise: more bits would gain little
_WIDER: Final = 1.0 + 1e-6
_MOST_ROUNDS: Final = 200


@dataclass(frozen=True, kw_only=True)
class SumTarget:
    """What sums of integers are to keep."""

    numbers: int  # d, numbers of a vector
    norm: float  # D, the largest norm of a vector
    workers: int  # N, vectors of a sum
    carriers: int  # workers whose noise hides a worker
    epsilon: float  # of all sums that a worker takes part in
    delta: float  # of the same
    distance: float = 1.0  # how far apart neighbours are, in units of the norm
    participations: int = 1  # sums that a worker takes part in, at most
    sums: int = 1  # all sums
    share: float = 1.0  # of the loss (of mu^2) that these sums may have, where others of the same run have the rest
    rounded: int = 0  # numbers that are rounded in all sums of a run together; 0: those of these sums

    @property
    def gaussian_variance(self) -> float:
        """Variance in a number of the sum that Gaussian noise on real numbers would need."""
        mu = gaussian_mu(self.epsilon, self.delta) / (self.distance * self.norm)
        return self.participations / (self.share * mu**2) * self.workers / self.carriers


def fitted(target: SumTarget, bits: int = 0, range_in_deviations: float = 0.0) -> IntegerNoise:
    """Return step and noise for so many bits (0: as few as leave hardly more noise than real numbers).

    ``range_in_deviations`` assumes that no number of a sum passes so many times N D / sqrt(d), the root mean square of
    a sum of equal vectors; 0 assumes nothing. Too few bits are refused, with the least number that would do.
    """
    if bits:
        found = _with_bits(target, bits, range_in_deviations)
        if found is None:
            least = next((b for b in range(bits, LARGEST_BITS + 1) if _with_bits(target, b, range_in_deviations)), 0)
            mend = f"must be at least {least}, or 0, which takes {_few_enough(target, range_in_deviations).code.bits}"
            raise PrivacyError(
                f"privacy.modulus_bits = {bits}: sums of {target.workers:,} workers with their noise would wrap "
                f"around; {mend if least else 'no number of bits will do: use fewer workers or a larger epsilon'}"
            )
        return found
    return _few_enough(target, range_in_deviations)


def _few_enough(target: SumTarget, range_in_deviations: float) -> IntegerNoise:
    best = None
    for bits in range(2, LARGEST_BITS + 1):
        found = _with_bits(target, bits, range_in_deviations)
        if found is not None and (best is None or found.sum_variance < best.sum_variance):
            best = found
            if found.sum_variance <= _ENOUGH * target.gaussian_variance:
                break
    if best is None:
        raise PrivacyError(
            f"privacy.epsilon = {target.epsilon:g}: no number of bits holds the sum of {target.workers:,} workers with "
            "that noise; use fewer workers or a larger epsilon"
        )
    return best


def _with_bits(target: SumTarget, bits: int, range_in_deviations: float) -> IntegerNoise | None:
    """Return the finest step with which 2^bits hold the sum and its noise; None where none does."""
    largest = target.workers * target.norm
    if range_in_deviations:
        largest = min(range_in_deviations / math.sqrt(target.numbers), 1.0) * largest
    chance_bits = math.log2(target.numbers * target.sums / WRAP_FAILURE)
    code = IntegerCode(
        numbers=target.numbers,
        norm=target.norm,
        step=max(largest / 2.0 ** (bits - 1), target.norm / FINEST) * _WIDER,
        bits=bits,
    )
    for _ in range(_MOST_ROUNDS):
        needed = variance_for_target(
            code,
            epsilon=target.epsilon,
            delta=target.delta,
            distance=target.distance,
            sums=target.participations,
            share=target.share,
            rounded=target.rounded,
        )
        total = target.workers / target.carriers * needed
        if not math.isfinite(total) or code.steps < FEWEST_STEPS:
            return None
        held = largest / code.step + skellam_tail(total + target.workers / 4.0, chance_bits)
        if held <= 2.0 ** (bits - 1):
            return IntegerNoise(code=code, workers=target.workers, variance_per_worker=total / target.workers)
        code = replace(code, step=code.step * max(held / 2.0 ** (bits - 1), 1.0) * _WIDER)
    return None
