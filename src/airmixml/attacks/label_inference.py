"""What the label symbols tell: a worker's class, the class that dominates a slot, and the classes of the population.

The first two are about one worker, and a small epsilon keeps them near what could be guessed without any mixture. The
last is about all workers together. Differential privacy of one worker does not hide it, and is not meant to: learning
about the population is what the mixtures are sent for. Class shares that must stay secret need another protection.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, norm

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


@dataclass(frozen=True, kw_only=True, eq=False)
class PropertyInference:
    """Shares of the classes among all workers (shape classes), inferred without a schedule, and their covariance."""

    shares: NDArray[np.float64]
    covariance: NDArray[np.float64]

    @property
    def standard_errors(self) -> NDArray[np.float64]:
        """Standard errors of the shares; classes."""
        return np.asarray(np.sqrt(np.diag(self.covariance)))


@dataclass(frozen=True, kw_only=True)
class PopulationTest:
    """Which of two populations was it?

    Attributes:
        log_likelihood_ratio: of the second over the first; the second is named where it is above 0.
        separation: difference of the two expectations in standard deviations of the best linear statistic.
        advantage: true minus false positive rate of the best test, 2 Phi(separation / 2) - 1.
    """

    log_likelihood_ratio: float
    separation: float
    advantage: float


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
) -> PropertyInference:
    """Estimate the shares of the classes among all workers from the mean of the received labels.

    A slot's expectation over schedule and noise is a times the shares, with a = 1 at the server and in what it
    releases, and unknown to others. Shares add up to 1: a known scale lets what the sum is off by be taken from every
    class alike (noise is the same in each); an unknown one is the sum.

    Covariances are those of a weighted mean of slots whose workers were drawn independently, seen in how the slots
    differ. An eavesdropper hears the same workers louder in all slots and so estimates their shares rather than those
    of all; the standard errors do not show that.

    Args:
        received_labels: slots x classes.
        slot_weights: how well each slot was received, 1 / variance at best; slots. None: all alike.
        known_scale: whether mixtures come with a = 1.
    """
    slots, classes = received_labels.shape
    if slots < 2:
        raise ScenarioError(f"received_labels of shape {received_labels.shape}: must be those of at least 2 slots")
    if slot_weights is not None and (np.min(slot_weights) < 0.0 or np.count_nonzero(slot_weights) < 2):
        raise ScenarioError("slot_weights: must be at least 0, and above that for two slots or more")
    weights = np.full(slots, 1.0 / slots) if slot_weights is None else slot_weights / slot_weights.sum()
    labels = np.asarray(received_labels, dtype=np.float64)
    mean = weights @ labels
    total = float(mean.sum())
    if known_scale:
        shares = mean + (1.0 - total) / classes
        away = labels - mean
        away -= away.mean(axis=1, keepdims=True)
    else:
        if total <= 0.0:
            raise ScenarioError(
                f"received_labels: their mean adds up to {total:.3g}: must be above 0 where the scale is not known; "
                "too little was received"
            )
        shares = mean / total
        away = (labels - labels.sum(axis=1, keepdims=True) * shares) / total  # of a ratio, to first order
    weighted = weights[:, None] * away
    covariance = weighted.T @ weighted / (1.0 - float(np.sum(weights**2)))
    return PropertyInference(shares=shares, covariance=covariance)


def total_variation(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Return half the sum of absolute differences of two distributions; classes each."""
    return float(np.abs(first - second).sum() / 2.0)


def tell_populations_apart(
    inferred: PropertyInference, first_shares: NDArray[np.float64], second_shares: NDArray[np.float64]
) -> PopulationTest:
    """Test which of two populations the estimate is of.

    The estimate, a mean over many slots, is about normal with covariance C around either (shape classes each). The
    log-likelihood ratio is D^T C^+ (estimate - (first + second) / 2) with D = second - first, normal around +-s^2 / 2
    with variance s^2 = D^T C^+ D, so the best test has the advantage 2 Phi(s / 2) - 1. That is a property of all
    workers: no epsilon for one worker bounds it beyond what group privacy does.
    """
    difference = second_shares - first_shares
    if abs(float(difference.sum())) > 1e-9:
        raise ScenarioError("first_shares, second_shares: must add up to the same")
    # Shares add up to 1, so C has a direction without variance, in which the candidates do not differ either.
    precision = np.linalg.pinv(inferred.covariance, rcond=1e-9, hermitian=True)
    statistic = difference @ precision
    ratio = float(statistic @ (inferred.shares - (first_shares + second_shares) / 2.0))
    separation = math.sqrt(max(0.0, float(statistic @ difference)))
    advantage = float(2.0 * norm.cdf(separation / 2.0) - 1.0)
    return PopulationTest(log_likelihood_ratio=ratio, separation=separation, advantage=advantage)
