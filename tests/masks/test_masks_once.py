"""What a worker does once: it sends slots in one round, and masks each symbol once, whoever asks it again and how."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from round_for_tests import RULES, SEED, SLOTS, ready_round

from airmixml.errors import ProtocolError
from airmixml.masks.graph import MOST_ROUNDS
from airmixml.masks.keys import signature, verifying_key
from airmixml.masks.recovery import RecoveringWorker
from airmixml.masks.rounds import EitherOr, Round, round_name


def test_slots_are_sent_in_one_of_the_rounds(tmp_path: Path) -> None:
    """A server that stops rounds after the slots would hear the same values under other masks: four times the mu^2."""
    first = ready_round(memory=tmp_path)
    first.workers[5].masks(0, 0, 4)
    later = ready_round(memory=tmp_path, restarts=1)
    for slot in (0, 1):  # one of the slots is enough: the round is that of all
        with pytest.raises(ProtocolError, match=r"round in which these slots are sent .* leave these slots out"):
            later.workers[5].masks(slot, 0, 4)
    first.workers[5].masks(0, 4, 2)
    later.workers[6].masks(0, 0, 4)  # it did not send in the first round
    with pytest.raises(ProtocolError, match="round in which these slots are sent"):
        first.workers[6].masks(0, 0, 4)


def test_a_memory_without_a_folder_remembers_as_long_as_it_lives() -> None:
    memory = EitherOr()
    rounds = [ready_round(restarts=restarts) for restarts in (0, 1)]
    for party in rounds:
        party.workers[5]._memory = memory
    rounds[0].workers[5].masks(0, 0, 4)
    with pytest.raises(ProtocolError, match="leave these slots out"):
        rounds[1].workers[5].masks(0, 0, 4)


def test_a_run_has_one_range_of_slots_and_four_graphs(tmp_path: Path) -> None:
    """Every range would have four graphs of its own: other ends of the same run are no other run."""
    drawn = 0
    for slots in (SLOTS, range(3), range(5), range(1, 4)):
        for restarts in range(MOST_ROUNDS):
            for _ in range(2):  # the process is started again, with new keys
                drawn += is_revealed(tmp_path, slots, restarts)
    assert drawn == MOST_ROUNDS


def is_revealed(memory: Path, slots: range, restarts: int) -> bool:
    """Whether worker 0 reveals its nonce to 29 colluders."""
    entropy = np.random.default_rng(SEED).bytes
    keys = {each: entropy(32) for each in range(30)}
    directory = {each: verifying_key(key) for each, key in keys.items()}
    members = {
        each: RecoveringWorker(
            each,
            key,
            b"run",
            slots,
            RULES,
            directory=directory,
            memory=EitherOr() if each else EitherOr(memory),
            restarts=restarts,
        )
        for each, key in keys.items()
    }
    announcements = {each: member.announce() for each, member in members.items()}
    try:
        members[0].reveal(Round(round_name(b"run", slots, restarts), RULES, announcements, directory))
    except ProtocolError:
        return False
    return True


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


@pytest.mark.parametrize("odd", [(0, float("nan"), 0), (float("nan"), 0, 0), (0, 0, float("nan")), (0.0, 4, 1)])
def test_no_odd_number_makes_a_worker_forget_what_it_masked(odd: tuple[int, int, int]) -> None:
    worker = ready_round().workers[5]
    worker.masks(0, 0, 4)
    with pytest.raises(ProtocolError, match="must be whole numbers"):
        worker.masks(*odd)
    with pytest.raises(ProtocolError, match="was masked before"):
        worker.masks(0, 0, 4)
    assert worker.masks(*map(np.int64, (0, 4, 2))).shape == (2,)


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
