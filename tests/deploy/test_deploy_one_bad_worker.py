"""One worker that lies, an air that is away, a crash at the wrong time: the others' run goes on."""

import secrets
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from deploy_histories import WORKERS, History, analog_contract, keys, small_contract

from airmixml.deploy.air import frame_messages
from airmixml.deploy.wire import AIR, Message, Type, pack_parts, pack_refusal, unpack_list
from airmixml.masks import recovery

BAD, INNOCENT = 0, 4


def said(history: History, kind: Type, to: Message, body: bytes) -> Message:
    """Return what the bad worker says in the round of a message."""
    message = Message(kind, BAD, history.contract.run, to.round, to.attempt, body)
    return message.signed_with(list(keys()[0].values())[BAD])


def lies(history: History, change: Callable[[Message, list[Message]], list[Message]]) -> None:
    """Have the bad worker answer what ``change`` makes of its answers."""
    honest: Any = history.devices[BAD].handle
    history.devices[BAD].handle = lambda message: change(message, honest(message))  # type: ignore[method-assign]


@pytest.fixture
def wrong_shares(monkeypatch: pytest.MonkeyPatch) -> Callable[[History], None]:
    """Have the bad worker deal shares of nothing; they are of the right length, so that no holder can tell."""

    def of(history: History) -> None:
        honest: Any = history.devices[BAD].handle

        def handle(message: Message) -> list[Message]:
            with monkeypatch.context() as patch:
                patch.setattr(recovery, "split", lambda _secret, count, *_: [nothing() for _ in range(count)])
                return list(honest(message))

        history.devices[BAD].handle = handle  # type: ignore[method-assign]

    def nothing() -> bytes:
        return secrets.token_bytes(32).rjust(33, b"\0")

    return of


def test_refusals_of_one_worker_in_one_batch_are_one_accuser(tmp_path: Path) -> None:
    history = History(tmp_path, contract=small_contract())

    def change(message: Message, answers: list[Message]) -> list[Message]:
        if message.round:
            return answers
        if any(each.type is Type.PARCELS for each in answers):  # which nobody can open
            parts = {name: bytes(len(part)) for name, part in unpack_list(answers[0].body).items()}
            return [said(history, Type.PARCELS, message, pack_parts(parts))]
        if any(each.type in (Type.FRAME, Type.REFUSAL) for each in answers):
            named = [(other, why) for other in range(1, WORKERS) for why in "ab"]
            return [said(history, Type.REFUSAL, message, pack_refusal(why, other)) for other, why in named]
        return answers

    lies(history, change)
    history.run()
    assert history.server.left_out <= {BAD}


def test_one_worker_that_accuses_in_two_phases_is_one_accuser(
    tmp_path: Path, wrong_shares: Callable[[History], None]
) -> None:
    history = History(tmp_path, contract=small_contract(spare=2))
    wrong_shares(history)
    accuse = (Type.DELIVERY, Type.ABSENT)
    lies(
        history,
        lambda message, answers: [
            *answers,
            *([said(history, Type.REFUSAL, message, pack_refusal("x", INNOCENT))] if message.type in accuse else []),
        ],
    )
    history.run()
    assert INNOCENT not in history.server.left_out


def test_a_worker_whose_shares_give_no_secret_is_left_out(
    tmp_path: Path, wrong_shares: Callable[[History], None]
) -> None:
    history = History(tmp_path, contract=small_contract(spare=2))
    wrong_shares(history)
    history.run()
    assert history.server.left_out == {BAD}
    assert len(history.server.sums) == 2


def test_a_worker_that_signs_two_digests_does_not_end_the_run(tmp_path: Path) -> None:
    history = History(tmp_path, contract=analog_contract())

    def change(message: Message, answers: list[Message]) -> list[Message]:
        samples = [each for each in answers if each.type is Type.SAMPLES]
        if not samples:
            return answers
        other = np.full((len(samples[0].body) - 64) // 8, 1e-6, dtype="<c8").tobytes()
        return [answers[0], frame_messages(other, lambda kind, body: said(history, kind, message, body))[1]]

    lies(history, change)
    history.run()
    assert not history.server.failure
    assert len(history.server.sums) == 2


def test_an_air_that_was_away_for_a_deadline_gets_the_frames_again(tmp_path: Path) -> None:
    history = History(tmp_path, contract=analog_contract(spare=0))
    server = history.server
    (order,) = [each.message for each in server.asking() if each.to is None]
    server.handle([each for device in history.devices.values() for each in device.handle(order)[:1]])
    queued = [each.message for letters in (server.asking(), server.expire()) for each in letters if each.to == AIR]
    history.air = air = history._new_air()
    from_air = [air.hello(), *(answer for each in queued for answer in air.handle(each.packed()))]
    for each in from_air:
        server.handle([each])
    history.run()
    assert not server.failure
    assert server.sums


def test_an_order_that_a_crash_kept_from_the_disk_is_given_after_the_restart(tmp_path: Path) -> None:
    history = History(tmp_path, contract=analog_contract())
    server = history.server
    opening, order = (each.message for each in server.asking())
    answers = [each for device in history.devices.values() for each in device.handle(order)]
    samples = [each for each in answers if each.type is Type.SAMPLES]
    sums = [found for each in (opening, *samples) for found in history.air.handle(each.packed())]
    server.handle([each for each in answers if each.type is not Type.SAMPLES])
    append: Any = server._journal.append

    def crash_at_an_order(records: Iterable[tuple[bytes, bytes]]) -> None:
        records = list(records)
        if records[0][0] == b"O":
            raise KeyboardInterrupt
        append(records)

    server._journal.append = crash_at_an_order  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        server.handle([*sums, history._new_air().hello()])
    history._restart_server()
    history.air = history._new_air()
    history.run()
    assert not history.server.failure
    assert len(history.server.sums) == 2
