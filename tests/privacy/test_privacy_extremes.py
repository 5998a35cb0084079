import math

import mpmath
import numpy as np
import pytest
from scipy.stats import binom, norm
from slots_for_tests import gaussian_epsilon_with_many_digits

from airmixml.privacy import GaussianSlots, certified_epsilon


def hidden_slots(
    squared_shift: float, count: int, sampled: int, population: int, adjacency: str = "replace-one"
) -> GaussianSlots:
    return GaussianSlots(
        squared_shifts=(squared_shift,),
        counts=(count,),
        adjacency=adjacency,
        sampling="without-replacement",
        sampled=sampled,
        population=population,
    )


def unamplified(squared_shift: float, count: int, delta: float) -> float:
    """Epsilon of the slots were every worker in all of them and the schedule known."""
    return float(gaussian_epsilon_with_many_digits(squared_shift * count, delta))


def of_one_slot(squared_shift: float, rate: float, delta: float) -> float:
    """Epsilon of a single slot where all others hold 0: (1 - r) N(0) + r N(mu) against N(0), exactly."""
    if delta >= rate:
        return 0.0
    with mpmath.workdps(60):
        inner = gaussian_epsilon_with_many_digits(squared_shift, delta / rate)
        return float(mpmath.log1p(mpmath.mpf(rate) * mpmath.expm1(inner)))


EXTREMES = [
    (1e-9, 1, 1, 10**7, 1e-30),
    (1e-9, 1, 1, 10**7, 1e-14),
    (1e-9, 10**6, 1, 10**7, 1e-9),
    (1e-9, 10**6, 64, 60_000, 1e-5),
    (1e-9, 10**6, 1, 1, 1e-9),
    (1e-3, 1000, 1, 10**7, 1e-30),
    (1.0, 10**6, 1, 10**7, 1e-5),
    (1.0, 10**6, 64, 60_000, 1e-30),
    (1.0, 10**6, 1, 2, 1e-5),
    (1e3, 10, 1, 10**7, 1e-12),
    (1e6, 1, 64, 60_000, 1e-5),
    (1e6, 1, 1, 10**7, 0.5),
    (1e6, 10**6, 1, 10**7, 1e-5),
    (1e6, 10**6, 1, 1, 1e-30),
]


@pytest.mark.parametrize("adjacency", ["replace-one", "remove-one"])
def test_pld_at_the_least_delta_that_there_is(adjacency: str) -> None:
    least = 5e-324
    epsilon = certified_epsilon("pld", hidden_slots(0.5, 10, 1, 10, adjacency), least)
    assert of_one_slot(0.5, 0.1, least) < epsilon < unamplified(0.5, 10, least)


@pytest.mark.parametrize("accountant", ["pld", "rdp", "gdp", "paper-tight", "paper-loose"])
@pytest.mark.parametrize("delta", [1e-300, 5e-324])
def test_two_steps_whose_delta_is_below_all_numbers_certify_nothing(accountant: str, delta: float) -> None:
    slots = GaussianSlots(squared_shifts=(0.5,), counts=(10,), adjacency="remove-one", steps=2)
    assert certified_epsilon(accountant, slots, delta) == math.inf


@pytest.mark.parametrize(("squared_shift", "count", "sampled", "population", "delta"), EXTREMES)
@pytest.mark.parametrize("adjacency", ["replace-one", "remove-one"])
def test_pld_lies_between_one_slot_and_no_sampling_even_at_the_extremes(
    squared_shift: float, count: int, sampled: int, population: int, delta: float, adjacency: str
) -> None:
    mechanism = hidden_slots(squared_shift, count, sampled, population, adjacency)
    epsilon = certified_epsilon("pld", mechanism, delta)
    assert math.isfinite(epsilon)
    assert epsilon >= of_one_slot(squared_shift, sampled / population, delta) * (1 - 1e-9)
    assert epsilon <= unamplified(squared_shift, count, delta / 2) * (1 + 3e-4) + 1e-9


@pytest.mark.parametrize(("squared_shift", "count", "sampled", "population", "delta"), EXTREMES)
@pytest.mark.parametrize("accountant", ["paper-loose", "paper-tight", "rdp"])
def test_the_renyi_bounds_stay_finite_and_above_one_slot_at_the_extremes(
    squared_shift: float, count: int, sampled: int, population: int, delta: float, accountant: str
) -> None:
    mechanism = hidden_slots(squared_shift, count, sampled, population)
    epsilon = certified_epsilon(accountant, mechanism, delta)
    order_two = count * (squared_shift + math.log(4.0)) + math.log(1.0 / delta)
    assert of_one_slot(squared_shift, sampled / population, delta) <= epsilon <= order_two * (1 + 1e-12)


@pytest.mark.parametrize(
    ("squared_shift", "count", "sampled", "population"),
    [(1e-6, 10**5, 1, 100), (1e-6, 10**4, 1, 4), (1e-4, 10**4, 1, 4)],
)
@pytest.mark.parametrize("adjacency", ["replace-one", "remove-one"])
def test_pld_of_many_weak_slots_is_close_to_their_gaussian_limit(
    squared_shift: float, count: int, sampled: int, population: int, adjacency: str
) -> None:
    """mu^2 = r^2 T (e^s - 1): Bu, Dong, Long and Su 2020, Thm. 5."""
    limit = (sampled / population) ** 2 * count * math.expm1(squared_shift)
    expected = float(gaussian_epsilon_with_many_digits(limit, 1e-5))
    epsilon = certified_epsilon("pld", hidden_slots(squared_shift, count, sampled, population, adjacency), 1e-5)
    assert epsilon == pytest.approx(expected, rel=5e-3, abs=0)


def delta_where_draws_stand_out(squared_shift: float, count: int, rate: float, epsilon: float) -> float:
    """delta of a removed worker whose draws are all seen, others holding 0.

    A slot in which it was drawn loses y + ln r, one in which it was not ln(1 - r), where y is N(s/2, s).
    """
    drawn = np.arange(1, count + 1)
    probability = binom.pmf(drawn, count, rate)
    drawn, probability = drawn[probability > 0.0], probability[probability > 0.0]
    mu = np.sqrt(squared_shift * drawn)
    unsampled = epsilon - drawn * math.log(rate) - (count - drawn) * math.log1p(-rate)
    first = norm.cdf(mu / 2.0 - unsampled / mu)
    second = np.exp(unsampled + norm.logcdf(-mu / 2.0 - unsampled / mu))
    return float(np.sum(probability * (first - second)))


@pytest.mark.parametrize(
    ("squared_shift", "count", "sampled", "population", "delta", "tight"),
    [
        (400.0, 50, 1, 2, 1e-2, True),
        (1e3, 10, 1, 10, 1e-4, True),
        (1e4, 100, 1, 4, 1e-3, True),
        (1e6, 100, 1, 4, 1e-3, False),
        (1e6, 10**4, 1, 100, 1e-5, False),
        (1e6, 10**6, 64, 60_000, 1e-9, False),
    ],
)
def test_pld_keeps_delta_where_signals_are_so_strong_that_draws_stand_out(
    squared_shift: float, count: int, sampled: int, population: int, delta: float, tight: bool
) -> None:
    """Losses in the millions are not discretised but bounded by how often a worker is drawn, which is less tight."""
    epsilon = certified_epsilon("pld", hidden_slots(squared_shift, count, sampled, population, "remove-one"), delta)
    exact = delta_where_draws_stand_out(squared_shift, count, sampled / population, epsilon)
    assert (0.95 if tight else 0.2) * delta <= exact <= delta
