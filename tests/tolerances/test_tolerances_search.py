"""The search along a ladder, against a plain scan of it; the table of sizes, against the table [air]."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airmixml.messages import ScenarioError
from airmixml.scenario import Air, Scenario
from airmixml.scenario.air import _MANNERS
from airmixml.tolerances.tolerance_search import (
    IMPAIRMENT_LADDERS,
    NOT_ALONE,
    ImpairmentLadder,
    LadderSearch,
    chosen_ladders,
)


def ladder_of(count: int, *, falling: bool = False) -> ImpairmentLadder:
    rungs = tuple(float(place + 1) for place in range(count))
    return ImpairmentLadder(key="absent", name="", unit="", sizes=rungs[::-1] if falling else rungs, hardware="")


@given(count=st.integers(1, 40), tolerated=st.integers(0, 40), coarse=st.booleans())
def test_it_finds_what_a_scan_of_all_sizes_finds(count: int, tolerated: int, coarse: bool) -> None:
    tolerated = min(tolerated, count)
    ladder, asked = LadderSearch(ladder_of(count), coarse=coarse), 0
    while (size := ladder.next_size) is not None:
        ladder.told(size, tolerated=size <= tolerated)
        asked += 1
    rungs = [float(each) for each in range(count, 0, -2 if coarse else -1)][::-1]
    scanned = [size for size in rungs if size <= tolerated]
    assert ladder.largest_tolerated == (scanned[-1] if scanned else None)
    assert ladder.smallest_refused == next((size for size in rungs if size > tolerated), None)
    assert asked <= 1 + max(1, len(rungs)).bit_length()


def test_where_fewer_is_worse() -> None:
    sizes = ladder_of(6, falling=True)
    assert sizes.fewer_is_worse
    assert sizes.is_milder(6.0, 2.0)
    assert not sizes.is_milder(2.0, 6.0)
    assert sizes.is_milder(2.0, 2.0)
    ladder = LadderSearch(sizes)
    while (size := ladder.next_size) is not None:
        ladder.told(size, tolerated=size >= 3.0)
    assert (ladder.largest_tolerated, ladder.smallest_refused) == (3.0, 2.0)


def test_every_number_that_impairs_the_air_is_in_the_table() -> None:
    """Words and lists aside, and keys that only say how something is done."""
    numeric = [entry.name for entry in fields(Air) if isinstance(entry.default, int | float)]
    asked = [name for name in numeric if name not in _MANNERS]
    assert [each.key for each in IMPAIRMENT_LADDERS] == [name for name in asked if name not in NOT_ALONE]
    assert set(NOT_ALONE) <= set(asked)


@pytest.mark.parametrize("sizes", IMPAIRMENT_LADDERS, ids=lambda each: each.key)
def test_every_size_is_a_value_of_its_key(sizes: ImpairmentLadder) -> None:
    assert list(sizes.sizes) == sorted(set(sizes.sizes), reverse=sizes.fewer_is_worse)
    assert sizes.hardware
    assert set(sizes.along) <= {entry.name for entry in fields(Air)}
    for size in sizes.sizes:
        changed: dict[str, Any] = {**sizes.needs, sizes.key: size}
        air = Air(**changed)
        assert not air.is_ideal
        assert getattr(air, sizes.key) == size
    assert not sizes.log or min(sizes.sizes) > 0.0


def test_a_choice_of_keys() -> None:
    assert chosen_ladders(None) == IMPAIRMENT_LADDERS
    assert [each.key for each in chosen_ladders("absent, air.phase_error_radians")] == ["phase_error_radians", "absent"]
    with pytest.raises(ScenarioError, match=r"--only absend: .* did you mean absent\?"):
        chosen_ladders("absend")
    with pytest.raises(ScenarioError, match="--only resync_seconds: does nothing by itself"):
        chosen_ladders("resync_seconds")
    assert Scenario.preset("digits").air.is_ideal
