"""Labels and shares of classes against hand-made cases and exact tests."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from airmixml.attacks.inference import ClassShares, infer_labels, infer_shares
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


@pytest.mark.parametrize("factor", [None, 1.0, 1e-7])
@pytest.mark.parametrize(("scheduled", "deviation"), [(8, 0.0), (64, 0.5)])
def test_shares_are_found_as_well_as_multinomial_draws_and_noise_allow(
    scheduled: int, deviation: float, factor: float | None
) -> None:
    """Variance of a class in a slot: p (1 - p) / k and the noise; a factor that is not known is taken out."""
    slots = 4000
    received = received_of(np.random.default_rng(2), slots, scheduled, deviation)
    found = infer_shares((factor or 1.0) * received, known_scale=factor is None)
    assert found is not None
    expected = np.sqrt((SHARES * (1 - SHARES) / scheduled + deviation**2) / slots)
    assert np.all(np.abs(found - SHARES) < 4.5 * expected)
    assert found.sum() == pytest.approx(1.0)


def test_slots_received_badly_count_little() -> None:
    rng = np.random.default_rng(4)
    deviation = np.repeat([0.1, 5.0], 500)
    received = received_of(rng, 1000, 8, 0.0) + deviation[:, None] * rng.standard_normal((1000, 3))
    only_good = infer_shares(received[:500])
    np.testing.assert_allclose(infer_shares(received, slot_weights=1 / deviation**2), only_good, atol=0.01)
    zeros = infer_shares(received, slot_weights=np.repeat([1.0, 0.0], 500))
    np.testing.assert_allclose(zeros, only_good, rtol=1e-12)


def test_distances_are_total_variations() -> None:
    found = ClassShares.of(SHARES, np.repeat([0, 1, 2], [2, 3, 5]))
    assert found.true_shares == (0.2, 0.3, 0.5)
    assert found.distance == pytest.approx(0.3)
    assert found.prior_distance == pytest.approx((0.5 - 1 / 3 + 1 / 3 - 0.3 + 1 / 3 - 0.2) / 2)


def test_too_little_tells_no_shares() -> None:
    received = received_of(np.random.default_rng(9), 10, 4, 0.1)
    assert infer_shares(received[:1]) is None
    assert infer_shares(-received, known_scale=False) is None
    assert infer_shares(received, slot_weights=np.eye(10)[0]) is None
    with pytest.raises(ScenarioError, match="estimates"):
        infer_labels(received, np.array([0, 1]))
