from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from airmixml.randomness.slot_words import draw_schedule, slot_words
from airmixml.streams import Streams


@given(workers=st.integers(1, 300), share=st.floats(0.001, 1.0), slots=st.integers(1, 40), seed=st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_each_slot_holds_distinct_workers(workers: int, share: float, slots: int, seed: int) -> None:
    scheduled = max(1, int(share * workers))
    chosen = draw_schedule(range(slots), scheduled, workers, slot_words(Streams(seed), "schedule")).numpy()
    assert chosen.shape == (slots, scheduled)
    assert chosen.min() >= 0
    assert chosen.max() < workers
    assert all(len(set(row)) == scheduled for row in chosen)


@pytest.mark.parametrize(("workers", "scheduled"), [(9, 2), (4, 2), (3, 3)])
def test_every_ordered_choice_is_equally_likely(workers: int, scheduled: int) -> None:
    slots = 40_000
    chosen = draw_schedule(range(slots), scheduled, workers, slot_words(Streams(1), "schedule")).numpy()
    counts = dict.fromkeys(permutations(range(workers), scheduled), 0)
    for row in map(tuple, chosen.tolist()):
        counts[row] += 1
    assert stats.chisquare(list(counts.values())).pvalue > 1e-4


def test_sixty_thousand_workers_take_part_equally_often() -> None:
    chosen = draw_schedule(range(20_000), 64, 60_000, slot_words(Streams(2), "schedule")).numpy()
    by_thousand = np.bincount(chosen.ravel() // 1000, minlength=60)
    assert stats.chisquare(by_thousand).pvalue > 1e-4
