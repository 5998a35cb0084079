"""Slots on an imperfect air as sampled waveforms, from first principles: nothing of the package is used here.

Every worker sends root-raised-cosine pulses, made by their spectrum and delayed by a ramp of phase on it, four samples
a symbol. Its oscillator turns each sample, with a phase that runs on from the resynchronisation at the start of the
block. All workers add up, the server filters with the same pulse and takes one sample a symbol. A block is a known
symbol, silence, data, silence and guard. The server divides by what the known symbol arrived as, by what drifting
phases are expected to take of the mean from there on, and solves for the symbols behind the mean pulse.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.fft import fft, fftfreq, ifft, irfft, next_fast_len, rfft, rfftfreq
from scipy.special import j0, ndtri

Doubles = NDArray[np.float64]
Complex = NDArray[np.complex128]

RATE = 794e3  # symbols a second
SAMPLES = 4  # of a symbol
LIGHT = 299_792_458.0
MARGIN = 40  # symbols of silence around a block in which pulses die out
_AT_ONCE = 250  # workers


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """How far workers and server are from ideal; each number is 0 where there is nothing wrong."""

    phase_error_radians: float = 0.0
    frequency_offset_hz: float = 0.0
    phase_noise_hz: float = 0.0
    resync_seconds: float = 0.0
    guard_symbols: int = 0
    timing_offset_symbols: float = 0.0
    roll_off: float = 0.25
    silence_symbols: int = 0  # on both sides of the data
    estimation_nmse_db: float = -np.inf
    reciprocity_nmse_db: float = -np.inf
    amplitude_error_db: float = 0.0
    power_step_db: float = 0.0
    speed_metres_per_second: float = 0.0
    carrier_hz: float = 2.4e9
    absent: float = 0.0
    late: float = 0.0
    dac_bits: int = 0
    adc_bits: int = 0


class Crowd:
    """Workers of one kind of hardware, each with what the server would sample of it alone; slots are sums of some.

    Vectors are workers x symbols. ``powers_db`` is by how much each worker's power is below the largest, of which only
    whole steps can be had. What is drawn for a worker is spread evenly over its law (a Latin hypercube), so that few
    thousand of them tell a mean square within a percent.
    """

    def __init__(self, has: Hardware, vectors: Doubles, powers_db: Doubles, rng: Generator) -> None:
        self.has, self._rng, (self._workers, self._symbols) = has, rng, vectors.shape
        self._before = 1 + has.silence_symbols  # the known symbol
        overhead = self._before + has.silence_symbols + has.guard_symbols
        fitting = int(has.resync_seconds * RATE) - overhead if has.resync_seconds else self._symbols
        self.firsts = range(0, self._symbols, min(self._symbols, fitting))  # of blocks
        self._doppler = has.speed_metres_per_second * has.carrier_hz / LIGHT
        sent = _rounded(vectors, np.abs(vectors).max(axis=1, keepdims=True), has.dac_bits)
        amplitude = 10.0 ** (has.amplitude_error_db * (2.0 * self._uniform() - 1.0) / 20.0)
        if has.power_step_db:
            amplitude *= 10.0 ** ((powers_db - has.power_step_db * np.ceil(powers_db / has.power_step_db)) / 20.0)
        amplitude *= self._uniform() >= has.absent
        of_slot = amplitude * (1.0 + self._gaussian(has.reciprocity_nmse_db))
        hertz = has.frequency_offset_hz * self._normal() + self._doppler * np.cos(2.0 * np.pi * self._uniform())
        delays = has.timing_offset_symbols * (2.0 * self._uniform() - 1.0)
        comes = np.where(self._uniform() < has.late, self._uniform(), 0.0)  # as a share of the slot
        self.blocks = []
        for first in self.firsts:
            data = sent[:, first : first + self.firsts.step]
            turned = np.exp(1j * has.phase_error_radians * self._normal())
            turned = turned * np.exp(1j * np.angle(1.0 + self._gaussian(has.estimation_nmse_db)))
            gain = of_slot * turned * (comes <= first / self._symbols)
            block = np.concatenate([np.ones((len(data), 1)), np.zeros((len(data), has.silence_symbols)), data], axis=1)
            parts = [slice(start, start + _AT_ONCE) for start in range(0, len(data), _AT_ONCE)]
            ends = self._normal()
            alone = [
                _sampled(has, block[some], gain[some], hertz[some], delays[some], ends[some], rng) for some in parts
            ]
            self.blocks.append(np.concatenate(alone))

    def receive(self, who: NDArray[np.int_]) -> Complex:
        """Return means of these workers' vectors, slots x workers, as the server has them; slots x symbols."""
        received = []
        for alone in self.blocks:
            heard = np.stack([alone[some].mean(axis=0) for some in who])
            seconds = (np.arange(self._before, heard.shape[1]) + 0.5) / RATE
            drift = _expected(self.has, self._doppler, seconds) / _expected(self.has, self._doppler, 0.5 / RATE)
            received.append(heard[:, self._before :] / (heard[:, :1] * drift))
        ends = np.cumsum([each.shape[1] for each in received])[:-1]
        digits = np.split(_converted(np.concatenate(received, axis=1), self.has.adc_bits), ends, axis=1)
        solved = [each @ _inverse_of_mean_pulse(self.has, each.shape[1]).T for each in digits]
        return np.concatenate(solved, axis=1)

    def _uniform(self) -> Doubles:
        return np.asarray((self._rng.permutation(self._workers) + self._rng.random(self._workers)) / self._workers)

    def _normal(self) -> Doubles:
        return np.asarray(ndtri(self._uniform()))

    def _gaussian(self, nmse_db: float) -> Complex:
        """Draw CN(0, nmse) of every worker."""
        return np.asarray(np.sqrt(10.0 ** (nmse_db / 10.0) / 2.0) * (self._normal() + 1j * self._normal()))


def _sampled(
    has: Hardware, block: Doubles, gain: Complex, hertz: Doubles, delays: Doubles, ends: Doubles, rng: Generator
) -> Complex:
    """Return what the server samples of a block of each worker alone, one number a symbol; workers x symbols of it."""
    workers, symbols = block.shape
    length = next_fast_len(SAMPLES * (symbols + 2 * MARGIN))
    impulses = np.zeros((workers, length))
    places = SAMPLES * (MARGIN + np.arange(symbols))
    impulses[:, places] = block
    per_symbol = rfftfreq(length, d=1.0 / SAMPLES)  # in cycles a symbol
    spectra = rfft(impulses, axis=1) * np.sqrt(raised_cosine_spectrum(per_symbol, has.roll_off))
    if delays.any():
        spectra *= np.exp(-2j * np.pi * per_symbol * delays[:, None])
    waveforms = gain[:, None] * irfft(spectra, length, axis=1)
    # The middle of the first symbol comes half a symbol after the resynchronisation.
    seconds = (np.arange(length) / SAMPLES - MARGIN + 0.5) / RATE
    phases = 2.0 * np.pi * hertz[:, None] * seconds
    if has.phase_noise_hz:
        steps = rng.standard_normal((workers, length)) * np.sqrt(2.0 * np.pi * has.phase_noise_hz / (SAMPLES * RATE))
        walk = np.cumsum(steps, axis=1)
        start = np.argmin(np.abs(seconds))
        walk -= walk[:, start : start + 1]
        # A Wiener process with another end: what it lacks there is missing in proportion to time.
        missing = np.sqrt(2.0 * np.pi * has.phase_noise_hz * (seconds[-1] - seconds[start])) * ends - walk[:, -1]
        walk += missing[:, None] * np.clip((seconds - seconds[start]) / (seconds[-1] - seconds[start]), 0.0, 1.0)
        phases += walk
    waveforms *= np.exp(1j * phases)
    matched = np.sqrt(raised_cosine_spectrum(fftfreq(length, d=1.0 / SAMPLES), has.roll_off))
    return np.asarray(SAMPLES * ifft(fft(waveforms, axis=1) * matched, axis=1)[:, places])


def raised_cosine_spectrum(per_symbol: Doubles, roll_off: float) -> Doubles:
    """Return 1 up to (1 - r) / 2 cycles a symbol, 0 beyond (1 + r) / 2, half a cosine between."""
    beyond = (np.abs(per_symbol) - (1.0 - roll_off) / 2.0) / roll_off
    return np.asarray(0.5 + 0.5 * np.cos(np.pi * np.clip(beyond, 0.0, 1.0)))


@lru_cache(maxsize=8)
def _inverse_of_mean_pulse(has: Hardware, symbols: int) -> Doubles:
    """Return the inverse of what symbols leave in each other on average over workers; symbols x symbols."""
    if not has.timing_offset_symbols:
        return np.eye(symbols)
    length = SAMPLES * 2 * (symbols + MARGIN)
    per_symbol = fftfreq(length, d=1.0 / SAMPLES)
    mean_ramp = np.sinc(2.0 * has.timing_offset_symbols * per_symbol)  # over a uniform delay
    pulse = ifft(raised_cosine_spectrum(per_symbol, has.roll_off) * mean_ramp).real[::SAMPLES]
    apart = np.abs(np.subtract.outer(np.arange(symbols), np.arange(symbols)))
    return np.asarray(np.linalg.inv(pulse[apart] / pulse[0]))


def _expected(has: Hardware, doppler: float, seconds: Doubles | float) -> Doubles:
    """Return E exp(j phi) so long after a resynchronisation."""
    variance = (2.0 * np.pi * has.frequency_offset_hz * seconds) ** 2 + 2.0 * np.pi * has.phase_noise_hz * seconds
    return np.asarray(np.exp(-variance / 2.0) * j0(2.0 * np.pi * doppler * seconds))


def _rounded(values: Doubles, largest: Doubles, bits: int) -> Doubles:
    if not bits:
        return values
    step = largest / (2 ** (bits - 1) - 1)
    return np.asarray(np.round(values / step) * step)


def _converted(received: Complex, bits: int) -> Complex:
    largest = np.maximum(np.abs(received.real), np.abs(received.imag)).max(axis=1, keepdims=True)
    return np.asarray(_rounded(received.real, largest, bits) + 1j * _rounded(received.imag, largest, bits))
