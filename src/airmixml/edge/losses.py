"""The losses that networks are trained on, defined for soft, noisy and partly negative labels."""

import math
from collections.abc import Callable
from typing import Final

import torch

SMALLEST_PROBABILITY: Final = 1e-7


def soft_cross_entropy(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return -mean_t sum_c y_tc ln max(p_tc, 1e-7) with p = softmax(scores), the loss f of Eq. (opt).

    The labels enter as they were received: they need not be positive nor sum to 1. A negative y_tc rewards a small
    p_tc without end, so probabilities count as at least 1e-7: the loss is finite and bounded below for any labels, and
    its gradient vanishes where the bound holds. On a one-hot label it is the usual cross-entropy. Scores and labels are
    batch x classes, or networks x batch x classes for one loss per network.
    """
    log_probability = torch.log_softmax(scores, dim=-1).clamp(min=math.log(SMALLEST_PROBABILITY))
    return -(labels * log_probability).sum(dim=-1).mean(dim=-1)


def squared_loss(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return mean_t ||scores_t - y_t||^2, per network where there is an axis of networks.

    Noise of mean zero on the labels adds a constant to it and moves no minimum: what it learns is E[y | x].
    """
    return (scores - labels).square().sum(dim=-1).mean(dim=-1)


def brier_loss(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return mean_t ||softmax(scores_t) - y_t||^2, per network where there is an axis of networks.

    Unmoved by label noise like the squared loss, and bounded in the scores: no noisy label pulls without end.
    """
    return (torch.softmax(scores, dim=-1) - labels).square().sum(dim=-1).mean(dim=-1)


# By the name that a learner gives it.
LOSSES: Final[dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]]] = {
    "cross-entropy": soft_cross_entropy,
    "squared": squared_loss,
    "brier": brier_loss,
}
