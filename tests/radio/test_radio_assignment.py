from itertools import permutations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from airmixml.radio.ratios import assign_max_min, assign_randomly, assign_ratios


@given(scheduled=st.integers(1, 6), seed=st.integers(0, 10**6), alpha=st.sampled_from([0.01, 1.0, 100.0]))
@settings(max_examples=150, deadline=None)
def test_max_min_is_the_best_of_all_permutations(scheduled: int, seed: int, alpha: float) -> None:
    rng = np.random.default_rng(seed)
    ratios = rng.dirichlet(np.full(scheduled, alpha / scheduled + 1e-3))
    magnitude = rng.rayleigh(size=scheduled) + 1e-9
    assigned = assign_max_min(ratios[None], magnitude[None])[0]

    def worst(shares: np.ndarray) -> float:
        with np.errstate(divide="ignore", over="ignore"):
            return float(np.min(magnitude**2 / shares**2))

    best = max(worst(np.array(order)) for order in permutations(ratios))
    assert sorted(assigned) == sorted(ratios)
    assert worst(assigned) >= best * (1 - 1e-12)


def test_the_opposite_order_is_not_the_best() -> None:
    ratios, magnitude = np.array([[0.7, 0.2, 0.1]]), np.array([[1.0, 2.0, 3.0]])
    assert assign_max_min(ratios, magnitude).tolist() == [[0.1, 0.2, 0.7]]
    assert np.min(magnitude / ratios) < np.min(magnitude / assign_max_min(ratios, magnitude))


def test_random_assignment_deals_each_order_equally_often() -> None:
    dealt = assign_randomly(np.tile([0.5, 0.3, 0.2], (12_000, 1)), np.random.default_rng(1))
    counts = [int((dealt == order).all(axis=1).sum()) for order in permutations([0.5, 0.3, 0.2])]
    assert sum(counts) == 12_000
    assert stats.chisquare(counts).pvalue > 1e-4


def test_by_name() -> None:
    ratios, magnitude = np.array([[0.9, 0.1]]), np.array([[1.0, 5.0]])
    assert assign_ratios("max-min", ratios, magnitude, np.random.default_rng(0)).tolist() == [[0.1, 0.9]]
    random = assign_ratios("random", np.tile(ratios, (100, 1)), magnitude, np.random.default_rng(0))
    assert 20 < (random[:, 0] == 0.9).sum() < 80
