"""Payloads: the vectors that devices send are those that fast sums add up, and a new one is a class with vectors."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch

from airmixml import Scenario, simulate
from airmixml.arrays import Integers
from airmixml.registries import PAYLOADS
from airmixml.workers import Signal
from airmixml.workers.gradients import Gradients
from airmixml.workers.moments import Moments, Products
from airmixml.workers.payloads import Broadcast, Samples, Table
from airmixml.workers.signal import Payload, Places, Vectors

RNG = np.random.default_rng(0)
INPUTS = RNG.standard_normal((30, 6)).astype(np.float32) / 4
LABELS = np.eye(3, dtype=np.float32)[RNG.integers(0, 3, 30)]
INDEX, WEIGHTS = RNG.integers(0, 10, (4, 9)), RNG.random((4, 9))


def made(kind: str) -> Payload:
    given = {"inputs": INPUTS, "labels": LABELS, "norm": 1.0}
    if kind == "samples":
        return Table(Samples(signal=Signal(features=6, classes=3, label_weight=0.5), **given))
    if kind.startswith("gradients"):
        rows, present = np.arange(30).reshape(10, 3), np.ones((10, 3), dtype=np.float32)
        held = {"rows": rows, "present": present} if kind.endswith("rows") else {}
        gradients = Gradients(signal=Signal(features=6, classes=3, payload="gradients"), **given, **held)
        gradients.broadcast(Broadcast(weights=np.eye(6, 3), biases=np.arange(3.0), clip=0.1))
        return gradients
    signal = Signal(features=6, classes=3, moments=True, label_weight=0.5)
    if kind == "moments":
        return Moments(signal=signal, **given)
    rows, present = np.arange(30).reshape(10, 3), np.ones((10, 3), dtype=np.float32)
    return Moments(signal=signal, **given, rows=rows, present=present, rows_bound=0.1)


@pytest.mark.parametrize("kind", ["samples", "moments", "rows", "gradients", "gradients of rows"])
def test_fast_sums_are_those_of_the_vectors(kind: str) -> None:
    """In one piece, in pieces with weights of any sign, and with factors."""
    payload = made(kind)
    vectors = payload.vectors(np.arange(10))[INDEX].astype(np.float64)  # slots x workers x symbols
    index, weights = torch.from_numpy(INDEX), torch.from_numpy(WEIGHTS)
    whole = np.einsum("tw,tws->ts", WEIGHTS, vectors)
    assert payload.weighted_sum(index, weights).numpy() == pytest.approx(whole, abs=1e-5)
    assert payload.stream(index, weights).numpy() == pytest.approx(whole, abs=1e-6)
    lengths = [2, 3, vectors.shape[2] - 5]
    turned = np.random.default_rng(1).standard_normal((4, 9, 3))
    in_pieces = np.einsum("tws,tws->ts", np.repeat(turned, lengths, axis=2), vectors)
    for add_up in (payload.weighted_sum, payload.stream):
        assert add_up(index, torch.from_numpy(turned), Places(lengths)).numpy() == pytest.approx(in_pieces, abs=1e-5)
    factors = np.random.default_rng(2).standard_normal((4, 9, 2))
    expected = np.einsum("twk,tws,tws->kts", factors, np.repeat(turned, lengths, axis=2), vectors)
    given = index, torch.from_numpy(turned), torch.from_numpy(factors), Places(lengths)
    assert payload.weighted_sums(*given).numpy() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("kind", [Moments, Gradients])
def test_short_pieces_and_little_memory(kind: type[Products], monkeypatch: pytest.MonkeyPatch) -> None:
    """70 features in pieces of two symbols; a third of the workers' vectors are formed at once."""
    inputs = RNG.standard_normal((30, 70)).astype(np.float32) / 20
    signal = Signal(features=70, classes=3, moments=kind is Moments, payload="" if kind is Moments else "gradients")
    payload = kind(signal=signal, inputs=inputs, labels=LABELS, norm=1.0)
    if isinstance(payload, Gradients):
        payload.broadcast(Broadcast(weights=np.eye(70, 3), biases=np.arange(3.0), clip=0.1))
    vectors = payload.vectors(np.arange(30))
    lengths = [2] * (signal.symbols // 2) + [signal.symbols % 2]
    weights = np.random.default_rng(1).standard_normal((4, 9, len(lengths)))
    given = torch.from_numpy(INDEX), torch.from_numpy(weights), Places(lengths)
    expected = np.einsum("tws,tws->ts", np.repeat(weights, lengths, axis=2), vectors[INDEX])
    assert payload.weighted_sum(*given).numpy() == pytest.approx(expected, abs=1e-5)
    monkeypatch.setattr("airmixml.workers.moments.NUMBERS_AT_ONCE", 700)
    assert np.array_equal(payload.vectors(np.arange(30)), vectors)
    assert payload.weighted_sum(*given).numpy() == pytest.approx(expected, abs=1e-5)


class Shouted(Samples):
    """Twice the input, as a package of somebody else's would add it."""

    about = "twice the input"

    def vectors(self, index: Integers) -> Vectors:
        return np.concatenate([2.0 * self.inputs[index], self.labels[index]], axis=1)


class Streamed(Shouted):
    tabled = False


@pytest.mark.parametrize("kind", [Shouted, Streamed])
def test_another_payload_needs_its_vectors_alone(kind: type[Samples], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PAYLOADS.loaded, "shouted", kind)
    monkeypatch.setitem(vars(PAYLOADS), "plugins", {"shouted": None})
    few = ("workers.dataset=digits", "workers.count=40", "radio.scheduled=5", "radio.slots=20")
    norms = ("privacy.sensitivity=encoder", "workers.encoder=clip")
    for air in ((), ("air.amplitude_error_db=1",)):
        plain, other = (
            simulate(Scenario().with_overrides(*few, *norms, *air, f"workers.sends={kinds}"))
            for kinds in ("samples", "shouted")
        )
        assert torch.allclose(2.0 * plain.examples.clean_inputs, other.examples.clean_inputs, atol=1e-5)


def test_devices_need_no_torch() -> None:
    code = (
        "import sys, numpy as np; from airmixml.workers.moments import Moments; from airmixml.workers import Signal;"
        "one = np.ones((1, 2), dtype=np.float32);"
        "sent = Moments(signal=Signal(features=2, classes=2, moments=True), norm=2.0, inputs=one, labels=one);"
        "print(sent.vectors(np.array([0])).shape, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["(1,", "7)", "False"]
