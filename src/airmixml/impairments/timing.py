"""Workers that are early or late by a fraction of a symbol.

On a single carrier, a worker that is off by tau symbols arrives as sum_m rc(m + tau) v_(k+m) in symbol k: a little of
its neighbours in every symbol. With OFDM, as long as all of it stays within the cyclic prefix, being late turns each
subcarrier: exp(-2 pi j f tau).

None of this costs privacy. A server may listen to the waveform in continuous time and know tau. What worker i adds to
it is sum_n v_n p(t - n - tau), and shifted pulses are orthonormal whatever tau: the distance between the waveforms of
two samples is that between their symbols. Those of a server that samples at the planned times hold no more.

The fast path expands rc(m + tau) = sum_k p_k(tau) f_km in the directions f_k that hold most of it (singular vectors),
with polynomials p_k. Then all workers together are sum_k f_k * (sum_i q_i p_k(tau_i) v_i): a few weighted sums, each
filtered along the symbols of a block. Terms are added until all of them together miss at most ``PULSE_ERROR`` of a unit
symbol: 4 for a third of a symbol.

A server that is built for a class of hardware knows the mean pulse E rc(m + tau), and solves for the symbols of each
block (``Pulse.equalise``). Pilots, which stand alone amid silence, have told the scale already, so the mean pulse is
taken relative to its middle.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final, Self

import numpy as np
import torch
from numpy.polynomial import chebyshev

from airmixml.arrays import Doubles
from airmixml.impairments.frame import Frame
from airmixml.impairments.gains import Impairment, SeatDraws
from airmixml.scenario import Scenario
from airmixml.scenario.air import PULSE_ERROR, SYMBOLS_PER_SECOND, Air, raised_cosine, ringing_symbols

_FINE: Final = 64  # points that decide the coefficients, which fall faster than any power
_NEGLIGIBLE: Final = 1e-9
_OF_NODES: Final = 0.9  # of what may be missed is missed at those points, where it differs least
_RUN: Final = 64
_LONGEST_SOLVED: Final = 1024  # symbols of a block; longer ones are filtered, which differs at their ends alone
_REACH: Final = 48
_INVERTED_FREQUENCIES: Final = 1024
_OFFSETS, _FREQUENCIES, _BETWEEN = 129, 4096, 1e-4  # a grid for the largest response, and what may lie between


def smears(air: Air) -> bool:
    """Return whether symbols reach into their neighbours: on a single carrier where workers are off time."""
    return air.timing_offset_symbols > 0.0 and air.waveform == "single-carrier"


def draw_offsets(draws: SeatDraws) -> torch.Tensor:
    """Draw tau in units of the largest, uniform between -1 and 1; slots x scheduled."""
    return 2.0 * draws.uniforms("timing-offset")[:, :, 0] - 1.0


def filter_blocks(symbols: torch.Tensor, taps: torch.Tensor, frame: Frame) -> torch.Tensor:
    """Return sum_m taps_m v_(k+m) in each block by itself, silence around it, by matrix products; slots x symbols."""
    count, length, reach = symbols.shape[1], frame.longest_block, len(taps) // 2
    run = min(_RUN, length)
    padded = torch.nn.functional.pad(symbols, (0, frame.block_count * length - count)).reshape(-1, length)
    after = -length % run
    around = torch.nn.functional.pad(padded, (reach, reach + after)).unfold(1, run + 2 * reach, run)
    matrix = taps.new_zeros((run + 2 * reach, run), dtype=symbols.dtype)
    for symbol in range(run):
        matrix[symbol : symbol + len(taps), symbol] = taps
    filtered = (around @ matrix).reshape(len(padded), -1)[:, :length]
    return filtered.reshape(len(symbols), -1)[:, :count]


class Pulse:
    """rc(m + largest x) = sum_k p_k(x) f_km for x between -1 and 1, p_k(x) = sum_j c_jk T_j(x).

    It has the fewest terms that miss at most ``PULSE_ERROR``.
    """

    def __init__(self, roll_off: float, largest: float) -> None:
        reach = ringing_symbols(roll_off, largest)
        places = np.cos(np.pi * (np.arange(_FINE) + 0.5) / _FINE)
        pulse = np.array([[raised_cosine(m + largest * x, roll_off) for m in range(-reach, reach + 1)] for x in places])
        every = np.asarray(chebyshev.chebfit(places, pulse, _FINE // 2))
        degrees = int(np.flatnonzero(np.linalg.norm(every, axis=1) > _NEGLIGIBLE)[-1]) + 1
        directions = np.linalg.svd(pulse, full_matrices=False)[2]
        left = pulse[None] - np.cumsum((pulse @ directions.T).T[:, :, None] * directions[:, None, :], axis=0)
        terms = int(np.argmax(np.linalg.norm(left, axis=2).max(axis=1) < _OF_NODES * PULSE_ERROR)) + 1
        self.filters: Doubles = directions[:terms]  # f; terms x (2 W + 1) symbols
        self.coefficients: Doubles = every[:degrees] @ directions[:terms].T  # c; degrees x terms

    @cached_property
    def backoff(self) -> float:
        """What keeps the expansion from amplifying any vector, 1 or a few thousandths less.

        A sampled pulse amplifies none; terms and symbols that are left out may, by as much as they miss. Sums are
        multiplied with this, pilots too, so that statements hold for what is computed, to the last digit.
        """
        places = np.linspace(-1.0, 1.0, _OFFSETS)
        offsets = chebyshev.chebvander(places, len(self.coefficients) - 1) @ self.coefficients
        response = float(np.abs(np.fft.rfft(offsets @ self.filters, _FREQUENCIES, axis=1)).max())
        return 1.0 / max(1.0, response * (1.0 + _BETWEEN))

    def factors(self, offsets: torch.Tensor) -> torch.Tensor:
        """Return p_k of offsets between -1 and 1, backed off; their shape x terms."""
        values = [torch.ones_like(offsets), offsets]
        while len(values) < len(self.coefficients):
            values.append(2.0 * offsets * values[-1] - values[-2])
        backed_off = self.backoff * torch.from_numpy(self.coefficients)
        return torch.stack(values[: len(self.coefficients)], dim=-1) @ backed_off.to(offsets)

    @cached_property
    def mean_factors(self) -> Doubles:
        """The means of p_k for a uniform x between -1 and 1: of T_j it is 1 / (1 - j^2), or 0 for odd j."""
        means = [0.0 if degree % 2 else 1.0 / (1.0 - degree**2) for degree in range(len(self.coefficients))]
        return np.asarray(np.array(means) @ self.coefficients)

    def pilot_gain(self, offsets: torch.Tensor) -> torch.Tensor:
        """Return rc(tau), with which a pilot alone amid silence arrives, backed off; shape of the offsets."""
        return self.factors(offsets) @ torch.from_numpy(self.filters[:, self.filters.shape[1] // 2]).to(offsets)

    def smear(self, sums: torch.Tensor, frame: Frame) -> torch.Tensor:
        """Return sum_i sum_m rc(m + tau_i) w_i v_i(k + m), slots x symbols, of sums weighted with ``factors``."""
        mixed = torch.zeros_like(sums[0])
        for taps, one in zip(torch.from_numpy(self.filters).to(sums.device), sums, strict=True):
            mixed += filter_blocks(one, taps, frame)
        return mixed

    @cached_property
    def mean(self) -> Doubles:
        """E rc(m + tau) / E rc(tau), tau uniform; 2 W + 1 symbols around the middle."""
        pulse = self.mean_factors @ self.filters
        return np.asarray(pulse / pulse[len(pulse) // 2])

    def equalise(self, symbols: torch.Tensor, frame: Frame) -> torch.Tensor:
        """Return symbols without the mean of what their neighbours leave in them, block by block; slots x symbols."""
        length, count = frame.longest_block, symbols.shape[1]
        if length > _LONGEST_SOLVED:
            return filter_blocks(symbols, torch.from_numpy(self._inverse_filter).to(symbols.device), frame)
        whole = count // length * length
        parts = [(symbols[:, :whole].reshape(-1, length), length), (symbols[:, whole:], count - whole)]
        solved = [
            (part @ torch.from_numpy(_inverse(self, size)).to(part).T).reshape(len(symbols), -1)
            for part, size in parts
            if size
        ]
        return torch.cat(solved, dim=1)

    @property
    def noise_gain(self) -> float:
        """By how much equalising multiplies the power of noise, away from the ends of a block."""
        return float(np.square(self._inverse_filter).sum())

    @cached_property
    def _inverse_filter(self) -> Doubles:
        """The inverse of the mean pulse in an endless block, cut off where it has died out; 2 W + 1 symbols."""
        around = np.zeros(_INVERTED_FREQUENCIES)
        around[np.arange(len(self.mean)) - len(self.mean) // 2] = self.mean
        response = np.fft.ifft(1.0 / np.fft.fft(around)).real
        return np.asarray(response[np.arange(-_REACH, _REACH + 1)])


@lru_cache(maxsize=16)
def _inverse(pulse: Pulse, length: int) -> Doubles:
    """Return the inverse of the mean pulse on a block of so many symbols with silence around it; length x length."""
    mean = pulse.mean
    apart = np.arange(length)[None, :] - np.arange(length)[:, None] + len(mean) // 2
    inside = (apart >= 0) & (apart < len(mean))
    return np.asarray(np.linalg.inv(np.where(inside, mean[apart.clip(0, len(mean) - 1)], 0.0)))


_pulse: Final = lru_cache(maxsize=64)(Pulse)


def pulse_of(air: Air) -> Pulse:
    """Return the pulse of an air whose symbols reach into their neighbours."""
    return _pulse(air.roll_off, air.timing_offset_symbols)


@dataclass(frozen=True)
class TimingSlope(Impairment):
    """exp(-2 pi j f tau) with OFDM, tau uniform within the largest offset: phases that fall along the subcarriers."""

    about = "timing offset within the cyclic prefix of OFDM"
    largest_seconds: float

    @classmethod
    def of(cls, scenario: Scenario) -> Self | None:
        air = scenario.air
        largest = air.timing_offset_symbols if air.waveform == "ofdm" else 0.0
        return cls(largest / SYMBOLS_PER_SECOND) if largest else None

    def angle(self, draws: SeatDraws) -> torch.Tensor:
        hertz = torch.tensor(draws.frame.hertz, device=draws.workers.device)
        return draws.times((-2.0 * math.pi * self.largest_seconds * draw_offsets(draws)[:, :, None]).float(), hertz)
