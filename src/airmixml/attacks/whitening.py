"""Weaken what all mixtures have in common, so that what is left of one sample points nowhere else.

Two images, and two mixtures even more, are alike for being images: they share a mean and a few large components. An
attacker who knows no more than the mixtures takes both down to the size of the rest with their second moments.
"""

from typing import Final

import torch

NUMBERS_AT_ONCE: Final = 1 << 24
_LEAST_SHARE: Final = 1e-3


def blocks_of(rows: int, numbers_each: int, numbers_at_once: int = NUMBERS_AT_ONCE) -> list[slice]:
    """Return the rows in blocks of at most so many numbers; where there are none, one block without rows."""
    at_once = max(1, numbers_at_once // max(1, numbers_each))
    return [slice(first, first + at_once) for first in range(0, max(1, rows), at_once)]


def in_parts(mixtures: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return the mixtures, or their real and imaginary parts where they are complex; each slots x d, real."""
    return (mixtures.real, mixtures.imag) if mixtures.is_complex() else (mixtures,)


def unit_length(rows: torch.Tensor) -> torch.Tensor:
    """Return rows scaled to length 1, rows of zeros as they are; same shape, real or complex."""
    lengths: torch.Tensor = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return rows / lengths.clamp_min(1e-30)


def whiten(mixtures: torch.Tensor, whitening: torch.Tensor) -> torch.Tensor:
    """Return the mixtures whitened and scaled to length 1; slots x directions, real or complex."""
    parts = [part @ whitening for part in in_parts(mixtures)]
    return unit_length(torch.complex(*parts) if mixtures.is_complex() else parts[0])


def whitening_of(mixtures: torch.Tensor) -> torch.Tensor:
    """Return V diag(w)^(-1/2) of the mixtures' second moments; d x directions.

    The mean, which is the largest component of samples that are never negative, in any scale and phase, becomes one
    direction among many. Directions with less than a thousandth of the second component's power are left out, for
    they hold rounding or nothing. Every slot (slots x d, real or complex) counts alike, however loud it was.
    """
    symbols = mixtures.shape[1]
    moments = torch.zeros((symbols, symbols), dtype=torch.float64, device=mixtures.device)
    for part in in_parts(unit_length(mixtures)):
        moments += (part.T @ part).double()
    power: torch.Tensor
    power, directions = torch.linalg.eigh(moments / len(mixtures))  # ascending
    kept = power > _LEAST_SHARE * power[-2:][0].clamp_min(1e-30)
    whitening: torch.Tensor = directions[:, kept] / power[kept].sqrt()
    return whitening.to(mixtures.real.dtype)
