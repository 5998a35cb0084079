"""Labels and shares of classes against hand-made cases, exact tests and closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, norm

from airmixml.attacks.label_inference import (
    infer_labels,
    infer_shares,
    tell_populations_apart,
    total_variation,
)
from airmixml.errors import ScenarioError

SHARES = np.array([0.5, 0.3, 0.2])


def test_labels_by_hand() -> None:
    estimates = np.array([[0.9, 0.1, -0.3], [0.2, 0.1, 0.3], [-5.0, -1.0, -2.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    found = infer_labels(estimates, np.array([0, 2, 1, 0, 0]))
    assert (found.inferred, found.accuracy, found.baseline) == (5, 0.8, 0.6)
    # P(4 or 5 of 5 right with 0.6) = 5 * 0.6^4 * 0.4 + 0.6^5
    assert found.p_value == pytest.approx(5 * 0.6**4 * 0.4 + 0.6**5)


@given(seed=st.integers(0, 2**32 - 1), workers=st.integers(1, 60), skill=st.floats(0, 1))
def test_the_p_value_is_that_of_the_exact_one_sided_test(seed: int, workers: int, skill: float) -> None:
    rng = np.random.default_rng(seed)
    labels = rng.choice(3, size=workers, p=SHARES)
    estimates = skill * np.eye(3)[labels] + rng.standard_normal((workers, 3))
    found = infer_labels(estimates, labels)
    right = round(found.accuracy * workers)
    expected = binomtest(right, workers, found.baseline, alternative="greater").pvalue
    assert found.p_value == pytest.approx(expected, rel=1e-9)
    assert found.baseline == max(np.mean(labels == label) for label in range(3))


def test_slots_in_which_nobody_sent_do_not_count() -> None:
    received = np.array([[2e-6, 1e-6], [5.0, 9.0], [7.0, 1.0]])
    found = infer_labels(received, np.array([0, 1, -1]))
    assert (found.inferred, found.accuracy, found.baseline) == (2, 1.0, 0.5)
    assert found.p_value == pytest.approx(0.25)


def test_guesses_without_information_are_not_significant_and_clear_labels_are() -> None:
    rng = np.random.default_rng(1)
    labels = rng.choice(3, size=3000, p=SHARES)
    blind = infer_labels(rng.standard_normal((3000, 3)), labels)
    assert blind.accuracy == pytest.approx(1 / 3, abs=5 * math.sqrt(2 / 9 / 3000))
    assert blind.p_value > 0.99
    clear = infer_labels(np.eye(3)[labels] + 0.2 * rng.standard_normal((3000, 3)), labels)
    assert clear.accuracy > 0.99
    assert clear.p_value < 1e-50


def received_of(rng: np.random.Generator, slots: int, scheduled: int, deviation: float) -> np.ndarray:
    counts = rng.multinomial(scheduled, SHARES, size=slots)
    return counts / scheduled + deviation * rng.standard_normal((slots, 3))


@pytest.mark.parametrize(("scheduled", "deviation"), [(8, 0.0), (64, 0.5)])
def test_standard_errors_are_those_of_multinomial_draws_and_noise(scheduled: int, deviation: float) -> None:
    """Slot variance of a class: p (1 - p) / k, and the noise less what is known of its sum, two thirds of it."""
    slots = 4000
    found = infer_shares(received_of(np.random.default_rng(2), slots, scheduled, deviation))
    expected = np.sqrt((SHARES * (1 - SHARES) / scheduled + deviation**2 * 2 / 3) / slots)
    np.testing.assert_allclose(found.standard_errors, expected, rtol=0.08)
    assert np.all(np.abs(found.shares - SHARES) < 4.5 * expected)
    assert found.shares.sum() == pytest.approx(1.0)


def test_errors_are_as_often_within_their_standard_errors_as_normal_ones() -> None:
    rng = np.random.default_rng(3)
    for known_scale in (True, False):
        factor = 1.0 if known_scale else 17.0
        within = []
        for _ in range(400):
            received = factor * received_of(rng, 200, 4, 0.3)
            found = infer_shares(received, known_scale=known_scale)
            within.append(np.abs(found.shares - SHARES) < found.standard_errors)
        assert np.mean(within) == pytest.approx(0.683, abs=0.06)


def test_slots_received_badly_count_little() -> None:
    rng = np.random.default_rng(4)
    deviation = np.repeat([0.1, 5.0], 500)
    received = received_of(rng, 1000, 8, 0.0) + deviation[:, None] * rng.standard_normal((1000, 3))
    plain = infer_shares(received)
    weighted = infer_shares(received, slot_weights=1 / deviation**2)
    assert np.all(weighted.standard_errors < plain.standard_errors / 5)
    only_good = infer_shares(received[:500])
    np.testing.assert_allclose(weighted.shares, only_good.shares, atol=0.01)
    zeros = infer_shares(received, slot_weights=np.repeat([1.0, 0.0], 500))
    np.testing.assert_allclose(zeros.shares, only_good.shares, rtol=1e-12)
    np.testing.assert_allclose(zeros.covariance, only_good.covariance, rtol=1e-12)


def test_an_unknown_scale_is_taken_out() -> None:
    received = received_of(np.random.default_rng(5), 500, 8, 0.05)
    once = infer_shares(received, known_scale=False)
    again = infer_shares(1e-7 * received, known_scale=False)
    np.testing.assert_allclose(again.shares, once.shares, rtol=1e-9)
    np.testing.assert_allclose(again.covariance, once.covariance, rtol=1e-9, atol=1e-15)


def test_two_classes_are_told_apart_as_a_normal_mean_is() -> None:
    """With two classes one share says all: s is the difference of the shares over its standard error."""
    rng = np.random.default_rng(6)
    first = np.array([0.5, 0.5])
    received = np.column_stack([counts := rng.binomial(10, 0.5, 2000) / 10, 1 - counts])
    found = infer_shares(received)
    test = tell_populations_apart(found, first, np.array([0.51, 0.49]))
    deviation = received[:, 0].std(ddof=1) / math.sqrt(2000)
    assert test.separation == pytest.approx(0.01 / deviation)
    assert test.advantage == pytest.approx(2 * norm.cdf(0.005 / deviation) - 1)
    assert test.log_likelihood_ratio == pytest.approx(0.01 * (found.shares[0] - 0.505) / deviation**2)


def test_the_advantage_is_what_repeated_tests_have() -> None:
    rng = np.random.default_rng(7)
    other = SHARES + np.array([0.02, -0.01, -0.01])
    named, advantages = [], []
    for truth in (SHARES, other):
        tests = []
        for _ in range(600):
            received = rng.multinomial(8, truth, size=300) / 8 + 0.1 * rng.standard_normal((300, 3))
            tests.append(tell_populations_apart(infer_shares(received), SHARES, other))
        named.append(np.mean([test.log_likelihood_ratio > 0 for test in tests]))
        advantages.append(np.mean([test.advantage for test in tests]))
    assert named[1] - named[0] == pytest.approx(np.mean(advantages), abs=0.09)  # four standard deviations
    assert 0.3 < np.mean(advantages) < 0.9


def test_populations_that_are_equal_cannot_be_told_apart() -> None:
    found = infer_shares(received_of(np.random.default_rng(8), 100, 4, 0.1))
    test = tell_populations_apart(found, SHARES, SHARES)
    assert (test.log_likelihood_ratio, test.separation, test.advantage) == (0.0, 0.0, 0.0)
    assert total_variation(SHARES, SHARES[::-1].copy()) == pytest.approx(0.3)
    assert total_variation(SHARES, np.full(3, 1 / 3)) == pytest.approx((0.5 - 1 / 3 + 1 / 3 - 0.3 + 1 / 3 - 0.2) / 2)


def test_what_makes_no_sense_is_refused() -> None:
    received = received_of(np.random.default_rng(9), 10, 4, 0.1)
    with pytest.raises(ScenarioError, match="estimates"):
        infer_labels(received, np.array([0, 1]))
    with pytest.raises(ScenarioError, match="at least 2 slots"):
        infer_shares(received[:1])
    with pytest.raises(ScenarioError, match="above 0"):
        infer_shares(-received, known_scale=False)
    with pytest.raises(ScenarioError, match="slot_weights"):
        infer_shares(received, slot_weights=np.eye(10)[0])
    with pytest.raises(ScenarioError, match="add up"):
        tell_populations_apart(infer_shares(received), SHARES, SHARES * 2)
