"""Converters between numbers and voltages, with uniform levels and saturation at the outermost; gain; peak power.

With b bits the levels are those of ``workers.bits``: two at the ends for one bit, else 2^b - 1 with zero among them, so
that silence stays silent. A converter rounds to the nearest level; nothing about it is random.

Automatic gain of the server's converter, from the past alone: the outermost level of a block is ``HEADROOM`` times the
largest symbol of the blocks before it in the slot, as the converter saw them. A slot begins with what is known without
data: the declared norm over all symbols, times 32, since products have symbols of 30 root mean squares, and four
deviations of the noise.

Peak power: what a transmitter clips, of single symbols and of the sum of many subcarriers. Clipping a real number to
[-A, A], or a complex one to the disc of radius A, is a projection on a convex set. It shortens vectors and never sets
two of them farther apart, so every declared norm and every sensitivity still holds; A follows from power, which depends
on nobody's data.
"""

import math
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
import torch
from scipy.special import ndtr

from airmixml.arrays import dbm_to_watts
from airmixml.impairments.frame import Frame

HEADROOM: Final = 8.0  # 18 dB: of products, a later block may have symbols several times as large
_START_ROOT_MEAN_SQUARES: Final = 32.0
_START_DEVIATIONS: Final = 4.0
_MOST_BITS_LEVEL_BY_LEVEL: Final = 12


class LinearModel(NamedTuple):
    """What a device that is not linear does to a Gaussian signal of variance 1: Q(x) = gain x + error.

    Bussgang (1952): with gain = E[x Q(x)] the error is not correlated with the signal.
    """

    gain: float
    error_variance: float


def steps_to_end(bits: int) -> float:
    """Return how many steps lie between zero and the outermost level."""
    return 0.5 if bits == 1 else float(2 ** (bits - 1) - 1)


def round_to_levels(values: torch.Tensor, largest: torch.Tensor | float, bits: int) -> torch.Tensor:
    """Return the nearest levels between -largest and largest, which broadcasts against the values."""
    end = steps_to_end(bits)
    largest = torch.as_tensor(largest, dtype=values.dtype, device=values.device)
    step = (largest / end).clamp(min=torch.finfo(values.dtype).tiny)
    places = torch.floor(values / step).add_(0.5) if bits == 1 else torch.round(values / step)
    return places.clamp_(-end, end).mul_(step)


def rounding_variance(largest: torch.Tensor, bits: int) -> torch.Tensor:
    """Return step^2 / 12, the variance of an error that is uniform between half a step below and above."""
    return (largest / steps_to_end(bits)).square() / 12.0


@lru_cache(maxsize=64)
def gaussian_rounding(bits: int, largest: float) -> LinearModel:
    """Return what rounding to levels up to ``largest`` does to a standard normal value.

    With thresholds t between neighbouring levels l, E[x Q(x)] = sum (l_next - l) phi(t) and
    E[Q(x)^2] = sum l^2 (Phi(t_above) - Phi(t_below)). Many bits: no gain, step^2 / 12, and what saturates is left out.
    """
    end = steps_to_end(bits)
    step = largest / end
    if bits > _MOST_BITS_LEVEL_BY_LEVEL:
        return LinearModel(1.0, step**2 / 12.0)
    levels = step * np.arange(-end, end + 1.0)
    thresholds = (levels[1:] + levels[:-1]) / 2.0
    gain = float(np.sum(step * np.exp(-(thresholds**2) / 2.0))) / math.sqrt(2.0 * math.pi)
    edges = np.concatenate([[0.0], ndtr(thresholds), [1.0]])
    return LinearModel(gain, float(np.sum(levels**2 * np.diff(edges))) - gain**2)


def first_level(largest_norm: float, symbols: int, deviation: torch.Tensor) -> torch.Tensor:
    """Return the outermost level of the first block, for noise of that deviation on a symbol; shape of it."""
    of_data = largest_norm * min(1.0, _START_ROOT_MEAN_SQUARES / math.sqrt(symbols))
    return of_data + _START_DEVIATIONS * deviation


def causal_levels(received: torch.Tensor, frame: Frame, start: torch.Tensor, headroom: float) -> torch.Tensor:
    """Return the outermost level for every symbol that is received, slots x symbols; ``start`` has shape slots."""
    block_of = torch.tensor(frame.blocks, device=received.device)
    block_of = block_of.repeat_interleave(torch.tensor(frame.lengths, device=received.device))
    peaks = torch.zeros((len(received), frame.block_count), dtype=torch.float64, device=received.device)
    peaks.scatter_reduce_(1, block_of.expand(len(received), -1), received.abs().double(), "amax")
    levels, seen = [start.double()], torch.zeros_like(start, dtype=torch.float64)
    for block in range(frame.block_count - 1):
        seen = torch.maximum(seen, torch.minimum(peaks[:, block], levels[-1]))
        levels.append(headroom * seen)
    return torch.stack(levels, dim=1)[:, block_of]


def limit_amplitude(limit_dbm: float, power_watts: torch.Tensor) -> torch.Tensor | None:
    """Return A = sqrt(P_limit / P), where a symbol of amplitude 1 is sent with power P; None without a limit."""
    return None if math.isinf(limit_dbm) else (dbm_to_watts(limit_dbm) / power_watts.double()).sqrt()


def clipped_gaussian(squared_limit: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return gain and variance of the error where CN(0, 1) is clipped to magnitude sqrt(r), r of any shape.

    Bussgang: a = E[|x| min(|x|, A)] = 1 - exp(-r) + sqrt(pi r) / 2 erfc(sqrt(r)), and the error has
    E[min(|x|, A)^2] - a^2 = 1 - exp(-r) - a^2 (Ochiai and Imai 2002).
    """
    kept = -torch.expm1(-squared_limit)
    root = squared_limit.sqrt()
    tail = torch.where(torch.isinf(root), 0.0, math.sqrt(math.pi) / 2.0 * root * torch.erfc(root))
    gain = kept + tail
    return gain, (kept - gain.square()).clamp(min=0.0)


def gaussian_peak(samples: int) -> float:
    """Return the expected largest power among so many samples of a Gaussian waveform, over its mean.

    The largest of n exponentials of mean 1 has the mean 1 + 1/2 + ... + 1/n, near ln n + 0.577.
    """
    return math.log(samples) + 0.5772156649015329
