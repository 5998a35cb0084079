"""Nearest neighbours: which of many candidate samples lies behind a mixture, and so behind the run.

The attacker knows no schedule and no ratio. It holds candidates, some of which workers hold (private) and some of which
nobody does (public decoys), and asks of each how like the most similar mixture is to it. If the private ones stand out,
taking part in the run has been revealed; if the nearest private sample of a mixture is that of the worker who dominates
it, so has the worker behind the slot.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import binom, rankdata

from airmixml.attacks.whitening import NUMBERS_AT_ONCE, blocks_of, whiten, whitening_of
from airmixml.errors import ScenarioError

FALSE_POSITIVES: Final = 0.01


@dataclass(frozen=True, kw_only=True)
class Linkage:
    """How well private candidates are told from public ones, and slots from each other.

    Attributes:
        auc: probability that a private candidate scores above a decoy; 1/2 is chance.
        auc_chance_deviation: standard deviation of that under chance, for candidates that are not alike.
        hit_rate: private candidates that score above all but 1 % of the decoys; 0.01 is chance.
        false_positive_rate: that 1 %.
        reidentified: share of the slots whose nearest private candidate is that of the dominating worker.
        reidentified_chance: the same for a guess among the private candidates.
        reidentified_p_value: of so many, were every candidate that dominates a slot named once, and by guessing.
        private_candidates, public_candidates: how many there are; the public ones are the decoys.
    """

    auc: float
    auc_chance_deviation: float
    hit_rate: float
    false_positive_rate: float
    reidentified: float
    reidentified_chance: float
    reidentified_p_value: float
    private_candidates: int
    public_candidates: int


def link_candidates(
    mixtures: torch.Tensor,
    private: torch.Tensor,
    public: torch.Tensor,
    *,
    dominating: NDArray[np.int64] | None = None,
    whitening: torch.Tensor | None = None,
) -> Linkage:
    """Score every candidate by its likeness to the most similar mixture, and judge the scores.

    Args:
        mixtures: what the attacker has received; slots x d, real or complex.
        private: samples that workers hold, each once; candidates x d, on the mixtures' device.
        public: samples that nobody holds; candidates x d.
        dominating: number of the private candidate with the largest share of each slot, -1 where nobody sent; slots.
        whitening: d x directions; by default that of the mixtures, which takes many of them.
    """
    private_scores, public_scores, nearest = score_candidates(mixtures, private, public, whitening)
    members, decoys = len(private), len(public)
    known = np.full(len(mixtures), -1) if dominating is None else dominating
    named, known = nearest[known >= 0], known[known >= 0]
    reidentified = float(np.mean(named == known)) if len(known) else 0.0
    different = len(np.unique(known))  # slots of one candidate count as one
    return Linkage(
        auc=area_under_curve(private_scores, public_scores),
        auc_chance_deviation=float(np.sqrt((members + decoys + 1) / (12.0 * members * decoys))),
        hit_rate=hit_rate(private_scores, public_scores, FALSE_POSITIVES),
        false_positive_rate=FALSE_POSITIVES,
        reidentified=reidentified,
        reidentified_chance=1.0 / members,
        reidentified_p_value=float(binom.sf(math.floor(reidentified * different) - 1, different, 1.0 / members)),
        private_candidates=members,
        public_candidates=decoys,
    )


def score_candidates(
    mixtures: torch.Tensor,
    private: torch.Tensor,
    public: torch.Tensor,
    whitening: torch.Tensor | None = None,
    numbers_at_once: int = NUMBERS_AT_ONCE,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """Return the likeness of every private and public candidate to its nearest mixture, and the nearest private one.

    Likeness is the correlation of whitened vectors at the best scale and phase, for the attacker knows neither. The
    nearest private candidate is that of each mixture; slots. Arguments are those of ``link_candidates``.
    """
    if not len(mixtures) or not len(private) or not len(public):
        raise ScenarioError(
            f"{len(mixtures)} mixtures, {len(private)} private and {len(public)} public candidates: must be at least "
            "one of each"
        )
    whitening = whitening_of(mixtures) if whitening is None else whitening
    candidates = whiten(torch.cat([private, public]).to(mixtures.real.dtype), whitening)
    best = torch.full((len(candidates),), -torch.inf, dtype=candidates.dtype, device=mixtures.device)
    nearest = []
    for some in blocks_of(len(mixtures), len(candidates), numbers_at_once):
        likeness = correlations(mixtures[some], whitening, candidates)
        best = torch.maximum(best, likeness.amax(dim=0))
        nearest.append(likeness[:, : len(private)].argmax(dim=1))
    scores = best.double().cpu().numpy()
    return scores[: len(private)], scores[len(private) :], torch.cat(nearest).cpu().numpy()


def correlations(mixtures: torch.Tensor, whitening: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
    """Return correlations with unit candidates (candidates x directions), at the best phase; slots x candidates."""
    whitened = whiten(mixtures, whitening)
    if not whitened.is_complex():
        return whitened @ candidates.T
    return torch.hypot(whitened.real @ candidates.T, whitened.imag @ candidates.T)


def area_under_curve(private_scores: NDArray[np.float64], public_scores: NDArray[np.float64]) -> float:
    """Return P(private > public) + P(private = public) / 2 over all pairs, from ranks (Mann and Whitney)."""
    members, decoys = len(private_scores), len(public_scores)
    ranks = rankdata(np.concatenate([private_scores, public_scores]))
    return float((ranks[:members].sum() - members * (members + 1) / 2.0) / (members * decoys))


def hit_rate(
    private_scores: NDArray[np.float64], public_scores: NDArray[np.float64], false_positive_rate: float
) -> float:
    """Return the share of private scores above a threshold that no more than that share of the decoys passes."""
    passing = int(false_positive_rate * len(public_scores))
    threshold = np.sort(public_scores)[::-1][passing]
    return float(np.mean(private_scores > threshold))
