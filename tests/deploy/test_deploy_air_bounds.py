"""What an emulated air and a server's line to it take at most: loudness, length and number; and closings."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from deploy_histories import AIR_KEY, analog_contract, keys

from airmixml.deploy import air_link
from airmixml.deploy.air import AnalogKind, Opening, SumOnAir, as_bytes, frame_messages
from airmixml.deploy.air_link import Adder, AirLink, EmulatedAir
from airmixml.deploy.contract import Contract
from airmixml.deploy.endpoint import Endpoint
from airmixml.deploy.wire import SERVER, Message, Type
from airmixml.messages import ProtocolError

CONTRACT = analog_contract()
KINDS = [each for each in CONTRACT.kinds if isinstance(each, AnalogKind)]
KIND = KINDS[0]
SIGNING = list(keys()[0].values())


def new_air(contract: Contract = CONTRACT) -> EmulatedAir:
    return EmulatedAir(contract, AIR_KEY, Adder())


def frame(worker: int, samples: np.ndarray, number: int = 0, contract: Contract = CONTRACT) -> bytes:
    def say(kind: Type, body: bytes) -> Message:
        return Message(kind, worker, contract.run, number, 0, body).signed_with(SIGNING[worker])

    return frame_messages(as_bytes(samples), say)[-1].packed()


def opening(*workers: int, waits: int = 1, number: int = 0, contract: Contract = CONTRACT) -> bytes:
    body = Opening(KIND.numbers, waits, workers).packed()
    return Message(Type.SAMPLES, SERVER, contract.run, number, 0, body).signed_with(keys()[1]).packed()


def one(loud: complex) -> np.ndarray:
    """A frame that is silent but for one sample."""
    return loud * np.eye(KIND.numbers)[7]


def reach() -> tuple[float, float]:
    """The step of the grid and the largest sample on it, by hand: six workers leave 20 of the 23 bits to each."""
    farthest = math.sqrt(KIND.watts) * KIND.norm + 9.0 * math.sqrt(KIND.own_watts)
    largest = 2.0 ** math.ceil(math.log2(farthest))
    return largest / 2**20, largest


@pytest.mark.parametrize("sign", [1, -1, 1j])
def test_a_sample_beyond_the_grid_stays_out_and_one_at_its_end_enters(sign: complex) -> None:
    """float32 adds up no more without rounding: a louder worker would swallow the others."""
    step, largest = reach()
    air = new_air()
    air.handle(opening(0, 1, 2))
    with pytest.raises(ProtocolError, match="worker 0 for slot 0, attempt 0: has a sample of"):
        air.handle(frame(0, one(sign * (largest + step))))
    air.handle(frame(1, one(sign * largest)))
    (closed,) = air.expire()
    total = SumOnAir.of(closed.body)
    assert total.present == (1,)
    assert total.samples == pytest.approx(one(sign * largest), abs=step / 2)


@pytest.mark.parametrize(("workers", "bits"), [(1, 23), (2, 22), (6, 20)])
def test_what_a_worker_forms_is_never_too_loud(workers: int, bits: int) -> None:
    """Even where every sample is at the end of the grid, and float32 rounds what a channel makes of it."""
    kind = replace(KIND, workers=workers)
    loud = np.full(kind.numbers, 1e9)
    most = np.clip(np.rint(loud / kind.step), -(2.0**bits), 2.0**bits) * kind.step
    assert kind.loudest == most[0]
    ends = np.where(np.arange(kind.numbers) % 2, most, -most).astype(np.complex64)
    contract = replace(CONTRACT, kinds=(kind,))
    air = new_air(contract)
    air.handle(opening(0, 1, contract=contract))
    air.handle(frame(0, ends, contract=contract))
    assert SumOnAir.of(air.expire()[0].body).present == (0,)


def test_a_closing_of_a_slot_that_is_not_open_is_refused_and_the_slot_can_be_opened() -> None:
    """An air that was started again hears first what had waited for it; a sum of nobody would fail the round."""
    air = new_air()
    with pytest.raises(ProtocolError, match="slot 0, attempt 0: is not open"):
        air.handle(opening(0, 1, waits=0))
    assert air.expire() == []
    assert air.handle(opening(0, 1)) == []
    air.handle(frame(0, one(0.0)))
    (closed,) = air.handle(frame(1, one(0.0)))
    assert SumOnAir.of(closed.body).present == (0, 1)
    assert air.handle(opening(0, 1, waits=0)) == [closed]
    with pytest.raises(ProtocolError, match="slot 1, attempt 0: is not open"):
        air.handle(opening(0, 1, waits=0, number=1))
    assert air._name == (0, 0)


def test_a_process_that_pushes_without_end_does_not_hold_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    pushed = itertools.count()

    def recv() -> bytes:
        assert next(pushed) < 100_000, "it never returns"
        return b"sum"

    endless = SimpleNamespace(poll=lambda timeout: 1, recv=recv, send=None, close=lambda: None)
    control = SimpleNamespace(receive=lambda timeout: [b"order"], close=lambda: None)
    endpoint = Endpoint("server", "127.0.0.1", 1, 2, frames="ipc://frames", sums="ipc://sums")
    monkeypatch.setattr(air_link, "connect", lambda *_: endless)
    monkeypatch.setattr(air_link, "bind", lambda *_: endless)
    line = AirLink(control, endpoint, print)  # type: ignore[arg-type]
    for _ in range(2):
        found = line.receive(1.0)
        assert found[0] == b"order"  # what the broker brought is not starved
        assert 1 < len(found) <= 1001
