"""An emulated air: sums by hand, who is named in them, and what never enters."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airmixml.deploy.air import AnalogKind, Opening, SumOnAir, as_bytes, frame_messages
from airmixml.deploy.air_link import Adder, EmulatedAir, bind, connect, send, serve
from airmixml.deploy.credentials import free_ports
from airmixml.deploy.wire import AIR, SERVER, Message, Type, run_over, unpacked
from airmixml.masks.keys import verifying_key
from airmixml.messages import ProtocolError

RUN = bytes(range(32))
KEYS = {identity: bytes([identity]) * 32 for identity in range(64)} | {SERVER: b"s" * 32, AIR: b"a" * 32}
DIRECTORY = {identity: verifying_key(key) for identity, key in KEYS.items() if identity not in (SERVER, AIR)}


def new_air(noise_watts: float = 0.0) -> EmulatedAir:
    given = {"sends": "moments", "cost": 0, "releases": 1, "norm": 1.0, "watts": 1e18, "workers": 64}
    lengths = (5, 6, 10, 1000, 5000, 40_000)
    kinds = [AnalogKind(numbers=each, receiver_watts=noise_watts, **given) for each in lengths]
    server_key = verifying_key(KEYS[SERVER]).hex()
    contract = SimpleNamespace(
        run=RUN, directory=DIRECTORY, revoked_workers=frozenset(), server_key=server_key, kinds=kinds
    )
    return EmulatedAir(contract, KEYS[AIR], Adder())  # type: ignore[arg-type]


def said(sender: int, body: bytes, number: int = 0, attempt: int = 0, run: bytes = RUN) -> Message:
    """What the server says, or the frame of a worker."""

    def say(kind: Type, content: bytes) -> Message:
        return Message(kind, sender, run, number, attempt, content).signed_with(KEYS[sender])

    return say(Type.SAMPLES, body) if sender == SERVER else frame_messages(body, say)[-1]


def opening(workers: tuple[int, ...], samples: int, number: int = 0, attempt: int = 0, waits: int = 1) -> bytes:
    return said(SERVER, Opening(samples, waits, workers).packed(), number, attempt).packed()


def frames_on_a_grid(workers: int, samples: int) -> np.ndarray:
    """Whole numbers of 17 bits: the sum of 64 has 23, which a float32 holds."""
    rng = np.random.default_rng(1)
    both = rng.integers(-(2**16), 2**16, (2, workers, samples))
    return both[0] + 1j * both[1]


def summed(messages: list[Message]) -> SumOnAir:
    (message,) = messages
    assert message.sender == AIR
    assert message.is_signed_by(verifying_key(KEYS[AIR]))
    return SumOnAir.of(message.body)


def test_the_sum_of_64_workers_is_exact_and_names_them() -> None:
    air, frames = new_air(), frames_on_a_grid(64, 1000)
    assert air.handle(opening(tuple(range(64)), 1000)) == []
    found: list[Message] = []
    for identity in reversed(range(64)):
        assert found == []
        found = air.handle(said(identity, as_bytes(frames[identity])).packed())
    total = summed(found)
    assert total.present == tuple(range(64))
    assert np.array_equal(total.samples, frames.sum(axis=0))


def test_when_the_slot_is_closed_the_sum_has_those_who_sent_and_late_frames_stay_out() -> None:
    air, frames = new_air(), frames_on_a_grid(4, 10)
    air.handle(opening((0, 1, 2), 10))
    air.handle(said(2, as_bytes(frames[2])).packed())
    air.handle(said(0, as_bytes(frames[0])).packed())
    total = summed(air.expire())
    assert total.present == (0, 2)
    assert np.array_equal(total.samples, frames[0] + frames[2])
    with pytest.raises(ProtocolError, match="worker 1 for slot 0, attempt 0: is late"):
        air.handle(said(1, as_bytes(frames[1])).packed())
    assert air.expire() == []
    # The next slot has nothing of the last.
    air.handle(opening((0, 1), 10, number=1))
    with pytest.raises(ProtocolError, match="late"):
        air.handle(said(1, as_bytes(frames[1])).packed())
    air.handle(said(1, as_bytes(frames[3]), number=1).packed())
    total = summed(air.expire())
    assert total.present == (1,)
    assert np.array_equal(total.samples, frames[3])


def test_nobody_is_in_the_sum_of_a_slot_in_which_nobody_sent() -> None:
    air = new_air()
    air.handle(opening((0, 1), 5))
    total = summed(air.expire())
    assert total.present == ()
    assert np.array_equal(total.samples, np.zeros(5))


def test_a_frame_that_overtakes_its_opening_is_asked_for_again() -> None:
    air, frames = new_air(), frames_on_a_grid(1, 5)
    with pytest.raises(ProtocolError, match="overtook its opening"):
        air.handle(said(0, as_bytes(frames[0]), number=3).packed())
    assert air.handle(opening((0,), 5, number=3)) == []
    assert np.array_equal(summed(air.handle(said(0, as_bytes(frames[0]), number=3).packed())).samples, frames[0])


def test_the_server_closes_a_slot_and_need_not_wait_for_a_worker_that_refuses() -> None:
    air, frames = new_air(), frames_on_a_grid(3, 5)
    air.handle(opening((0, 1, 2), 5))
    air.handle(said(0, as_bytes(frames[0])).packed())
    assert air.handle(opening((0, 1), 5)) == []
    total = summed(air.handle(said(1, as_bytes(frames[1])).packed()))
    assert total.present == (0, 1)
    air.handle(opening((0, 1, 2), 5, number=1))
    air.handle(said(2, as_bytes(frames[2]), number=1).packed())
    (closed,) = air.handle(opening((0, 1, 2), 5, number=1, waits=0))
    assert summed([closed]).present == (2,)
    with pytest.raises(ProtocolError, match="late"):
        air.handle(said(0, as_bytes(frames[0]), number=1).packed())
    assert air.handle(opening((0, 1, 2), 5, number=1, waits=0)) == [closed]


def test_a_frame_without_the_workers_word_to_the_server_stays_out() -> None:
    """Else one worker could spoil the sum of all: the server takes none that is not signed for."""
    air = new_air()
    air.handle(opening((0, 1), 5))
    body = bytes(64) + as_bytes(np.ones(5))
    with pytest.raises(ProtocolError, match="not signed for the server"):
        air.handle(Message(Type.SAMPLES, 1, RUN, body=body).signed_with(KEYS[1]).packed())
    assert summed(air.expire()).present == ()


def test_an_opening_that_is_sent_again_gives_the_same_sum_again() -> None:
    air = new_air(noise_watts=1.0)
    asked = opening((0,), 5)
    air.handle(asked)
    assert air.handle(asked) == []
    (first,) = air.handle(said(0, as_bytes(np.ones(5))).packed())
    assert air.handle(asked) == [first]


def test_a_frame_enters_once_and_another_of_the_same_worker_never() -> None:
    air, frames = new_air(), frames_on_a_grid(3, 5)
    air.handle(opening((0, 1), 5))
    air.handle(said(0, as_bytes(frames[0])).packed())
    assert air.handle(said(0, as_bytes(frames[0])).packed()) == []
    with pytest.raises(ProtocolError, match="another one is in the sum"):
        air.handle(said(0, as_bytes(frames[2])).packed())
    assert np.array_equal(summed(air.expire()).samples, frames[0])


GOOD = as_bytes(np.ones(5))


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (said(1, as_bytes(np.ones(4))).packed(), "has 4 samples and must have 5"),
        (said(1, GOOD[:-1]).packed(), "ends within a sample"),
        (said(1, as_bytes(np.full(5, np.nan))).packed(), "not finite"),
        (said(7, GOOD).packed(), "opened without it"),
        (said(1, GOOD, run=b"x" * 32).packed(), "another run"),
        (Message(Type.SAMPLES, 1, RUN, body=GOOD).signed_with(KEYS[2]).packed(), "not signed"),
        (Message(Type.SAMPLES, 999, RUN, body=GOOD).signed_with(KEYS[2]).packed(), "not signed"),
        (Message(Type.FRAME, 1, RUN, body=GOOD).signed_with(KEYS[1]).packed(), "another run or kind"),
        (said(1, GOOD).packed()[:-3], "cut off|bytes and its header"),
        (b"", "cut off"),
        (opening((0, 1, 2), 5), "was opened before"),
        (opening((999,), 5, number=9), "none of the run"),
        (opening((), 5, number=9), "at least one worker"),
        (opening((1,), 0, number=9), "at least one worker"),
        (opening((1,), 7, number=9), "none of the run"),
        (said(SERVER, b"abc", number=9).packed(), "cut off"),
    ],
)
def test_what_is_refused_changes_nothing(message: bytes, reason: str) -> None:
    air = new_air()
    air.handle(opening((0, 1), 5))
    with pytest.raises(ProtocolError, match=reason):
        air.handle(message)
    air.handle(said(0, GOOD).packed())
    total = summed(air.handle(said(1, GOOD).packed()))
    assert total.present == (0, 1)
    assert np.array_equal(total.samples, np.full(5, 2.0))


@given(content=st.binary(max_size=300), place=st.integers(0, 400), sender=st.sampled_from([1, SERVER]))
def test_no_bytes_bring_the_air_down_or_into_a_sum(content: bytes, place: int, sender: int) -> None:
    """Bodies that their owner has signed, and messages with some bytes changed."""
    air = new_air()
    air.handle(opening((0, 1), 5))
    whole = said(1, GOOD).packed()
    changed = whole[: place % len(whole)] + content + whole[place % len(whole) + len(content) :]
    for message in (content, said(sender, content, number=2).packed(), changed):
        if message != whole:
            with suppress(ProtocolError):
                air.handle(message)
    if air._name == (0, 0):  # no other slot was opened
        total = summed(air.expire())
        assert total.present == ()


@given(st.binary(max_size=100))
def test_bodies_are_read_or_refused(body: bytes) -> None:
    for kind in (Opening, SumOnAir):
        with suppress(ProtocolError):
            assert kind.of(body).packed() == body


def test_noise_has_the_stated_power_half_of_it_in_phase() -> None:
    air, found = new_air(noise_watts=8.0), []
    for number in range(2):
        air.handle(opening((0,), 40_000, number=number))
        found.append(summed(air.expire()).samples)
    for part in (found[0].real, found[0].imag):
        assert np.var(part) == pytest.approx(4.0, rel=0.07)  # 10 deviations of the estimate
        assert abs(np.mean(part)) < 10 * 2.0 / 200.0
    assert abs(np.vdot(*found)) / 40_000 < 10 * 8.0 / 200.0  # new in every slot


@pytest.fixture
def sockets() -> Iterator[tuple[object, object, str]]:
    """The air on threads' end: frames go in at an address, sums come out at the server's socket."""
    address, sums_at = (f"tcp://127.0.0.1:{port}" for port in free_ports(2))
    frames, server, sums = bind("PULL", address), bind("PULL", sums_at), connect("PUSH", sums_at)
    yield (frames, sums), server, address
    for each in (frames, server, sums):
        each.close()


def test_over_zeromq_a_sum_comes_when_the_slot_is_closed_and_refusals_are_logged(sockets: tuple) -> None:
    (into, out), server, address = sockets
    lines: list[str] = []
    running = threading.Thread(target=serve, args=(new_air(), into, out), kwargs={"log": lines.append})
    running.start()
    workers = [connect("PUSH", address) for _ in range(3)]
    frames = frames_on_a_grid(3, 5000)

    def expect(present: tuple[int, ...]) -> None:
        assert server.poll(60_000)
        total = SumOnAir.of(unpacked(server.recv()).body)
        assert total.present == present
        assert np.array_equal(total.samples, frames[list(present)].sum(axis=0))

    workers[0].send(b"nonsense")
    send(workers[0], unpacked(opening((0, 1, 2), 5000)))
    for identity in (0, 2):  # on one socket, so that the slot is closed after them
        send(workers[0], said(identity, as_bytes(frames[identity])))
    send(workers[0], unpacked(opening((0, 1, 2), 5000, waits=0)))
    expect((0, 2))
    send(workers[0], run_over(RUN, KEYS[1]))  # not the server's
    send(workers[0], run_over(RUN, KEYS[SERVER]))
    running.join(timeout=60.0)
    assert not running.is_alive()
    assert [line for line in lines if "cut off" in line]
    for each in workers:
        each.close()


def test_other_machines_are_no_address() -> None:
    for address in ("tcp://192.168.0.1:7000", "tcp://*:7000", "somewhere"):
        with pytest.raises(ProtocolError, match=r"must be tcp://127\.0\.0\.1"):
            bind("PULL", address)
        with pytest.raises(ProtocolError, match=r"must be tcp://127\.0\.0\.1"):
            connect("PUSH", address)
