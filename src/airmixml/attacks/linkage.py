"""Which of many candidate samples lies behind a mixture, and so behind the run: what scores of them show.

The attacker knows no schedule and no ratio. It holds candidates, some of which workers hold (private) and some of which
nobody does (public decoys), and scores each. If the private ones stand out, taking part in the run has been revealed;
if the likeliest private sample of a mixture is that of the worker who dominates it, so has the worker behind the slot.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, rankdata

from airmixml.errors import ScenarioError

FALSE_POSITIVES: Final = 0.01


@dataclass(frozen=True, kw_only=True, eq=False)
class Scores:
    """Scores of samples that are held, and of decoys that nobody holds: likelihood ratios in logs, or correlations."""

    held: NDArray[np.float64]
    decoys: NDArray[np.float64]


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
        method: what the candidates were scored by, "likelihood" or "likeness".
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
    method: str


def link(scores: Scores, nearest: NDArray[np.int64], dominating: NDArray[np.int64], *, method: str) -> Linkage:
    """Judge scores of candidates that workers hold and of decoys, and the likeliest held candidate of each mixture.

    ``dominating`` is the one with the largest share of each mixture, by its number among the held candidates, -1 where
    nobody sent or that one is no candidate; both have the shape of the mixtures.
    """
    private_scores, public_scores = scores.held, scores.decoys
    members, decoys = len(private_scores), len(public_scores)
    if not members or not decoys:
        raise ScenarioError(f"{members} private and {decoys} public candidates: must be at least one of each")
    named, known = nearest[dominating >= 0], dominating[dominating >= 0]
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
        method=method,
    )


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
