"""Parts of a work on several threads: in order, with torch's own threads as they were before and after."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import torch

from airmixml.arrays import in_order


@pytest.fixture(autouse=True)
def three_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = torch.get_num_threads()
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def threads_seen(part: int) -> tuple[int, int]:
    return part, torch.get_num_threads()


@pytest.mark.parametrize(("asked", "used"), [(0, 1), (1, 1), (2, 1), (5, 1)])
def test_parts_come_in_order_with_one_thread_of_torch_each(asked: int, used: int) -> None:
    assert list(in_order(threads_seen, range(20), asked)) == [(part, used) for part in range(20)]
    assert torch.get_num_threads() == 3


def test_a_single_part_may_use_all_threads() -> None:
    assert list(in_order(threads_seen, [7])) == [(7, 3)]
    assert list(in_order(threads_seen, [7], 2)) == [(7, 2)]
    assert list(in_order(threads_seen, [], 2)) == []


def test_who_consumes_has_its_threads_and_gets_them_back() -> None:
    first, second = in_order(threads_seen, range(9)), in_order(threads_seen, range(9))
    for one, other in zip(first, second, strict=True):
        assert one == other
        assert torch.get_num_threads() == 3
    assert torch.get_num_threads() == 3


@pytest.mark.parametrize("failing", [0, 5])
def test_an_error_or_an_early_end_leaves_nothing_behind(failing: int) -> None:
    def work(part: int) -> int:
        if part == failing:
            raise ValueError(f"part {part}")
        return part

    with pytest.raises(ValueError, match=f"part {failing}"):
        list(in_order(work, range(10)))
    half_read = in_order(threads_seen, range(10))
    next(half_read)
    half_read.close()
    assert torch.get_num_threads() == 3
