"""The pulse, its expansion, and what being off time does to symbols and subcarriers."""

import numpy as np
import pytest
import torch
from numpy.polynomial import chebyshev
from scipy import integrate

from airmixml.impairments.frame import frame_of
from airmixml.impairments.timing import Pulse, filter_blocks, pulse_of
from airmixml.scenario import Air
from airmixml.scenario.air import PULSE_ERROR, raised_cosine, ringing_symbols

ROLL_OFFS = (0.05, 0.25, 0.5, 1.0)


def root_raised_cosine(frequency: np.ndarray, roll_off: float) -> np.ndarray:
    """Its spectrum by definition: the root of one that falls as a cosine around half the symbol rate."""
    edge = np.clip((np.abs(frequency) - (1.0 - roll_off) / 2.0) / roll_off, 0.0, 1.0)
    return np.sqrt(0.5 * (1.0 + np.cos(np.pi * edge)))


@pytest.mark.parametrize("roll_off", ROLL_OFFS)
def test_two_root_raised_cosines_make_the_pulse(roll_off: float) -> None:
    for symbols in (0.0, 0.3, 1.0, 2.5, 0.5 / roll_off):
        by_hand, _ = integrate.quad(
            lambda f, at=symbols: float(root_raised_cosine(np.array(f), roll_off)) ** 2 * np.cos(2 * np.pi * f * at),
            *(-(1 + roll_off) / 2, (1 + roll_off) / 2),
            limit=400,
        )
        assert raised_cosine(symbols, roll_off) == pytest.approx(by_hand, abs=1e-7)


@pytest.mark.parametrize("roll_off", ROLL_OFFS)
def test_the_pulse_has_energy_one_and_no_interference_on_time(roll_off: float) -> None:
    frequency = np.linspace(-1.0, 1.0, 200_001)
    energy = np.trapezoid(root_raised_cosine(frequency, roll_off) ** 2, frequency)
    assert energy == pytest.approx(1.0, abs=1e-9) == raised_cosine(0.0, roll_off)
    assert max(abs(raised_cosine(float(m), roll_off)) for m in range(1, 50)) < 1e-12


@pytest.mark.parametrize("roll_off", [0.25, 1.0])
def test_shifted_pulses_keep_the_energy_of_any_symbols(roll_off: float) -> None:
    """Why timing costs no privacy: the waveform of symbols v has energy ||v||^2 whenever it starts."""
    symbols = np.random.default_rng(1).standard_normal(12)
    frequency = np.linspace(-1.0, 1.0, 40_001)
    for offset in (0.0, 0.37):
        shift = np.exp(-2j * np.pi * frequency * offset)
        spectrum = root_raised_cosine(frequency, roll_off) * shift
        waveform = spectrum * sum(v * np.exp(-2j * np.pi * frequency * n) for n, v in enumerate(symbols))
        assert np.trapezoid(np.abs(waveform) ** 2, frequency) == pytest.approx(symbols @ symbols, rel=1e-8)


@pytest.mark.parametrize("largest", [0.02, 0.1, 0.31, 0.5])
@pytest.mark.parametrize("roll_off", ROLL_OFFS)
def test_the_expansion_is_as_near_as_stated(roll_off: float, largest: float) -> None:
    pulse, reach = Pulse(roll_off, largest), ringing_symbols(roll_off, largest)
    filters, coefficients = pulse.filters, pulse.coefficients
    assert filters.shape[1] == 2 * reach + 1
    missing = 0.0
    for x in np.linspace(-1.0, 1.0, 21):
        exact = np.array([raised_cosine(m + largest * x, roll_off) for m in range(-reach, reach + 1)])
        assert np.linalg.norm(chebyshev.chebval(x, coefficients) @ filters - exact) < PULSE_ERROR
        missing = max(missing, np.linalg.norm(chebyshev.chebval(x, coefficients)[:-1] @ filters[:-1] - exact))
        beyond = [raised_cosine(s * m + largest * x, roll_off) for m in range(reach + 1, 400) for s in (-1, 1)]
        assert np.linalg.norm(beyond) < 1.2 * PULSE_ERROR
    assert missing > 0.5 * PULSE_ERROR  # no term too many


def test_factors_and_the_gain_of_a_pilot() -> None:
    offsets = torch.tensor([[-1.0, -0.2, 0.0, 0.7, 1.0]], dtype=torch.float64)
    pulse = pulse_of(Air(timing_offset_symbols=0.4))
    degrees = np.arange(len(pulse.coefficients))
    by_hand = np.cos(degrees * np.arccos(offsets.numpy()[..., None])) @ pulse.coefficients
    assert np.allclose(pulse.factors(offsets), pulse.backoff * by_hand, atol=1e-12)
    heard = pulse.pilot_gain(offsets)[0] / pulse.backoff
    assert np.allclose(heard, [raised_cosine(0.4 * x, 0.25) for x in offsets[0].tolist()], atol=PULSE_ERROR)


@pytest.mark.parametrize("symbols", [5, 70, 200, 403])
def test_blocks_are_filtered_apart(symbols: int) -> None:
    air = Air(timing_offset_symbols=0.3, resync_seconds=2e-4)
    frame = frame_of(air, symbols)
    values = np.random.default_rng(2).standard_normal((3, symbols))
    taps = np.random.default_rng(3).standard_normal(9)
    filtered = filter_blocks(torch.from_numpy(values), torch.from_numpy(taps), frame).numpy()
    per_block = int(2e-4 * 794_000) - air.block_overhead_symbols
    assert frame.longest_block == min(per_block, symbols)
    for first in range(0, symbols, per_block):
        block = values[:, first : first + per_block]
        by_hand = np.array([np.convolve(row, taps[::-1])[4 : 4 + block.shape[1]] for row in block])
        assert np.allclose(filtered[:, first : first + per_block], by_hand)


def test_silence_around_data_counts_as_overhead() -> None:
    plain, off_time = (
        Air(resync_seconds=1e-3, phase_error_radians=0.1),
        Air(resync_seconds=1e-3, timing_offset_symbols=0.1),
    )
    reach = ringing_symbols(0.25, 0.1)
    frame = frame_of(off_time, 700)
    assert frame.overhead_symbols == frame_of(plain, 700).overhead_symbols + 2 * reach * frame.block_count
    assert frame.seconds[0] * 794_000 == pytest.approx(1 + reach + frame.lengths[0] / 2)


@pytest.mark.parametrize("roll_off", [0.05, 1.0])
@pytest.mark.parametrize("largest", [0.04, 0.5])
def test_no_vector_arrives_off_time_with_more_energy_than_it_has(roll_off: float, largest: float) -> None:
    """The response of the taps at offsets and frequencies off the grid on which they were made; a constant is worst."""
    pulse = Pulse(roll_off, largest)
    offsets = np.random.default_rng(0).uniform(-1.0, 1.0, 200)
    taps = chebyshev.chebvander(offsets, len(pulse.coefficients) - 1) @ pulse.coefficients @ pulse.filters
    taps = pulse.backoff * taps
    response = np.abs(np.fft.rfft(taps, 10_007, axis=1))
    assert response.max() <= 1.0
    assert response.max() > 0.99
