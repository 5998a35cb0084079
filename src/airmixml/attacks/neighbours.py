"""Nearest neighbours of whitened mixtures: an attack without a model.

Mixtures of images share a mean and a few large components; whitening by their second moments leaves of one sample what
points nowhere else. Where few workers send with hardly any noise, a nearest neighbour tells more than a likelihood
ratio.
"""

from typing import Final

import numpy as np
import torch

from airmixml.arrays import Integers
from airmixml.attacks.inference import Scores
from airmixml.attacks.sample_symbols import NUMBERS_AT_ONCE, blocks_of

_LEAST_SHARE: Final = 1e-3


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
) -> Scores:
    """Return every candidate's correlation with its nearest mixture.

    Correlations are of whitened vectors at the best scale and phase, for the attacker knows neither.
    Mixtures are slots x d, real or complex; candidates are samples x d, and the whitening d x directions.
    """
    candidates = whiten(torch.cat([held, decoys]).to(mixtures.real.dtype), whitening)
    best = torch.full((len(candidates),), -torch.inf, dtype=candidates.dtype, device=mixtures.device)
    for some in blocks_of(len(mixtures), len(candidates), numbers_at_once):
        best = torch.maximum(best, _correlations(mixtures[some], whitening, candidates).amax(dim=0))
    scores = best.double().cpu().numpy()
    return Scores(held=scores[: len(held)], decoys=scores[len(held) :])


def nearest_sample(mixtures: torch.Tensor, samples: torch.Tensor, whitening: torch.Tensor) -> Integers:
    """Return the row of ``samples`` that correlates most with each mixture, both whitened; shape mixtures."""
    theirs = whiten(samples, whitening)
    kind = torch.complex64 if mixtures.is_complex() else theirs.dtype
    found = [
        _correlations(mixtures[some].to(kind), whitening, theirs).argmax(dim=1)
        for some in blocks_of(len(mixtures), len(theirs))
    ]
    return np.asarray(torch.cat(found).cpu().numpy())


def _correlations(mixtures: torch.Tensor, whitening: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
    """Return correlations with unit candidates (candidates x directions), at the best phase; slots x candidates."""
    products = [part @ candidates.T for part in in_parts(whiten(mixtures, whitening))]
    return torch.hypot(*products) if len(products) == 2 else products[0]
