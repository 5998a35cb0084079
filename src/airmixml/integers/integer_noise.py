"""Skellam noise that workers bring in equal shares: what it hides, what a target takes, and the sum it is in.

A Skellam number of variance V is the difference of two Poisson numbers of mean V / 2; the noise of n workers with V
each is exactly one of variance n V. docs/trust.md#accounting-of-integers has Theorems 1 and 2 on what it hides, and
docs/proofs/skellam.md their proofs: as much as Gaussian noise of nearly the same variance, in any dimension.

The sum over the workers is taken modulo 2^b, which only forgets: privacy is that of the sum, also where it wraps
around. Honest workers alone count, the one to be protected among them. Remove-one neighbours: a worker sends its noise
and masks, and zeros for data. Replace-one: other data of the same bound, at most twice the norm away.

Step and bits are decided before anything is sent. The sum of N vectors of norm at most D has no number beyond N D.
Rounding adds to it an error of which every worker's part is within one step and 0 on average, so that its moment
generating function is at most exp(N t^2 / 8) (Hoeffding 1963), which is at most that of Skellam noise of variance
N / 4. Noise of variance V and rounding together therefore pass x steps with at most the chance that Chernoff's bound
gives for Skellam noise of variance V + N / 4, and 2^b steps must hold twice N D / step + x.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfinv, i0e

from airmixml.arrays import Doubles, Integers
from airmixml.integers.encoding import (
    FEWEST_STEPS,
    FINEST,
    LARGEST_BITS,
    IntegerCode,
    draw_skellam,
    measured_rounding_variance,
    reduce,
    signed,
    skellam_tail,
)
from airmixml.messages import PrivacyError
from airmixml.privacy.facts import SHARE_FOR_TAILS, log_cut, tilt
from airmixml.privacy.gaussian import bracket_root, gaussian_mu, require

# What i0e and erfinv may be wrong by, and more.
_ROUNDING_MARGIN: Final = 1e-13
_LARGEST_VARIANCE: Final = 1e300


def mu_per_step(variance: float) -> float:
    """Return m(V) = 2 Phi^-1((1 + p_0) / 2) = sqrt(8) erfinv(exp(-V) I_0(V)), the mu of one step in one number.

    Rounded up. Vectors of integers at Euclidean distance s are s m(V)-GDP (Theorem 1; Dong, Roth and Su 2022).
    """
    require(0.0 < variance <= _LARGEST_VARIANCE, f"variance = {variance:g}: must be above 0 and at most 1e300")
    return math.sqrt(8.0) * float(erfinv(i0e(variance))) * (1.0 + _ROUNDING_MARGIN)


def rounded_mu_per_step(variance: float, log_cut: float) -> float:
    """Return mu / s of vectors rounded at random (Theorem 2), eta = exp(``log_cut``), rounded up."""
    single = mu_per_step(variance)
    return single * tilt(single, log_cut)


def rounded_variance_for(mu: float, log_cut: float) -> float:
    """Return the least variance with which ``rounded_mu_per_step`` is at most ``mu``, rounded up."""
    low = high = variance_for(mu)
    while rounded_mu_per_step(high, log_cut) > mu:
        high *= 4.0
    return _least(lambda variance: rounded_mu_per_step(variance, log_cut), mu, low, high, tolerance=1e-12)


def variance_for(mu: float) -> float:
    """Return the least variance V with m(V) <= ``mu``, rounded up."""
    require(0.0 < mu < math.inf, f"mu = {mu:g}: must be finite and above 0")
    # m(V) is below (1 + 1 / V) / sqrt(V) where V is 1 or more, and grows without bound where V shrinks.
    high = 4.0 / min(mu, 1.0) ** 2
    low = high
    while mu_per_step(low) <= mu:
        low /= 4.0
    return _least(mu_per_step, mu, low, high, tolerance=1e-13)


def _least(per_step: Callable[[float], float], mu: float, low: float, high: float, *, tolerance: float) -> float:
    """Return the least variance between two at which ``per_step`` is at most ``mu``, rounded up."""

    def spare(log_variance: float) -> float:
        return max(mu - per_step(math.exp(log_variance)), -1e300)

    variance = max(low, math.exp(bracket_root(spare, math.log(low), math.log(high), tolerance=tolerance)[1]))
    while per_step(variance) > mu:
        variance *= 1.0 + _ROUNDING_MARGIN
    return variance


_DEVIATIONS_WITHIN_RANGE: Final = 5.0
_MARGIN: Final = 1e-10


@dataclass(frozen=True, kw_only=True)
class IntegerNoise:
    """A mechanism: each of ``workers`` rounds by ``code`` and adds Skellam noise of a variance in squared steps."""

    code: IntegerCode
    workers: int
    variance_per_worker: float

    def __post_init__(self) -> None:
        total = self.workers * self.variance_per_worker
        told = f"workers = {self.workers}, variance_per_worker = {self.variance_per_worker:g}"
        require(self.workers >= 1 and 0.0 < total < math.inf, f"{told}: must be above 0")
        needed = 2.0 * _DEVIATIONS_WITHIN_RANGE * math.sqrt(total)
        if needed > 2.0**self.code.bits:
            raise PrivacyError(
                f"privacy.modulus_bits = {self.code.bits}: the noise alone, of deviation {math.sqrt(total):.3g} steps, "
                f"wraps around; use {math.ceil(math.log2(needed))} bits or a larger sum_range"
            )

    @property
    def noise_variance(self) -> float:
        """Variance of the noise in each number of the sum, in the units of the data, squared."""
        return self.workers * self.variance_per_worker * self.code.step**2

    @property
    def sum_variance(self) -> float:
        """The same with a bound on what rounding adds, averaged over numbers: what a learner has to do with."""
        return self.noise_variance + self.workers * self.code.rounding_variance * self.code.step**2

    def sum_of(
        self,
        blocks: Iterable[NDArray[np.floating]],
        generator: np.random.Generator,
        *,
        absent: int = 0,
        simulated: bool = False,
    ) -> Doubles:
        """Return the sum that the server gets, of vectors given as blocks of workers x numbers; numbers.

        Masks cancel modulo 2^b, and the workers' Skellam numbers add up to one of their total variance: neither is
        formed for each worker. Rounding is. Noise that is ``simulated`` is drawn faster, and protects nobody.
        """
        total, present = np.zeros(self.code.numbers, dtype=np.int64), 0
        for block in blocks:
            total += self.code.rounded(block, generator).sum(axis=0)
            present += len(block)
        return self.received(total, present, generator, absent=absent, simulated=simulated)

    def modelled_sum(
        self,
        exact_sum: Doubles,
        some_vectors: NDArray[np.floating],
        generator: np.random.Generator,
        *,
        absent: int = 0,
    ) -> Doubles:
        """Return a sum with the distribution of ``sum_of`` as far as rounding errors of many workers are Gaussian.

        For simulations of more numbers than can be formed: the sum of all vectors, numbers, in float64, and some of
        the vectors, workers x numbers, from which the variance of rounding is estimated. Protects nobody.
        """
        present = self.workers - absent
        variance = measured_rounding_variance(some_vectors, self.code.step) * (present / len(some_vectors))
        rounded = exact_sum / self.code.step + np.sqrt(variance) * generator.standard_normal(self.code.numbers)
        return self.received(np.rint(rounded).astype(np.int64), present, generator, absent=absent, simulated=True)

    def decoded(self, residues: NDArray[np.uint64]) -> Doubles:
        """Return the sum, in the units of the data, that residues stand for; any shape."""
        return np.asarray(signed(residues, self.code.bits) * np.float64(self.code.step), dtype=np.float64)

    def received(
        self,
        total: Integers,
        present: int,
        generator: np.random.Generator,
        *,
        absent: int = 0,
        simulated: bool = False,
    ) -> Doubles:
        """Return the server's sum from that of the rounded vectors of ``present`` workers, numbers; numbers."""
        fits = present + absent == self.workers
        require(fits, f"blocks: hold {present} workers; the noise was set for {self.workers - absent}")
        variance = present * self.variance_per_worker
        noisy = total + draw_skellam(variance, generator, total.shape, simulated=simulated)
        return self.decoded(reduce(noisy, self.code.bits))

    def to_dict(self) -> dict[str, Any]:
        return {
            **asdict(self.code),
            "workers": self.workers,
            "variance_per_worker": self.variance_per_worker,
            "noise_variance": self.noise_variance,
        }


def integers_in_words(facts: Mapping[str, Any]) -> str:
    """Return how sums of integers are taken, from the facts of a report or a plan."""
    rounding = f"rounding is {facts['rounding_share']:.1%} of the noise in the sum"
    noise = f"Skellam noise of {facts['noise_in_steps']:,.0f} steps"
    beyond = f" up to {facts['assumed_range']:g} times the root mean square" if facts["assumed_range"] else ""
    wraps = f"no sum{beyond} wraps around, except with probability {facts['wrap_failure']:g}"
    return f"modulo 2^{facts['bits']:g}: {noise}, {rounding}; {wraps}"


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

    def honest_variance(self, code: IntegerCode) -> float:
        """Return the least variance of honest noise in a sum, in squared steps of a code."""
        aim = self.epsilon * (1.0 - 4.0 * _MARGIN)
        mu = gaussian_mu(aim, self.delta * (1.0 - SHARE_FOR_TAILS)) * math.sqrt(self.share / self.participations)
        cut = log_cut(self.rounded or self.participations * self.numbers, aim, self.delta)
        return rounded_variance_for(mu / (self.distance * code.steps), cut) * (1.0 + _MARGIN)


def fitted(target: SumTarget, bits: int = 0, range_in_deviations: float = 0.0) -> IntegerNoise:
    """Return step and noise for so many bits (0: as few as leave hardly more noise than real numbers).

    ``range_in_deviations`` assumes that no number of a sum passes so many times N D / sqrt(d), the root mean square of
    a sum of equal vectors; 0 assumes nothing. Too few bits are refused, with the least number that would do.
    """
    if bits:
        found = _with_bits(target, bits, range_in_deviations)
        if found is None:
            least = next((b for b in range(bits, LARGEST_BITS + 1) if _with_bits(target, b, range_in_deviations)), 0)
            mend = f"must be at least {least}, or 0, which takes the fewest that are enough"
            raise PrivacyError(
                f"privacy.modulus_bits = {bits}: sums of {target.workers:,} workers with their noise would wrap "
                f"around; {mend if least else 'no number of bits will do: use fewer workers or a larger epsilon'}"
            )
        return found
    best = None
    for enough in range(2, LARGEST_BITS + 1):
        found = _with_bits(target, enough, range_in_deviations)
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
        total = target.workers / target.carriers * target.honest_variance(code)
        if not math.isfinite(total) or code.steps < FEWEST_STEPS:
            return None
        held = largest / code.step + skellam_tail(total + target.workers / 4.0, chance_bits)
        if held <= 2.0 ** (bits - 1):
            return IntegerNoise(code=code, workers=target.workers, variance_per_worker=total / target.workers)
        code = replace(code, step=code.step * max(held / 2.0 ** (bits - 1), 1.0) * _WIDER)
    return None
