"""Servers that lie, strangers that forge, messages that are cut or too long: refused, and nothing else disturbed."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from deploy_histories import VICTIM, WORKERS, History, keys, small_contract
from hypothesis import given
from hypothesis import strategies as st

from airmixml.deploy.wire import (
    HEADER,
    LARGEST_BODY,
    SERVER,
    Letter,
    Message,
    Type,
    batched,
    pack_list,
    pack_names,
    unbatched,
    unpack_list,
    unpack_refusal,
    unpacked,
)
from airmixml.deploy.worker import Name, Order, Vector, announcement_of
from airmixml.masks.graph import MOST_ROUNDS
from airmixml.masks.keys import signature
from airmixml.masks.rounds import round_name
from airmixml.messages import PrivacyError, ProtocolError
from airmixml.workers.payloads import Broadcast


def _told(history: History, kind: Type, body: bytes = b"", number: int = 0, attempt: int = 0) -> Message:
    said = Message(kind, SERVER, history.contract.run, number, attempt, body)
    return said.signed_with(keys()[1])


def _reason(answers: list[Message]) -> str:
    (refusal,) = answers
    assert refusal.type is Type.REFUSAL
    return unpack_refusal(refusal.body)[0]


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
    assert "beyond" in _reason(history.devices[0].handle(_told(history, Type.ORDER, Order(1, 0.0, told).packed())))


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
    (signed,) = device.handle(_told(history, Type.ABSENT, pack_names([])))
    assert signed.type is Type.SIGNED
    assert "keeps to it" in _reason(device.handle(_told(history, Type.ABSENT, pack_names([5]))))
    assert _reason(history.devices[5].handle(_told(history, Type.ABSENT, pack_names([5]))))  # it is present
    too_many = pack_names(range(history.contract.rules[0].most_absent + 1))
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
    for read in (unpacked, unbatched, unpack_list, lambda body: unpack_list(body, 8)):
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


def test_a_model_never_makes_rows_tell_by_a_refusal(history: History) -> None:
    """Scores of a bounded row cannot overflow, and where no vector can be formed zeros are sent."""
    outputs = len(history.contract.outputs)
    features = history.contract.kinds[1].numbers // outputs
    for size in (1e10, 1e300, -1e300):
        told = Broadcast(weights=np.full((features, outputs), size), biases=np.zeros(outputs), clip=0.2)
        assert "beyond" in _reason(history.devices[0].handle(_told(history, Type.ORDER, Order(1, 0.0, told).packed())))
    for odd in (np.nan, np.inf):
        _check_zeros(History(history.folder / str(odd)), lambda kind, told, odd=odd: np.full(5, odd))

    def failing(kind: int, told: Broadcast | None) -> np.ndarray:
        raise PrivacyError("a row is odd")

    _check_zeros(History(history.folder / "failing"), failing)


def _check_zeros(history: History, vector: Vector) -> None:
    history.devices[VICTIM]._vector = vector
    letters = _until(history, Type.DELIVERY)
    (own,) = [letter.message for letter in letters if letter.to == VICTIM]
    (frame,) = history.devices[VICTIM].handle(own)
    assert frame.type is Type.FRAME


def test_workers_with_different_orders_share_no_masks(tmp_path: Path) -> None:
    """Frames of another kind, with less noise, or under another model would be in one sum."""
    history = History(tmp_path)
    powers = (history.contract.plan.link.power_dbm, -40.0)
    orders = [_told(history, Type.ORDER, Order(0, power).packed()) for power in powers]
    said = {each: device.handle(orders[each == VICTIM])[0].body for each, device in history.devices.items()}
    listed = _told(history, Type.ANNOUNCED, pack_list(said))
    for device in history.devices.values():
        assert "not signed" in _reason(device.handle(listed))


@pytest.mark.parametrize("kind", [Type.ANNOUNCE, Type.REVEAL, Type.PARCELS])
@pytest.mark.parametrize("where", [0, 40, -1])
def test_one_worker_that_sends_nonsense_does_not_end_the_run(kind: Type, where: int, tmp_path: Path) -> None:
    history = History(tmp_path, contract=small_contract(spare=2, epsilon=30.0))
    handle, signing = history.devices[0].handle, next(iter(keys()[0].values()))

    def nonsense(message: Message) -> list[Message]:
        answers = list(handle(message))
        for place, each in enumerate(answers):
            if each.type is kind:
                body = bytearray(each.body)
                body[where if kind is not Type.PARCELS else -1] ^= 1
                answers[place] = replace(each, body=bytes(body)).signed_with(signing)
        return answers

    history.devices[0].handle = nonsense  # type: ignore[method-assign]
    history.run()
    assert len(history.server.sums) == 2, history.lines
    assert all(0 not in found.present for found in history.server.sums if kind is not Type.PARCELS)


def test_a_key_of_small_order_is_not_accepted(history: History) -> None:
    (order,) = history.server.asking()
    said = history.devices[0].handle(order.message)[0]
    announced = announcement_of(0, said.body)
    odd = replace(announced, mask_key=bytes(32))
    signing = next(iter(keys()[0].values()))
    run = round_name(Name.of(order.message, 0).run(history.contract), range(1), 0)
    body = odd.mask_key + odd.channel_key + odd.commitment + odd.nonce_commitment
    body += signature(signing, odd.statement(run))
    assert history.server.handle([replace(said, body=body).signed_with(signing)]) == []
    assert "no usable X25519 key" in history.lines[-1]


def test_messages_from_which_nothing_follows_are_not_kept(history: History) -> None:
    log = history.folder / "journal"
    (order,) = history.server.asking()
    said, signing = history.devices[0].hello(), next(iter(keys()[0].values()))
    size = log.stat().st_size
    history.server.handle([said] * 100)
    long = [replace(said, type=kind, body=bytes(10_000)).signed_with(signing) for kind in (Type.HELLO, Type.REFUSAL)]
    history.server.handle(long * 5)
    assert log.stat().st_size == size
    refusal = replace(said, type=Type.REFUSAL, body=b"no").signed_with(signing)
    history.server.handle([refusal])
    once = log.stat().st_size
    history.server.handle([refusal] * 10)
    assert log.stat().st_size == once > size
    assert order


def test_an_old_order_does_not_take_a_worker_out_of_its_round(tmp_path: Path) -> None:
    history = History(tmp_path)
    (old,) = history.server.asking()
    device = history.devices[VICTIM]
    (new,) = device.handle(_told(history, Type.ORDER, Order(0, 0.0).packed(), number=1))
    assert "or a later one" in _reason(device.handle(old.message))
    assert device.handle(_told(history, Type.ORDER, Order(0, 0.0).packed(), number=1)) == [new]


def test_an_order_that_was_given_stays_as_it_was_whatever_follows_the_end_of_a_round(tmp_path: Path) -> None:
    """In one batch a greeting may follow the answer that ends a round; the next order is in the log behind it."""
    history = History(tmp_path)
    letters = _until(history, Type.SIGNATURES)
    history.server.silent.add(5)
    answers = [each.handle(letters[0].message)[0] for each in history.devices.values()]
    (first,) = [each for each in history.server.handle([*answers, history.devices[5].hello()]) if each.to is None][-1:]
    assert first.message.type is Type.ORDER
    history._model = lambda: replace(History._model(history), clip=0.3)  # type: ignore[method-assign]
    history._restart_server()
    (again,) = history.server.asking()
    assert again.message.packed() == first.message.packed()


def test_spare_rounds_are_counted_by_kind(tmp_path: Path) -> None:
    history = History(tmp_path, contract=small_contract(spare=1, epsilon=20.0))
    history.server.spent = dict.fromkeys(range(WORKERS), 10 * history.contract.kinds[0].cost)
    letters = _until(history, Type.DELIVERY)
    history.server.handle([history.devices[each.to or 0].handle(each.message)[0] for each in letters[:2]])
    history.server.expire()  # too many are absent
    assert history.server.failure == ""
    assert history.server.where[0] == 1


def test_a_worker_without_budget_does_not_begin(tmp_path: Path) -> None:
    history = History(tmp_path, contract=replace(small_contract(), budget=0))
    (order,) = history.server.asking()
    assert "used up" in _reason(history.devices[0].handle(order.message))
