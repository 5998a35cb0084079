import math

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airmixml.privacy.gaussian import gaussian_epsilon, log_gaussian_delta


def delta_with_many_digits(mu: float, epsilon: float) -> mpmath.mpf:
    with mpmath.workdps(80):
        m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
        return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)


@pytest.mark.parametrize(
    ("mu", "epsilon"), [(1e-3, 0.0), (0.1, 0.3), (1.0, 1.0), (1.0, 8.0), (20.0, 250.0), (300.0, 46_000)]
)
def test_delta_against_many_digits(mu: float, epsilon: float) -> None:
    assert math.exp(log_gaussian_delta(mu, epsilon)) == pytest.approx(
        float(delta_with_many_digits(mu, epsilon)), rel=1e-7, abs=1e-300
    )


def test_a_known_value() -> None:
    """mu = 1, delta = 1e-5: epsilon 4.3772 (Balle and Wang 2018; also any Gaussian accountant)."""
    assert gaussian_epsilon(1.0, 1e-5) == pytest.approx(4.3772, abs=1e-4)


@given(log_mu=st.floats(-4, 6), log_delta=st.floats(-12, -0.01))
@settings(max_examples=200, deadline=None)
def test_epsilon_is_enough_and_barely_so(log_mu: float, log_delta: float) -> None:
    mu, delta = 10.0**log_mu, 10.0**log_delta
    epsilon = gaussian_epsilon(mu, delta)
    assert log_gaussian_delta(mu, epsilon) <= math.log(delta) + 1e-9
    if epsilon > 1e-9:
        assert log_gaussian_delta(mu, 0.999 * epsilon) > math.log(delta)


@given(mu=st.floats(1e-3, 1e3), delta=st.floats(1e-9, 0.5), factor=st.floats(1.001, 2))
@settings(max_examples=100, deadline=None)
def test_more_signal_or_less_delta_never_lowers_epsilon(mu: float, delta: float, factor: float) -> None:
    epsilon = gaussian_epsilon(mu, delta)
    assert gaussian_epsilon(mu * factor, delta) >= epsilon
    assert gaussian_epsilon(mu, delta / factor) >= epsilon


def test_silence_is_perfectly_private() -> None:
    assert gaussian_epsilon(0.0, 1e-5) == 0.0
