"""The hard limit on how often a worker sends."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from airmixml import ScenarioError
from airmixml.radio.schedules import FixedSize
from airmixml.randomness.slot_words import draw_schedule, slot_words
from airmixml.scenario import Scenario
from airmixml.streams import Streams


def scenario(workers: int, scheduled: int, slots: int, limit: int, seed: int = 0) -> Scenario:
    return Scenario().with_overrides(
        f"workers.count={workers}",
        f"radio.scheduled={scheduled}",
        f"radio.slots={slots}",
        f"radio.max_participations={limit}",
        f"seed={seed}",
    )


def whole_schedule(setting: Scenario) -> NDArray[Any]:
    """All slots, drawn in parts of 100."""
    slots, source = range(setting.radio.slots), slot_words(Streams(setting.seed), "schedule")
    parts = [FixedSize().draw(setting, slots[first : first + 100], source) for first in range(0, len(slots), 100)]
    return torch.cat(parts).numpy()


@given(
    workers=st.integers(2, 60),
    share=st.floats(0.01, 1.0),
    slots=st.integers(1, 700),
    spare=st.integers(0, 400),
    seed=st.integers(0, 1000),
)
@settings(max_examples=60, deadline=None)
def test_nobody_sends_more_often_than_the_limit(workers: int, share: float, slots: int, spare: int, seed: int) -> None:
    scheduled = max(1, int(share * workers))
    least = -(-slots // (workers // scheduled))
    limit = least + spare
    schedule = whole_schedule(scenario(workers, scheduled, slots, limit, seed))
    assert schedule.shape == (slots, scheduled)
    assert all(len(set(row)) == scheduled for row in schedule.tolist())
    assert np.bincount(schedule.ravel(), minlength=workers).max() <= limit
    length = -(-slots // limit)
    for first in range(0, slots, length):
        seats = schedule[first : first + length].ravel()
        assert len(set(seats.tolist())) == len(seats)


def test_a_limit_below_what_the_slots_need_is_refused() -> None:
    """100 slots of 3 among 10 workers: at most 3 slots per round, so 34 rounds."""
    assert scenario(10, 3, 100, 34).radio.max_participations == 34
    with pytest.raises(ScenarioError, match=r"radio.max_participations = 33: must be at least 34"):
        scenario(10, 3, 100, 33)


def test_every_worker_is_drawn_equally_often_and_every_pair_too() -> None:
    """5000 rounds of 2 slots of 2 among 6 workers; chi-square at one in a million."""
    schedule = whole_schedule(scenario(6, 2, 10_000, 5000, seed=3))
    counts = np.bincount(schedule.ravel(), minlength=6)
    assert stats.chisquare(counts).pvalue > 1e-6
    pairs = np.sort(schedule, axis=1)
    pair_counts = np.unique(pairs[:, 0] * 6 + pairs[:, 1], return_counts=True)[1]
    assert len(pair_counts) == 15
    assert stats.chisquare(pair_counts).pvalue > 1e-6


def test_rounds_do_not_depend_on_each_other() -> None:
    """Whether worker 0 sends in a round of half the workers says nothing of the next round."""
    schedule = whole_schedule(scenario(8, 2, 8000, 4000, seed=1)).reshape(4000, 4)
    present = (schedule == 0).any(axis=1)
    table = np.array(
        [[np.sum(present[:-1] == a) - np.sum((present[:-1] == a) & (present[1:] != b)) for b in (0, 1)] for a in (0, 1)]
    )
    assert abs(present.mean() - 0.5) < 0.05
    assert stats.chi2_contingency(table).pvalue > 1e-6


def test_without_a_limit_slots_are_drawn_as_ever() -> None:
    at_once = draw_schedule(range(300), 5, 50, slot_words(Streams(0), "schedule"))
    assert whole_schedule(scenario(50, 5, 300, 0)).tolist() == at_once.tolist()


def test_with_everybody_in_one_round_slots_are_a_fair_share_of_them() -> None:
    """Two slots of a round of all four workers: each of the six pairs is as likely to be the first."""
    schedule = whole_schedule(scenario(4, 2, 6000, 3000, seed=5)).reshape(3000, 2, 2)
    assert (np.sort(schedule.reshape(3000, 4), axis=1) == np.arange(4)).all()
    first = np.sort(schedule[:, 0], axis=1)
    counts = np.unique(first[:, 0] * 4 + first[:, 1], return_counts=True)[1]
    assert len(counts) == 6
    assert stats.chisquare(counts).pvalue > 1e-6
