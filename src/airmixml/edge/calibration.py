"""Scores of least squares as probabilities, from the received moments alone: nothing private is asked once more.

Least squares gives scores near 0 and 1, whose softmax hardly tells classes apart. They are multiplied by the one factor
that makes their softmax most likely under what the moments imply: classes as Gaussian clouds of one covariance, and so
scores s = W^T x + b that are normal around m_c = W^T mu_c + b with the covariance V = W^T Sigma W. The order of the
classes stays. Weights are fitted to the noisy moments, whose own noise makes V seem too small; so two of its standard
deviations are added, which are known: W^T E W varies by s W^T W along every direction of the scores, for symmetric
noise E of deviation s on its diagonal. docs/beyond.md has what it gains.
"""

import math
from typing import Final

import torch
from scipy.optimize import minimize_scalar

from airmixml.edge.closed_form import ReceivedMoments

_CAUTION: Final = 2.0  # deviations of the noise in V
_RAREST_CLASS: Final = 0.02
_MOST_CLASSES: Final = 1000
_MOST_DRAWS: Final = 512
_FEWEST_DRAWS: Final = 4
_NUMBERS: Final = 4_000_000
_LOG_FACTORS: Final = (-6.0, 8.0)


def probability_factor(weights: torch.Tensor, biases: torch.Tensor, moments: ReceivedMoments) -> float:
    """Return the factor of all scores; weights are d x classes, biases classes."""
    classes = weights.shape[1]
    if moments.signed or classes > _MOST_CLASSES:
        return 1.0
    shares, means, covariance = score_clouds(weights, biases, moments)
    # Fixed points in place of the normal distribution: the same for all factors, so that they are compared alike.
    draws = max(_FEWEST_DRAWS, min(_MOST_DRAWS, _NUMBERS // classes**2))
    standard = torch.randn((draws, classes), dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    values, vectors = torch.linalg.eigh((covariance + covariance.T) / 2.0)
    around = standard @ (vectors * values.clamp(min=0.0).sqrt()).T
    scores = means[:, None, :] + around  # true class x draws x class
    every = torch.arange(classes)

    def loss(log_factor: float) -> float:
        likelihood = torch.log_softmax(math.exp(log_factor) * scores, dim=-1)[every, :, every].mean(dim=1)
        return -float((shares * likelihood).sum())

    return math.exp(float(minimize_scalar(loss, bounds=_LOG_FACTORS, method="bounded").x))


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
