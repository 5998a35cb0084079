"""Steps and noise that sums of integers are given: recomputed from the theorems, whatever the search for them does."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import ive, log_ndtr, ndtri, ndtri_exp

from airmixml.integers import IntegerCode, IntegerNoise
from airmixml.integers.encoding import SkellamTable, draw_skellam, grid_margin, skellam_tail
from airmixml.integers.integer_noise import SumTarget, fitted, rounded_mu_per_step, variance_for
from airmixml.messages import PrivacyError

TAILS = 1e-3  # of delta, as docs/trust.md sets aside
WRAPS = 1e-9  # chance that any number of any sum wraps around

SMALL = SumTarget(numbers=40, norm=2.0, workers=200, carriers=150, epsilon=2.0, delta=1e-5)
TARGETS = [
    SMALL,
    replace(SMALL, epsilon=0.3, distance=2.0, carriers=200),
    replace(SMALL, participations=7, sums=50, delta=1e-6),
    replace(SMALL, share=0.4, rounded=40 * 900, participations=3, sums=3),
    replace(SMALL, numbers=5000, workers=30_000, carriers=29_000, norm=0.7, epsilon=30.0),
    replace(SMALL, workers=100_000, carriers=100_000, epsilon=3000.0),  # hardly any noise beside rounding
]


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Balle and Wang (2018)."""
    return float(np.exp(log_ndtr(mu / 2 - epsilon / mu)) - np.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu)))


def tilted(step_mu: float, log_eta: float) -> float:
    """Theorem 2: what rounding adds to mu."""
    exponent = step_mu * (step_mu - float(ndtri_exp(log_eta)))
    return math.expm1(exponent) / exponent if exponent < 700 else math.inf


def mu_of_a_step(variance: float) -> float:
    """Theorem 1: from the chance of 0, which is 1 / sqrt(2 pi V) but for 1 / (8 V) of it where V is large."""
    zero = float(ive(0, variance)) if variance < 1e8 else 1.0 / math.sqrt(2.0 * math.pi * variance)
    return 2.0 * float(ndtri((1.0 + zero) / 2.0))


def total_delta(target: SumTarget, steps: float, honest: float) -> float:
    """Delta at the target's epsilon of all sums, where a norm is so many steps and honest noise has that variance."""
    step_mu = mu_of_a_step(honest)
    numbers = target.rounded or target.numbers * target.participations
    log_eta = math.log(TAILS * target.delta / numbers) - np.logaddexp(0.0, target.epsilon)
    mu = math.sqrt(target.participations / target.share) * target.distance * steps * step_mu * tilted(step_mu, log_eta)
    return gaussian_delta(mu, target.epsilon) + TAILS * target.delta if mu < 1e3 else 1.0


def honest_variance(target: SumTarget, steps: float) -> float:
    """The least variance that keeps the target."""

    def short(log_variance: float) -> float:
        return math.log(total_delta(target, steps, math.exp(log_variance)) / target.delta)

    return math.exp(brentq(short, math.log(1e-3), math.log(1e18), xtol=1e-12))


def wraps(
    target: SumTarget, noise: IntegerCode, bits: int, honest: float, deviations: float = 0.0, less: float = 0.0
) -> float:
    """A bound on the chance that some number of some sum, with noise and rounding, leaves 2^bits steps."""
    largest = target.workers * target.norm
    if 0.0 < deviations < math.sqrt(target.numbers):
        largest *= deviations / math.sqrt(target.numbers)
    room = 2.0 ** (bits - 1) - largest / noise.step - less
    if room <= 0.0:
        return math.inf
    variance = honest * target.workers / target.carriers + target.workers / 4.0  # of noise and rounding (Hoeffding)
    exponent = room * math.asinh(room / variance) - math.hypot(room, variance) + variance
    return 2.0 * math.exp(-exponent) * target.numbers * target.sums


def code(target: SumTarget, steps: float) -> IntegerCode:
    return IntegerCode(numbers=target.numbers, norm=target.norm, step=target.norm / steps, bits=40)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("steps", [0.5, 60.0])
def test_honest_noise_meets_the_target_and_hardly_more(target: SumTarget, steps: float) -> None:
    found = target.honest_variance(code(target, steps))
    assert total_delta(target, steps, found) <= target.delta * (
        1.0 + 1e-6
    )  # its tails are those of an epsilon 4e-10 smaller
    assert found == pytest.approx(honest_variance(target, steps), rel=1e-6)


def test_gaussian_noise_that_a_target_would_need() -> None:
    """mu of a sum at delta(epsilon): its noise is that of all workers, of which the carriers' hides."""
    target = replace(SMALL, participations=7, share=0.4, distance=2.0)
    mu = brentq(lambda mu: gaussian_delta(mu, 2.0) - 1e-5, 0.01, 10.0, xtol=1e-14) * math.sqrt(0.4 / 7)
    assert target.gaussian_variance == pytest.approx((2.0 * 2.0 / mu) ** 2 * 200 / 150, rel=1e-8)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("more_bits", "deviations"), [(0, 0.0), (1, 4.0), (3, 1e9), (8, 0.0)])
def test_the_step_is_the_finest_that_never_wraps_around(target: SumTarget, more_bits: int, deviations: float) -> None:
    with pytest.raises(PrivacyError, match="must be at least") as refused:
        fitted(target, 2, deviations)
    bits = int(str(refused.value).partition("must be at least ")[2].split(",")[0]) + more_bits
    noise = fitted(target, bits, deviations)
    total = noise.workers * noise.variance_per_worker
    honest = total * target.carriers / target.workers
    assert (noise.code.bits, noise.code.numbers, noise.code.norm) == (bits, target.numbers, target.norm)
    assert noise.workers == target.workers
    assert total_delta(target, noise.code.steps, honest) <= target.delta * (1.0 + 1e-6)
    assert honest == pytest.approx(honest_variance(target, noise.code.steps), rel=1e-6)
    assert wraps(target, noise.code, bits, honest, deviations) <= WRAPS
    if noise.code.steps < 2.0**28:
        finer = replace(noise.code, step=noise.code.step * (1.0 - 0.01), bits=60)
        # Whole steps are counted, and both tails apart: two steps and a factor of two may be left.
        assert 2.0 * wraps(target, finer, bits, honest_variance(target, finer.steps), deviations, less=2.0) > WRAPS


@pytest.mark.parametrize("target", TARGETS)
def test_with_fewer_bits_no_step_will_do(target: SumTarget) -> None:
    """Of all steps of which the norm is at least a tenth; the refusal names the fewest bits with which one does."""
    with pytest.raises(PrivacyError, match=r"privacy\.modulus_bits = 3: .*must be at least") as refused:
        fitted(target, 3)
    least = int(str(refused.value).partition("must be at least ")[2].split(",")[0])
    steps = np.geomspace(0.1, 1e5, 300)

    def some_step(bits: int) -> bool:
        found = ((code(target, each), honest_variance(target, each)) for each in steps)
        return any(wraps(target, each, bits, honest) <= WRAPS for each, honest in found)

    assert some_step(least)
    assert not some_step(least - 1)
    with pytest.raises(PrivacyError, match=f"must be at least {least}"):
        fitted(target, least - 1)


def test_no_vector_is_more_than_two_to_the_29_steps_long() -> None:
    noise = fitted(SMALL, 62)
    assert 2.0**29 * (1 - 1e-5) < noise.code.steps <= 2.0**29


def test_a_sum_beyond_all_bits_is_refused() -> None:
    """10^20 workers of at least a tenth of a step: 10^19 steps, more than half of 2^62."""
    huge = replace(SMALL, workers=10**20, carriers=10**20)
    with pytest.raises(PrivacyError, match="no number of bits will do"):
        fitted(huge, 20)
    with pytest.raises(PrivacyError, match=r"privacy\.epsilon = 2: no number of bits"):
        fitted(huge)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("deviations", [0.0, 5.0])
def test_the_fewest_bits_with_hardly_more_noise_than_real_numbers(target: SumTarget, deviations: float) -> None:
    """At most 1 % more variance than Gaussian noise on real numbers, which one bit less does not reach."""
    chosen = fitted(target, 0, deviations)
    assert chosen == fitted(target, chosen.code.bits, deviations)
    assert chosen.sum_variance <= 1.01 * target.gaussian_variance
    assert fitted(target, chosen.code.bits - 1, deviations).sum_variance > 1.01 * target.gaussian_variance


def test_where_real_numbers_are_out_of_reach_the_least_noise_is_taken() -> None:
    """10^17 workers: a norm has at most 2^61 / 10^17 = 23 steps; rounding is not small beside the noise."""
    target = replace(SMALL, epsilon=20_000.0, workers=10**17, carriers=10**17, numbers=4)
    variances = {}
    for bits in range(50, 63):
        with suppress(PrivacyError):
            variances[bits] = fitted(target, bits).sum_variance
    assert min(variances.values()) > 1.01 * target.gaussian_variance
    assert fitted(target).sum_variance == min(variances.values()) < max(variances.values())


def test_variances_in_the_units_of_the_data() -> None:
    """Norm 3 in steps of 0.5: numbers of 6 / sqrt(144) = 0.5 on average, rounded with variance 1/4; 0.3 at 400."""
    for numbers, rounding in ((144, 0.25), (400, 0.3 * 0.7), (9, 0.25)):
        noise = IntegerNoise(
            code=IntegerCode(numbers=numbers, norm=3.0, step=0.5, bits=12), workers=10, variance_per_worker=1.7
        )
        assert noise.noise_variance == pytest.approx(10 * 1.7 * 0.25, rel=1e-14)
        assert noise.sum_variance == pytest.approx(10 * (1.7 + rounding) * 0.25, rel=1e-14)
        assert noise.to_dict()["noise_variance"] == noise.noise_variance


def test_noise_of_five_deviations_must_fit() -> None:
    """2^8 steps hold 10 deviations up to a variance of 25.6^2 = 655.36; then 9 bits are named."""
    code = IntegerCode(numbers=3, norm=1.0, step=0.1, bits=8)
    assert IntegerNoise(code=code, workers=8, variance_per_worker=81.92).workers == 8
    with pytest.raises(PrivacyError, match=r"modulus_bits = 8: the noise alone, of deviation 25.6 .* use 9 bits"):
        IntegerNoise(code=code, workers=8, variance_per_worker=81.93)
    with pytest.raises(PrivacyError, match="workers = 0, variance_per_worker = 1: must be above 0"):
        IntegerNoise(code=code, workers=0, variance_per_worker=1.0)
    for wrong in (0.0, -1.0, math.inf):
        with pytest.raises(PrivacyError, match=r"variance_per_worker = .*: must be above 0"):
            IntegerNoise(code=code, workers=1, variance_per_worker=wrong)


@pytest.mark.parametrize("simulated", [False, True])
def test_absent_workers_bring_no_noise(simulated: bool) -> None:
    """Zeros of 30 of 40 workers: the sum has the variance of 30 shares, within five deviations of its estimate."""
    code = IntegerCode(numbers=20_000, norm=1.0, step=0.25, bits=16)
    noise = IntegerNoise(code=code, workers=40, variance_per_worker=0.6)
    zeros, generator = np.zeros((15, 20_000)), np.random.default_rng(1)
    found = noise.sum_of([zeros, zeros], generator, absent=10, simulated=simulated)
    assert found.var() == pytest.approx(30 * 0.6 / 16, rel=5 * math.sqrt(2 / 20_000))
    assert found.mean() == pytest.approx(0.0, abs=5 * math.sqrt(30 * 0.6 / 16 / 20_000))
    for absent in (9, 11):
        with pytest.raises(PrivacyError, match=f"hold 30 workers; the noise was set for {40 - absent}"):
            noise.sum_of([zeros, zeros], generator, absent=absent)


def test_the_modelled_sum_of_those_present() -> None:
    """Numbers of 0.3 steps: rounding has variance 0.21 for each of 60 present workers, noise 0.5."""
    code = IntegerCode(numbers=30_000, norm=100.0, step=0.5, bits=16)
    noise = IntegerNoise(code=code, workers=80, variance_per_worker=0.5)
    some = np.full((7, 30_000), 0.15)
    found = noise.modelled_sum(np.full(30_000, 9.0), some, np.random.default_rng(2), absent=20)
    variance = 60 * (0.21 + 0.5) * 0.25 + 0.25 / 12  # and the rounding of the model's own sum
    assert found.var() == pytest.approx(variance, rel=5 * math.sqrt(2 / 30_000))
    assert found.mean() == pytest.approx(9.0, abs=5 * math.sqrt(variance / 30_000))


def test_mu_out_of_range_is_refused() -> None:
    for wrong in (0.0, math.inf):
        with pytest.raises(PrivacyError, match="mu = "):
            variance_for(wrong)


def test_the_tilt_of_rounded_vectors() -> None:
    """Theorem 2 with mu of one step at variance 4, and chances of 1e-20."""
    step_mu = mu_of_a_step(4.0)
    assert rounded_mu_per_step(4.0, math.log(1e-20)) == pytest.approx(
        step_mu * tilted(step_mu, math.log(1e-20)), rel=1e-12
    )


def test_rounding_to_a_grid_sets_vectors_hardly_farther_apart() -> None:
    """Each of d numbers of two vectors by less than 2^-32 steps, over a norm of a tenth of a step."""
    assert grid_margin(100) == pytest.approx(20.0 * 2.0**-32 * 10.0, rel=1e-12)


def test_the_largest_variance_of_noise() -> None:
    """2^40: 2^16 parts of 2^24; a little more is refused. Simulated noise has its variance too."""
    assert draw_skellam(2.0**40, np.random.default_rng(1), (0,)).shape == (0,)
    with pytest.raises(PrivacyError, match=r"at most 1\.1e"):
        draw_skellam(2.0**40 * (1 + 1e-9), np.random.default_rng(1), (0,))
    drawn = draw_skellam(2.0**26, np.random.default_rng(1), (20_000,), simulated=True)
    assert drawn.var() == pytest.approx(2.0**26, rel=5 * math.sqrt(2 / 20_000))
    assert drawn.mean() == pytest.approx(0.0, abs=5 * math.sqrt(2.0**26 / 20_000))


@pytest.mark.parametrize("variance", [0.3, 40.0, 1e6])
@pytest.mark.parametrize("bits", [10, 40, 132])
def test_tails_of_noise(variance: float, bits: int) -> None:
    """Chernoff's bound on either tail is below 2^-(bits + 2) there, and not two steps before."""

    def bound(value: float) -> float:
        return value * math.asinh(value / variance) - value**2 / (math.hypot(value, variance) + variance)

    found = skellam_tail(variance, bits)
    least = brentq(lambda value: bound(value) - (bits + 2) * math.log(2.0), 1e-9, 1e9)
    assert found - 2 < least <= found - 1 + 1e-9


def test_all_workers_are_modelled_unless_some_are_absent() -> None:
    """Two workers, of zeros: twice the noise of one."""
    code = IntegerCode(numbers=30_000, norm=100.0, step=0.5, bits=16)
    noise = IntegerNoise(code=code, workers=2, variance_per_worker=5.0)
    zeros, generator = np.zeros((1, 30_000)), np.random.default_rng(2)
    for found in (
        noise.modelled_sum(zeros[0], zeros, generator),
        noise.received(np.zeros(30_000, dtype=np.int64), 2, generator),
        noise.sum_of([np.zeros((2, 30_000))], generator),
    ):
        assert found.var() == pytest.approx(10.0 * 0.25, rel=5 * math.sqrt(2 / 30_000))


def test_a_word_that_ties_with_the_last_threshold() -> None:
    """Thresholds (5, 10) and (9, 20): of the word 9 the next ones decide, 7 below the threshold and 30 above."""
    table = SkellamTable(-1, np.array([5, 9], dtype=np.uint64), np.array([10, 20], dtype=np.uint64))
    words = np.array([5, 5, 9, 9, 4, 6, 10], dtype=np.uint64)
    more = {(0,): 9, (1,): 10, (2,): 7, (3,): 30}
    assert table.at(words, lambda place: more[tuple(map(int, place))]).tolist() == [-1, 0, 0, 1, -1, 0, 1]
