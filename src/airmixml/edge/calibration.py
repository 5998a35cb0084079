"""Scores of least squares as probabilities, from the received moments alone: nothing private is asked once more.

Least squares gives scores near 0 and 1, whose softmax hardly tells classes apart. They are multiplied by the one factor
that makes their softmax most likely under what the moments imply: classes as Gaussian clouds of one covariance, and so
scores s = W^T x + b that are normal around m_c = W^T mu_c + b with the covariance V = W^T Sigma W. The order of the
classes stays.

Weights are fitted to the noisy moments, so they fit the noise too, and scores seem to tell classes apart better than
they do. Three things that are known are set against that. A class's own score m_cc is larger by s_c^2 tr(dW_c / dG_c)
over its share, for noise of deviation s_c in the moments G with the labels (Stein 1981); the trace is found by solving
once more with random signs added. V is too small, so two standard deviations are added: W^T E W varies by s W^T W along
each direction, for symmetric noise E of deviation s on its diagonal. And in no direction less than ``_LEAST_WITHIN`` of
the scores' variance counts as that within classes. docs/guide.md has what it gains.
"""

import math
from typing import Final

import torch

from airmixml.edge.closed_form import ReceivedMoments, solve
from airmixml.privacy.gaussian import bracket_root
from airmixml.scenario import Learner

_CAUTION: Final = 2.0  # deviations of the noise in V
_LEAST_WITHIN: Final = 0.15
_PROBES: Final = 4
_FEATURES_OF_ONE_PROBE: Final = 300  # from so many on, one averages over enough of them
_ROUNDING: Final = 1e-9
_SMALLEST: Final = 1e-300
_RAREST_CLASS: Final = 0.02
_MOST_CLASSES: Final = 1000
_MOST_DRAWS: Final = 512
_FEWEST_DRAWS: Final = 4
_NUMBERS: Final = 4_000_000
_LOG_FACTORS: Final = (-6.0, 8.0)
_LOG_TOLERANCE: Final = 1e-6


def probability_factor(
    learner: Learner, weights: torch.Tensor, biases: torch.Tensor, moments: ReceivedMoments
) -> float:
    """Return the factor of all scores of what the learner solved; weights are d x classes, biases classes."""
    classes = weights.shape[1]
    if moments.signed or classes > _MOST_CLASSES:
        return 1.0
    shares, means, covariance = score_clouds(weights, biases, moments)
    means = means - torch.diag(_optimism(learner, weights, moments) / shares)
    # Fixed points in place of the normal distribution: the same for all factors, so that they are compared alike.
    draws = max(_FEWEST_DRAWS, min(_MOST_DRAWS, _NUMBERS // classes**2))
    standard = torch.randn((draws, classes), dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    centred = means - shares @ means
    around = standard @ _root(covariance, (centred.T * shares) @ centred).T
    scores = means[:, None, :] + around  # true class x draws x class
    every = torch.arange(classes)

    def slope(log_factor: float) -> float:
        """How the mean loss -ln p of the true class grows with the factor; it is convex in it."""
        expected = (torch.softmax(math.exp(log_factor) * scores, dim=-1) * scores).sum(dim=-1)
        return -float(shares @ (scores[every, :, every] - expected).mean(dim=1))

    return math.exp(bracket_root(slope, *_LOG_FACTORS, tolerance=_LOG_TOLERANCE)[0])


def _optimism(learner: Learner, weights: torch.Tensor, moments: ReceivedMoments) -> torch.Tensor:
    """Return s_c^2 tr(dW_c / dG_c) of each class, what the noise adds to a class's own score; shape classes."""
    deviation, signs = moments.cross_deviation, torch.Generator().manual_seed(0)
    found = torch.zeros(weights.shape[1], dtype=torch.float64)
    probes = 1 if len(weights) >= _FEATURES_OF_ONE_PROBE else _PROBES
    for _ in range(probes if deviation else 0):
        probe = (2.0 * torch.randint(0, 2, weights.shape, generator=signs) - 1.0).to(moments.cross)
        moved, _ = solve(learner, moments.with_cross(moments.cross + deviation * probe))
        found += deviation * (probe * (moved - weights)).sum(dim=0).cpu() / probes
    return found


def _root(within: torch.Tensor, between: torch.Tensor) -> torch.Tensor:
    """Return R with R R^T = the scores' covariance within classes, nowhere too small a share of all; classes x classes.

    Along each direction that within and between classes share (canonical variates) the share within is at least
    ``_LEAST_WITHIN``: noise can make it vanish, and scores would then count as certain.
    """
    values, vectors = torch.linalg.eigh((within + within.T) / 2.0 + between)
    used = values > values.max().clamp(min=_SMALLEST) * _ROUNDING
    root, inverse = vectors[:, used] * values[used].sqrt(), vectors[:, used] / values[used].sqrt()
    shares, turned = torch.linalg.eigh(inverse.T @ ((within + within.T) / 2.0) @ inverse)
    found = torch.zeros_like(within)
    found[:, : int(used.sum())] = root @ (turned * shares.clamp(min=_LEAST_WITHIN).sqrt())
    return found


def score_clouds(
    weights: torch.Tensor, biases: torch.Tensor, moments: ReceivedMoments
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return shares of the classes (classes), mean scores of each (classes x classes), and the scores' covariance.

    What moments do not tell is assumed: without a constant and label means, that classes are equally frequent.
    """
    cross, classes = moments.cross.cpu(), moments.cross.shape[1]
    weights, biases, label_mean = weights.cpu(), biases.cpu(), moments.label_mean.cpu()
    if moments.constant:
        shares = cross[-1] / moments.constant
    elif label_mean.any():
        shares = label_mean
    else:
        shares = torch.ones(classes, dtype=cross.dtype)
    shares = shares.clamp(min=_RAREST_CLASS / classes)
    shares = shares / shares.sum()
    apart = weights.T @ (cross / shares)  # scores x classes, from where the moments are taken
    means = apart.T + (weights.T @ moments.input_mean.cpu() + biases)
    covariance = weights.T @ moments.second.cpu() @ weights - (apart * shares) @ apart.T
    deviation = moments.noise_edge / math.sqrt(2.0 * len(cross))
    return shares, means, covariance + _CAUTION * deviation * (weights.T @ weights)
