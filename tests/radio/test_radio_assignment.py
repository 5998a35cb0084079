from itertools import permutations
from typing import Any

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from airmixml.radio.mixing import MaxMin, RandomOrder
from airmixml.randomness.slot_words import slot_words
from airmixml.scenario import Mixing
from airmixml.streams import Streams

WORDS = slot_words(Streams(1), "assignment")


def _max_min(ratios: torch.Tensor, magnitude: torch.Tensor) -> torch.Tensor:
    return MaxMin().deal(Mixing(), ratios, magnitude, range(len(ratios)), WORDS)


def doubles(values: Any) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


@given(scheduled=st.integers(1, 6), seed=st.integers(0, 10**6), alpha=st.sampled_from([0.01, 1.0, 100.0]))
@settings(max_examples=60, deadline=None)
def test_max_min_is_the_best_of_all_permutations(scheduled: int, seed: int, alpha: float) -> None:
    rng = np.random.default_rng(seed)
    ratios = rng.dirichlet(np.full(scheduled, alpha / scheduled + 1e-3))
    magnitude = rng.rayleigh(size=scheduled) + 1e-9
    assigned = _max_min(torch.from_numpy(ratios)[None], torch.from_numpy(magnitude)[None])[0].numpy()

    def worst(shares: np.ndarray) -> float:
        with np.errstate(divide="ignore", over="ignore"):
            return float(np.min(magnitude**2 / shares**2))

    best = max(worst(np.array(order)) for order in permutations(ratios))
    assert sorted(assigned) == sorted(ratios)
    assert worst(assigned) >= best * (1 - 1e-12)


def test_the_opposite_order_is_not_the_best() -> None:
    ratios, magnitude = doubles([[0.7, 0.2, 0.1]]), doubles([[1.0, 2.0, 3.0]])
    assert _max_min(ratios, magnitude).tolist() == [[0.1, 0.2, 0.7]]
    assert (magnitude / ratios).min() < (magnitude / _max_min(ratios, magnitude)).min()


def test_random_assignment_deals_each_order_equally_often() -> None:
    ratios = doubles([[0.5, 0.3, 0.2]]).repeat(12_000, 1)
    dealt = RandomOrder().deal(Mixing(prior=(0.5, 0.3, 0.2)), ratios, ratios, range(12_000), WORDS)
    counts = [int((dealt == doubles(order)).all(dim=1).sum()) for order in permutations([0.5, 0.3, 0.2])]
    assert sum(counts) == 12_000
    assert stats.chisquare(counts).pvalue > 1e-4


def test_by_name() -> None:
    ratios, magnitude, given_prior = doubles([[0.9, 0.1]]), doubles([[1.0, 5.0]]), Mixing(prior=(0.9, 0.1))
    dealt = Mixing(assignment="max-min").assignment_kind.deal(Mixing(), ratios, magnitude, range(1), WORDS)
    assert dealt.tolist() == [[0.1, 0.9]]
    random = given_prior.assignment_kind.deal(given_prior, ratios.repeat(100, 1), magnitude, range(100), WORDS)
    assert 20 < (random[:, 0] == 0.9).sum() < 80
