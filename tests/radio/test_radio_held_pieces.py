"""The fast path against symbol by symbol in blocks as long as those of presets, with the same draws: within 5 %."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from symbol_by_symbol import receive_symbol_by_symbol, with_pilot_symbols

from airmixml import Scenario
from airmixml.data import DataSet
from airmixml.impairments.frame import frame_of
from airmixml.impairments.gains import SeatDraws, both, draw_gains
from airmixml.radio.air import Reception, air_of
from airmixml.radio.draws import AirSetting, SlotTensors, draw_slots
from airmixml.radio.transmission import make_sender

WORKERS, SCHEDULED, SLOTS, INPUTS, CLASSES = 48, 8, 24, 700, 10
# Blocks of 0.5 ms, 397 symbols: 368 with data, or 344 where workers are off time; slots have two.
BLOCKS = ("air.resync_seconds=5e-4", "air.guard_symbols=28")
FADING = ("radio.fading=rayleigh", "air.truncation_db=-10")
OFDM = ("air.waveform=ofdm", "air.subcarriers=32", "air.cluster_subcarriers=4", "air.cyclic_prefix=0.1")
AIRS = {
    "phase": ("air.phase_error_radians=0.3",),
    "frequency": ("air.frequency_offset_hz=200",),
    "frequency, much": ("air.frequency_offset_hz=500",),
    "phase noise": ("air.phase_noise_hz=100",),
    "amplitude": ("air.amplitude_error_db=2",),
    "absent": ("air.absent=0.2",),
    "late": ("air.late=0.3",),
    "estimation": ("air.estimation_nmse_db=-13",),
    "estimation, fading": ("air.estimation_nmse_db=-13", *FADING),
    "estimation from pilots": ("air.estimation_pilots=8", "air.estimation_power_dbm=-60"),
    "reciprocity": ("air.reciprocity_nmse_db=-15",),
    "speed": ("air.speed_metres_per_second=30", "air.coherence_share=1"),
    "speed, fading": ("air.speed_metres_per_second=10", "air.coherence_share=1", *FADING),
    "power steps": ("air.power_step_db=3",),
    "timing": ("air.timing_offset_symbols=0.31",),
    "transmitters": ("air.dac_bits=5", "air.peak_power_dbm=-6"),
    "receiver": ("air.adc_bits=8", "air.phase_error_radians=0.5"),
    "ofdm": (*OFDM, "air.frequency_offset_hz=100", "air.phase_error_radians=0.2"),
    "ofdm, timing": (*OFDM, "air.timing_offset_symbols=0.4"),
    "all": (
        *("air.phase_error_radians=0.2", "air.frequency_offset_hz=200", "air.phase_noise_hz=20", "air.absent=0.1"),
        *("air.amplitude_error_db=1", "air.late=0.1", "air.timing_offset_symbols=0.3", "air.estimation_nmse_db=-15"),
        *("air.reciprocity_nmse_db=-20", "air.power_step_db=1", "radio.fading=rician", "radio.rician_k=10"),
        *("air.truncation_db=-10", "air.speed_metres_per_second=5", "air.coherence_share=1"),
    ),
    "lab": (
        *("air.phase_error_radians=0.05", "air.phase_noise_hz=0.01", "air.resync_seconds=0.05"),
        *("air.guard_symbols=8", "air.timing_offset_symbols=0.04", "air.estimation_nmse_db=-30"),
        *("air.amplitude_error_db=0.25", "air.power_step_db=0.5", "air.dac_bits=16", "air.adc_bits=14"),
    ),
    "line of sight": (
        *("air.carrier_hz=3.5e9", "air.phase_error_radians=0.1", "air.frequency_offset_hz=200", "air.phase_noise_hz=1"),
        *("air.timing_offset_symbols=0.31", "air.estimation_nmse_db=-20", "air.amplitude_error_db=0.5"),
        *("air.power_step_db=1", "air.speed_metres_per_second=1", "air.absent=0.05", "air.dac_bits=12"),
        "air.adc_bits=12",
    ),
    "renewed fading": (
        *("radio.fading=rayleigh", "air.truncation_db=-3", "air.fading_renewal=coherence"),
        "air.speed_metres_per_second=30",
    ),
    "leakage": ("air.carrier_leakage_db=-20", "air.phase_error_radians=0.2"),
    "amplifier": ("air.amplifier_saturation_dbm=-6", "air.amplifier_turn_degrees=40", "air.phase_error_radians=0.3"),
    # Noise and interference are compared elsewhere; what the lowest power silences is not on the air.
    "campus": ("air.preset=campus", "air.min_power_dbm=-inf", "radio.noise_dbm=-250", "air.interference_dbm=-inf"),
    "low cost": (
        *("air.phase_error_radians=0.3", "air.frequency_offset_hz=500", "air.phase_noise_hz=50"),
        *("air.resync_seconds=2.5e-4", "air.guard_symbols=16", "air.timing_offset_symbols=0.4"),
        *("air.estimation_nmse_db=-13", "air.reciprocity_nmse_db=-15", "air.amplitude_error_db=2", "air.late=0.02"),
        *("air.power_step_db=4", "air.speed_metres_per_second=0.5", "air.absent=0.1", "air.dac_bits=12"),
        "air.adc_bits=10",
    ),
}


@dataclass(frozen=True)
class Given:
    """Gains that were drawn elsewhere: in every piece, and then at every pilot; slots x seats x all."""

    draws: SeatDraws
    all: torch.Tensor

    @property
    def parts(self) -> list[slice]:
        return [slice(0, self.draws.scheduled)]

    @property
    def batches(self) -> list[list[slice]]:
        return [self.parts]

    def planes(self, _: slice) -> torch.Tensor:
        return both(self.all)

    def of_pilots(self, _: slice) -> torch.Tensor:
        return self.all[:, :, self.draws.frame.pieces :]


def setting_of(*changes: str, features: int = INPUTS, classes: int = CLASSES) -> AirSetting:
    sizes = (f"workers.count={WORKERS}", f"radio.scheduled={SCHEDULED}", f"radio.slots={SLOTS}", "seed=3")
    power = ("mixing.policy=equalmix", "mixing.power=fixed", "mixing.power_scale_watts=1e-10", "air.pilot_share=1")
    quiet = ("radio.noise_dbm=-250", "workers.label_weight=0.1")
    scenario = Scenario().with_overrides(*sizes, *power, *quiet, *BLOCKS, *changes)
    return AirSetting.of(scenario, features, classes, np.geomspace(10.0, 30.0, WORKERS))


def data(features: int = INPUTS, classes: int = CLASSES) -> DataSet:
    """Samples with inputs between 0 and 1, of norm below 1."""
    inputs = np.random.default_rng(5).random((WORKERS, features), dtype=np.float32) / np.float32(np.sqrt(features))
    labels = np.arange(WORKERS) % classes
    return DataSet(
        name="small",
        train_inputs=inputs,
        train_labels=labels,
        test_inputs=inputs,
        test_labels=labels,
        class_names=tuple("abcdefghij"[:classes]),
        image_shape=None,
        clipped_values=0,
    )


def held(setting: AirSetting, drawn: SlotTensors, dataset: DataSet) -> Reception:
    """Receive by the fast path, with gains at its times that are drawn together with those of all symbols."""
    scenario, gains = setting.scenario, drawn.gains
    assert gains is not None
    frame, fine = (frame_of(scenario.air, setting.signal.symbols, piece_symbols=piece) for piece in (0, 1))
    joint, _, (_, beside) = with_pilot_symbols(scenario.air, fine, frame.with_pilots)
    every = draw_gains(scenario, replace(gains.draws, frame=joint)).to(torch.complex128).expand(-1, -1, joint.pieces)
    here = torch.from_numpy(beside[np.array(frame.pieces_then_pilots)])
    given = replace(drawn, gains=Given(gains.draws, every[:, :, here]))  # type: ignore[arg-type]
    sender = make_sender(scenario, dataset, torch.device("cpu"))
    arrival = air_of(setting.scenario).arrive(setting, sender, drawn.scheduled_workers, given, range(SLOTS))
    none = torch.zeros((SLOTS, setting.signal.symbols), dtype=torch.float64)
    return setting.noise.receive(setting, arrival, given, none, None)


def compare(setting: AirSetting, dataset: DataSet, every: np.ndarray) -> None:
    """Compare errors on inputs and what the server measures; ``every`` is what all workers send, workers x symbols."""
    drawn, inputs = draw_slots(setting, range(SLOTS)), setting.signal.input_symbols
    fast, vectors = held(setting, drawn, dataset), every[drawn.scheduled_workers.numpy()]
    frame = frame_of(setting.scenario.air, setting.signal.symbols)
    slow = receive_symbol_by_symbol(setting, vectors, drawn, np.random.default_rng(1), frame.with_pilots)[:, :inputs]
    ideal = vectors.mean(axis=1)[:, :inputs]
    errors = [((each - ideal) ** 2).mean() for each in (fast.received[:, :inputs].double().numpy(), slow.real)]
    assert errors[0] == pytest.approx(errors[1], rel=0.05)
    across = (slow.imag**2).mean()
    assert fast.noise_variance is not None
    assert float(fast.noise_variance.mean()) == pytest.approx(across, rel=0.05, abs=1e-3 * errors[1])


@pytest.mark.parametrize("air", AIRS)
@pytest.mark.long
def test_both_paths_have_the_same_errors(air: str) -> None:
    dataset = data()
    labels = 0.1 * np.eye(CLASSES)[dataset.train_labels]
    compare(setting_of(*AIRS[air]), dataset, np.concatenate([dataset.train_inputs, labels], axis=1))


@pytest.mark.parametrize("air", ["line of sight", "low cost"])
@pytest.mark.long
def test_moments_have_the_same_errors(air: str) -> None:
    features, classes = 48, 3
    dataset = data(features, classes)
    kind = ("workers.sends=moments", "workers.encoder=clip", "workers.clip_norm=1", "learner.model=ridge")
    setting = setting_of(*AIRS[air], *kind, "privacy.sensitivity=encoder", features=features, classes=classes)
    inputs, (rows, columns) = dataset.train_inputs.astype(float), np.triu_indices(features)
    products = inputs[:, rows] * inputs[:, columns] * np.where(rows == columns, 1.0, np.sqrt(2.0))
    with_labels = 0.1 * inputs[:, :, None] * np.eye(classes)[dataset.train_labels][:, None, :]
    compare(setting, dataset, np.concatenate([products, with_labels.reshape(WORKERS, -1)], axis=1))
