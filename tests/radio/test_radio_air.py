"""Eq. (1) symbol by symbol in complex baseband, against the fast real path."""

import numpy as np
import torch
from complex_baseband import ChannelRealisation, normalise_baseband, receive_baseband
from laws import same_distribution
from scipy import stats

from airmixml.impairments.fading import draw_phase
from airmixml.radio.air import receive_mixtures
from airmixml.randomness.slot_words import slot_words
from airmixml.scenario import Radio
from airmixml.streams import Streams
from airmixml.workers.payloads import mix_samples

SLOTS, SCHEDULED, SYMBOLS = 3000, 3, 5
NOISE_WATTS = 4e-15


def one_setting() -> tuple[np.ndarray, np.ndarray, np.ndarray, ChannelRealisation, np.ndarray]:
    rng = np.random.default_rng(1)
    table = rng.random((20, SYMBOLS))
    index = rng.integers(20, size=(SLOTS, SCHEDULED))
    ratios = rng.dirichlet(np.ones(SCHEDULED), size=SLOTS)
    source, radio = slot_words(Streams(1), "fading"), Radio(fading="rician", rician_k=2.0)
    magnitude = 1e-4 * radio.fading_kind.draw(radio, range(SLOTS), SCHEDULED, source).numpy()
    phase_radians = draw_phase(range(SLOTS), SCHEDULED, slot_words(Streams(1), "phase")).numpy()
    channel = ChannelRealisation(magnitude=magnitude, phase_radians=phase_radians)
    power_scale = rng.uniform(0.5, 2.0, SLOTS) * 1e-14
    return table, index, ratios, channel, power_scale


def power_of(power_scale: np.ndarray, ratios: np.ndarray, channel: ChannelRealisation) -> np.ndarray:
    return power_scale[:, None] * (ratios / channel.magnitude) ** 2


def through_baseband(noise_watts: float, seed: int) -> np.ndarray:
    table, index, ratios, channel, power_scale = one_setting()
    power = power_of(power_scale, ratios, channel)
    received = receive_baseband(table[index], power, channel, noise_watts, np.random.default_rng(seed))
    return normalise_baseband(received, power, channel)


def through_fast_path(noise_watts: float, seed: int) -> np.ndarray:
    table, index, ratios, _, power_scale = one_setting()
    clean = mix_samples(torch.from_numpy(table), torch.from_numpy(index), torch.from_numpy(ratios))
    noise = torch.from_numpy(np.random.default_rng(seed).standard_normal((SLOTS, SYMBOLS)))
    return receive_mixtures(clean, noise, torch.from_numpy(power_scale), noise_watts).numpy()


def hand_mixture() -> np.ndarray:
    table, index, ratios, _, _ = one_setting()
    return (ratios[:, :, None] * table[index]).sum(axis=1)


def standardised(received: np.ndarray) -> np.ndarray:
    """What is left of the noise, in units of sigma_n / sqrt(2 beta)."""
    _, _, _, _, power_scale = one_setting()
    return (received - hand_mixture()) / np.sqrt(NOISE_WATTS / 2 / power_scale)[:, None]


def test_without_noise_both_paths_are_the_mixture() -> None:
    assert np.allclose(through_baseband(0.0, 1), hand_mixture(), atol=1e-12)
    assert np.allclose(through_fast_path(0.0, 1), hand_mixture(), atol=1e-12)


def test_uncancelled_phase_would_not_be_the_mixture() -> None:
    table, index, ratios, channel, power_scale = one_setting()
    power = power_of(power_scale, ratios, channel)
    turned = ChannelRealisation(magnitude=channel.magnitude)  # the workers believe that there is no phase
    sent = np.sqrt(power)[:, :, None] * table[index]
    arriving = np.einsum("ts,tsd->td", channel.gain, sent)
    assert not np.allclose(normalise_baseband(arriving, power, turned), hand_mixture(), atol=0.1)


def test_both_paths_have_the_same_noise_and_not_two_thirds_or_three_halves_of_it() -> None:
    normal = stats.norm.cdf
    for received in (through_baseband(NOISE_WATTS, 2), through_fast_path(NOISE_WATTS, 3)):
        noise = standardised(received)
        assert same_distribution(noise, normal)
        assert not same_distribution(noise * 2 / 3, normal)
        assert not same_distribution(noise * 3 / 2, normal)
    two_samples = stats.ks_2samp(
        standardised(through_baseband(NOISE_WATTS, 4)).ravel(), standardised(through_fast_path(NOISE_WATTS, 5)).ravel()
    )
    assert two_samples.pvalue > 1e-4


def test_noise_is_independent_between_symbols_and_slots() -> None:
    for received in (through_baseband(NOISE_WATTS, 6), through_fast_path(NOISE_WATTS, 7)):
        noise = standardised(received)
        between_symbols = np.corrcoef(noise.T) - np.eye(SYMBOLS)
        between_slots = np.corrcoef(noise[:-1].ravel(), noise[1:].ravel())[0, 1]
        assert np.abs(between_symbols).max() < 5 / np.sqrt(SLOTS)
        assert abs(between_slots) < 5 / np.sqrt(SLOTS * SYMBOLS)
