"""Servers that lie, strangers that forge, messages that are cut or too long: refused, and nothing else disturbed."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from deploy_histories import VICTIM, WORKERS, History, keys, small_contract
from hypothesis import given
from hypothesis import strategies as st

from airmixml.deploy.server import Letter
from airmixml.deploy.wire import (
    HEADER,
    LARGEST_BODY,
    SERVER,
    Message,
    Type,
    batched,
    pack_list,
    unbatched,
    unpack_list,
    unpack_parts,
    unpacked,
)
from airmixml.deploy.worker import Order, absent_list
from airmixml.errors import ProtocolError
from airmixml.masks.graph import MOST_ROUNDS
from airmixml.workers.broadcasts import Broadcast


def _told(history: History, kind: Type, body: bytes = b"", number: int = 0, attempt: int = 0) -> Message:
    said = Message(kind, SERVER, history.contract.run, number, attempt, body)
    return said.signed_with(keys()[1])


def _reason(answers: list[Message]) -> str:
    (refusal,) = answers
    assert refusal.type is Type.REFUSAL
    return refusal.body.decode()


def _until(history: History, kind: Type) -> list[Letter]:
    """Carry a quiet round on until the server sends a message of that type, and return what it sends."""
    letters = history.server.asking()
    while letters[0].message.type is not kind:
        answers = []
        for letter in letters:
            for identity in history.devices if letter.to is None else [letter.to]:
                answers += history.devices[identity].handle(letter.message)
        letters = history.server.handle(answers)
    return letters


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path)


def test_a_message_that_the_server_has_not_signed_is_dropped(history: History) -> None:
    (order,) = history.server.asking()
    for forged in (
        replace(order.message, signed=bytes(64)),
        replace(order.message, body=order.message.body + b"\0"),
        replace(order.message, round=1),
        replace(order.message, run=bytes(32)),
        replace(order.message, sender=1),
        replace(order.message, sender=1).signed_with(next(iter(keys()[0].values()))),
    ):
        with pytest.raises(ProtocolError, match="dropped"):
            history.devices[VICTIM].handle(forged)
    assert history.devices[VICTIM].handle(order.message)[0].type is Type.ANNOUNCE


def test_another_worker_cannot_speak_in_ones_name(history: History) -> None:
    (order,) = history.server.asking()
    said = history.devices[2].handle(order.message)[0]
    stolen = replace(said, sender=VICTIM)
    assert history.server.handle([stolen, stolen.signed_with(list(keys()[0].values())[2])]) == []
    assert VICTIM in history.server.missing
    assert sum("not signed by it" in line for line in history.lines) == 2


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (Order(7, 0.0).packed(), "kind 7"),
        (Order(0, 99.0).packed(), "99 dBm"),
        (Order(0, math.nan).packed(), "dBm"),
        (Order(0, 0.0).packed() + b"\0", "too many"),
        (b"", "cut off"),
        (Order(1, 0.0).packed(), "cut off"),
    ],
)
def test_an_order_beyond_the_contract_is_refused(history: History, body: bytes, reason: str) -> None:
    device = history.devices[VICTIM]
    assert reason in _reason(device.handle(_told(history, Type.ORDER, body)))
    assert not device.spending.began(VICTIM, 0, 0)


@pytest.mark.parametrize("odd", [math.nan, math.inf])
def test_a_model_that_is_not_finite_is_refused(history: History, odd: float) -> None:
    outputs = len(history.contract.outputs)
    features = history.contract.kinds[1].numbers // outputs
    weights = np.zeros((features, outputs))
    weights[0, 0] = odd
    told = Broadcast(weights=weights, biases=np.zeros(outputs), clip=0.2)
    assert "not finite" in _reason(history.devices[0].handle(_told(history, Type.ORDER, Order(1, 0.0, told).packed())))


def test_names_beyond_the_contract_are_refused(history: History) -> None:
    body = Order(0, 0.0).packed()
    for number, attempt in ((history.contract.most_rounds, 0), (0, MOST_ROUNDS), (2**32 - 1, 255)):
        assert "as agreed" in _reason(history.devices[0].handle(_told(history, Type.ORDER, body, number, attempt)))


def test_a_repeated_order_gets_the_identical_bytes_and_another_one_a_refusal(history: History) -> None:
    (order,) = history.server.asking()
    device = history.devices[VICTIM]
    first, again = device.handle(order.message), device.handle(order.message)
    assert [each.packed() for each in first] == [each.packed() for each in again]
    assert "keeps to it" in _reason(device.handle(_told(history, Type.ORDER, Order(0, -50.0).packed())))


def test_a_worker_that_was_started_again_never_goes_on_with_a_round_it_began(history: History) -> None:
    letters = _until(history, Type.DELIVERY)
    history._restart_worker(VICTIM)
    (own,) = [letter for letter in letters if letter.to == VICTIM]
    assert history.devices[VICTIM].handle(own.message) == []
    begun = _told(history, Type.ORDER, Order(0, history.contract.plan.link.power_dbm).packed())
    assert "began it before" in _reason(history.devices[VICTIM].handle(begun))


def test_two_lists_of_absent_workers_are_never_signed(history: History) -> None:
    _until(history, Type.DELIVERY)
    for letter in history.server.asking():
        assert letter.to is not None
        history.devices[letter.to].handle(letter.message)
    device = history.devices[VICTIM]
    (signed,) = device.handle(_told(history, Type.ABSENT, absent_list([])))
    assert signed.type is Type.SIGNED
    assert "keeps to it" in _reason(device.handle(_told(history, Type.ABSENT, absent_list([5]))))
    assert _reason(history.devices[5].handle(_told(history, Type.ABSENT, absent_list([5]))))  # it is present
    too_many = absent_list(list(range(history.contract.rules[0].most_absent + 1)))
    assert "refused" in _reason(history.devices[4].handle(_told(history, Type.ABSENT, too_many)))


def test_no_share_is_handed_out_without_a_quorum(history: History) -> None:
    _until(history, Type.ABSENT)
    (letter,) = history.server.asking()
    signed = {identity: device.handle(letter.message)[0].body for identity, device in history.devices.items()}
    few = dict(list(signed.items())[: history.contract.rules[0].quorum - 1])
    forged = few | {each: bytes(64) for each in signed if each not in few}
    assert "signatures" in _reason(history.devices[0].handle(_told(history, Type.SIGNATURES, pack_list(forged))))


def test_announcements_of_strangers_or_of_too_few_are_refused(history: History) -> None:
    (letter,) = _until(history, Type.ANNOUNCED)
    listed = unpack_list(letter.message.body, 192)
    body = listed[VICTIM]
    for odd in (
        {**{each: listed[each] for each in listed if each != 5}, WORKERS + 7: listed[5]},  # none of the contract
        {each: listed[each] for each in (0, 1, VICTIM)},  # fewer than carry the noise
        {**listed, 1: listed[2]},  # keys of another
        {**listed, VICTIM: body[:-1] + bytes([body[-1] ^ 1])},  # not what it said
    ):
        answers = history.devices[VICTIM].handle(_told(history, Type.ANNOUNCED, pack_list(odd)))
        assert _reason(answers)
    assert history.devices[VICTIM].handle(letter.message)[0].type is Type.REVEAL


def test_shares_that_were_changed_keep_a_worker_silent(history: History) -> None:
    letters = _until(history, Type.DELIVERY)
    (own,) = [letter.message for letter in letters if letter.to == VICTIM]
    changed = own.body[:-1] + bytes([own.body[-1] ^ 1])
    assert "changed" in _reason(history.devices[VICTIM].handle(_told(history, Type.DELIVERY, changed)))
    assert history.devices[VICTIM].spending.spent(VICTIM) == 0


def test_a_delivery_for_another_worker_is_left_alone(history: History) -> None:
    letters = _until(history, Type.DELIVERY)
    (other,) = [letter.message for letter in letters if letter.to == 0]
    assert history.devices[VICTIM].handle(other) == []


def test_a_frame_that_comes_late_never_enters(history: History) -> None:
    letters = _until(history, Type.DELIVERY)
    frames = {letter.to: history.devices[letter.to or 0].handle(letter.message)[0] for letter in letters}
    history.server.handle([frames[each] for each in frames if each != VICTIM])
    history.server.expire()
    assert history.server.handle([frames[VICTIM]]) == []
    letters = history.server.asking()
    while not history.server.sums:
        answers = [
            answer
            for letter in letters
            for each in history.devices.values()
            if each.identity != VICTIM
            for answer in each.handle(letter.message)
        ]
        letters = history.server.handle(answers)
    assert VICTIM not in history.server.sums[0].present


def test_frames_of_a_wrong_length_or_with_too_many_bits_are_refused(history: History) -> None:
    letters = _until(history, Type.DELIVERY)
    frame = history.devices[0].handle(letters[0].message)[0]
    signing = list(keys()[0].values())[letters[0].to or 0]
    for body in (frame.body[:-1], b"", b"\xff" * len(frame.body)):
        assert history.server.handle([replace(frame, body=body).signed_with(signing)]) == []
    assert len(history.lines) == 3


def test_a_used_up_budget_is_refused_by_the_worker(tmp_path: Path) -> None:
    contract = replace(small_contract(), budget=0)
    history = History(tmp_path, contract=contract).run()
    assert not history.server.sums
    assert history.broken() == []
    assert any("used up" in line for line in history.lines)


@given(st.binary(max_size=300))
def test_no_bytes_are_read_as_anything_but_a_message(content: bytes) -> None:
    for read in (unpacked, unbatched, unpack_parts, lambda body: unpack_list(body, 8)):
        try:
            found = read(content)
        except ProtocolError:
            continue
        if isinstance(found, Message):
            assert found.packed() == content


@given(
    st.sampled_from(list(Type)), st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1), st.integers(0, 255), st.binary()
)
def test_a_message_is_read_as_it_was_written(kind: Type, sender: int, number: int, attempt: int, body: bytes) -> None:
    said = Message(kind, sender, bytes(range(32)), number, attempt, body).signed_with(bytes(32))
    assert unpacked(said.packed()) == said
    assert [unpacked(each) for each in unbatched(batched([said.packed()] * 2))] == [said, said]


def test_a_message_that_is_too_long_is_refused_before_it_is_read() -> None:
    said = Message(Type.FRAME, 1, bytes(32), body=bytes(100)).signed_with(bytes(32)).packed()
    with pytest.raises(ProtocolError, match="too long"):
        unpacked(said, largest_body=99)
    header = said[: HEADER.size - 4] + (LARGEST_BODY + 1).to_bytes(4, "big")
    with pytest.raises(ProtocolError, match="too long"):
        unpacked(header + bytes(200))
