"""What an eavesdropper receives, against sums written out in NumPy, known places and known phases."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from airmixml.attacks.eavesdropper import Listener, align_phase, overhear, overhear_chapters
from airmixml.attacks.watched import watch
from airmixml.radio.draws import AirSetting, draw_slots
from airmixml.randomness.slot_words import slot_words, uniforms
from airmixml.scenario import Scenario
from airmixml.streams import Streams
from airmixml.workers import place_coordinates, place_workers

BASE = Scenario.preset("paper-iris").with_overrides("workers.count=300", "radio.slots=300", "mixing.power='max'")


def places_of(scenario: Scenario) -> Any:
    """Where the workers stand; workers x 2 metres."""
    workers = scenario.workers
    return place_coordinates(workers.count, workers.side_metres, Streams(scenario.seed).generator("placement"))


def symbols_of(scenario: Scenario) -> torch.Tensor:
    """All symbols as received, before anybody turns them; slots x symbols, complex."""
    listener = Listener.of(scenario, places_of(scenario))
    return torch.cat([heard for heard, _, _ in overhear_chapters(watch(scenario).transmission, listener)])


def test_distances_are_those_of_the_coordinates() -> None:
    places = place_coordinates(1000, 500.0, Streams(3).generator("placement"))
    distances = place_workers(1000, 500.0, 40.0, Streams(3).generator("placement"))
    by_hand = [max(math.sqrt(east**2 + north**2), 40.0) for east, north in places]
    np.testing.assert_allclose(distances, by_hand, rtol=1e-12)
    assert np.abs(places).max() <= 250.0
    assert abs(places.mean()) < 5 * 500 / math.sqrt(12 * 2000)


def test_its_streams_are_never_renumbered() -> None:
    for name, number in (("eavesdropper", 12), ("eavesdropper-noise", 13)):
        sequence = np.random.SeedSequence(7, spawn_key=(number, 3))
        expected = np.random.Generator(np.random.PCG64DXSM(sequence)).random(5)
        np.testing.assert_array_equal(Streams(7).generator(name, 3).random(5), expected)


def test_it_stands_beyond_the_worker_farthest_from_the_server() -> None:
    places = np.array([[3.0, 4.0], [-30.0, -40.0], [0.0, 1.0]])
    listener = Listener.of(BASE.with_overrides("privacy.eavesdropper_antennas=4"), places)
    assert listener.beside_worker == 1
    squared_metres = np.array([39.0**2 + 52.0**2, 100.0, 36.0**2 + 49.0**2])  # from (-36, -48)
    np.testing.assert_allclose(listener.power_gain, 4 * 10**-3.2 / squared_metres)
    assert listener.noise_watts == pytest.approx(10 ** (-14.4))


def test_nobody_is_heard_louder_than_it_sends_or_nearer_than_the_least_distance() -> None:
    places = np.array([[30.0, 40.0], [0.0, 0.0]])
    near = BASE.with_overrides("privacy.eavesdropper_distance_metres=0.01", "workers.min_distance_metres=2")
    np.testing.assert_allclose(Listener.of(near, places).power_gain[0], 10**-3.2 / 4)
    loud = BASE.with_overrides("privacy.eavesdropper_antennas=1000000")
    np.testing.assert_allclose(Listener.of(loud, places).power_gain, [1.0, 10**2.8 / 60**2])
    alone = Listener.of(BASE, np.zeros((1, 2)))
    np.testing.assert_allclose(alone.power_gain, 10**-3.2 / 10.0**2)


@pytest.mark.parametrize("fading", ["none", "rayleigh"])
def test_reception_is_the_complex_sum_of_what_is_sent(fading: str) -> None:
    scenario = BASE.with_overrides(f"radio.fading='{fading}'", "privacy.eavesdropper_noise_dbm=-250", "mixing.alpha=1")
    view = watch(scenario)
    dataset, population = view.dataset, view.transmission.population
    overheard = overhear(view, most_slots=200)
    places = place_coordinates(300, 500.0, Streams(0).generator("placement"))
    np.testing.assert_allclose(np.hypot(*places.T), population.distance_metres)
    farthest = max(range(300), key=lambda worker: float(np.hypot(*places[worker])))
    ear = places[farthest] * (1 + 10 / np.hypot(*places[farthest]))
    sent = np.hstack([dataset.train_inputs, np.eye(3)[dataset.train_labels]])
    setting = AirSetting.of(scenario, 4, 3, population.distance_metres)
    expected, loudest = [], []
    for chapter in (0, 1):
        slots = range(scenario.radio.slots)[128 * chapter : 128 * chapter + 128]
        draws = draw_slots(setting, slots).numpy()
        seats = draws.scheduled_workers.shape[1]
        phase = 2 * np.pi * uniforms(slot_words(Streams(0), "eavesdropper").words(slots, seats)).numpy()
        words = slot_words(Streams(0), "eavesdropper-fading").words(slots, seats)
        square = -np.log(uniforms(words).numpy()) if fading == "rayleigh" else 1.0
        squared_metres = ((places[draws.scheduled_workers] - ear) ** 2).sum(axis=2)
        amplitude = np.sqrt(draws.power_watts * np.minimum(square * 10**-3.2 / squared_metres, 1.0))
        symbols = sent[population.sample_index[draws.scheduled_workers]]
        expected.append(np.einsum("ts,tsd->td", amplitude * np.exp(1j * phase), symbols))
        loudest.append(draws.scheduled_workers[np.arange(len(draws)), amplitude.argmax(axis=1)])
    symbols_heard = symbols_of(scenario)[:200]
    received = symbols_heard.numpy().astype(complex) * math.sqrt(10**-28)
    scale = np.abs(np.concatenate(expected)[:200]).max()
    np.testing.assert_allclose(received, np.concatenate(expected)[:200], atol=1e-6 * scale)
    np.testing.assert_array_equal(overheard.strongest_worker, np.concatenate(loudest)[:200])
    assert torch.equal(overheard.mixtures, symbols_heard[:, :4])


def test_noise_is_circular_and_has_power_one() -> None:
    """20,000 complex values: five standard deviations of the mean of |y|^2 are 0.035."""
    quiet = "mixing.power='fixed'", "mixing.power_scale_watts=1e-50", "radio.slots=3000"
    scenario = BASE.with_overrides(*quiet)
    noise = symbols_of(scenario).numpy().ravel()
    assert len(noise) == 21_000
    assert np.mean(np.abs(noise) ** 2) == pytest.approx(1.0, abs=5 / math.sqrt(len(noise)))
    assert abs(np.mean(noise**2)) < 5 / math.sqrt(len(noise))
    assert np.mean(noise.real**2) == pytest.approx(0.5, abs=5 * math.sqrt(0.5 / len(noise)))
    assert len(np.unique(noise)) == len(noise)


def test_its_own_noise_and_not_the_servers_decides() -> None:
    louder = BASE.with_overrides("privacy.eavesdropper_noise_dbm=-94")
    plain = symbols_of(BASE) - symbols_of(louder) * 10.0
    # Amplitudes in units of the noise fall by ten, and so does the signal in them: what is left is 1 - 10 noises.
    assert float(plain.abs().square().mean()) == pytest.approx(81.0, rel=0.15)


def test_fewer_slots_are_the_first_of_more_and_phases_do_not_change_with_fading() -> None:
    view = watch(BASE)
    all_slots, some = overhear(view), overhear(view, most_slots=130)
    assert torch.equal(all_slots.mixtures[:130], some.mixtures)
    faded = BASE.with_overrides("radio.fading='rician'", "radio.scheduled=1", "mixing.policy='nonmix'")
    steady = faded.with_overrides("radio.fading='none'")
    turned = [align_angle(symbols_of(scenario)) for scenario in (faded, steady)]
    np.testing.assert_allclose(turned[0], turned[1], atol=0.1)


def align_angle(received: torch.Tensor) -> np.ndarray[Any, Any]:
    return np.exp(1j * np.angle(received.numpy().sum(axis=1)))


def test_fading_never_lets_it_hear_more_than_is_sent() -> None:
    scenario = BASE.with_overrides("radio.fading='rayleigh'", "privacy.eavesdropper_antennas=1000000")
    listener = Listener.of(scenario, places_of(scenario))
    for _, draws, heard_watts in overhear_chapters(watch(scenario).transmission, listener, slots=256):
        sent_watts = draws.power_watts / listener.noise_watts
        assert np.all(heard_watts <= sent_watts * (1 + 1e-12))
        assert np.any(heard_watts > 0.99 * sent_watts)


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1), phase=st.floats(0.0, 2 * math.pi), size=st.floats(1e-6, 1e6), d=st.integers(1, 50)
)
def test_the_phase_of_one_worker_is_found(seed: int, phase: float, size: float, d: int) -> None:
    samples = np.random.default_rng(seed).uniform(0.01, 1.0, (3, d))
    received = torch.from_numpy(size * samples * np.exp(1j * phase))
    np.testing.assert_allclose(align_phase(received).numpy(), size * samples, rtol=1e-9)


def test_no_other_phase_gives_the_real_part_more_energy_and_a_turn_changes_nothing() -> None:
    rng = np.random.default_rng(5)
    received = rng.standard_normal((20, 30)) + 1j * rng.standard_normal((20, 30)) + 0.3
    aligned = align_phase(torch.from_numpy(received)).numpy()
    turns = np.exp(1j * np.linspace(0, np.pi, 720))
    best = ((received[:, None, :] * turns[None, :, None]).real ** 2).sum(axis=2).max(axis=1)
    energy = (aligned**2).sum(axis=1)
    assert np.all(energy >= best * (1 - 1e-12))
    assert np.all(energy <= best * (1 + 1e-4))
    assert np.all(aligned.sum(axis=1) >= 0.0)
    np.testing.assert_allclose(align_phase(torch.from_numpy(received * np.exp(2j))).numpy(), aligned, atol=1e-12)


def test_under_noise_what_is_left_is_the_sample_and_half_the_noise() -> None:
    """The real part keeps half of the noise of 100 symbols, CN(0, 1) each; turned by one radian more it would keep
    |s|^2 (1 - cos 1)^2, about 170, on top."""
    rng = np.random.default_rng(6)
    sample = rng.uniform(0, 1, 100) * 5
    noise = (rng.standard_normal((4000, 100)) + 1j * rng.standard_normal((4000, 100))) / math.sqrt(2)
    aligned = align_phase(torch.from_numpy(sample * np.exp(1j) + noise)).numpy()
    assert ((aligned - sample) ** 2).sum(axis=1).mean() == pytest.approx(50.0, rel=0.02)


def test_moments_are_mixtures_of_the_inputs_of_each_class() -> None:
    """Without noise to speak of, slot t and class c hold sum_i w_i x_i over the workers i of that class: the whole sum
    over the classes is the mixture of inputs that samples would have given, for the draws are the same."""
    quiet = ("privacy.eavesdropper_noise_dbm=-290", "workers.encoder='clip'", "mixing.power='fixed'")
    samples = BASE.with_overrides(*quiet, "privacy.sensitivity='encoder'")
    moments = samples.with_overrides("workers.sends='moments'", "learner.model='ridge'")
    view = watch(moments)
    dataset, population = view.dataset, view.transmission.population
    heard, alone = overhear(view, most_slots=300), overhear(watch(samples))
    classes = dataset.label_dim
    assert heard.mixtures.shape == (300, dataset.input_dim)
    by_slot = heard.mixtures.reshape(-1, classes, dataset.input_dim).numpy()
    np.testing.assert_allclose(by_slot.sum(axis=1), alone.mixtures.numpy()[: len(by_slot)], rtol=1e-3, atol=1e-3)
    labels = dataset.train_labels[population.sample_index]
    for row, worker in enumerate(heard.strongest_worker):
        assert worker < 0 or labels[worker] == row % classes
