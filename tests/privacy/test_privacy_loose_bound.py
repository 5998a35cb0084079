import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airmixml.messages import PrivacyError
from airmixml.privacy import (
    Sensitivity,
    power_scale_for_privacy,
    slot_privacy_loss,
    slot_squared_shift,
    smallest_certifiable_epsilon,
    total_privacy_loss,
)

NOISE_WATTS = 10 ** (-14.4)


def corollary_1(squared_shift: float, rate: float, slots: int, delta: float) -> mpmath.mpf:
    """Corollary 1 typed from the paper, with 60 digits."""
    with mpmath.workdps(60):
        x, r = mpmath.mpf(squared_shift), mpmath.mpf(rate)
        smaller = min(4 * (mpmath.exp(x) - 1), 2 * mpmath.exp(x))
        return slots * mpmath.log(1 + r**2 * smaller) + mpmath.log(1 / mpmath.mpf(delta))


def proposition_2(epsilon: float, delta: float, slots: int, rate: float) -> tuple[mpmath.mpf, int]:
    """max q^2 d beta / (sigma^2/2) of Proposition 2 typed from the paper, with enough digits, and its branch."""
    with mpmath.workdps(80):
        r = mpmath.mpf(rate)
        grown = mpmath.exp((mpmath.mpf(epsilon) + mpmath.log(mpmath.mpf(delta))) / slots)
        if epsilon >= slots * mpmath.log(1 + 4 * r**2) - mpmath.log(delta):
            return mpmath.log((grown - 1) / (2 * r**2)), 1
        return mpmath.log((grown - (1 - 4 * r**2)) / (4 * r**2)), 2


CASES = [
    (5.0, 0.01, 1000, 8 / 2000, 1),
    (4.61, 0.01, 1000, 8 / 2000, 2),
    (1e4, 0.01, 1000, 4 / 2000, 1),
    (10.0, 0.01, 100_000, 64 / 60_000, 1),
    (10.0, 0.01, 10**6, 1e-7, 1),
    (1e8, 0.01, 100_000, 64 / 60_000, 1),
    (1e8, 0.01, 1, 1.0, 1),
    (4.7, 0.01, 10**6, 1.0, 2),
    (4.6052, 0.01, 10**6, 0.5, 2),
    (12.0, 1e-5, 100_000, 1e-7, 1),
]


@pytest.mark.parametrize(("epsilon", "delta", "slots", "rate", "branch"), CASES)
def test_proposition_2_against_many_digits(epsilon: float, delta: float, slots: int, rate: float, branch: int) -> None:
    expected, used = proposition_2(epsilon, delta, slots, rate)
    assert used == branch
    beta = power_scale_for_privacy(
        np.array([0.25, 1.0]),
        epsilon=epsilon,
        delta=delta,
        slots=slots,
        sampling_rate=rate,
        noise_watts=NOISE_WATTS,
        sensitivity=7.0,
    )
    by_hand = [float(expected) * NOISE_WATTS / 2 / 7 / share**2 for share in (0.25, 1.0)]
    assert beta == pytest.approx(by_hand, rel=1e-8, abs=0)  # beta is of the order of 1e-15


@pytest.mark.parametrize("squared_shift", [0.0, 1e-300, 1e-12, 0.3, math.log(2), 0.7, 5.0, 700.0, 1e5])
@pytest.mark.parametrize("rate", [1e-7, 64 / 60_000, 1.0])
def test_corollary_1_against_many_digits(squared_shift: float, rate: float) -> None:
    ours = total_privacy_loss(1000 * float(slot_privacy_loss(squared_shift, rate)), 0.01)
    assert ours == pytest.approx(float(corollary_1(squared_shift, rate, 1000, 0.01)), rel=1e-12)


@given(
    log_excess=st.floats(-3, 8),
    log_delta=st.floats(-12, -0.01),
    slots=st.sampled_from([1, 10, 1000, 100_000, 10**6]),
    log_rate=st.floats(-7, 0),
    share=st.floats(1e-3, 1.0),
)
@settings(max_examples=300, deadline=None)
def test_the_power_scale_meets_the_bound_and_a_larger_one_does_not(
    log_excess: float, log_delta: float, slots: int, log_rate: float, share: float
) -> None:
    delta, rate = 10.0**log_delta, 10.0**log_rate
    epsilon = smallest_certifiable_epsilon(delta) + 10.0**log_excess
    beta = power_scale_for_privacy(
        share,
        epsilon=epsilon,
        delta=delta,
        slots=slots,
        sampling_rate=rate,
        noise_watts=NOISE_WATTS,
        sensitivity=794.0,
    )

    def epsilon_at(factor: float) -> float:
        squared_shift = slot_squared_shift(share, factor * beta, NOISE_WATTS, 794.0)
        return total_privacy_loss(slots * float(slot_privacy_loss(squared_shift, rate)), delta)

    assert epsilon_at(1.0) == pytest.approx(epsilon, rel=1e-6)
    assert epsilon_at(1.0) <= epsilon
    assert epsilon_at(1.01) > epsilon_at(1.0) > epsilon_at(0.99)


@pytest.mark.parametrize("epsilon", [0.1, 3.0, math.log(100) - 1e-9])
def test_what_the_bound_cannot_certify_is_refused_with_the_smallest_it_can(epsilon: float) -> None:
    with pytest.raises(PrivacyError, match=r"epsilon = .* above ln\(1/delta\) = 4\.6052"):
        power_scale_for_privacy(
            0.5, epsilon=epsilon, delta=0.01, slots=10, sampling_rate=0.1, noise_watts=1.0, sensitivity=7.0
        )


def test_the_two_branches_meet() -> None:
    """At epsilon = T ln(1 + 4 r^2) - ln(delta) both give ln 2."""
    rate, slots = 0.01, 500
    border = slots * math.log1p(4 * rate**2) + math.log(100)
    scales = [
        float(
            power_scale_for_privacy(
                1.0,
                epsilon=border * (1 + shift),
                delta=0.01,
                slots=slots,
                sampling_rate=rate,
                noise_watts=2.0,
                sensitivity=1.0,
            )
        )
        for shift in (-1e-9, 1e-9)
    ]
    assert scales == pytest.approx([math.log(2)] * 2, rel=1e-6)


@given(
    sample=st.lists(st.floats(0, 1), min_size=6, max_size=6),
    other=st.lists(st.floats(0, 1), min_size=6, max_size=6),
    labels=st.tuples(st.integers(0, 2), st.integers(0, 2)),
)
def test_the_sensitivity_covers_every_removal_and_replacement(
    sample: list[float], other: list[float], labels: tuple[int, int]
) -> None:
    first = np.concatenate([sample, np.eye(3)[labels[0]]])
    second = np.concatenate([other, np.eye(3)[labels[1]]])
    bound = Sensitivity.paper(6, 3).removal
    assert np.sum(first**2) <= bound
    assert np.sum((first - second) ** 2) <= bound
