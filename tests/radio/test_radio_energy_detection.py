"""Detection by energy: the fast path against workers one by one, the law of what is detected, frame and power."""

import math

import numpy as np
import pytest
import torch

from airmixml import Scenario, Speed, simulate
from airmixml.data import DataSet
from airmixml.impairments.frame import frame_of
from airmixml.radio import simulate_blocks
from airmixml.radio.draws import AirSetting, draw_noise, draw_slots
from airmixml.radio.energy_reception import receiver_variance, speckle_variance
from airmixml.radio.tally import Tally
from airmixml.radio.transmission import MixtureBlock
from airmixml.radio.transmitters import peak_to_average_db
from airmixml.workers import Population, Signal

NOISE_WATTS = 10**-14.4
SIGNED = ("workers.encoder=clip", "workers.centre=public", "workers.clip_norm=1", "workers.label_weight=0.5")
MOMENTS = ("workers.sends=moments", "learner.model=ridge")


@pytest.fixture
def signed_dataset() -> DataSet:
    """Six samples of three inputs of either sign within norm 1, and two classes."""
    inputs = np.array(
        [[0.6, -0.3, 0.2], [-0.5, 0.5, -0.5], [0.9, 0.1, 0], [-0.2, -0.4, 0.7], [0, 0, -1], [0.1, 0.2, 0.3]],
        dtype=np.float32,
    )
    labels = np.array([0, 1, 0, 1, 0, 1])
    return DataSet(
        name="signed",
        train_inputs=inputs,
        train_labels=labels,
        test_inputs=inputs,
        test_labels=labels,
        class_names=("a", "b"),
        image_shape=None,
        clipped_values=0,
    )


@pytest.fixture
def population() -> Population:
    """Twelve workers at known distances; worker i holds sample i mod 6."""
    return Population(distance_metres=np.linspace(10.0, 340.0, 12), sample_index=np.arange(12) % 6)


def scenario(*changes: str) -> Scenario:
    energy = ("air.detection=energy", "privacy.sensitivity=encoder", "mixing.power=max")
    return Scenario().with_overrides(
        "workers.count=12", "radio.scheduled=3", "radio.slots=100", *SIGNED, *energy, *changes
    )


def symbols_of(dataset: DataSet, *, moments: bool) -> np.ndarray:
    """Return v of every sample, product by product; samples x symbols."""
    rows = []
    for x, label in zip(dataset.train_inputs.astype(float), np.eye(2)[dataset.train_labels], strict=True):
        if not moments:
            rows.append([*x, *(0.5 * label)])
            continue
        products = [x[k] * x[m] * (1.0 if k == m else math.sqrt(2.0)) for k in range(3) for m in range(k, 3)]
        rows.append([*products, *(0.5 * x[k] * label[c] for k in range(3) for c in range(2))])
    return np.array(rows)


def one_block(found: Scenario, dataset: DataSet, population: Population) -> MixtureBlock:
    (block,) = simulate_blocks(found, dataset, population, speed=Speed(block_slots=found.radio.slots))
    return block


@pytest.mark.parametrize("moments", [False, True])
@pytest.mark.parametrize(
    "air",
    [
        (),
        ("air.amplitude_error_db=3", "air.absent=0.3"),
        ("air.resync_seconds=8e-6", "air.guard_symbols=1"),
        ("air.resync_seconds=8e-6", "air.frequency_offset_hz=1e4", "air.phase_noise_hz=1e3"),
    ],
)
def test_the_fast_path_is_what_every_worker_sends(
    signed_dataset: DataSet, population: Population, moments: bool, air: tuple[str, ...]
) -> None:
    """Each worker's amplitudes on both resources, turned and added up by hand, with the same noise."""
    found = scenario(*air, *(MOMENTS if moments else ()))
    block = one_block(found, signed_dataset, population)
    setting = AirSetting.of(found, 3, 2, population.distance_metres)
    drawn = draw_slots(setting, range(100))
    symbols = symbols_of(signed_dataset, moments=moments)[population.sample_index[drawn.scheduled_workers]]
    count, gains = symbols.shape[2], drawn.gains
    assert gains is not None
    (seats,) = gains.parts
    frame = frame_of(found.air, count)
    gain = gains.of(seats).expand(-1, -1, frame.pieces).numpy()[:, :, np.repeat(range(frame.pieces), frame.lengths)]
    amplitude = np.sqrt(drawn.power_scale_watts.numpy()[:, None] * drawn.ratios.numpy())[:, :, None] * gain
    noise = draw_noise(setting, range(100)).double().numpy().reshape(100, 4, count) * math.sqrt(NOISE_WATTS / 2)
    energies = []
    for resource, part in enumerate((np.maximum(symbols, 0.0), np.maximum(-symbols, 0.0))):
        arriving = (amplitude * np.sqrt(part)).sum(axis=1)
        arriving = arriving + noise[:, 2 * resource] + 1j * noise[:, 2 * resource + 1]
        energies.append(np.abs(arriving) ** 2 / drawn.power_scale_watts.numpy()[:, None])
    detected = energies[0] - energies[1]
    inputs = 6 if moments else 3
    assert block.inputs.numpy() == pytest.approx(detected[:, :inputs], rel=1e-4, abs=2e-6)
    assert block.labels.numpy() == pytest.approx(detected[:, inputs:] / 0.5, rel=1e-4, abs=2e-6)
    assert block.measured_noise is not None
    noise_square = NOISE_WATTS / drawn.power_scale_watts.numpy()
    measured = 2 * noise_square * (sum(energies)[:, :inputs].mean(axis=1) - noise_square)
    if moments:
        measured = sum((energy[:, :inputs] ** 2).mean(axis=1) for energy in energies) / 2
    assert block.measured_noise.numpy() == pytest.approx(measured, rel=1e-4, abs=0)


@pytest.mark.parametrize("watts", [1e-7, 3e-14])
def test_mean_and_variance_of_a_symbol_have_their_closed_form(
    signed_dataset: DataSet, population: Population, watts: float
) -> None:
    """All 12 workers in 20,000 slots: mean sum q v, variance (S+ + s^2)^2 + (S- + s^2)^2 - Q.

    An exponential energy's square has a coefficient of variation of sqrt(8), so the variance is known to 0.02 of itself
    and the mean to deviation / 141; both are allowed 5 times that. Two thirds and three halves of the deviation would
    be off by a factor of 2.25.
    """
    fixed = ("radio.scheduled=12", "mixing.policy=equalmix", "mixing.power=fixed", f"mixing.power_scale_watts={watts}")
    found = scenario(*fixed, "radio.slots=20000")
    block = one_block(found, signed_dataset, population)
    detected = np.hstack([block.inputs.numpy(), 0.5 * block.labels.numpy()]).astype(float)
    sent = symbols_of(signed_dataset, moments=False)[population.sample_index] / 12.0
    noise = NOISE_WATTS / watts
    plus, minus = np.maximum(sent, 0.0).sum(axis=0), np.maximum(-sent, 0.0).sum(axis=0)
    variance = (plus + noise) ** 2 + (minus + noise) ** 2 - (sent**2).sum(axis=0)
    mean_error = np.sqrt(variance / 20_000)
    assert np.abs(detected.mean(axis=0) - sent.sum(axis=0)) == pytest.approx(0.0, abs=float(5 * mean_error.max()))
    assert np.all(np.abs(detected.mean(axis=0) - sent.sum(axis=0)) < 5 * mean_error)
    ratio = detected.var(axis=0) / variance
    assert np.all(np.abs(ratio - 1.0) < 0.1)
    assert not np.any(np.abs(ratio * 1.5**2 - 1.0) < 0.1)
    assert not np.any(np.abs(ratio / 1.5**2 - 1.0) < 0.1)


def test_what_the_server_measures_of_moments_is_their_variance(signed_dataset: DataSet, population: Population) -> None:
    """With 12 equal workers it is too much by half of Q; the variance of 5,000 slots is known to 4 %."""
    found = scenario("radio.scheduled=12", "mixing.policy=equalmix", "radio.slots=5000", *MOMENTS)
    block = one_block(found, signed_dataset, population)
    assert block.measured_noise is not None
    variance = float(block.inputs.double().var(dim=0).mean())
    sent = symbols_of(signed_dataset, moments=True)[population.sample_index, :6] / 12.0
    above = float((sent**2).sum(axis=0).mean()) / 2.0
    assert float(block.measured_noise.mean()) - above == pytest.approx(variance, rel=0.08)
    assert float(speckle_variance(torch.tensor([[[2.0, 4.0]], [[0.0, 2.0]]]))) == pytest.approx(6.0)


def test_what_the_server_measures_of_samples_is_what_noise_adds(
    signed_dataset: DataSet, population: Population
) -> None:
    """With and without noise, 5,000 slots at a few dB: the squared difference is known to 5 %."""
    fixed = ("radio.scheduled=12", "mixing.policy=equalmix", "mixing.power=fixed", "mixing.power_scale_watts=3e-14")
    block = one_block(scenario(*fixed, "radio.slots=5000"), signed_dataset, population)
    assert block.measured_noise is not None
    added = float((block.inputs - block.clean_inputs).double().square().mean())
    assert float(block.measured_noise.mean()) == pytest.approx(added, rel=0.08)
    hand = receiver_variance(torch.tensor([[[2.0, 4.0]], [[0.0, 2.0]]]), torch.tensor([0.5]))
    assert float(hand) == pytest.approx(3.5)


def test_a_single_worker_has_no_speckle(signed_dataset: DataSet, population: Population) -> None:
    """Its phase turns nothing that is detected: its own symbols arrive, but for noise at -100 dB."""
    block = one_block(scenario("radio.scheduled=1", "radio.max_power_dbm=90"), signed_dataset, population)
    held = population.sample_index[block.draws.scheduled_workers[:, 0]]
    assert block.inputs.numpy() == pytest.approx(signed_dataset.train_inputs[held], abs=1e-4)


def test_every_symbol_takes_two_and_there_is_no_pilot() -> None:
    """3 inputs and 2 labels take 10 symbols; blocks of 8e-6 s hold 6, one of them silent, so 2 data symbols each."""
    plain = frame_of(scenario().air, 5)
    assert (plain.symbols, plain.overhead_symbols, plain.lengths) == (10, 0, (5,))
    cut = frame_of(scenario("air.resync_seconds=8e-6", "air.guard_symbols=1").air, 5)
    assert cut.blocks == (0, 1, 2)
    assert cut.lengths == (2, 2, 1)
    assert cut.symbols == 10 + 3
    assert Tally(scenario("radio.slot_seconds=0"), 3, 2).joules_per_watt == pytest.approx(
        (math.sqrt(3) + 0.5) / 794_000
    )


def test_power_follows_shares_not_their_squares(signed_dataset: DataSet, population: Population) -> None:
    """P = beta q / |h|^2, the largest of a slot at the limit; the ledger adds up beta q; air time counts both signs."""
    found = scenario("mixing.alpha=1", "radio.fading=rayleigh", "radio.slot_seconds=0")
    sent = simulate(found, dataset=signed_dataset, population=population, speed=Speed())
    draws = draw_slots(AirSetting.of(found, 3, 2, population.distance_metres), range(100)).numpy()
    watts = draws.power_scale_watts[:, None] * draws.ratios
    assert draws.power_watts == pytest.approx(watts / draws.magnitude**2, rel=1e-9)
    assert draws.power_watts.max(axis=1) == pytest.approx(np.full(100, 10**-0.7), rel=1e-9)
    spent = np.bincount(draws.scheduled_workers.ravel(), watts.ravel(), minlength=12)
    assert sent.report.ledger.received_watts == pytest.approx(spent, rel=1e-9)
    assert sent.report.air_seconds == pytest.approx(100 * 10 / 794_000)


def test_a_power_step_lowers_what_is_received_as_it_does_power(population: Population) -> None:
    """Powers in steps of 6 dB: what is received of a worker, beta q as it happens, is still its power times |h|^2."""
    found = scenario("air.power_step_db=6", "mixing.alpha=1")
    draws = draw_slots(AirSetting.of(found, 3, 2, population.distance_metres), range(100)).numpy()
    received = draws.power_scale_watts[:, None] * draws.ratios
    assert received == pytest.approx(draws.power_watts * draws.magnitude**2, rel=1e-9)
    assert draws.ratios.sum(axis=1).min() < 0.8


@pytest.mark.parametrize("moments", [False, True])
def test_peaks_are_those_of_energies(signed_dataset: DataSet, moments: bool) -> None:
    """Largest |v| over the mean of |v| on two resources, of six samples."""
    found = scenario(*(MOMENTS if moments else ()))
    sizes = np.abs(symbols_of(signed_dataset, moments=moments))
    peaks = 10 * np.log10(sizes.max(axis=1) / (sizes.sum(axis=1) / (2 * sizes.shape[1])))
    told = peak_to_average_db(found, Signal.of(found.workers, 3, 2), signed_dataset)
    assert told["largest"] == pytest.approx(peaks.max(), rel=1e-6)


def test_a_schedule_by_coins_stays_right_on_average(signed_dataset: DataSet, population: Population) -> None:
    """12 workers at 3 of 12: the mean of all slots is that of the workers, within 5 standard errors of 5,000 slots."""
    changes = (
        "radio.schedule=poisson",
        "mixing.policy=equalmix",
        "mixing.power=fixed",
        "mixing.power_scale_watts=1e-9",
    )
    block = one_block(scenario(*changes, "radio.slots=5000"), signed_dataset, population)
    expected = symbols_of(signed_dataset, moments=False)[population.sample_index, :3].mean(axis=0)
    found = block.inputs.double().numpy()
    assert np.all(np.abs(found.mean(axis=0) - expected) < 5 * found.std(axis=0) / math.sqrt(5000))


@pytest.mark.parametrize("speed", [Speed(block_slots=7), Speed(block_slots=64, threads=2)])
def test_blocks_and_threads_change_nothing(signed_dataset: DataSet, population: Population, speed: Speed) -> None:
    whole, cut = (
        simulate(scenario(), dataset=signed_dataset, population=population, speed=each) for each in (Speed(), speed)
    )
    assert torch.equal(whole.inputs, cut.inputs)
    assert torch.equal(whole.labels, cut.labels)
