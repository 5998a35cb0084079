"""What a worker does once: it masks each symbol once, whoever asks it again and how."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from round_for_tests import RULES, ready_round

from airmixml.masks.keys import signature
from airmixml.messages import ProtocolError


def test_slots_of_another_range_are_not_masked() -> None:
    worker = ready_round().workers[5]
    for slot in (-1, 4, 1 << 64):
        with pytest.raises(ProtocolError, match=rf"slot {slot} is none of this round; must be from 0 to 3"):
            worker.masks(slot, 0, 1)
    worker.masks(3, 0, 1)


def test_one_width_of_integers_in_a_round() -> None:
    """Masks of 8 bits were the lowest bytes of those of 64 bits, of other symbols."""
    wide, narrow = (replace(RULES, bits=bits) for bits in (64, 8))
    assert wide.packed() != narrow.packed() != RULES.packed()
    worker = ready_round(rules=wide).workers[5]
    masks = worker.masks(0, 0, 100)
    assert int(masks.max()) > 1 << 60
    others = ready_round(rules=narrow).workers[5].masks(0, 0, 800)
    assert int(others.max()) < 256
    assert not np.array_equal(np.frombuffer(masks.tobytes(), np.uint8)[::8], others[::8])


@pytest.mark.parametrize("copied", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_worker_cannot_be_copied(copied: Callable[[object], object]) -> None:
    with pytest.raises(TypeError, match="never stored, copied or sent"):
        copied(ready_round().workers[5])


def test_a_list_is_read_once() -> None:
    class Changing(list[int]):
        reads = 0

        def __iter__(self):  # type: ignore[no-untyped-def]
            self.reads += 1
            return iter([2] if self.reads == 1 else [3])

    party = ready_round()
    worker, joined = party.workers[4], party.joined
    assert worker.agree(Changing([2])) == signature(worker._signing_key, joined.list_statement([2]))
    assert worker._agreed == {2}
