"""Converters and peak limits on the way from a worker to a mixture, against sums that are written out here."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from airmixml import Scenario, Speed, simulate
from airmixml.data import DataSet
from airmixml.impairments.hardware import clipped_gaussian
from airmixml.messages import ScenarioError
from airmixml.radio import simulate_blocks, transmitters
from airmixml.radio.air import air_of
from airmixml.radio.draws import AirSetting, MixtureBlock
from airmixml.radio.impaired_reception import convert_received
from airmixml.radio.system import sensitivity_of
from airmixml.radio.transmission import make_sender
from airmixml.radio.transmitters import PeakLimited, distort
from airmixml.scenario import Air
from airmixml.streams import Secret
from airmixml.workers import Population, Signal
from airmixml.workers.moments import largest_product
from airmixml.workers.signal import Payload, Places

MOMENTS = (
    *("workers.sends=moments", "workers.encoder=clip", "workers.norm=unit", "privacy.sensitivity=encoder"),
    *("learner.model=ridge", "workers.label_weight=0.5"),
)


def scenario(*changes: str) -> Scenario:
    return Scenario().with_overrides(
        "workers.count=12", "radio.scheduled=3", "radio.slots=400", "mixing.power=max", *changes
    )


def received(data: DataSet, population: Population, *changes: str) -> MixtureBlock:
    (block,) = simulate_blocks(scenario(*changes), data, population, speed=Speed(block_slots=400))
    return block


def unit_data(rows: int, features: int, seed: int = 0) -> DataSet:
    """Inputs of norm 1 without negative numbers, and two classes."""
    rng = np.random.default_rng(seed)
    inputs = np.abs(rng.standard_normal((rows, features))).astype(np.float32)
    inputs /= np.linalg.norm(inputs, axis=1, keepdims=True) * np.float32(1.000001)
    labels = rng.integers(0, 2, rows)
    return DataSet(
        name="unit",
        train_inputs=inputs,
        train_labels=labels,
        test_inputs=inputs,
        test_labels=labels,
        class_names=("a", "b"),
        image_shape=None,
        clipped_values=0,
    )


def moments_of(data: DataSet, weight: float) -> NDArray[np.float64]:
    """(svec(x x^T), w x l^T) of each row, number by number; rows x symbols."""
    vectors = []
    for row, label in zip(data.train_inputs.astype(np.float64), np.eye(2)[data.train_labels], strict=True):
        products = [
            row[a] * row[b] * (1.0 if a == b else math.sqrt(2.0)) for a in range(len(row)) for b in range(a, len(row))
        ]
        vectors.append(products + [weight * x * c for x in row for c in label])
    return np.array(vectors)


def rounded(vectors: NDArray[np.float64], bits: int) -> NDArray[np.float64]:
    """Each row to the nearest of 2^b - 1 levels that end at its largest number."""
    steps = np.abs(vectors).max(axis=1, keepdims=True) / (2 ** (bits - 1) - 1)
    return np.round(vectors / steps) * steps


def test_samples_are_rounded_and_clipped_as_each_worker_does(
    small_dataset: DataSet, small_population: Population
) -> None:
    """Levels are thirds of the largest number; powers, and so the limits, differ from slot to slot."""
    changes = ("air.dac_bits=3", "air.peak_power_dbm=15", "mixing.alpha=1")
    block = received(small_dataset, small_population, "radio.noise_dbm=-150", *changes)
    vectors = np.concatenate([small_dataset.train_inputs, np.eye(2)[small_dataset.train_labels]], axis=1)
    sent = rounded(vectors.astype(np.float64), 3)[small_population.sample_index[block.draws.scheduled_workers]]
    limits = np.sqrt(10.0 ** (15 / 10 - 3) / block.draws.power_watts)[:, :, None]
    expected = (block.draws.ratios[:, :, None] * np.clip(sent, -limits, limits)).sum(axis=1)
    unclipped = (block.draws.ratios[:, :, None] * sent).sum(axis=1)
    pilots = 0.05 * 5.0  # their energy, in one symbol, which is clipped too
    kept = np.minimum(1.0, limits[:, :, 0] / math.sqrt(pilots))
    gain = (block.draws.ratios * kept).sum(axis=1)[:, None]
    found = torch.cat([block.clean_inputs, block.clean_labels], dim=1).numpy()
    assert np.abs(expected - unclipped).max() > 0.05
    # The server divides by what it sees of the pilots, within the noise on them.
    assert found == pytest.approx(expected / gain, abs=1e-4)


def test_no_mixture_of_exact_converters_changes(small_dataset: DataSet, small_population: Population) -> None:
    """24 bits and a limit that nobody reaches leave what an air with neither has."""
    plain = received(small_dataset, small_population, "air.phase_error_radians=0.1")
    fine = received(
        small_dataset, small_population, "air.phase_error_radians=0.1", "air.dac_bits=24", "air.peak_power_dbm=60"
    )
    assert torch.allclose(plain.inputs, fine.inputs, atol=1e-6)


@pytest.mark.parametrize("bits", [3, 9])
def test_products_are_rounded_worker_by_worker(bits: int) -> None:
    data = unit_data(6, 4)
    sender = make_sender(scenario(*MOMENTS, f"air.dac_bits={bits}"), data, torch.device("cpu"))
    index, shares = torch.tensor([[0, 3, 5]]), torch.tensor([[0.5, 0.3, 0.2]], dtype=torch.float64)
    sent = rounded(moments_of(data, 0.5), bits)
    lengths = np.linalg.norm(sent, axis=1, keepdims=True)
    sent *= np.minimum(1.0, math.sqrt(1.25) / lengths)
    expected = shares.numpy() @ sent[index.numpy()[0]]
    assert sender.weighted_sum(index, shares).numpy() == pytest.approx(expected, abs=3e-6)


def test_errors_of_many_bits_are_the_noise_that_stands_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums of 40 workers: the error of exact rounding has the variance that the fast path adds.

    1000 slots of 377 symbols; symbols of a slot are nearly independent, so that the mean square errs by below 1 %.
    """
    data, bits = unit_data(400, 25), 10
    vectors = moments_of(data, 0.5)
    rng = np.random.default_rng(1)
    index, shares = rng.integers(0, 400, (1000, 40)), rng.dirichlet(np.ones(40), 1000)
    errors = rounded(vectors, bits) - vectors
    exact = np.stack([share @ errors[rows] for share, rows in zip(shares, index, strict=True)])
    steps = np.abs(vectors).max(axis=1) / (2 ** (bits - 1) - 1)
    stated = (shares**2 * steps[index] ** 2 / 12.0).sum(axis=1).mean()
    assert float(np.mean(exact**2)) == pytest.approx(stated, rel=0.05)
    # The same numbers through the fast path, which has to be told that these are many.
    monkeypatch.setattr(transmitters, "_FEW_NUMBERS", 0)
    population = Population(distance_metres=np.full(40, 100.0), sample_index=rng.integers(0, 400, 40))
    quiet = ("radio.noise_dbm=-200", "air.pilot_share=1")
    many = Scenario().with_overrides(
        *MOMENTS,
        *quiet,
        "mixing.power=max",
        *(f"air.dac_bits={bits}", "workers.count=40", "radio.scheduled=40", "radio.slots=300"),
    )
    sender = make_sender(many, data, torch.device("cpu"))
    assert sender.models_rounding
    (block,) = simulate_blocks(many, data, population, speed=Speed(block_slots=300))
    noise = torch.cat([block.inputs - block.clean_inputs, 0.5 * (block.labels - block.clean_labels)], dim=1).double()
    held = steps[population.sample_index[block.draws.scheduled_workers]]
    stated = float((block.draws.ratios**2 * held**2 / 12.0).sum(axis=1).mean())
    assert float(noise.square().mean()) == pytest.approx(stated, rel=0.05)


@pytest.mark.parametrize("changes", [(), ("air.dac_bits=4",)])
@pytest.mark.parametrize("limited", [False, True])
def test_sums_in_pieces_are_those_of_what_each_worker_sends(changes: tuple[str, ...], limited: bool) -> None:
    """300 workers in pieces that end anywhere."""
    data, rng = unit_data(300, 20), np.random.default_rng(4)
    vectors = moments_of(data, 0.5)
    lengths = (33, 100, vectors.shape[1] - 133)
    shares = rng.uniform(-1.0, 1.0, (300, 3))
    limits = rng.uniform(0.2, 1.2, 300) * np.abs(vectors).max(axis=1) if limited else np.full(300, np.inf)
    sent = rounded(vectors, 4) if changes else vectors
    sent = sent * np.minimum(1.0, math.sqrt(1.25) / np.linalg.norm(sent, axis=1, keepdims=True))
    expected = (np.repeat(shares, lengths, axis=1) * np.clip(sent, -limits[:, None], limits[:, None])).sum(axis=0)
    sender = make_sender(scenario(*MOMENTS, *changes), data, torch.device("cpu"))
    if limited:
        sender = PeakLimited(sender, torch.from_numpy(limits)[None])
    given = torch.arange(300)[None], torch.from_numpy(shares)[None], Places(lengths)
    found = sender.weighted_sum(*given)[0].numpy()
    assert np.abs(expected).max() > 1.0
    # Numbers half-way between two levels may go to either in float32.
    assert np.linalg.norm(found - expected) < 0.005 * np.linalg.norm(expected)
    exact = (np.repeat(shares, lengths, axis=1) * vectors).sum(axis=0)
    assert not (changes or limited) or np.linalg.norm(exact - expected) > 0.03 * np.linalg.norm(expected)


def test_few_bits_and_few_numbers_are_rounded_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    data = unit_data(50, 25)

    def models(bits: int, secret: Secret | None = None) -> bool:
        made = make_sender(scenario(*MOMENTS, f"air.dac_bits={bits}"), data, torch.device("cpu"), secret=secret)
        return made.models_rounding

    assert not models(16)
    monkeypatch.setattr(transmitters, "_FEW_NUMBERS", 0)
    assert models(16)
    assert not models(5)
    assert not models(16, Secret())


@pytest.mark.parametrize("changes", [(), ("air.dac_bits=4",), ("workers.bits=4",)])
def test_moments_are_clipped_in_whatever_way_they_are_added_up(changes: tuple[str, ...]) -> None:
    """With limits below every symbol each worker sends nothing but its limit, with its signs."""
    data = unit_data(12, 4)
    sender = make_sender(scenario(*MOMENTS, *changes), data, torch.device("cpu"))
    index = torch.arange(12).reshape(4, 3)
    shares = torch.rand(4, 3, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    limits = torch.full((4, 3), 1e-5, dtype=torch.float64)
    mixed = PeakLimited(sender, limits).weighted_sum(index, shares, Places([18]))
    everything = sender.weighted_sum(index, shares, Places([18]))
    assert float(mixed.abs().max()) <= 3e-5
    assert float(everything.abs().max()) > 0.05
    if not changes:
        signs = np.sign(moments_of(data, 0.5))[index.numpy()]
        assert mixed.numpy() == pytest.approx(1e-5 * (shares.numpy() * signs).sum(axis=1), abs=1e-9)


def test_the_largest_product_is_found_without_forming_any() -> None:
    data = unit_data(200, 5, seed=3)
    labels = torch.from_numpy(np.eye(2)[data.train_labels])
    for weight in (0.1, 1.0):
        found = largest_product(torch.from_numpy(data.train_inputs), labels, weight).numpy()
        assert found == pytest.approx(np.abs(moments_of(data, weight)).max(axis=1), rel=1e-6)


@pytest.mark.parametrize("bits", [2, 4, 6, 10])
def test_rounded_vectors_move_no_more_than_stated(bits: int) -> None:
    """Worst pairs of many: rounded, shortened, and compared with what statements assume for a replacement."""
    data = unit_data(400, 6, seed=bits)
    for changes in (MOMENTS, ("workers.encoder=clip", "workers.norm=unit", "privacy.sensitivity=encoder")):
        setting = scenario(*changes, f"air.dac_bits={bits}", "air.pilot_share=1e-12")
        stated = sensitivity_of(setting, 6, 2)
        sent = torch.from_numpy(make_sender(setting, data, torch.device("cpu")).vectors(np.arange(400))).double()
        assert float(sent.square().sum(dim=1).max()) <= stated.removal * (1.0 + 1e-9)
        assert float(torch.cdist(sent, sent).max()) ** 2 <= stated.replacement
        exact = sensitivity_of(scenario(*changes, "air.pilot_share=1e-12"), 6, 2)
        assert exact.replacement <= stated.replacement <= 4.0 * stated.removal * (1.0 + 1e-9)


def test_the_paper_s_bound_holds_for_rounded_samples() -> None:
    """Levels between 0 and the largest number of a row are in [0, 1], where d_X + d_Y bounds any two."""
    assert sensitivity_of(scenario("air.dac_bits=2"), 3, 2).replacement == 5.0


def test_the_server_rounds_with_a_step_that_follows_its_range() -> None:
    """8 bits up to 4 root mean squares: the error has the variance step^2 / 12, and measured noise grows by it."""
    generator = torch.Generator().manual_seed(3)
    along, across = (torch.randn((50, 4000), dtype=torch.float64, generator=generator) for _ in range(2))
    air = Air(adc_bits=8, adc_range=4.0)
    real, _, least = convert_received(air, along, across)
    step = 4.0 * math.sqrt(2.0) / 127.0
    assert torch.as_tensor(least).mean() == pytest.approx(step**2 / 12.0, rel=0.02)
    assert float((real - along).square().mean()) == pytest.approx(step**2 / 12.0, rel=0.02)
    coarse, coarse_noise, _ = convert_received(Air(adc_bits=4, adc_range=4.0), along, across)
    step = 4.0 * math.sqrt(2.0) / 7.0
    assert float(coarse_noise.square().mean()) - 1.0 == pytest.approx(step**2 / 12.0, rel=0.15)
    assert len(coarse[0].unique()) <= 15
    saturated, _, _ = convert_received(Air(adc_bits=8, adc_range=0.5), along, across)
    assert float(saturated.abs().max()) == pytest.approx(0.5 * math.sqrt(2.0), rel=0.05)
    # By default the outermost level is the largest symbol of the slot.
    reaching, _, _ = convert_received(Air(adc_bits=8), along, across)
    largest = torch.maximum(along.abs().amax(dim=1), across.abs().amax(dim=1))
    assert float(((reaching - along).abs().amax(dim=1) / largest).max()) <= 0.5 / 127.0 * (1.0 + 1e-9)
    untouched, _, _ = convert_received(Air(), along, across)
    assert untouched is along


def test_rounding_at_the_server_is_measured_and_costs_no_privacy(
    small_dataset: DataSet, small_population: Population
) -> None:
    fine = received(small_dataset, small_population, "air.phase_error_radians=0.01")
    coarse = received(small_dataset, small_population, "air.phase_error_radians=0.01", "air.adc_bits=3")
    off = (coarse.inputs - fine.inputs).double()
    assert float(off.square().mean()) > 100.0 * float(fine.noise_variance.mean())
    assert torch.equal(coarse.drawn.power_watts, fine.drawn.power_watts)


def test_clipping_of_subcarriers_is_a_gain_and_circular_noise() -> None:
    """A limit at the mean power of everybody: gain and error of Bussgang at r = 1, on both parts."""
    data = unit_data(8, 40)
    population = Population(distance_metres=np.full(12, 100.0), sample_index=np.arange(12) % 8)
    changes = ("workers.encoder=clip", "workers.norm=unit", "privacy.sensitivity=encoder", "air.waveform=ofdm")
    quiet = ("radio.noise_dbm=-200", "mixing.policy=equalmix", "mixing.power=max", "radio.schedule=fixed")
    # Everybody sends with 23 dBm; of 42 symbols of energy 2 together the mean power is 2 / 42 of that.
    limit_dbm = 23.0 + 10.0 * math.log10(2.0 / 42.0)
    block = received(data, population, *changes, *quiet, f"air.peak_power_dbm={limit_dbm}", "air.pilot_share=1e-9")
    plain = received(data, population, *changes, *quiet, "air.pilot_share=1e-9")
    gain, error = (float(each) for each in clipped_gaussian(torch.ones(1, dtype=torch.float64)))
    ratio = float((block.clean_inputs * plain.clean_inputs).sum() / plain.clean_inputs.square().sum())
    assert ratio == pytest.approx(gain, rel=1e-3)
    stated = error * (2.0 / 42.0) / 2.0 / 3.0  # three workers with a third each
    assert float((block.inputs - block.clean_inputs).double().square().mean()) == pytest.approx(stated, rel=0.05)
    assert float(block.noise_variance.mean()) == pytest.approx(stated, rel=0.1)


def test_data_are_not_protected_with_errors_that_follow_from_them() -> None:
    setting = scenario("air.waveform=ofdm", "air.dac_bits=8")
    with pytest.raises(ScenarioError, match=r"air.dac_bits = 8: is modelled as noise with air.waveform = ofdm"):
        make_sender(setting, unit_data(12, 4), torch.device("cpu"), secret=Secret())


class TwoWaveforms(Payload):
    """100 symbols, of energy 1 and 2, and at most 1.5^2 as declared."""

    signal, norm = Signal(features=98, classes=2), math.sqrt(1.25)
    squared_lengths = torch.tensor([1.0, 2.0], dtype=torch.float64)


@pytest.mark.parametrize("bits", [1, 2, 3, 6])
def test_no_waveform_is_longer_after_rounding_than_declared(bits: int) -> None:
    """One bit has its levels beyond nearly all of a Gaussian waveform: alone it would send ten times the energy."""
    ofdm, length = scenario("air.waveform=ofdm", f"air.dac_bits={bits}"), torch.tensor([[1.0, 2.0]]).double()
    found = distort(ofdm, TwoWaveforms(), torch.tensor([[0, 1]]), torch.ones_like(length))
    assert found is not None
    sent = length * found.factor.square() + 100 * 2.0 * found.variance
    assert float(sent.max()) <= 1.5**2 * (1.0 + 1e-9)
    assert float(sent[0, 1]) > 0.8 * 2.0


def test_amplifiers_of_ofdm_turn_the_sum() -> None:
    """The gain of a saturated amplifier is complex, and so is what arrives; pilots tell the server the mean turn."""
    ofdm = scenario("air.waveform=ofdm", "air.amplifier_saturation_dbm=10", "air.amplifier_turn_degrees=60")
    setting, payload = AirSetting.of(ofdm, 98, 2, np.full(ofdm.workers.count, 50.0)), TwoWaveforms()
    samples, watts = torch.tensor([[0, 1]]), torch.ones((1, 2), dtype=torch.float64)
    found = distort(ofdm, payload, samples, watts)
    assert found is not None
    assert float(found.factor.angle().min()) > 0.1
    errors = transmitters.TransmitterErrors(setting, payload, watts)
    arrives = errors.add(
        torch.tensor([1.0, 0.0]).view(2, 1, 1, 1).expand(-1, -1, 2, -1), torch.ones(1, 2), samples, watts
    )
    assert arrives.numpy() == pytest.approx(found.factor.numpy(), rel=1e-6)


def test_a_peak_limit_gives_no_credit_for_a_hidden_schedule() -> None:
    """Two workers with the same vector and other limits send other vectors, though their samples do not differ."""
    strong, weak = (torch.tensor([0.6, 0.8]).clamp(max=limit) for limit in (1.0, 0.5))
    assert float((strong - weak).norm()) > 0.3
    clipped, rounded = scenario("air.peak_power_dbm=-60"), scenario("air.dac_bits=8")
    assert air_of(clipped).gains_tell_schedule(clipped)
    assert not air_of(rounded).gains_tell_schedule(rounded)


def test_a_peak_limit_that_never_binds_changes_nothing_where_converter_errors_are_noise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Symbols that meet a limit are formed one by one; their rounding must not count twice."""
    monkeypatch.setattr("airmixml.radio.transmitters._FEW_NUMBERS", 1)
    scenario = Scenario.preset("private-iris").with_overrides("air.dac_bits=12")
    without, limited = (simulate(each).inputs for each in (scenario, scenario.with_overrides("air.peak_power_dbm=30")))
    np.testing.assert_allclose(limited, without, atol=1e-5)
