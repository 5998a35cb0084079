"""Hardware: converters and their gain, peak power, amplifiers, and the carrier that leaks.

Converters have uniform levels and saturate at the outermost: with b bits those of ``workers.bits``, two at the ends for
one bit, else 2^b - 1 with zero among them, so that silence stays silent. A converter rounds to the nearest level.
Automatic gain follows from the past alone: the outermost level of a block is ``HEADROOM`` times the largest symbol of
the blocks before it, as the converter saw them. A slot begins with what is known without data.

Clipping a real number to [-A, A], or a complex one to the disc of radius A, is a projection on a convex set: it
shortens vectors and never sets two of them farther apart. A follows from power, which depends on nobody's data.

A symbol of amplitude r leaves an amplifier that saturates at A with (Rapp 1991; the phase as of Saleh 1981)

    f(r) exp(j phi(r)),  f(r) = r / (1 + (r / A)^(2p))^(1 / (2p)),  phi(r) = turn (r / A)^2 / (1 + (r / A)^2).

f(r) <= r, so no vector gets longer. Two data of one worker are sent with the same power, so through the same map, which
moves a real symbol by at most the largest of sqrt(f'^2 + (f phi')^2) times as far (``expansion``). Samples of OFDM are
complex, where the Jacobian also has f / r across; its largest singular value takes that place.

A leaked carrier, ``air.carrier_leakage_db`` over the largest power that the worker radiates on average (3GPP TS
38.101-1, 6.4.2), is the same for any data. A removed worker takes it along: where ||v|| <= R, the carrier has at most
the norm sqrt(L) R. OFDM has it on the subcarrier of the carrier itself, which no data are sent on.
"""

import math
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
import torch
from scipy.special import ndtr

from airmixml.arrays import Doubles, db_to_ratio, dbm_to_watts
from airmixml.impairments.frame import Frame
from airmixml.impairments.gains import SeatDraws
from airmixml.scenario import Air
from airmixml.workers.payloads import steps_to_end

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


_NEGLIGIBLE: Final = 1e-3  # relative error of an amplitude, -60 dB: other errors of a transmitter are far larger
_DRIVES: Final = np.geomspace(1e-4, 1e4, 40_001)  # r / A, at which slopes are looked at
_BACKOFFS: Final = np.geomspace(1e-3, 1e6, 721)  # A^2 over the mean power of a Gaussian waveform
_NODES: Final = 96


def is_linear(air: Air, squared_drive: float) -> bool:
    """Return whether amplifiers hardly change anything up to (r / A)^2."""
    bent = math.pow(squared_drive, air.amplifier_smoothness) / (2.0 * air.amplifier_smoothness)
    return max(bent, math.radians(air.amplifier_turn_degrees) * squared_drive) < _NEGLIGIBLE


def amplify(air: Air, symbols: torch.Tensor, saturation: torch.Tensor | float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return real and imaginary part of what leaves amplifiers that saturate at A, which broadcasts; same shape."""
    power = 2.0 * air.amplifier_smoothness
    drive = (symbols / saturation).abs()
    # Far in saturation the power overflows, and f is A.
    kept = torch.exp(-torch.nn.functional.softplus(power * drive.clamp(min=1e-30).log()) / power)
    square = drive.square()
    phase = math.radians(air.amplifier_turn_degrees) * square / (1.0 + square)
    sent = symbols * kept
    return sent * phase.cos(), sent * phase.sin()


@lru_cache(maxsize=64)
def expansion(air: Air) -> float:
    """Return by how much the squared distance of two vectors may grow in an amplifier; 1: by nothing."""
    if math.isinf(air.amplifier_saturation_dbm):
        return 1.0
    p, turn = air.amplifier_smoothness, math.radians(air.amplifier_turn_degrees)
    with np.errstate(over="ignore"):
        kept = (1.0 + _DRIVES ** (2.0 * p)) ** (-1.0 / (2.0 * p))
        slope = kept / (1.0 + _DRIVES ** (2.0 * p))
    swing = _DRIVES * kept * turn * 2.0 * _DRIVES / (1.0 + _DRIVES**2) ** 2
    squares = slope**2 + swing**2
    if air.waveform != "single-carrier":  # of [[slope, 0], [swing, kept]]
        trace, determinant = squares + kept**2, (slope * kept) ** 2
        squares = (trace + np.sqrt(np.maximum(trace**2 - 4.0 * determinant, 0.0))) / 2.0
    largest = float(squares.max())
    return largest * (1.0 + 1e-6) if largest > 1.0 + 1e-12 else 1.0


def amplified_gaussian(air: Air, squared_saturation: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return gain (complex) and variance of the error where CN(0, 1) is amplified, of any shape (Bussgang)."""
    place = squared_saturation.double().clamp(_BACKOFFS[0], _BACKOFFS[-1]).log().cpu().numpy()
    real, imaginary, power = (np.interp(place, np.log(_BACKOFFS), column) for column in _bussgang(air))
    gain, kept = torch.complex(torch.from_numpy(real), torch.from_numpy(imaginary)), torch.from_numpy(power)
    error = (kept - gain.abs().square()).clamp(min=0.0)
    return gain.to(squared_saturation.device), error.to(squared_saturation.device)


@lru_cache(maxsize=16)
def _bussgang(air: Air) -> tuple[Doubles, Doubles, Doubles]:
    """Return E[conj(x) F(x)], both parts, and E[|F(x)|^2] of CN(0, 1) at each back-off; |x|^2 is exponential."""
    squares, weights = np.polynomial.laguerre.laggauss(_NODES)
    sizes = torch.from_numpy(np.sqrt(squares))[None, :]
    along, across = (each.numpy() for each in amplify(air, sizes, torch.from_numpy(np.sqrt(_BACKOFFS))[:, None]))
    weighted = weights * np.sqrt(squares)
    return along @ weighted, across @ weighted, (along**2 + across**2) @ weights


def removal_factor(air: Air) -> float:
    """Return by how much the squared norm of what a worker sends may grow through its carrier; 1 without."""
    return (1.0 + math.sqrt(db_to_ratio(air.carrier_leakage_db))) ** 2


def leaked(air: Air, draws: SeatDraws, arrives: torch.Tensor, mean_square: torch.Tensor | float) -> torch.Tensor | None:
    """Return the carriers of workers in the sum of every symbol; slots x pieces, complex. None: there are none.

    ``arrives`` is g of each seat and piece, both parts, 2 x slots x seats x pieces; ``mean_square`` q^2 times the
    largest mean square that a worker's symbols may have, slots x seats.
    """
    if math.isinf(air.carrier_leakage_db) or air.waveform != "single-carrier":
        return None
    turns = 2.0 * math.pi * draws.uniforms("carrier-leakage")
    square = torch.as_tensor(mean_square, dtype=turns.dtype, device=turns.device) * db_to_ratio(air.carrier_leakage_db)
    amplitude = square.expand(turns.shape[:2]).sqrt()[:, :, None]
    rows = torch.stack([amplitude * turns.cos(), amplitude * turns.sin()], dim=1)[..., 0].to(arrives.dtype)
    (along, turned), (back, across) = ((rows @ part).double().unbind(dim=1) for part in arrives)
    return torch.complex(along - across, turned + back)
