"""The fast path on imperfect airs against the symbol-by-symbol complex baseband reference."""

import json

import numpy as np
import pytest
import torch
from scipy import stats
from symbol_by_symbol import receive_symbol_by_symbol

from airmixml import Scenario, Speed
from airmixml.data import DataSet
from airmixml.radio import simulate_blocks
from airmixml.radio.draws import AirSetting, draw_slots
from airmixml.scenario.air import STAYING
from airmixml.workers import Population

SLOTS, SCHEDULED, WORKERS = 600, 4, 24
# On each the frame has blocks and pieces although a slot has few symbols: times are those of 13 or 38 symbols.
AIRS = {
    "phase": ("air.phase_error_radians=0.6",),
    "frequency": ("air.frequency_offset_hz=4000",),
    "resync": ("air.phase_error_radians=0.4", "air.frequency_offset_hz=8000", "air.resync_seconds=1e-5"),
    "phase noise": ("air.phase_noise_hz=3000",),
    "amplitude": ("air.amplitude_error_db=3",),
    "absent": ("air.absent=0.3",),
    "estimation": ("air.estimation_nmse_db=-10", "air.resync_seconds=1e-5"),
    "reciprocity": ("air.reciprocity_nmse_db=-8",),
    "fading, truncated": ("radio.fading=rayleigh", "air.truncation_db=-6", "air.estimation_nmse_db=-15"),
    "speed": ("radio.fading=rayleigh", "air.speed_metres_per_second=2000", "air.coherence_share=0.9"),
    "power steps": ("air.power_step_db=3", "air.phase_error_radians=0.2"),
    "late": ("air.late=0.4",),
    "noise floor": ("air.noise_uncertainty_db=3",),
    "timing": ("air.timing_offset_symbols=0.4",),
    "timing, blocks": ("air.timing_offset_symbols=0.3", "air.roll_off=0.9", "air.resync_seconds=2e-5"),
    "transmitters": ("air.dac_bits=4", "air.peak_power_dbm=-6", "air.phase_error_radians=0.3"),
    "receiver": ("air.adc_bits=7", "air.phase_error_radians=0.3"),
    "receiver, short range": ("air.adc_bits=8", "air.adc_range=1.5", "air.amplitude_error_db=1"),
    "antennas": ("air.antennas=3", "radio.fading=rayleigh", "air.truncation_db=-6", "air.phase_error_radians=0.3"),
    "fading, renewed": (
        *("radio.fading=rayleigh", "air.truncation_db=-3", "air.speed_metres_per_second=2000"),
        *("air.coherence_share=0.3", "air.fading_renewal=coherence", "air.antennas=3"),
    ),
    "interference": ("air.interference_dbm=-97",),
    "carrier": ("air.carrier_leakage_db=-6", "air.phase_error_radians=0.3", "air.resync_seconds=1e-5"),
    "amplifier": ("air.amplifier_saturation_dbm=-6", "air.amplifier_turn_degrees=40", "air.phase_error_radians=0.3"),
    "ofdm": ("air.waveform=ofdm", "air.subcarriers=8", "air.cluster_subcarriers=4", "air.phase_error_radians=0.4"),
    "ofdm, timing": (
        *("air.waveform=ofdm", "air.subcarriers=8", "air.cluster_subcarriers=2", "air.cyclic_prefix=0.2"),
        "air.timing_offset_symbols=0.4",
    ),
    "ofdm, echoes": (
        *("air.waveform=ofdm", "air.subcarriers=16", "air.cluster_subcarriers=2", "air.cyclic_prefix=0.3"),
        *("radio.fading=rayleigh", "air.delay_spread_seconds=6e-7", "air.truncation_db=-8"),
    ),
    "all": (
        *("air.phase_error_radians=0.3", "air.frequency_offset_hz=2000", "air.phase_noise_hz=1000"),
        *("air.resync_seconds=3e-5", "air.amplitude_error_db=1", "air.absent=0.1", "air.late=0.1"),
        *("air.timing_offset_symbols=0.3", "air.roll_off=0.8", "air.estimation_nmse_db=-15"),
        *("air.reciprocity_nmse_db=-20", "air.power_step_db=1", "radio.fading=rician", "radio.rician_k=10"),
        *("air.truncation_db=-10", "air.dac_bits=6", "air.peak_power_dbm=0", "air.adc_bits=9", "air.antennas=2"),
    ),
    "all, ofdm": (
        *("air.waveform=ofdm", "air.subcarriers=16", "air.cluster_subcarriers=2", "air.cyclic_prefix=0.4"),
        *("radio.fading=rayleigh", "air.delay_spread_seconds=4e-7", "air.truncation_db=-8", "air.absent=0.1"),
        *("air.phase_error_radians=0.3", "air.frequency_offset_hz=500", "air.timing_offset_symbols=0.3"),
        *("air.estimation_nmse_db=-20", "air.reciprocity_nmse_db=-20", "air.amplitude_error_db=1"),
    ),
}


KINDS = pytest.mark.parametrize(
    "moments", [pytest.param(False, id="samples"), pytest.param(True, id="moments", marks=pytest.mark.long)]
)


def data() -> tuple[DataSet, Population]:
    """Samples of ten inputs and three classes, of norm below 1, and workers that are near."""
    rng = np.random.default_rng(5)
    inputs = rng.random((WORKERS, 10), dtype=np.float32) / np.float32(np.sqrt(10.0))
    labels = np.arange(WORKERS) % 3
    dataset = DataSet(
        name="small",
        train_inputs=inputs,
        train_labels=labels,
        test_inputs=inputs,
        test_labels=labels,
        class_names=("a", "b", "c"),
        image_shape=None,
        clipped_values=0,
    )
    return dataset, Population(distance_metres=np.linspace(10.0, 30.0, WORKERS), sample_index=np.arange(WORKERS))


def scenario(*changes: str, moments: bool, seed: int) -> Scenario:
    kind = (
        (
            "workers.sends=moments",
            "workers.encoder=clip",
            "workers.clip_norm=1",
            "learner.model=ridge",
            "privacy.sensitivity=encoder",
        )
        if moments
        else ()
    )
    sizes = (f"workers.count={WORKERS}", f"radio.scheduled={SCHEDULED}", f"radio.slots={SLOTS}", f"seed={seed}")
    renewed = f"air.renewed_errors={json.dumps(list(STAYING))}"  # both paths draw far more seats than workers
    quiet = ("radio.noise_dbm=-100", "air.pilot_share=1", "mixing.power=fixed", "mixing.power_scale_watts=1e-10")
    return Scenario().with_overrides(*sizes, *kind, *quiet, renewed, *changes)


def vectors_of(dataset: DataSet, who: np.ndarray, *, moments: bool) -> np.ndarray:
    """What workers hold, by hand: (x, l), or the upper triangle of x x^T row by row, then x l^T."""
    inputs, labels = dataset.train_inputs.astype(float), np.eye(3)[dataset.train_labels]
    if not moments:
        return np.concatenate([inputs, labels], axis=1)[who]
    rows, columns = np.triu_indices(10)
    doubled = np.where(rows == columns, 1.0, np.sqrt(2.0))
    products = inputs[:, rows] * inputs[:, columns] * doubled
    return np.concatenate([products, (inputs[:, :, None] * labels[:, None, :]).reshape(len(inputs), -1)], axis=1)[who]


def planned(shares: np.ndarray, who: np.ndarray, *, moments: bool) -> np.ndarray:
    """The mixture that an ideal air would give of the workers that send; slots x symbols."""
    return np.einsum("ts,tsd->td", shares, vectors_of(data()[0], who, moments=moments))


def by_fast_path(asked: Scenario, *, moments: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return mixtures and planned ones, slots x symbols, and what the server measures as noise; slots."""
    dataset, population = data()
    blocks = list(simulate_blocks(asked, dataset, population, speed=Speed(threads=1)))
    weight = asked.workers.label_weight
    mixtures = [torch.cat([block.inputs, weight * block.labels], dim=1) for block in blocks]
    measured = [block.noise_variance for block in blocks]
    plans = [planned(block.ratios, block.draws.scheduled_workers, moments=moments) for block in blocks]
    return torch.cat(mixtures).numpy().astype(float), np.concatenate(plans), torch.cat(measured).numpy()


def by_reference(asked: Scenario, noise_seed: int, *, moments: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return complex mixtures and planned ones; slots x symbols."""
    dataset, population = data()
    setting = AirSetting.of(asked, dataset.input_dim, dataset.label_dim, population.distance_metres)
    drawn = draw_slots(setting, range(asked.radio.slots))
    vectors = vectors_of(dataset, drawn.scheduled_workers.numpy(), moments=moments)
    received = receive_symbol_by_symbol(setting, vectors, drawn, np.random.default_rng(noise_seed))
    return received, planned(drawn.ratios.numpy(), drawn.scheduled_workers.numpy(), moments=moments)


def agree(first: np.ndarray, second: np.ndarray, plan: np.ndarray) -> None:
    """Compare independent errors: means, variances, correlation between neighbouring symbols, whole distributions."""
    count = len(first)
    variances = first.var(axis=0), second.var(axis=0)
    error = np.sqrt((variances[0] + variances[1]) / count)
    means = first.mean(axis=0), second.mean(axis=0)
    # Phases held within 0.2 rad are right within 2 % of the mean.
    assert (np.abs(means[0] - means[1]) < 5.0 * error + 0.02 * plan.mean(axis=0)).all()
    spreads = [((each - each.mean(axis=0)) ** 2).std(axis=0) for each in (first, second)]
    spread = np.sqrt((spreads[0] ** 2 + spreads[1] ** 2) / count)
    assert np.abs((variances[0] - variances[1]) / spread).max() < 5.0
    neighbours = [((each - each.mean(axis=0))[:, 1:] * (each - each.mean(axis=0))[:, :-1]) for each in (first, second)]
    both = np.sqrt((neighbours[0].var(axis=0) + neighbours[1].var(axis=0)) / count)
    assert np.abs((neighbours[0].mean(axis=0) - neighbours[1].mean(axis=0)) / both).max() < 5.0
    for symbol in range(0, first.shape[1], 3):
        assert stats.ks_2samp(first[:, symbol], second[:, symbol]).pvalue > 1e-5


# How far the fast path may be off where both have the same draws: what pieces, subcarriers and pulses leave out.
HELD = {
    "fading, renewed": 0.2,
    "frequency": 0.1,
    "resync": 0.1,
    "late": 0.35,
    "ofdm, timing": 0.12,
    "all, ofdm": 0.12,
    "all": 0.25,
}
# Drawn for the pieces of a block, so that no two layouts share them, or noise itself.
PER_PIECE = ("phase noise", "speed", "interference")
# What equal draws do not compare closely: the rest is tested with them alone.
SPREAD = (*HELD, *PER_PIECE, "noise floor", "timing", "transmitters", "receiver", "amplifier")


@pytest.mark.parametrize("air", SPREAD)
@KINDS
def test_both_paths_have_the_same_distribution(air: str, moments: bool) -> None:
    fast, fast_plan, measured = by_fast_path(scenario(*AIRS[air], moments=moments, seed=1), moments=moments)
    # Another seed, so another schedule, other shares and impairments; the true noise floor is one draw for a run.
    seed = 1 if air == "noise floor" else 2
    received, plan = by_reference(scenario(*AIRS[air], moments=moments, seed=seed), 7, moments=moments)
    agree(fast - fast_plan, received.real - plan, plan)
    across = (received[:, : 55 if moments else 10].imag ** 2).mean(axis=1)
    assert np.median(measured) == pytest.approx(np.median(across), rel=0.35)


@pytest.mark.parametrize("air", [name for name in AIRS if name not in PER_PIECE])
@KINDS
def test_with_the_same_draws_and_no_noise_both_paths_are_equal(air: str, moments: bool) -> None:
    changes = [change for change in AIRS[air] if "phase_noise" not in change]
    asked = scenario(*changes, "radio.noise_dbm=-200", "radio.slots=60", moments=moments, seed=3)
    fast, _, _ = by_fast_path(asked, moments=moments)
    received = by_reference(asked, 7, moments=moments)[0].real
    assert np.sqrt(((fast - received) ** 2).mean() / (received**2).mean()) < HELD.get(air, 2e-3)


@pytest.mark.parametrize("wrong", [2 / 3, 3 / 2])
@pytest.mark.parametrize("key", ["air.phase_error_radians=0.6", "air.reciprocity_nmse_db=-6"])
def test_another_deviation_is_told_apart(key: str, wrong: float) -> None:
    name, _, value = key.partition("=")
    other = float(value) + 20.0 * np.log10(wrong) if name.endswith("db") else wrong * float(value)
    fast, fast_plan, _ = by_fast_path(scenario(f"{name}={other}", moments=False, seed=1), moments=False)
    received, plan = by_reference(scenario(key, moments=False, seed=2), 7, moments=False)
    with pytest.raises(AssertionError):
        agree(fast - fast_plan, received.real - plan, plan)
