"""Each guard of a deployment is taken away once: some promise must break, or the guard would not be tested."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from deploy_histories import History, analog_contract, small_contract

from airmixml.deploy.air_link import Adder, EmulatedAir
from airmixml.deploy.contract import Contract
from airmixml.deploy.journal import Journal, Record
from airmixml.deploy.spending import BEGAN, Entry, Spending
from airmixml.deploy.wire import Message, Type
from airmixml.deploy.worker import Device
from airmixml.masks.rounds import Round

LOST_LOG = ("server", "list agreed", "lost log", 1)
LOST_LOG_ON_AIR = ("server", "summed", "lost log", 1)
KILLED_WORKER = ("worker", "after sending", "repeat", 0)
REPLAYED = ("worker", "before reserving", "replay", 0)


def tight() -> Contract:
    """A budget for the planned frames alone, however many releases are allowed."""
    contract = small_contract()
    return replace(contract, budget=sum(each.cost for each in contract.kinds))


def _forget_names(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Spending, "began", lambda self, worker, number, attempt: False)
    reserve = Spending.reserve

    def without_begin(self: Spending, worker: int, number: int, attempt: int, kind: int) -> None:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(Spending, "began", lambda *_: True)
            reserve(self, worker, number, attempt, kind)

    patch.setattr(Spending, "reserve", without_begin)


def _forget_frames(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Spending, "_check_unsent", lambda *_: None)


def _spend_nothing_on_disk(patch: pytest.MonkeyPatch) -> None:
    note = Spending._note

    def only_begun(self: Spending, entry: Entry) -> None:
        if entry.what == BEGAN:
            note(self, entry)

    patch.setattr(Spending, "_note", only_begun)


def _no_budget(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Spending, "spent", lambda self, worker: -(1 << 62))


def _no_log(patch: pytest.MonkeyPatch) -> None:
    append = Journal.append

    def forgetful(self: Journal, records: Iterable[Record]) -> None:
        records = list(records)
        if self._path.name != "journal" or records[0][0] == b"R":
            append(self, records)

    patch.setattr(Journal, "append", forgetful)


def _any_list(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Round, "check_absent", lambda self, absent: frozenset(absent))


def _answer_anew(patch: pytest.MonkeyPatch) -> None:
    answers = Device._answers

    def always(self: Device, message: Message) -> list[Message]:
        if message.type is Type.ORDER:
            self._now = None
        return answers(self, message)

    patch.setattr(Device, "_answers", always)
    patch.setattr(Spending, "began", lambda *_: False)


def _new_samples(patch: pytest.MonkeyPatch) -> None:
    """Analog frames are sent as soon as a round is begun, so that each of two lines of the ledger stops a second."""
    _answer_anew(patch)
    _forget_frames(patch)


def _add_twice(patch: pytest.MonkeyPatch) -> None:
    add = EmulatedAir._add

    def always(self: EmulatedAir, message: Message) -> None:
        self._present.pop(message.sender, None)
        add(self, message)

    patch.setattr(EmulatedAir, "_add", always)


def _left_over(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Adder, "begin", lambda self, samples, seats: self._total.resize(samples, refcheck=False))


MUTANTS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], tuple[str, str, str, int], Callable[[], Contract]]] = {
    "names of rounds are forgotten": (_forget_names, REPLAYED, small_contract),
    "frames that were sent are forgotten": (_forget_frames, LOST_LOG, small_contract),
    "what is spent is not on the disk": (_spend_nothing_on_disk, KILLED_WORKER, small_contract),
    "the budget is not looked at": (_no_budget, LOST_LOG, tight),
    "the server's log is not written": (_no_log, ("server", "after sending", "quiet", 0), small_contract),
    "any list of absent workers will do": (_any_list, ("broker", "after sending", "drop", 0), small_contract),
    "a repeated order is answered anew": (_answer_anew, KILLED_WORKER, small_contract),
    "analog frames that were sent are forgotten": (_forget_frames, LOST_LOG_ON_AIR, analog_contract),
    "what analog frames spend is not on the disk": (_spend_nothing_on_disk, KILLED_WORKER, analog_contract),
    "a repeated order is answered with new samples": (_new_samples, KILLED_WORKER, analog_contract),
    "a frame enters a sum twice": (_add_twice, ("broker", "after sending", "repeat", 0), analog_contract),
    "a slot begins with what is left of the last": (_left_over, ("air", "on air", "quiet", 0), analog_contract),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_without_the_guard_a_promise_breaks(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mutate, (part, point, network, in_round), contract = MUTANTS[name]
    mutate(monkeypatch)
    broken = []
    for seed in range(12):
        history = History(tmp_path / str(seed), part, point, network, in_round, seed, contract=contract()).run()
        broken = history.broken() or ([] if history.durable() else ["durability: sums are lost with the server"])
        if broken:
            break
    assert broken


@pytest.mark.parametrize("name", MUTANTS)
def test_with_the_guard_the_same_histories_break_nothing(name: str, tmp_path: Path) -> None:
    _, (part, point, network, in_round), contract = MUTANTS[name]
    for seed in range(1):
        history = History(tmp_path / str(seed), part, point, network, in_round, seed, contract=contract()).run()
        assert history.broken() == []
        assert history.durable()
