"""What a server does about workers that are off time: it undoes the mean of their pulses.

A sum of many workers hears the mean pulse E rc(m + tau), whatever each of them does. A server that is built for a class
of hardware knows within how much of a symbol its workers are on time, so it knows that mean, and solves for the symbols
of each block. Pilots have told the scale already, so the mean pulse is taken relative to its middle. What is left is
by how much the workers of a slot differ from the mean.
"""

from functools import lru_cache
from typing import Final

import numpy as np
import torch

from airmixml.arrays import Doubles
from airmixml.impairments.frame import Frame
from airmixml.impairments.timing import filter_blocks, timing_filters
from airmixml.scenario import Air

_LONGEST_SOLVED: Final = 1024  # symbols of a block; longer ones are filtered, which differs at their ends alone
_REACH: Final = 48
_FREQUENCIES: Final = 1024


def mean_pulse(air: Air) -> Doubles:
    """Return E rc(m + tau) / E rc(tau), tau uniform; 2 W + 1 symbols around the middle.

    Of a uniform x between -1 and 1 the mean of T_j is 1 / (1 - j^2) for even j, and 0 for odd ones.
    """
    filters = timing_filters(air.roll_off, air.timing_offset_symbols)
    means = np.array([0.0 if term % 2 else 1.0 / (1.0 - term**2) for term in range(len(filters))])
    pulse = means @ filters
    return np.asarray(pulse / pulse[len(pulse) // 2])


def equalise(symbols: torch.Tensor, air: Air, frame: Frame) -> torch.Tensor:
    """Return symbols without the mean of what their neighbours leave in them, block by block; slots x symbols."""
    length, count = frame.longest_block, symbols.shape[1]
    if length > _LONGEST_SOLVED:
        return filter_blocks(symbols, torch.from_numpy(_inverse_filter(air)).to(symbols.device), frame)
    whole = count // length * length
    parts = [(symbols[:, :whole].reshape(-1, length), length), (symbols[:, whole:], count - whole)]
    solved = [
        (part @ torch.from_numpy(_inverse(air, size)).to(part).T).reshape(len(symbols), -1)
        for part, size in parts
        if size
    ]
    return torch.cat(solved, dim=1)


def noise_gain(air: Air) -> float:
    """Return by how much equalising multiplies the power of noise, away from the ends of a block."""
    return float(np.square(_inverse_filter(air)).sum())


@lru_cache(maxsize=16)
def _inverse(air: Air, length: int) -> Doubles:
    """Return the inverse of the mean pulse on a block of so many symbols with silence around it; length x length."""
    pulse = mean_pulse(air)
    apart = np.arange(length)[None, :] - np.arange(length)[:, None] + len(pulse) // 2
    inside = (apart >= 0) & (apart < len(pulse))
    return np.asarray(np.linalg.inv(np.where(inside, pulse[apart.clip(0, len(pulse) - 1)], 0.0)))


@lru_cache(maxsize=16)
def _inverse_filter(air: Air) -> Doubles:
    """Return the inverse of the mean pulse in an endless block, cut off where it has died out; 2 W + 1 symbols."""
    pulse = mean_pulse(air)
    around = np.zeros(_FREQUENCIES)
    around[np.arange(len(pulse)) - len(pulse) // 2] = pulse
    response = np.fft.ifft(1.0 / np.fft.fft(around)).real
    return np.asarray(response[np.arange(-_REACH, _REACH + 1)])
