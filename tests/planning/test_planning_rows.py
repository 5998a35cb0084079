"""How many rows of a worker may count, from assumptions alone."""

import numpy as np
import pytest

from airmixml.messages import ScenarioError
from airmixml.planning.known_inputs import assumed_rows, plan_rows_bound


def test_assumed_rows_have_the_mean_that_is_assumed() -> None:
    """Quantiles of the geometric distribution: P(n > k) = (1 - 1 / mean)^k."""
    rows = assumed_rows(20_000, 6.0)
    assert rows.min() == 1
    assert rows.mean() == pytest.approx(6.0, rel=0.01)
    assert (rows > 10).mean() == pytest.approx((5 / 6) ** 10, abs=1e-3)
    assert assumed_rows(5, 1.0).tolist() == [1] * 5


def test_noise_asks_for_one_row_and_its_absence_for_all() -> None:
    rows = assumed_rows(1000, 8.0)
    assert plan_rows_bound(rows, noise_multiplier=1e3, symbols=100).bound == 1.0
    quiet = plan_rows_bound(rows, noise_multiplier=0.0, symbols=100)
    assert quiet.bound == rows.max()
    assert quiet.error == pytest.approx(1.0 / rows.sum())
    assert plan_rows_bound(np.ones(50), noise_multiplier=0.1, symbols=9).bound == 1.0


def test_the_error_is_that_of_simulated_sums() -> None:
    """Rows of one number x with mean 1 and deviation 1, noise of z sqrt(m) B: the mean estimated from bounded sums.

    What arrives is N a x; its relative variance is the error, by 4000 draws within 5 standard errors of 2.2 %.
    """
    rng = np.random.default_rng(4)
    counts = np.array([1] * 30 + [12] * 10)
    for bound, noise in ((1.0, 0.5), (5.0, 0.5), (12.0, 2.0)):
        weights = np.minimum(1.0, bound / counts)
        held = [rng.standard_normal((4000, n)).sum(axis=1) * w for n, w in zip(counts, weights, strict=True)]
        received = np.sum(held, axis=0) / bound + noise * rng.standard_normal(4000)
        relative = received.var() / ((counts * weights).sum() / bound) ** 2
        planned = plan_rows_bound(counts, noise_multiplier=noise, symbols=1)
        by_hand = (noise * bound / (counts * weights).sum()) ** 2 + (counts * weights**2).sum() / (
            counts * weights
        ).sum() ** 2
        assert relative == pytest.approx(by_hand, rel=0.11)
        assert planned.error <= by_hand * (1 + 1e-12)


def test_nobody_and_nothing_is_refused() -> None:
    for rows in (np.zeros(3), np.zeros(0)):
        with pytest.raises(ScenarioError, match="rows: must be at least 1"):
            plan_rows_bound(rows, noise_multiplier=1.0, symbols=1)
