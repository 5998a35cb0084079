"""Membership, identity and labels: what scores of candidates, names and label symbols show.

The attacker knows no schedule and no ratio. It scores candidates, some of which workers hold (private) and some nobody
does (decoys). If the private ones stand out, taking part has been revealed; if the likeliest private sample of a
mixture is that of the worker who dominates it, so has the worker behind the slot.
"""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, hypergeom, rankdata

from airmixml.arrays import Doubles, Integers
from airmixml.errors import ScenarioError

FALSE_POSITIVES: Final = 0.01
_LARGEST_SHARE: Final = 20
_ALIKE: Final = 1.001


@dataclass(frozen=True, kw_only=True, eq=False)
class Scores:
    """Scores of samples that are held, and of decoys that nobody holds: likelihood ratios in logs, or correlations."""

    held: Doubles
    decoys: Doubles


@dataclass(frozen=True, kw_only=True)
class Linkage:
    """How well private candidates are told from public ones, the decoys."""

    auc: float  # probability that a private candidate scores above a decoy; 1/2 is chance
    auc_chance_deviation: float  # standard deviation of that under chance, for candidates that are not alike
    hit_rate: float  # private candidates that score above all but 1 % of the decoys; 0.01 is chance
    private_candidates: int
    public_candidates: int
    method: str  # what the candidates were scored by, "likelihood" or "likeness"


def link(scores: Scores, method: str) -> Linkage:
    """Judge scores of candidates that workers hold, and of decoys."""
    members, decoys = len(scores.held), len(scores.decoys)
    if not members or not decoys:
        raise ScenarioError(f"{members} private and {decoys} public candidates: must be at least one of each")
    return Linkage(
        auc=area_under_curve(scores.held, scores.decoys),
        auc_chance_deviation=float(np.sqrt((members + decoys + 1) / (12.0 * members * decoys))),
        hit_rate=hit_rate(scores.held, scores.decoys, FALSE_POSITIVES),
        private_candidates=members,
        public_candidates=decoys,
        method=method,
    )


def area_under_curve(private_scores: Doubles, public_scores: Doubles) -> float:
    """Return P(private > public) + P(private = public) / 2 over all pairs, from ranks (Mann and Whitney)."""
    members, decoys = len(private_scores), len(public_scores)
    ranks = rankdata(np.concatenate([private_scores, public_scores]))
    return float((ranks[:members].sum() - members * (members + 1) / 2.0) / (members * decoys))


def hit_rate(private_scores: Doubles, public_scores: Doubles, false_positive_rate: float) -> float:
    """Return the share of private scores above a threshold that no more than that share of the decoys passes."""
    passing = int(false_positive_rate * len(public_scores))
    threshold = np.sort(public_scores)[::-1][passing]
    return float(np.mean(private_scores > threshold))


@dataclass(frozen=True, kw_only=True)
class Identified:
    """Slots whose strongest worker's sample was looked up among all that are held; ``p_value`` is by guessing."""

    looked_at: int
    identified: int
    p_value: float


def identified(named: Integers, right: Integers, among: int) -> Identified:
    """Return how many names are right; rows of the pool each, guessed among so many."""
    count = int((named == right).sum())
    p_value = float(binom.sf(count - 1, len(right), 1.0 / among))
    return Identified(looked_at=len(right), identified=count, p_value=p_value)


def better_of(*found: Identified) -> Identified:
    """Return what the better of several methods identified, judged with the truth at hand.

    Its p-value is that of the best of so many (Bonferroni).
    """
    best = max(found, key=lambda each: each.identified)
    return replace(best, p_value=min(1.0, len(found) * best.p_value))


def count_loudest(scores: Doubles, strength: Doubles, most: int) -> Identified:
    """Return how many of the loudest candidates have as many first places; at most a twentieth are looked at.

    The p-value is hypergeometric. Where all are equally strong nobody is loudest, and none are looked at.
    """
    if strength.max() <= _ALIKE * strength.min():
        return Identified(looked_at=0, identified=0, p_value=1.0)
    count = min(most, len(scores) // _LARGEST_SHARE)
    first, loudest = (set(np.argsort(-each, kind="stable")[:count].tolist()) for each in (scores, strength))
    found = len(first & loudest)
    p_value = float(hypergeom.sf(found - 1, len(scores), count, count))
    return Identified(looked_at=count, identified=found, p_value=p_value)


@dataclass(frozen=True, kw_only=True)
class LabelInference:
    """How often a label was inferred, beside what always naming the most frequent class gives."""

    inferred: int  # how many labels were
    accuracy: float  # share of them that are right
    baseline: float  # share of the most frequent class among the true labels
    p_value: float  # of so many right ones or more, were each right with the baseline's probability


def infer_labels(estimates: NDArray[np.floating], labels: Integers) -> LabelInference:
    """Infer each label as the class of the largest estimate (rows x classes, in any positive scale)."""
    named, count = estimates.argmax(axis=1), len(labels)
    right = int(np.sum(named == labels))
    baseline = float(np.bincount(labels).max() / count)
    p_value = float(binom.sf(right - 1, count, baseline))
    return LabelInference(inferred=count, accuracy=right / count, baseline=baseline, p_value=p_value)
