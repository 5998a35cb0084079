"""GNU Radio in the middle: sums of 64 workers, exact without noise, slot after slot."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from airmixml import Scenario
from airmixml.deploy.air import Adder
from airmixml.deploy.compiling import planned_for
from airmixml.deploy.endpoint import DeployError
from airmixml.deploy.gnuradio_air import SYSTEM_PYTHON, GnuRadio
from airmixml.deploy.lab import Lab, try_out
from airmixml.errors import ProtocolError
from airmixml.streams import Streams
from airmixml.workers import deploy, load_dataset


def has_gnu_radio() -> bool:
    found = SYSTEM_PYTHON.exists() and subprocess.run(
        [SYSTEM_PYTHON, "-c", "from gnuradio import channels, zeromq"], check=False, capture_output=True
    )
    return bool(found) and found.returncode == 0


pytestmark = [
    pytest.mark.deploy,
    pytest.mark.skipif(not has_gnu_radio(), reason="GNU Radio is not installed: apt-get install gnuradio"),
]


def gnu_radio(inputs: int, noise_watts: float) -> GnuRadio:
    return GnuRadio(inputs, noise_watts=noise_watts)


def on_a_grid(rng: np.random.Generator, workers: int, samples: int) -> np.ndarray:
    both = rng.integers(-(2**16), 2**16, (2, workers, samples))
    return (both[0] + 1j * both[1]).astype(np.complex64)


@pytest.fixture(scope="module")
def runtime() -> Iterator[GnuRadio]:
    made = GnuRadio(64)
    yield made
    made.close()


@pytest.mark.parametrize("samples", [1, 100, 40_000, 524_800])
def test_the_sum_of_64_workers_is_exact(runtime: GnuRadio, samples: int) -> None:
    frames = on_a_grid(np.random.default_rng(samples), 64, samples)
    for absent in ((), (3, 63)):
        runtime.begin(samples, 64)
        present = [seat for seat in range(64) if seat not in absent]
        for seat in present:
            runtime.add(seat, frames[seat])
        assert np.array_equal(runtime.finish(), frames[present].astype(np.complex128).sum(axis=0))


def test_a_slot_that_was_given_up_leaves_nothing_in_the_next(runtime: GnuRadio) -> None:
    frames = on_a_grid(np.random.default_rng(5), 2, 500)
    runtime.begin(500, 64)
    runtime.add(0, frames[0])
    runtime.begin(500, 64)
    runtime.add(1, frames[1])
    assert np.array_equal(runtime.finish(), frames[1])


def test_more_workers_than_inputs_are_refused(runtime: GnuRadio) -> None:
    with pytest.raises(ProtocolError, match="slot of 65 workers: this air has 64 inputs"):
        runtime.begin(10, 65)


def test_noise_has_the_stated_power_and_paths_and_offset_are_those_of_the_channel() -> None:
    runtime = GnuRadio(1, noise_watts=4e-6)
    try:
        runtime.begin(200_000, 1)
        noise = runtime.finish()
    finally:
        runtime.close()
    assert np.var(noise) == pytest.approx(4e-6, rel=0.1)
    turning = GnuRadio(1, frequency_offset=0.001, taps=(0.5, 0.0, 0.25j))
    try:
        turning.begin(1000, 1)
        turning.add(0, np.ones(1000, dtype=np.complex64))
        found = turning.finish()
    finally:
        turning.close()
    turns = np.unwrap(np.angle(found[10:-10]))
    assert np.diff(turns) == pytest.approx(np.full(len(turns) - 1, 2 * np.pi * 0.001), abs=1e-4)
    assert np.abs(found[10:-10]) == pytest.approx(np.full(980, abs(0.5 + 0.25j)), rel=0.02)


def test_a_python_without_gnu_radio_gives_one_line(tmp_path: Path) -> None:
    fake = tmp_path / "python3"
    fake.write_text("#!/bin/sh\necho \"ModuleNotFoundError: No module named 'gnuradio'\" >&2\nexit 1\n")
    fake.chmod(0o755)
    with pytest.raises(DeployError, match=r"GNU Radio does not start: .*gnuradio.*; apt-get install gnuradio"):
        GnuRadio(2, python=fake)
    with pytest.raises(DeployError, match="there is no such file"):
        GnuRadio(2, python=tmp_path / "nothing")


def test_a_flowgraph_that_dies_is_noticed() -> None:
    runtime = GnuRadio(1)
    try:
        runtime._child.kill()
        runtime._child.wait()  # its connection is gone sooner or later than the frame is sent
        runtime.begin(10, 1)
        with pytest.raises(DeployError, match="gives no more samples"):
            runtime.finish()
    finally:
        runtime.close()


@pytest.mark.long
def test_64_workers_train_a_model_through_gnu_radio() -> None:
    """Frames of public data on a nearly silent air: the model is as good as a simulation's."""
    scenario = Scenario.preset("private-table").with_overrides(
        "workers.centre=public",
        "learner.rounds=1",
        "radio.noise_dbm=-200",
        "mixing.power=fixed",
        "mixing.power_scale_watts=1e-9",
    )
    trial = try_out(planned_for(scenario, 64, public=True), make_runtime=gnu_radio)
    found, simulated = (each.history.final_accuracy for each in (trial.trained, trial.simulated))
    assert found > 0.85
    assert found == pytest.approx(simulated, abs=0.08)


def test_frames_of_workers_give_the_mean_that_the_adder_gives() -> None:
    scenario = Scenario.preset("private-table").with_overrides(
        "workers.centre=public",
        "radio.noise_dbm=-300",
        "mixing.power=fixed",
        "mixing.power_scale_watts=1e-9",
        "learner.rounds=0",
    )
    scenario = planned_for(scenario, 64, public=True)
    dataset = load_dataset(scenario.workers, Streams(0))
    population = deploy(scenario.workers, dataset, Streams(0))
    means = []
    for make_runtime in (Adder, gnu_radio):
        means.append(Lab(scenario, dataset, population).run(make_runtime=make_runtime)[0].mean)
    assert means[0] == pytest.approx(means[1], abs=1e-7)
    assert np.abs(means[0]).max() > 0.1
