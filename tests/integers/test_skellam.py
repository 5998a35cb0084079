"""What Skellam noise hides: against many digits, exact sums, Monte Carlo and the steps of the proof."""

from __future__ import annotations

import math
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri
from scipy.stats import skellam as scipy_skellam

from airmixml.integers.integer_noise import (
    mu_per_step,
    rounded_mu_per_step,
    rounded_variance_for,
    variance_for,
)
from airmixml.messages import PrivacyError
from airmixml.privacy.gaussian import log_gaussian_delta
from integers_by_hand import chances, one_number_delta, renyi_bound


def exact_chances(variance: float, largest: int) -> list[mpmath.mpf]:
    """p_0 ... p_largest with 60 digits, from mpmath's own Bessel functions."""
    with mpmath.workdps(60):
        return [mpmath.exp(-variance) * mpmath.besseli(t, variance) for t in range(largest + 1)]


def normal_quantile_of_tail(tail: mpmath.mpf) -> mpmath.mpf:
    if tail > 1e-3:
        return -mpmath.sqrt(2) * mpmath.erfinv(2 * tail - 1)
    return mpmath.findroot(
        lambda g: mpmath.log(mpmath.erfc(g / mpmath.sqrt(2)) / 2) - mpmath.log(tail), mpmath.sqrt(-2 * mpmath.log(tail))
    )


@pytest.mark.parametrize("variance", [0.05, 30.0])
def test_the_widest_step_between_normal_quantiles_is_that_in_the_middle(variance: float) -> None:
    """m(V) = max over t of Phi^-1(F(t)) - Phi^-1(F(t - 1)), and these steps shrink from the middle outwards."""
    with mpmath.workdps(60):
        largest = int(8 * math.sqrt(variance)) + 10
        p = exact_chances(variance, largest + 60)
        tails = [sum(p[t + 1 :]) for t in range(largest)]
        quantiles = [normal_quantile_of_tail(tail) for tail in tails]
        steps = [2 * quantiles[0], *(b - a for a, b in pairwise(quantiles))]
        assert all(a > b for a, b in pairwise(steps))
        assert mu_per_step(variance) == pytest.approx(float(steps[0]), rel=1e-12)


@pytest.mark.parametrize("variance", [0.01, 12.0])
def test_the_score_is_concave(variance: float) -> None:
    """psi_t = ln p_(t-1) / p_t: its second differences are negative for t >= 1, with psi_0 = -psi_1."""
    with mpmath.workdps(60):
        p = exact_chances(variance, int(10 * math.sqrt(variance)) + 12)
        score = [mpmath.log(a / b) for a, b in pairwise(p)]
        score = [-score[0], *score]
        assert all(a - 2 * b + c < 0 for a, b, c in zip(score, score[1:], score[2:], strict=False))


def test_three_intervals_of_a_gaussian() -> None:
    """Lemma of the proof: 2 ln M(c) - ln M(c - D) - ln M(c + D) grows with c >= 0 and with D, and is below D^2."""
    centres, widths = np.linspace(0.0, 3.0, 31)[:, None], np.linspace(0.05, 2.5, 40)[None, :]

    def log_mass(middle: np.ndarray) -> np.ndarray:
        return np.log(ndtr(-middle + widths / 2) - ndtr(-middle - widths / 2))

    bend = 2 * log_mass(centres) - log_mass(centres - widths) - log_mass(centres + widths)
    assert (np.diff(bend, axis=0) > 0).all()
    assert (np.diff(bend, axis=1) > 0).all()
    assert (bend < widths**2).all()


@given(log_variance=st.floats(-3, 25))
@settings(max_examples=100, deadline=None)
def test_the_variance_for_a_mu_is_enough_and_barely_so(log_variance: float) -> None:
    mu = mu_per_step(10.0**log_variance)
    variance = variance_for(mu)
    assert mu_per_step(variance) <= mu
    assert variance == pytest.approx(10.0**log_variance, rel=1e-9)


def test_wide_noise_is_nearly_gaussian_and_narrow_noise_is_not() -> None:
    assert mu_per_step(1e6) * 1e3 == pytest.approx(1.0 + 1.0 / 6e6, abs=1e-9)
    assert mu_per_step(1.0) == pytest.approx(2 * ndtri((1 + math.exp(-1) * 1.2660658777520082) / 2), rel=1e-12)
    assert mu_per_step(1.0) > 1.2
    with pytest.raises(PrivacyError, match="variance = 0"):
        mu_per_step(0.0)


@pytest.mark.parametrize("variance", [0.5, 9000.0])
def test_chances_are_those_of_scipy(variance: float) -> None:
    largest = int(9 * math.sqrt(variance)) + 12
    found = chances(variance, 2 * largest + 40)[: largest + 1]
    assert found == pytest.approx(
        scipy_skellam.pmf(range(largest + 1), variance / 2, variance / 2), rel=1e-7, abs=1e-30
    )


@pytest.mark.parametrize(("variance", "move"), [(4.0, 1), (100.0, 3), (100.0, 25), (1e4, 30)])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 4.0])
def test_a_move_of_whole_steps_tells_no_more_than_a_gaussian(variance: float, move: int, epsilon: float) -> None:
    exact = one_number_delta(variance, move, epsilon)
    claimed = math.exp(log_gaussian_delta(move * mu_per_step(variance), epsilon))
    assert exact <= claimed * (1 + 1e-9) + 1e-15
    if variance >= 1e4 and epsilon <= 1.0:
        assert exact >= 0.99 * claimed


def test_one_number_delta_against_many_digits() -> None:
    with mpmath.workdps(40):
        p = exact_chances(6.0, 60)
        chance = {t: p[abs(t)] for t in range(-60, 61)}
        moved = {t: 0.75 * chance.get(t - 2, 0) + 0.25 * chance.get(t - 3, 0) for t in chance}
        expected = sum(max(chance[t] - mpmath.e * moved[t], 0) for t in chance)
    assert one_number_delta(6.0, 2.25, 1.0) == pytest.approx(float(expected), rel=1e-10)


@pytest.mark.parametrize(("variance", "move"), [(20.0, 0.3), (20.0, 2.6), (300.0, 0.02), (300.0, 7.5)])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.5])
def test_a_rounded_move_tells_no_more_than_is_claimed(variance: float, move: float, epsilon: float) -> None:
    cut = 1e-12
    mu = move * rounded_mu_per_step(variance, math.log(cut))
    claimed = math.exp(log_gaussian_delta(mu, epsilon)) + (1 + math.exp(epsilon)) * cut
    assert one_number_delta(variance, move, epsilon) <= claimed
    # A claim that forgot the tilt of the tails would be refuted somewhere, or nearly so: it is not idle.
    assert rounded_mu_per_step(variance, math.log(cut)) > mu_per_step(variance)


def test_rounding_small_numbers_costs_far_less_than_their_longer_vectors_say() -> None:
    """Numbers of 0.02 steps become 0 or 1: their squared norm grows 50 times, their loss by a few per cent."""
    variance, move = 300.0, 0.02
    by_length = math.sqrt(move) * mu_per_step(variance)
    assert move * rounded_mu_per_step(variance, math.log(1e-15)) < 0.2 * by_length


def test_monte_carlo_of_many_rounded_numbers() -> None:
    """900 numbers of 0.3 steps: delta from drawn losses, with its error, lies between the claim and 0.85 of its mu."""
    variance, numbers, part, draws, epsilon = 2000.0, 900, 0.3, 5000, 0.1
    generator = np.random.default_rng(5)
    chance = chances(variance, 800)[:500]
    places = np.arange(-499, 500)
    still = chance[np.abs(places)]
    moved = (1 - part) * still + part * np.append(0.0, still[:-1])
    losses = np.zeros(draws)
    for _ in range(numbers):
        drawn = generator.poisson(variance / 2, draws) - generator.poisson(variance / 2, draws)
        drawn += generator.random(draws) < part
        losses += np.log(moved / still)[drawn + 499]
    gains = np.maximum(1.0 - np.exp(epsilon - losses), 0.0)
    delta, error = gains.mean(), gains.std() / math.sqrt(draws)
    mu = part * math.sqrt(numbers) * rounded_mu_per_step(variance, math.log(1e-15))
    assert delta - 4 * error <= math.exp(log_gaussian_delta(mu, epsilon))
    assert delta - 4 * error > math.exp(log_gaussian_delta(0.7 * mu, epsilon))
    assert delta + 4 * error > math.exp(log_gaussian_delta(0.85 * mu, epsilon))


def test_the_variance_for_rounded_numbers() -> None:
    for mu in (1e-3, 0.1, 2.0):
        variance = rounded_variance_for(mu, -60.0)
        assert rounded_mu_per_step(variance, -60.0) <= mu
        assert rounded_mu_per_step(0.999 * variance, -60.0) > mu


def test_our_bound_is_below_the_renyi_bound_at_its_best_order() -> None:
    """Renyi divergences of mu-GDP are order mu^2 / 2: those of Agarwal, Kairouz and Liu are larger, by the l1 norm."""
    variance, numbers = 1e4, 10_000  # a move of one step in each number
    mu = math.sqrt(numbers) * mu_per_step(variance)
    for order in (2, 8, 32):
        published = renyi_bound(order, variance, squared_distance=numbers, total_distance=numbers)
        assert order * mu**2 / 2 < published < 1.01 * order * mu**2 / 2
