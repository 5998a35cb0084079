"""Labels against hand-made cases and exact tests."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from airmixml.attacks.measured import infer_labels

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


def test_guesses_without_information_are_not_significant_and_clear_labels_are() -> None:
    rng = np.random.default_rng(1)
    labels = rng.choice(3, size=3000, p=SHARES)
    blind = infer_labels(rng.standard_normal((3000, 3)), labels)
    assert blind.accuracy == pytest.approx(1 / 3, abs=5 * math.sqrt(2 / 9 / 3000))
    assert blind.p_value > 0.99
    clear = infer_labels(np.eye(3)[labels] + 0.2 * rng.standard_normal((3000, 3)), labels)
    assert clear.accuracy > 0.99
    assert clear.p_value < 1e-50
