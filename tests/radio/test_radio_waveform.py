"""The fast path against an independent simulation of sampled waveforms: 100 workers, 400 symbols."""

import json
from dataclasses import replace

import numpy as np
import pytest
from waveform import Crowd, Hardware

from airmixml import Scenario, Speed
from airmixml.data import DataSet
from airmixml.radio import simulate_blocks
from airmixml.scenario.air import STAYING
from airmixml.workers import Population

WORKERS, INPUTS, CLASSES = 100, 390, 10
BETA_WATTS, MAX_DBM, UNIT_DB = 1e-10, 23.0, -32.0
# Silence around data is what the package takes for these offsets; a resynchronisation leaves 344 symbols of data.
SHORT = Hardware(resync_seconds=5e-4, guard_symbols=28, silence_symbols=12)
LINE_OF_SIGHT = replace(
    SHORT,
    phase_error_radians=0.1,
    frequency_offset_hz=200.0,
    phase_noise_hz=1.0,
    timing_offset_symbols=0.31,
    estimation_nmse_db=-20.0,
    amplitude_error_db=0.5,
    power_step_db=1.0,
    speed_metres_per_second=1.0,
    carrier_hz=3.5e9,
    absent=0.05,
    dac_bits=12,
    adc_bits=12,
)
LOW_COST = Hardware(
    phase_error_radians=0.3,
    frequency_offset_hz=500.0,
    phase_noise_hz=50.0,
    resync_seconds=2.5e-4,
    guard_symbols=16,
    silence_symbols=12,
    timing_offset_symbols=0.4,
    estimation_nmse_db=-13.0,
    reciprocity_nmse_db=-15.0,
    amplitude_error_db=2.0,
    power_step_db=4.0,
    speed_metres_per_second=0.5,
    absent=0.1,
    late=0.02,
    dac_bits=12,
    adc_bits=10,
)
CASES = {
    "no drift": replace(SHORT, phase_error_radians=0.3, amplitude_error_db=1.0, silence_symbols=0),
    "offset": replace(SHORT, frequency_offset_hz=200.0, silence_symbols=0),
    "phase noise": replace(SHORT, phase_noise_hz=100.0, silence_symbols=0),
    "timing": replace(SHORT, timing_offset_symbols=0.31),
    "line of sight": LINE_OF_SIGHT,
    "low cost": LOW_COST,
}


def data() -> tuple[DataSet, Population]:
    """Samples of 390 inputs between 0 and 1, of norm below 1, and faint labels, of workers 10 to 300 m away."""
    rng = np.random.default_rng(5)
    inputs = rng.random((WORKERS, INPUTS), dtype=np.float32) / np.float32(np.sqrt(INPUTS))
    labels = np.arange(WORKERS) % CLASSES
    dataset = DataSet(
        name="small",
        train_inputs=inputs,
        train_labels=labels,
        test_inputs=inputs,
        test_labels=labels,
        class_names=tuple("abcdefghij"),
        image_shape=None,
        clipped_values=0,
    )
    return dataset, Population(distance_metres=np.geomspace(10.0, 300.0, WORKERS), sample_index=np.arange(WORKERS))


def ours(has: Hardware, slots: int) -> tuple[float, float]:
    """Return the mean square of errors along the real axis and of what the server measures a quarter turn off."""
    keys = [
        f"air.{name}={value}" for name, value in vars(has).items() if name != "silence_symbols" and np.isfinite(value)
    ]
    # The other simulation has forty devices for each worker, of which one sends in a slot.
    keys.append(f"air.renewed_errors={json.dumps(list(STAYING))}")
    quiet = ("radio.noise_dbm=-250", "air.pilot_share=1", "mixing.policy=equalmix", "mixing.power=fixed")
    scenario = Scenario().with_overrides(
        *(f"workers.count={WORKERS}", f"radio.scheduled={WORKERS}", f"radio.slots={slots}", "workers.label_weight=0.1"),
        *(f"mixing.power_scale_watts={BETA_WATTS}", *quiet, *keys),
    )
    dataset, population = data()
    target = dataset.train_inputs.astype(float).mean(axis=0)
    along, across = 0.0, 0.0
    for block in simulate_blocks(scenario, dataset, population, speed=Speed(threads=1)):
        along += float(((block.inputs.double().numpy() - target) ** 2).mean(axis=1).sum())
        across += float(block.noise_variance.sum())
    return along / slots, across / slots


def theirs(has: Hardware, copies: int, slots: int) -> tuple[float, float]:
    """Return the same of an independent simulation, in which each worker has so many copies of which one sends."""
    dataset, population = data()
    vectors = np.concatenate([dataset.train_inputs, 0.1 * np.eye(CLASSES)[dataset.train_labels]], axis=1).astype(float)
    sends_dbm = 10.0 * np.log10(1e3 * BETA_WATTS / WORKERS**2) - UNIT_DB + 20.0 * np.log10(population.distance_metres)
    rng = np.random.default_rng(9)
    crowd = Crowd(has, np.tile(vectors, (copies, 1)), np.tile(MAX_DBM - sends_dbm, copies), rng)
    who = np.arange(WORKERS) + WORKERS * rng.integers(0, copies, (slots, WORKERS))
    received = crowd.receive(who)[:, :INPUTS]
    off = received.real - vectors.mean(axis=0)[:INPUTS]
    return float((off**2).mean()), float((received.imag**2).mean())


# Mean squares of slots differ by as much as their mean where all symbols of a block share a drift of the mean gain:
# 6,000 slots of 4,000 workers against 12,000 slots then leave three deviations of 8 %.
DRIFTING = ("offset", "phase noise", "line of sight", "low cost")


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_errors_are_those_of_sampled_waveforms(case: str) -> None:
    within = 0.08 if case in DRIFTING else 0.05
    along, across = theirs(CASES[case], 40, 6000)
    our_along, our_across = ours(CASES[case], 12_000)
    assert our_along == pytest.approx(along, rel=within)
    # Without noise, workers that are off time alone send nothing a quarter turn off.
    assert our_across == pytest.approx(across, rel=within, abs=1e-15)


def test_the_waveforms_are_sound() -> None:
    """On time and in phase the mean of vectors arrives; a pulse is orthogonal to itself a symbol later."""
    rng = np.random.default_rng(1)
    vectors = rng.random((7, 50))
    crowd = Crowd(Hardware(resync_seconds=4e-5, guard_symbols=3), vectors, np.zeros(7), rng)
    assert len(crowd.blocks) == 2
    np.testing.assert_allclose(crowd.receive(np.arange(7)[None])[0], vectors.mean(axis=0), atol=1e-12)
    # One hertz a worker turns the last symbol since the pilot by 2 pi f t.
    late = Crowd(Hardware(frequency_offset_hz=300.0), np.ones((1, 400)), np.zeros(1), np.random.default_rng(2))
    turn = np.angle(late.receive(np.zeros((1, 1), dtype=int))[0])
    np.testing.assert_allclose(np.diff(turn), turn[-1] / 400, rtol=1e-2)
