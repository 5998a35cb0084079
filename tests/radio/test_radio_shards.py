"""Shards of a run: what they add up to is what one process has, to the last bit; some are kept, some are refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from airmixml import Scenario, ScenarioError, Speed
from airmixml.data import DataSet
from airmixml.engines import Engine
from airmixml.radio import shards as module
from airmixml.radio.draws import AirSetting, shards_of
from airmixml.radio.tally import Tally
from airmixml.radio.transmission import Mixtures, simulate_family
from airmixml.scenario import RunContext
from airmixml.storage.files import ResultStore
from airmixml.streams import Secret
from airmixml.workers import Population

BASE = Scenario().with_overrides("workers.count=12", "radio.scheduled=3", "radio.slots=4200")  # 2048, 2048, 104
AIRS = {
    "fading": ("mixing.alpha=1", "radio.fading=rayleigh", "mixing.power=max"),
    "coins": ("radio.schedule=poisson", "mixing.policy=equalmix", "mixing.power=fixed"),
    "limited": ("radio.max_participations=1100", "mixing.power=dp", "privacy.epsilon=1e4"),
}
Simulate = Callable[..., list[Mixtures]]


@pytest.fixture
def simulated(small_dataset: DataSet, small_population: Population) -> Simulate:
    def call(*scenarios: Scenario, **options: Any) -> list[Mixtures]:
        context = RunContext(speed=Speed(threads=1), **options)
        return simulate_family(scenarios, dataset=small_dataset, population=small_population, context=context)

    return call


def assert_equal_tallies(one: Tally, other: Tally) -> None:
    """Statements follow from the design, and take seconds."""
    assert one.design == other.design
    assert (one.slots, one.limited_slots) == (other.slots, other.limited_slots)
    assert (one.energy_joules, one.largest_power_watts) == (other.energy_joules, other.largest_power_watts)
    for name in ("power_dbm", "snr_db", "input_snr_db", "label_snr_db"):
        if hasattr(one, name):
            np.testing.assert_array_equal(getattr(one, name).counts, getattr(other, name).counts)
    np.testing.assert_array_equal(one.ledger.received_watts, other.ledger.received_watts)
    np.testing.assert_array_equal(one.ledger.participations, other.ledger.participations)
    np.testing.assert_array_equal(one.worker_energy_joules, other.worker_energy_joules)


def test_where_shards_begin() -> None:
    def shards(*changes: str, inputs: int = 784) -> list[range]:
        scenario = Scenario.preset("paper-mnist").with_overrides(*changes)
        return shards_of(AirSetting.of(scenario, inputs, 10, np.full(scenario.workers.count, 9.0)))

    paper = shards()
    assert len(paper) == 49  # 100,000 / 2,048
    assert paper[:2] == [range(2048), range(2048, 4096)]
    assert paper[-2:] == [range(96_256, 98_304), range(98_304, 100_000)]
    # 2^22 numbers of 794 symbols and 16 x 300 seats are 749 slots; 512 is the power of 2 below.
    assert shards("radio.scheduled=300", "mixing.power=max")[:2] == [range(512), range(512, 1024)]
    assert shards("mixing.power=max", inputs=10**7)[1] == range(128, 256)


@pytest.mark.parametrize("air", AIRS)
def test_shards_add_up_to_the_run(air: str, simulated: Simulate, backwards: Engine) -> None:
    scenario = BASE.with_overrides(*AIRS[air])
    (here,), (there,) = simulated(scenario), simulated(scenario, engine=backwards)
    assert torch.equal(here.inputs, there.inputs)
    assert torch.equal(here.labels, there.labels)
    assert_equal_tallies(here.report, there.report)
    assert (here.report.noise_variance, here.report.variance_share) == (
        there.report.noise_variance,
        there.report.variance_share,
    )
    assert torch.equal(here.examples.inputs, there.examples.inputs)
    np.testing.assert_array_equal(here.examples.draws.ratios, there.examples.draws.ratios)


def test_a_family_in_shards(simulated: Simulate, backwards: Engine) -> None:
    scenarios = [BASE.with_overrides("mixing.power=fixed", f"mixing.power_scale_watts={watts}") for watts in (1e-9, 1)]
    for here, there in zip(simulated(*scenarios), simulated(*scenarios, engine=backwards), strict=True):
        assert torch.equal(here.inputs, there.inputs)
        assert_equal_tallies(here.report, there.report)


class Interrupted(Exception):
    pass


@pytest.fixture
def simulated_shards(monkeypatch: pytest.MonkeyPatch) -> list[range]:
    """Chapters of the shards that are simulated from now on."""
    seen: list[range] = []
    real = module._simulate_shard

    def counted(*arguments: Any) -> Any:
        seen.append(arguments[-1])
        return real(*arguments)

    monkeypatch.setattr(module, "_simulate_shard", counted)
    return seen


def stop_after(slots: int) -> Callable[[str, int, int], None]:
    def progress(stage: str, done: int, _total: int) -> None:
        if stage == "over the air" and done >= slots:
            raise Interrupted

    return progress


def test_an_interrupted_run_makes_only_what_is_missing(
    small_dataset: DataSet,
    small_population: Population,
    backwards: Engine,
    simulated_shards: list[range],
    tmp_path: Path,
) -> None:
    context = RunContext(speed=Speed(threads=1), engine=backwards)
    held = {"dataset": small_dataset, "population": small_population}

    def simulate(made_with: str = "here", context: RunContext = context) -> Mixtures:
        simulated_shards.clear()
        (mixtures,) = simulate_family([BASE], **held, context=context, store=ResultStore(tmp_path, made_with))
        return mixtures

    with pytest.raises(Interrupted):
        simulate(context=replace(context, progress=stop_after(100)))
    finished = list(simulated_shards)
    assert finished[0] == range(4096, 4200)  # the last one came first
    assert len(list(tmp_path.glob("*.npz"))) == len(finished)
    whole = simulate()
    assert finished + simulated_shards == [range(4096, 4200), range(2048, 4096), range(2048)]
    assert torch.equal(simulate().inputs, whole.inputs)
    assert simulated_shards == []
    second, third = (tmp_path / f"slots-{slots}.npz" for slots in ("2048-4096", "4096-4200"))
    good = second.read_bytes()
    for bad in (b"", good[:5000] + bytes([good[5000] ^ 1]) + good[5001:], third.read_bytes()):
        second.write_bytes(bad)
        assert torch.equal(simulate().inputs, whole.inputs)
        assert simulated_shards == [range(2048, 4096)]
    assert_equal_tallies(simulate("elsewhere").report, whole.report)
    assert len(simulated_shards) == 3


def test_what_is_never_sent(simulated: Simulate, backwards: Engine) -> None:
    with pytest.raises(ScenarioError, match="a secret is never sent to another process; leave --engine"):
        simulated(BASE, engine=backwards, secret=Secret())
    rounded = BASE.with_overrides(
        "workers.sends=moments",
        "workers.encoder=clip",
        "workers.bits=4",
        "learner.model=ridge",
        "privacy.sensitivity=encoder",
    )
    with pytest.raises(ScenarioError, match=r"workers\.bits rounds the products of one worker after the other"):
        simulated(rounded, engine=backwards)


def test_noise_beyond_float32_is_refused_in_a_shard(
    small_dataset: DataSet, small_population: Population, backwards: Engine
) -> None:
    drowned = BASE.with_overrides(
        "radio.noise_dbm=100",
        "radio.path_loss_exponent=10",
        "workers.side_metres=1e6",
        "mixing.power=fixed",
        "mixing.power_scale_watts=1e-60",
        "radio.max_power_dbm=-300",
    )
    far = replace(small_population, distance_metres=np.full(12, 1e6))
    with pytest.raises(ScenarioError, match="drowns the signal"):
        simulate_family([drowned], dataset=small_dataset, population=far, context=RunContext(engine=backwards))
