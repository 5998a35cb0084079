"""Amplifiers of transmitters, which compress large amplitudes and turn their phase: AM/AM and AM/PM without memory.

A symbol of amplitude r leaves an amplifier that saturates at A with

    f(r) exp(j phi(r)),  f(r) = r / (1 + (r / A)^(2p))^(1 / (2p)),  phi(r) = turn (r / A)^2 / (1 + (r / A)^2).

The first is the model of Rapp (1991, ECSC) for solid-state amplifiers; the second grows with the power and ends far in
saturation, like the phase of Saleh (1981, IEEE Trans. Commun. 29(11)).

Privacy. f(r) <= r, so no vector gets longer. Two data of one worker are sent with the same power, so through the same
map. It moves a real symbol by at most the largest of abs(d/dr f exp(j phi)) = sqrt(f'^2 + (f phi')^2) times as far
(``expansion``): 1 without AM/PM, since f' <= 1, and with a turn that f' makes up for. Samples of OFDM are complex,
where the Jacobian also has f / r across; its largest singular value takes that place.
"""

import math
from functools import lru_cache
from typing import Final

import numpy as np
import torch

from airmixml.arrays import Doubles
from airmixml.scenario import Air

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
