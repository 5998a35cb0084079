import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airmixml.privacy import Ledger, gaussian_epsilon, gaussian_epsilons


def three_workers() -> Ledger:
    """Noise of 2 W and sensitivity 1 make mu^2 the received watts."""
    return Ledger(np.array([2, 1, 1]), np.array([4.0 * 0.5**2 + 8.0, 0.0, 4.0 * 0.5**2]))


def test_a_ledger_of_three_workers_by_hand() -> None:
    """Worker 0: 4/4 + 8 = 9, so mu = 3; worker 1: a share of nothing; worker 2: 4/4 = 1, so mu = 1."""
    ledger = three_workers()
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


def test_the_summary_of_workers_who_lost_nothing_has_all_of_them_at_zero() -> None:
    ledger = Ledger(np.zeros(4, dtype=np.int64), np.zeros(4))
    epsilons = ledger.epsilons(noise_watts=1.0, sensitivity=5.0, delta=1e-3)
    summary = ledger.summary(epsilons)
    assert (summary["worst_epsilon"], summary["worst_worker_slots"]) == (0.0, 0)


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
    count = 150_000  # more than are computed at once
    ledger = Ledger(np.ones(count, dtype=np.int64), np.arange(count) % 4.0)
    epsilons = ledger.epsilons(noise_watts=2.0, sensitivity=0.5, delta=1e-5, spent_mu=1.0)
    for watts in range(4):
        alone = gaussian_epsilon(math.sqrt(watts * 0.5 / 1.0 + 1.0), 1e-5)
        np.testing.assert_allclose(epsilons[watts::4], alone, rtol=1e-9)
