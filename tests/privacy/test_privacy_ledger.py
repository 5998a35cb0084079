import math
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from airmixml.privacy import Ledger, gaussian_epsilon, gaussian_epsilons

WORKERS = 12
Slots = tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]


def drawn_slots(seed: int, slots: int, scheduled: int) -> Slots:
    """Return who sent, with which ratios and at which power scale, in slots drawn at random."""
    rng = np.random.default_rng(seed)
    who = np.argsort(rng.random((slots, WORKERS)), axis=1)[:, :scheduled].astype(np.int64)
    return who, rng.dirichlet(np.ones(scheduled), slots), rng.uniform(1e-15, 1e-13, slots)


def filled(*blocks: Slots) -> Ledger:
    ledger = Ledger(WORKERS)
    for block in blocks:
        ledger.add(*block)
    return ledger


def line_by_line(block: Slots) -> tuple[list[int], list[float]]:
    """Return each worker's slots and sum of beta q^2, added one seat at a time."""
    counts, watts = [0] * WORKERS, [0.0] * WORKERS
    for who, ratios, beta in zip(*(values.tolist() for values in block), strict=True):
        for worker, ratio in zip(who, ratios, strict=True):
            counts[worker] += 1
            watts[worker] += beta * ratio**2
    return counts, watts


any_block = st.builds(drawn_slots, st.integers(0, 10**6), st.integers(1, 40), st.integers(1, WORKERS))


@given(block=any_block)
@settings(max_examples=50, deadline=None)
def test_each_worker_s_line_is_the_sum_over_its_own_seats(block: Slots) -> None:
    ledger = filled(block)
    counts, watts = line_by_line(block)
    assert ledger.participations.tolist() == counts
    assert ledger.received_watts == pytest.approx(watts, rel=1e-12, abs=0)


@given(block=any_block)
@settings(max_examples=50, deadline=None)
def test_the_lines_together_are_all_that_was_received(block: Slots) -> None:
    who, ratios, beta = block
    ledger = filled(block)
    assert int(ledger.participations.sum()) == who.size
    together = math.fsum((beta[:, None] * ratios**2).ravel().tolist())
    assert float(ledger.received_watts.sum()) == pytest.approx(together, rel=1e-12, abs=0)


@given(block=any_block, cuts=st.lists(st.integers(0, 40), max_size=4))
@settings(max_examples=50, deadline=None)
def test_blocks_of_slots_add_up_to_one_block(block: Slots, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(block[2])) for cut in cuts), len(block[2])]
    parts = [(block[0][a:b], block[1][a:b], block[2][a:b]) for a, b in pairwise(edges)]
    whole, together = filled(block), filled(*parts)
    assert np.array_equal(together.participations, whole.participations)
    assert together.received_watts == pytest.approx(whole.received_watts, rel=1e-12, abs=0)


@given(block=any_block, seed=st.integers(0, 10**6))
@settings(max_examples=50, deadline=None)
def test_the_order_of_slots_and_seats_changes_nothing(block: Slots, seed: int) -> None:
    rng = np.random.default_rng(seed)
    slots, seats = rng.permutation(block[0].shape[0]), rng.permutation(block[0].shape[1])
    shuffled = (block[0][slots][:, seats], block[1][slots][:, seats], block[2][slots])
    assert np.array_equal(filled(shuffled).participations, filled(block).participations)
    assert filled(shuffled).received_watts == pytest.approx(filled(block).received_watts, rel=1e-12, abs=0)


def three_workers() -> Ledger:
    """Worker 0 sends in both slots, worker 2 in one; noise of 2 W and sensitivity 1 make mu^2 the received watts."""
    ledger = Ledger(3)
    ledger.add(np.array([[0, 2], [0, 1]]), np.array([[0.5, 0.5], [1.0, 0.0]]), np.array([4.0, 8.0]))
    return ledger


def test_a_ledger_of_three_workers_by_hand() -> None:
    """Worker 0: 4/4 + 8 = 9, so mu = 3; worker 1: a share of nothing; worker 2: 4/4 = 1, so mu = 1."""
    ledger = three_workers()
    assert ledger.participations.tolist() == [2, 1, 1]
    assert ledger.losses(noise_watts=2.0, sensitivity=1.0).tolist() == [9.0, 0.0, 1.0]
    assert ledger.losses(noise_watts=0.5, sensitivity=3.0).tolist() == [108.0, 0.0, 12.0]
    epsilons = ledger.epsilons(noise_watts=2.0, sensitivity=1.0, delta=1e-5)
    assert epsilons[2] == pytest.approx(4.3772, abs=1e-4)
    assert epsilons[1] == 0.0
    assert epsilons == pytest.approx([gaussian_epsilon(mu, 1e-5) for mu in (3.0, 0.0, 1.0)], rel=1e-10, abs=2e-12)


def test_the_summary_of_three_workers_by_hand() -> None:
    summary = three_workers().summary(np.array([8.0, 0.0, 1.0]))
    assert (summary["worst_epsilon"], summary["worst_worker"], summary["worst_worker_slots"]) == (8.0, 0, 2)
    assert (summary["median_epsilon"], summary["mean_epsilon"]) == (1.0, 3.0)
    assert summary["slots_per_worker"] == {"least": 1, "median": 1.0, "most": 2, "silent": 0}
    edges, workers = summary["histogram"]["epsilon_edges"], summary["histogram"]["workers"]
    assert (edges[0], edges[-1], len(edges)) == (0.0, 8.0, len(workers) + 1)
    assert [(k, n) for k, n in enumerate(workers) if n] == [(0, 1), (len(workers) // 8, 1), (len(workers) - 1, 1)]


def test_the_summary_of_workers_who_lost_nothing_has_all_of_them_at_zero() -> None:
    ledger = Ledger(4)
    epsilons = ledger.epsilons(noise_watts=1.0, sensitivity=5.0, delta=1e-3)
    summary = ledger.summary(epsilons)
    assert (summary["worst_epsilon"], summary["worst_worker_slots"]) == (0.0, 0)
    assert (summary["histogram"]["workers"][0], sum(summary["histogram"]["workers"])) == (4, 4)


def epsilon_with_many_digits(mu: float, delta: float) -> mpmath.mpf:
    with mpmath.workdps(60):
        m = mpmath.mpf(mu)

        def too_small(epsilon: mpmath.mpf) -> bool:
            first, second = mpmath.ncdf(m / 2 - epsilon / m), mpmath.ncdf(-m / 2 - epsilon / m)
            return bool(first - mpmath.exp(epsilon) * second > delta)

        if not too_small(mpmath.mpf(0)):
            return mpmath.mpf(0)
        low, high = mpmath.mpf(0), m**2 / 2 + m * mpmath.sqrt(2 * mpmath.log(1 / mpmath.mpf(delta)))
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (middle, high) if too_small(middle) else (low, middle)
        return high


SHIFTS = [1e-6, 1e-4, 1e-3, 0.01, 0.1, 1.0, 7.0, 50.0, 1e3, 1e5]


@pytest.mark.parametrize("delta", [1e-30, 1e-12, 1e-5, 0.01, 0.4])
def test_epsilons_of_many_workers_against_many_digits_and_never_below(delta: float) -> None:
    expected = [epsilon_with_many_digits(mu, delta) for mu in SHIFTS]
    for ours in (gaussian_epsilons(SHIFTS, delta), np.array([gaussian_epsilon(mu, delta) for mu in SHIFTS])):
        assert ours == pytest.approx([float(value) for value in expected], rel=1e-8, abs=2e-12)
        assert all(epsilon >= value for epsilon, value in zip(ours.tolist(), expected, strict=True))


@given(
    shifts=st.lists(st.floats(1e-4, 1e4) | st.just(0.0), min_size=1, max_size=12),
    log_delta=st.floats(-20, -0.1),
)
@settings(max_examples=60, deadline=None)
def test_epsilons_of_many_workers_are_those_of_each(shifts: list[float], log_delta: float) -> None:
    together = gaussian_epsilons(np.reshape(shifts, (-1, 1)), 10.0**log_delta)
    assert together.shape == (len(shifts), 1)
    each = [gaussian_epsilon(mu, 10.0**log_delta) for mu in shifts]
    assert together.ravel() == pytest.approx(each, rel=1e-8, abs=2e-12)


def test_epsilons_of_many_workers_are_those_of_each_alone() -> None:
    ledger = Ledger(150_000)  # more than are computed at once
    ledger.received_watts[:] = np.arange(150_000) % 4
    epsilons = ledger.epsilons(noise_watts=2.0, sensitivity=0.5, delta=1e-5, spent_mu=1.0)
    for watts in range(4):
        alone = gaussian_epsilon(math.sqrt(watts * 0.5 / 1.0 + 1.0), 1e-5)
        np.testing.assert_allclose(epsilons[watts::4], alone, rtol=1e-9)
