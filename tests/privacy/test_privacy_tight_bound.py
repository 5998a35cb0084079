import math
from functools import cache

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airmixml.privacy.paper_bounds import (
    log_even_moments,
    slot_privacy_loss,
    subsampled_renyi_loss,
    tight_epsilon,
    total_privacy_loss,
)


@cache
def moment_with_many_digits(squared_shift: float, order: int) -> mpmath.mpf:
    """C_t(x) as an alternating sum, with digits enough for any cancellation.

    It is as small as s^(order / 2) at s = 1e-6, of terms as large as 2^order: 3.3 digits an order.
    """
    with mpmath.workdps(100 + 5 * order):
        total, step, power, exponential = mpmath.mpf(0), mpmath.exp(mpmath.mpf(squared_shift)), mpmath.mpf(1), 1
        for i in range(order + 1):
            total += (-1) ** i * math.comb(order, i) * exponential  # exp(i (i - 1) s / 2)
            exponential *= power
            power *= step
        return total


def proposition_1(squared_shift: float, rate: float, order: int) -> mpmath.mpf:
    """epsilon'_t typed from the paper, with C_t corrected."""
    with mpmath.workdps(60):
        s, r = mpmath.mpf(squared_shift), mpmath.mpf(rate)
        smaller = min(4 * (mpmath.exp(s) - 1), 2 * mpmath.exp(s))
        inside = 1 + r**2 * mpmath.binomial(order, 2) * smaller
        for j in range(3, order + 1):
            low = moment_with_many_digits(squared_shift, 2 * (j // 2))
            high = moment_with_many_digits(squared_shift, 2 * ((j + 1) // 2))
            inside += 4 * r**j * mpmath.binomial(order, j) * mpmath.sqrt(low * high)
        return mpmath.log(inside) / (order - 1)


@pytest.mark.parametrize("squared_shift", [1e-6, 1e-3, 0.1, 0.49, 0.51, 1.0, 3.0, 40.0, 1e5])
@pytest.mark.parametrize("order", [2, 4, 8, 64, 512])
def test_even_moments_against_many_digits(squared_shift: float, order: int) -> None:
    with mpmath.workdps(60):
        expected = float(mpmath.log(moment_with_many_digits(squared_shift, order)))
    assert log_even_moments(squared_shift, order)[-1] == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("squared_shift", [1e-4, 0.05, 0.7, 3.166, 30.0])
@pytest.mark.parametrize("rate", [1e-7, 64 / 60_000, 0.05, 1.0])
@pytest.mark.parametrize("order", [2, 3, 4, 17])
def test_proposition_1_against_many_digits(squared_shift: float, rate: float, order: int) -> None:
    ours = subsampled_renyi_loss(squared_shift, rate, [order])[0]
    assert ours == pytest.approx(float(proposition_1(squared_shift, rate, order)), rel=1e-8, abs=1e-18)


def test_order_two_alone_is_corollary_1() -> None:
    for squared_shift in (1e-3, 0.5, 3.166):
        tight, order = tight_epsilon([squared_shift], [1000], sampling_rate=0.004, delta=0.01, orders=[2])
        loose = total_privacy_loss(1000 * float(slot_privacy_loss(squared_shift, 0.004)), 0.01)
        assert (tight, order) == (pytest.approx(loose, rel=1e-12), 2)


@given(
    squared_shift=st.floats(1e-4, 50),
    rate=st.floats(1e-6, 1),
    slots=st.integers(1, 10**6),
    log_delta=st.floats(-8, -0.5),
    factor=st.floats(1.01, 3),
)
@settings(max_examples=40, deadline=None)
def test_epsilon_is_monotone_and_never_above_the_loose_bound(
    squared_shift: float, rate: float, slots: int, log_delta: float, factor: float
) -> None:
    orders = [2, 3, 4, 8, 16, 32, 64]

    def epsilon(s: float, r: float, count: int, delta: float) -> float:
        return tight_epsilon([s], [count], sampling_rate=r, delta=delta, orders=orders)[0]

    delta = 10.0**log_delta
    base = epsilon(squared_shift, rate, slots, delta)
    assert base <= total_privacy_loss(slots * float(slot_privacy_loss(squared_shift, rate)), delta) * (1 + 1e-12)
    assert epsilon(squared_shift * factor, rate, slots, delta) >= base
    assert epsilon(squared_shift, min(1.0, rate * factor), slots, delta) >= base * (1 - 1e-12)
    assert epsilon(squared_shift, rate, slots + 1, delta) >= base
    assert epsilon(squared_shift, rate, slots, delta / factor) >= base


def test_slots_of_several_kinds_add_up() -> None:
    orders = [2, 4, 8, 16]
    losses = 3 * subsampled_renyi_loss(0.2, 0.01, orders) + 7 * subsampled_renyi_loss(1.5, 0.01, orders)
    by_hand = min(losses + math.log(100) / (np.array(orders) - 1))
    assert tight_epsilon([0.2, 1.5], [3, 7], sampling_rate=0.01, delta=0.01, orders=orders)[0] == pytest.approx(by_hand)


def test_a_silent_slot_loses_nothing() -> None:
    assert np.array_equal(subsampled_renyi_loss(0.0, 0.1, [2, 50]), [0.0, 0.0])
    assert tight_epsilon([0.0], [100], sampling_rate=0.1, delta=0.5, orders=[2, 100])[0] < 0.01
