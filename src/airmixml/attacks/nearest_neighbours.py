"""Nearest neighbours: how like a candidate is to the most similar mixture, both whitened.

Two images, and two mixtures even more, are alike for being images: they share a mean and a few large components. An
attacker who knows no more than the mixtures takes both down to the size of the rest with their second moments, so that
what is left of one sample points nowhere else.

It needs no model. Where few workers send and hardly any noise is on them, the rest of a slot is far from Gaussian, and
a slot that one sample dominates is told by its nearest neighbour better than by a likelihood ratio (``likelihood``).
"""

from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from airmixml.attacks.linkage import Scores

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


def score_neighbours(
    mixtures: torch.Tensor,
    held: torch.Tensor,
    decoys: torch.Tensor,
    whitening: torch.Tensor,
    numbers_at_once: int = NUMBERS_AT_ONCE,
) -> tuple[Scores, NDArray[np.int64]]:
    """Return every candidate's correlation with its nearest mixture, and the held candidate nearest to each mixture.

    Correlations are of whitened vectors at the best scale and phase, for the attacker knows neither.
    Mixtures are slots x d, real or complex; candidates are samples x d, and the whitening d x directions.
    """
    candidates = whiten(torch.cat([held, decoys]).to(mixtures.real.dtype), whitening)
    best = torch.full((len(candidates),), -torch.inf, dtype=candidates.dtype, device=mixtures.device)
    nearest = []
    for some in blocks_of(len(mixtures), len(candidates), numbers_at_once):
        likeness = correlations(mixtures[some], whitening, candidates)
        best = torch.maximum(best, likeness.amax(dim=0))
        nearest.append(likeness[:, : len(held)].argmax(dim=1))
    scores = best.double().cpu().numpy()
    return Scores(held=scores[: len(held)], decoys=scores[len(held) :]), torch.cat(nearest).cpu().numpy()


def nearest_sample(mixtures: torch.Tensor, samples: torch.Tensor, whitening: torch.Tensor) -> NDArray[np.int64]:
    """Return the row of ``samples`` that correlates most with each mixture, both whitened; shape mixtures."""
    theirs = whiten(samples, whitening)
    kind = torch.complex64 if mixtures.is_complex() else theirs.dtype
    found = [
        correlations(mixtures[some].to(kind), whitening, theirs).argmax(dim=1)
        for some in blocks_of(len(mixtures), len(theirs))
    ]
    return np.asarray(torch.cat(found).cpu().numpy())


def correlations(mixtures: torch.Tensor, whitening: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
    """Return correlations with unit candidates (candidates x directions), at the best phase; slots x candidates."""
    products = [part @ candidates.T for part in in_parts(whiten(mixtures, whitening))]
    return torch.hypot(*products) if len(products) == 2 else products[0]
