"""Nearest neighbours: how like a candidate is to the most similar mixture, both whitened.

It needs no model. Where few workers send and hardly any noise is on them, the rest of a slot is far from Gaussian, and
a slot that one sample dominates is told by its likeness better than by a likelihood ratio (``likelihood``).
"""

import numpy as np
import torch
from numpy.typing import NDArray

from airmixml.attacks.likelihood import Scores
from airmixml.attacks.whitening import NUMBERS_AT_ONCE, blocks_of, in_parts, whiten


def score_likeness(
    mixtures: torch.Tensor,
    held: torch.Tensor,
    decoys: torch.Tensor,
    whitening: torch.Tensor,
    numbers_at_once: int = NUMBERS_AT_ONCE,
) -> tuple[Scores, NDArray[np.int64]]:
    """Return the likeness of every candidate to its nearest mixture, and the held candidate nearest to each mixture.

    Likeness is the correlation of whitened vectors at the best scale and phase, for the attacker knows neither.
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


def most_alike(mixtures: torch.Tensor, samples: torch.Tensor, whitening: torch.Tensor) -> NDArray[np.int64]:
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
