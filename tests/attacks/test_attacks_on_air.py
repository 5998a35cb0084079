"""Attacks on imperfect airs use what is really received: gains, absent workers, pilots divided out."""

from __future__ import annotations

import math

import numpy as np
import torch

from airmixml.attacks.eavesdropper import Listener, overhear_chapters
from airmixml.attacks.watched import watch
from airmixml.radio.draws import AirSetting, draw_slots
from airmixml.scenario import Scenario
from airmixml.streams import Streams
from airmixml.workers import place_coordinates

BASE = Scenario.preset("paper-iris").with_overrides(
    "workers.count=300", "radio.slots=200", "mixing.power='max'", "radio.noise_dbm=-200"
)
ROUGH = BASE.with_overrides("air.phase_error_radians=0.8", "air.amplitude_error_db=2", "air.absent=0.2")
ALONE = ROUGH.with_overrides("radio.scheduled=1", "privacy.eavesdropper_noise_dbm=-250")


def test_the_server_knows_the_shares_that_it_really_received() -> None:
    """Without noise a mixture is the sum of the samples with these shares, and not with those that were planned."""
    view = watch(ROUGH)
    samples = torch.from_numpy(view.dataset.train_inputs[view.held_index])
    root = torch.from_numpy(np.sqrt(view.weights)).float()[:, None]
    expected = view.matrix.mix(samples) / root
    torch.testing.assert_close(expected, view.released, rtol=1e-4, atol=1e-4)
    shares = view.draws[0].ratios
    assert (shares == 0.0).mean() > 0.1  # absent
    assert abs(shares.sum(axis=1).mean() - 1.0) < 0.05  # the mean gain is divided out


def test_an_eavesdropper_hears_gains_on_top_of_its_own_phases() -> None:
    """One worker at a time: |y|^2 / ||s||^2 is the power that it sends, too loud or not, times the path to here."""
    sent = watch(ALONE).transmission
    workers = ALONE.workers
    places = place_coordinates(workers.count, workers.side_metres, Streams(ALONE.seed).generator("placement"))
    listener = Listener.of(ALONE, places)
    drawn = draw_slots(AirSetting.of(ALONE, 4, 3, sent.population.distance_metres), range(128))
    assert drawn.gains is not None
    gain = drawn.gains.of(slice(0, 1))[:, 0, 0].numpy()
    who = drawn.scheduled_workers[:, 0].numpy()
    heard, _, heard_watts = next(iter(overhear_chapters(sent, listener)))
    power = drawn.power_watts[:, 0].numpy() * np.abs(gain) ** 2 * listener.power_gain[who] / 10 ** (-25 - 3)
    np.testing.assert_allclose(heard_watts[:, 0], power, rtol=1e-5)  # peaks do not have the rounding of turns
    label = np.eye(3)[sent.dataset.train_labels[sent.population.sample_index[who]]]
    symbols = np.concatenate([sent.dataset.train_inputs[sent.population.sample_index[who]], label], axis=1)
    there = power > 0.0
    assert 0.6 < there.mean() < 0.95
    energy = np.abs(heard.numpy()[there]) ** 2
    np.testing.assert_allclose(energy.sum(axis=1), power[there] * np.sum(symbols[there] ** 2, axis=1), rtol=1e-3)
    # Phases that nobody turned towards it: uniform, so that their mean vanishes.
    phases = np.angle((heard.numpy()[there] * symbols[there]).sum(axis=1))
    assert abs(np.exp(1j * phases).mean()) < 4 / math.sqrt(there.sum())


def test_clocks_drift_for_an_eavesdropper_too() -> None:
    """Symbols later in the slot are turned by 2 pi f t, f ~ N(0, s^2), from where the first one is."""
    drifting = ALONE.with_overrides("air.phase_error_radians=0", "air.frequency_offset_hz=20000", "air.absent=0")
    sent = watch(drifting).transmission
    workers = drifting.workers
    places = place_coordinates(workers.count, workers.side_metres, Streams(drifting.seed).generator("placement"))
    heard, draws, _ = next(iter(overhear_chapters(sent, Listener.of(drifting, places))))
    inputs = sent.dataset.train_inputs[sent.population.sample_index[draws.scheduled_workers[:, 0]]]
    both = (inputs[:, 0] > 0.05) & (inputs[:, 2] > 0.05)
    turned = np.angle(heard.numpy()[both, 2] * np.conj(heard.numpy()[both, 0]))
    expected = 2 * math.pi * 20000 * 2 / 794e3
    assert 0.8 * expected < turned.std() < 1.25 * expected
