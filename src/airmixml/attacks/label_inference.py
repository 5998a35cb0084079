"""What the label symbols tell: a worker's class, the class that dominates a slot, and the classes of the population.

The first two are about one worker, and a small epsilon keeps them near what could be guessed without any mixture. The
last is about all workers together. Differential privacy of one worker does not hide it, and is not meant to: learning
about the population is what the mixtures are sent for. Class shares that must stay secret need another protection.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from airmixml.errors import ScenarioError


@dataclass(frozen=True, kw_only=True)
class LabelInference:
    """How often a label was inferred, beside what always naming the most frequent class gives.

    Attributes:
        inferred: how many labels were.
        accuracy: share of them that are right.
        baseline: share of the most frequent class among the true labels.
        p_value: probability of so many right ones or more, were each right with the baseline's probability.
    """

    inferred: int
    accuracy: float
    baseline: float
    p_value: float


def infer_labels(estimates: NDArray[np.floating], labels: NDArray[np.int64]) -> LabelInference:
    """Infer each label as the class of the largest estimate.

    An adversary who knows schedule and ratios has an estimate of each worker's label. One who has only the mixtures
    takes the label part of a slot for that of the worker with the largest share. A worker who dominates several slots
    then counts several times, so slots are less independent than the p-value assumes where workers are few.

    Args:
        estimates: of one-hot labels, in any positive scale; rows x classes.
        labels: the true ones, -1 where nobody sent, which does not count; rows.
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
    received_labels: NDArray[np.floating],
    *,
    slot_weights: NDArray[np.float64] | None = None,
    known_scale: bool = True,
) -> NDArray[np.float64] | None:
    """Estimate the shares of the classes among all workers from the mean of the received labels; shape classes.

    A slot's expectation over schedule and noise is a times the shares, with a = 1 at the server and in what it
    releases, and unknown to others. Shares add up to 1: a known scale lets what the sum is off by be taken from every
    class alike (noise is the same in each); an unknown one is the sum. An eavesdropper hears the same workers louder in
    all slots and so estimates their shares rather than those of all.

    Returns None where fewer than two slots tell anything, or less than nothing was received.

    Args:
        received_labels: slots x classes.
        slot_weights: how well each slot was received, 1 / variance at best; slots. None: all alike.
        known_scale: whether mixtures come with a = 1.
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
    def of(cls, shares: NDArray[np.float64], worker_labels: NDArray[np.int64]) -> Self:
        """Compare with the labels of all workers."""
        truth = np.bincount(worker_labels, minlength=len(shares)) / len(worker_labels)
        equal = np.full(len(shares), 1.0 / len(shares))
        distance, prior = (float(np.abs(each - truth).sum() / 2.0) for each in (shares, equal))
        return cls(
            shares=tuple(shares.tolist()), true_shares=tuple(truth.tolist()), distance=distance, prior_distance=prior
        )
