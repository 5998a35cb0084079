"""Streams of random numbers: equal for equal seeds, independent of each other, never renumbered."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airmixml.streams import SLOTS_PER_CHAPTER, StreamName, Streams

# Published results follow from these numbers.
NUMBERS = {
    "placement": 0,
    "data": 1,
    "schedule": 2,
    "fading": 3,
    "phase": 4,
    "ratios": 5,
    "assignment": 6,
    "noise": 7,
    "training": 8,
    "encoder": 9,
    "canary": 10,
    "audit": 11,
    "eavesdropper": 12,
    "eavesdropper-noise": 13,
    "eavesdropper-fading": 14,
    "air": 15,
    "masks": 16,
    "integers": 17,
}
NAMES = st.sampled_from(sorted(NUMBERS))
SEEDS = st.integers(0, 2**63 - 1)
CHAPTERS = st.integers(0, 10**6)


def draws(seed: int, name: Any, chapter: int = 0) -> list[int]:
    return Streams(seed).generator(name, chapter).integers(2**63, size=4).tolist()


@given(seed=SEEDS, name=NAMES, chapter=st.integers(0, 40))
def test_a_stream_is_the_child_of_a_child_of_the_seed(seed: int, name: str, chapter: int) -> None:
    """Numpy's own way to make independent streams: spawn one child per stream, and of that one per chapter."""
    of_stream = np.random.SeedSequence(seed).spawn(len(NUMBERS))[NUMBERS[name]]
    of_chapter = of_stream.spawn(chapter + 1)[chapter]
    expected = np.random.Generator(np.random.PCG64DXSM(of_chapter)).integers(2**63, size=4)
    assert draws(seed, name, chapter) == expected.tolist()


@given(seed=SEEDS, name=NAMES, chapter=CHAPTERS)
def test_equal_seeds_give_equal_draws(seed: int, name: str, chapter: int) -> None:
    assert draws(seed, name, chapter) == draws(seed, name, chapter)


@given(seed=SEEDS, name=NAMES, other=NAMES, drawn=st.integers(0, 100))
def test_draws_of_one_stream_do_not_depend_on_another(seed: int, name: Any, other: Any, drawn: int) -> None:
    streams = Streams(seed)
    streams.generator(other, 3).random(drawn)
    before = streams.generator(name)
    streams.generator(other).random(drawn)
    assert before.integers(2**63, size=4).tolist() == draws(seed, name)


@given(seed=SEEDS, name=NAMES, other=NAMES, chapter=CHAPTERS, other_chapter=CHAPTERS)
def test_streams_and_chapters_differ(seed: int, name: str, other: str, chapter: int, other_chapter: int) -> None:
    same = (name, chapter) == (other, other_chapter)
    assert (draws(seed, name, chapter) == draws(seed, other, other_chapter)) is same


@given(seed=st.integers(0, 2**63 - 2), name=NAMES)
def test_neighbouring_seeds_differ(seed: int, name: str) -> None:
    assert draws(seed, name) != draws(seed + 1, name)


def test_streams_are_uncorrelated() -> None:
    columns = np.array(
        [Streams(0).generator(name, chapter).standard_normal(20_000) for name in NUMBERS for chapter in (0, 1)]
    )
    correlations = np.corrcoef(columns) - np.eye(len(columns))
    assert np.abs(correlations).max() < 5 / np.sqrt(20_000)  # five standard deviations; the seed is fixed


def test_every_stream_is_pinned_here() -> None:
    assert set(NUMBERS) == set(get_args(StreamName))


def test_an_unknown_stream_fails() -> None:
    for name in ("nothing", "", "Data", None, 0):
        with pytest.raises(KeyError):
            Streams(0).generator(name)


def test_the_length_of_a_chapter_is_part_of_every_result() -> None:
    assert SLOTS_PER_CHAPTER == 128
