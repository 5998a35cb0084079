"""Many slots of one number each: outputs are drawn, their privacy loss is exact, and delta is its mean excess.

Workers hold 0 or 1, so a slot adds up to a hypergeometric number. delta = E (1 - e^(epsilon - L))_+ for the loss L of
outputs drawn from the first of two neighbours.
"""

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import hypergeom

from airmixml.privacy import GaussianSlots, certified_epsilon

Array = NDArray[np.float64]
WORKERS, SAMPLED, SLOTS, EXPONENT, DELTA, RUNS = 50, 5, 200, 0.5, 0.02, 20_000
ERRORS = 4.0


def weights(ones: int, workers: int) -> Array:
    """Probability of each sum of a slot, of a sample from workers of whom ``ones`` hold 1."""
    return np.asarray(hypergeom.pmf(np.arange(SAMPLED + 1), workers, ones, SAMPLED), dtype=np.float64)


def slots_of(ones: int, workers: int, rng: np.random.Generator) -> Array:
    totals = rng.choice(SAMPLED + 1, size=(RUNS, SLOTS), p=weights(ones, workers))
    return np.asarray(totals + rng.standard_normal((RUNS, SLOTS)) / math.sqrt(EXPONENT), dtype=np.float64)


def log_density(outputs: Array, ones: int, workers: int) -> Array:
    centres = zip(range(SAMPLED + 1), weights(ones, workers).tolist(), strict=True)
    mixture = sum(weight * np.exp(-EXPONENT * (outputs - centre) ** 2 / 2) for centre, weight in centres if weight)
    return np.asarray(np.log(mixture), dtype=np.float64)


def measured_delta(losses: Array, epsilon: float) -> tuple[float, float]:
    """Return the estimate and its standard error."""
    excess = -np.expm1(np.minimum(epsilon - losses, 0.0))
    return float(excess.mean()), float(excess.std() / math.sqrt(len(excess)))


@cache
def certified(adjacency: str) -> float:
    mechanism = GaussianSlots(
        squared_shifts=(EXPONENT,),
        counts=(SLOTS,),
        adjacency=adjacency,
        sampling="without-replacement",
        sampled=SAMPLED,
        population=WORKERS,
    )
    return certified_epsilon("pld", mechanism, DELTA)


def losses(first: tuple[int, int], second: tuple[int, int], seed: int) -> Array:
    """Return the total losses of runs of the first world against the second; a world is (ones, workers)."""
    outputs = slots_of(*first, np.random.default_rng(seed))
    return np.asarray((log_density(outputs, *first) - log_density(outputs, *second)).sum(axis=1))


@pytest.mark.parametrize("ones", [0, 25])
@pytest.mark.parametrize("joins", [False, True])
def test_many_slots_keep_the_certified_epsilon_when_a_worker_is_replaced(ones: int, joins: bool) -> None:
    pair = [(ones + 1, WORKERS), (ones, WORKERS)]
    first, second = reversed(pair) if joins else pair
    measured, error = measured_delta(losses(first, second, seed=ones), certified("replace-one"))
    assert measured <= DELTA + ERRORS * error


def test_many_slots_keep_the_certified_epsilon_when_a_worker_moves_up_in_some_and_down_in_others() -> None:
    """The worker's number goes from 1 to 0 in one half of the slots and from 0 to 1 in the other."""
    half = SLOTS // 2
    total = np.zeros(RUNS)
    for seed, first, second in [(1, 1, 0), (2, 0, 1)]:
        outputs = slots_of(first, WORKERS, np.random.default_rng(seed))[:, :half]
        total += (log_density(outputs, first, WORKERS) - log_density(outputs, second, WORKERS)).sum(axis=1)
    measured, error = measured_delta(total, certified("replace-one"))
    assert measured <= DELTA + ERRORS * error


@pytest.mark.parametrize("ones", [0, 25])
@pytest.mark.parametrize("joins", [False, True])
def test_many_slots_keep_the_certified_epsilon_when_a_worker_is_gone(ones: int, joins: bool) -> None:
    pair = [(ones + 1, WORKERS), (ones, WORKERS - 1)]
    first, second = reversed(pair) if joins else pair
    measured, error = measured_delta(losses(first, second, seed=100 + ones), certified("remove-one"))
    assert measured <= DELTA + ERRORS * error


def test_the_certified_epsilon_of_a_removal_is_attained_where_all_others_hold_0() -> None:
    measured, error = measured_delta(losses((1, WORKERS), (0, WORKERS - 1), seed=7), certified("remove-one"))
    assert error < 0.05 * DELTA
    assert measured >= DELTA - ERRORS * error


def test_a_tenth_less_epsilon_is_not_kept() -> None:
    measured, error = measured_delta(losses((1, WORKERS), (0, WORKERS - 1), seed=8), 0.9 * certified("remove-one"))
    assert measured > DELTA + ERRORS * error


def losses_of_a_changed_label(workers: int, slots: int, squared_shift: float, runs: int) -> Array:
    """One of the workers sends; all others have the third of three one-hot labels, as far from the first as the second.

    With the third label at the origin, unit noise and a and b the other two, outputs matter only by u = <y, a> and
    v = <y, b>, where <a, a> = <b, b> = s and <a, b> = s / 2.
    """
    rng = np.random.default_rng(11)
    total, rate = np.zeros(runs), 1.0 / workers
    for _ in range(slots):
        along, across = rng.standard_normal((2, runs))
        drawn = rng.random(runs) < rate
        u = squared_shift * drawn + math.sqrt(squared_shift) * along
        v = squared_shift / 2 * drawn + math.sqrt(squared_shift) * (along / 2 + math.sqrt(0.75) * across)
        total += np.log1p(rate * np.expm1(u - squared_shift / 2)) - np.log1p(rate * np.expm1(v - squared_shift / 2))
    return total


def test_a_changed_label_keeps_the_epsilon_of_a_replacement_and_not_that_of_a_removal() -> None:
    delta = 0.1
    mechanism = GaussianSlots(
        squared_shifts=(5.0,),
        counts=(400,),
        adjacency="replace-one",
        sampling="without-replacement",
        sampled=1,
        population=200,
    )
    total = losses_of_a_changed_label(workers=200, slots=400, squared_shift=5.0, runs=20_000)
    measured, error = measured_delta(total, certified_epsilon("pld", mechanism, delta))
    assert 0.7 * delta < measured <= delta + ERRORS * error
    removal = certified_epsilon("pld", replace(mechanism, adjacency="remove-one"), delta)
    too_much, error = measured_delta(total, removal)
    assert too_much > delta + ERRORS * error
