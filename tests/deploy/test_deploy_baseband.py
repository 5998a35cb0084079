"""Analog frames by hand, sums that float32 adds up exactly, and models through an emulated air."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from one_process import carry, new_ledger

from airmixml import Scenario, simulate
from airmixml.deploy.air import MOST_WORKERS, AnalogKind, SumOnAir
from airmixml.deploy.air_link import Adder, EmulatedAir
from airmixml.deploy.compiling import data_of, make_contract, planned_for
from airmixml.deploy.journal import Journal
from airmixml.deploy.server import Server
from airmixml.deploy.worker import Device, vector_of
from airmixml.masks.keys import verifying_key
from airmixml.messages import ProtocolError
from airmixml.radio.transmission import make_sender
from airmixml.streams import Streams
from airmixml.workers import deploy

AGREED = {"sends": "moments", "cost": 0, "releases": 1}
CODE = AnalogKind(**AGREED, numbers=200, norm=2.0, watts=4e-12, workers=64, receiver_watts=3e-13)
SEED = bytes(32)


def vectors(workers: int, numbers: int, norm: float) -> np.ndarray:
    drawn = np.random.default_rng(3).standard_normal((workers, numbers))
    return norm * drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def test_a_sample_is_a_number_times_its_amplitude_in_phase() -> None:
    (vector,) = vectors(1, 200, 2.0)
    frame = CODE.samples(vector, SEED)
    assert frame.dtype == np.complex64
    assert not frame.imag.any()
    step = 2.0**-34  # 2e-6 * 2.0 is below 2^-17, and 64 workers leave 17 of 23 bits
    assert frame.real / step == pytest.approx(np.rint(2e-6 * vector / step), abs=1e-9)
    assert np.array_equal(CODE.samples(7.0 * vector, SEED), frame), "a vector that is too long is shortened"


@pytest.mark.parametrize("workers", [1, 2, 64, 100, MOST_WORKERS])
def test_float32_adds_up_all_frames_without_rounding_in_any_order(workers: int) -> None:
    code = AnalogKind(**AGREED, numbers=50, norm=2.0, watts=4.0, workers=workers, own_watts=0.3)
    sent = vectors(workers, 50, 2.0)
    frames = [code.samples(each, number.to_bytes(32, "little")) for number, each in enumerate(sent)]
    exact = np.sum(np.array(frames, dtype=np.complex128), axis=0)
    for order in (frames, frames[::-1]):
        total = np.zeros(50, dtype=np.complex64)
        for frame in order:
            total += frame
        assert np.array_equal(total, exact)


def test_the_mean_of_a_sum_is_that_of_the_vectors() -> None:
    sent = vectors(3, 200, 2.0)
    total = sum(CODE.samples(each, SEED) for each in sent)
    mean, variance = CODE.mean(SumOnAir((0, 1, 2), total))
    assert mean == pytest.approx(sent.mean(axis=0), abs=2.0**-34 / 6e-6 * 1.5)
    rounding = 3 * 2.0**-68 / 12.0
    assert variance == pytest.approx((3e-13 / 2.0 + rounding) / 6e-6**2)


def test_noise_is_of_the_agreed_variance_and_new_for_every_seed() -> None:
    code = AnalogKind(**AGREED, numbers=20_000, norm=1.0, watts=1.0, workers=2, own_watts=0.09)
    frames = [code.samples(np.zeros(20_000), bytes([each] * 32)).real for each in range(2)]
    for frame in frames:
        assert np.var(frame) == pytest.approx(0.09, rel=0.1)
    assert abs(np.mean(frames[0] * frames[1])) < 0.09 * 10.0 / math.sqrt(20_000)
    total = SumOnAir((0, 1), sum(frames).astype(np.complex64))
    assert code.mean(total)[1] == pytest.approx(2 * 0.09 / 4.0, rel=1e-6)


def test_more_workers_than_float32_adds_up_exactly_are_refused() -> None:
    with pytest.raises(ProtocolError, match=r'must be 1 to 4,096 .* use privacy\.arithmetic = "integers"'):
        AnalogKind(**AGREED, numbers=4, norm=1.0, watts=1.0, workers=MOST_WORKERS + 1)


@pytest.mark.parametrize("rounds", [0, 2])
def test_without_noise_the_air_gives_the_sums_of_a_simulation(rounds: int, tmp_path: Path) -> None:
    """The simulation's own clean sums, which the deployment has no part in; noise is too small to count."""
    quiet = ("mixing.power=fixed", "mixing.power_scale_watts=1e-9", "radio.noise_dbm=-300")
    public = ("workers.centre=public", f"learner.rounds={rounds}")
    scenario = planned_for(Scenario.preset("private-table").with_overrides(*public, *quiet), 20)
    dataset = data_of(scenario)
    population = deploy(scenario.workers, dataset, Streams(scenario.seed))
    mixtures = simulate(scenario, dataset=dataset, population=population)
    keys = {each: bytes([each]) * 32 for each in range(22)}
    public_keys = {str(each): verifying_key(keys[each]) for each in range(20)}
    made = make_contract(scenario, dataset, public_keys, verifying_key(keys[20]))
    contract = replace(made, air_key=verifying_key(keys[21]).hex())
    told = iter(each.told for each in mixtures.rounds)
    server = Server(contract, keys[20], Journal(tmp_path / "journal", contract.run), lambda _: next(told))
    sent = [replace(scenario, workers=replace(scenario.workers, sends=each.sends)) for each in contract.kinds]
    payloads = [make_sender(each, dataset, torch.device("cpu"), holdings=population.holdings) for each in sent]
    ledger = new_ledger(contract, tmp_path)
    devices = {
        each: Device(each, contract, keys[each], vector_of(payloads, row), ledger)
        for each, row in enumerate(population.sample_index)
    }
    carry(server, devices, EmulatedAir(contract, keys[21], Adder()))
    sums = [each.mean for each in server.sums]
    assert len(sums) == scenario.slots_on_air
    slots = sums[: scenario.radio.slots]
    for found, inputs, labels in zip(slots, mixtures.inputs.numpy(), mixtures.labels.numpy(), strict=True):
        clean = np.concatenate([inputs, scenario.workers.label_weight * labels])
        assert found == pytest.approx(clean, abs=2e-4)
    for found, round_ in zip(sums[scenario.radio.slots :], mixtures.rounds, strict=True):
        payloads[1].broadcast(round_.told)
        assert found == pytest.approx(round_.gradient.mT.flatten().numpy() * payloads[1].unit, abs=2e-4)
