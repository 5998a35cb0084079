"""Membership, identity and labels: what scores of candidates, names and label symbols show.

The attacker knows no schedule and no ratio. It scores candidates, some of which workers hold (private) and some nobody
does (decoys). If the private ones stand out, taking part has been revealed; if the likeliest private sample of a
mixture is that of the worker who dominates it, so has the worker behind the slot. The classes of the population no
small epsilon hides: learning about the population is what the mixtures are sent for.
"""

import math
from dataclasses import dataclass, replace
from typing import Final, Self

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
    """How well private candidates are told from public ones, the decoys, and slots from each other."""

    auc: float  # probability that a private candidate scores above a decoy; 1/2 is chance
    auc_chance_deviation: float  # standard deviation of that under chance, for candidates that are not alike
    hit_rate: float  # private candidates that score above all but 1 % of the decoys; 0.01 is chance
    false_positive_rate: float  # that 1 %
    reidentified: float  # share of the slots whose nearest private candidate is that of the dominating worker
    reidentified_chance: float  # the same for a guess among the private candidates
    reidentified_p_value: float  # of so many, were every candidate that dominates a slot named once, and by guessing
    private_candidates: int
    public_candidates: int
    method: str  # what the candidates were scored by, "likelihood" or "likeness"


def link(scores: Scores, nearest: Integers, dominating: Integers, *, method: str) -> Linkage:
    """Judge scores of candidates that workers hold and of decoys, and the likeliest held candidate of each mixture.

    ``dominating`` is the one with the largest share of each mixture, by its number among the held candidates, -1 where
    nobody sent or that one is no candidate; both have the shape of the mixtures.
    """
    members, decoys = len(scores.held), len(scores.decoys)
    if not members or not decoys:
        raise ScenarioError(f"{members} private and {decoys} public candidates: must be at least one of each")
    named, known = nearest[dominating >= 0], dominating[dominating >= 0]
    reidentified = float(np.mean(named == known)) if len(known) else 0.0
    different = len(np.unique(known))  # slots of one candidate count as one
    return Linkage(
        auc=area_under_curve(scores.held, scores.decoys),
        auc_chance_deviation=float(np.sqrt((members + decoys + 1) / (12.0 * members * decoys))),
        hit_rate=hit_rate(scores.held, scores.decoys, FALSE_POSITIVES),
        false_positive_rate=FALSE_POSITIVES,
        reidentified=reidentified,
        reidentified_chance=1.0 / members,
        reidentified_p_value=float(binom.sf(math.floor(reidentified * different) - 1, different, 1.0 / members)),
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


def places_among(candidates: Integers, rows: Integers) -> Integers:
    """Return the places of rows of the pool among candidates in ascending order, -1 for others; shape of the rows."""
    place = np.searchsorted(candidates, rows).clip(max=len(candidates) - 1)
    return np.where(candidates[place] == rows, place, -1)


@dataclass(frozen=True, kw_only=True)
class LabelInference:
    """How often a label was inferred, beside what always naming the most frequent class gives."""

    inferred: int  # how many labels were
    accuracy: float  # share of them that are right
    baseline: float  # share of the most frequent class among the true labels
    p_value: float  # of so many right ones or more, were each right with the baseline's probability


def infer_labels(estimates: NDArray[np.floating], labels: Integers) -> LabelInference:
    """Infer each label as the class of the largest estimate (rows x classes, in any positive scale).

    True labels are -1 where nobody sent, which does not count. Without a schedule the label part of a slot is taken
    for that of the worker with the largest share. A worker who dominates several slots then counts several times, so
    slots are less independent than the p-value assumes where workers are few.
    """
    if estimates.ndim != 2 or len(estimates) != len(labels) or not np.any(labels >= 0):
        raise ScenarioError(
            f"estimates of shape {estimates.shape} for {len(labels)} labels: must be one row of classes for each label"
        )
    named, truth = estimates.argmax(axis=1)[labels >= 0], labels[labels >= 0]
    count, right = len(truth), int(np.sum(named == truth))
    baseline = float(np.bincount(truth).max() / count)
    p_value = float(binom.sf(right - 1, count, baseline))
    return LabelInference(inferred=count, accuracy=right / count, baseline=baseline, p_value=p_value)


def infer_shares(
    received_labels: NDArray[np.floating], *, slot_weights: Doubles | None = None, known_scale: bool = True
) -> Doubles | None:
    """Estimate the shares of the classes among all workers from the mean of the received labels; shape classes.

    A slot's expectation over schedule and noise (slots x classes) is a times the shares, with a = 1 at the server and
    in what it releases, and unknown to others. Shares add up to 1: a known scale lets what the sum is off by be taken
    from every class alike (noise is the same in each); an unknown one is the sum. An eavesdropper hears the same
    workers louder in all slots and so estimates their shares rather than those of all. Slots may be weighted by how
    well they were received, 1 / variance at best.

    Returns None where fewer than two slots tell anything, or less than nothing was received.
    """
    slots, classes = received_labels.shape
    weights = np.ones(slots) if slot_weights is None else slot_weights
    if np.count_nonzero(weights) < 2:
        return None
    mean = weights / weights.sum() @ np.asarray(received_labels, dtype=np.float64)
    total = float(mean.sum())
    if known_scale:
        return np.asarray(mean + (1.0 - total) / classes)
    return np.asarray(mean / total) if total > 0.0 else None


@dataclass(frozen=True, kw_only=True)
class ClassShares:
    """Classes of the whole population beside the truth.

    Distances from the true shares are total variation; the prior's is that of equal shares, a guess without mixtures.
    """

    shares: tuple[float, ...]
    true_shares: tuple[float, ...]
    distance: float
    prior_distance: float

    @classmethod
    def of(cls, shares: Doubles, worker_labels: Integers) -> Self:
        truth = np.bincount(worker_labels, minlength=len(shares)) / len(worker_labels)
        equal = np.full(len(shares), 1.0 / len(shares))
        distance, prior = (float(np.abs(each - truth).sum() / 2.0) for each in (shares, equal))
        return cls(
            shares=tuple(shares.tolist()), true_shares=tuple(truth.tolist()), distance=distance, prior_distance=prior
        )
