"""Categorical cross-entropy that is defined for soft, noisy and partly negative labels."""

from __future__ import annotations

import math
from typing import Final

import torch

__all__ = ["SMALLEST_PROBABILITY", "soft_cross_entropy"]

SMALLEST_PROBABILITY: Final = 1e-7


def soft_cross_entropy(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return -mean_t sum_c y_tc ln max(p_tc, 1e-7) with p = softmax(scores), the loss f of Eq. (opt).

    The labels enter as they were received: they need not be positive nor sum to 1. A negative y_tc rewards a small
    p_tc without end, so probabilities count as at least 1e-7: the loss is finite and bounded below for any labels, and
    its gradient vanishes where the bound holds. On a one-hot label it is the usual cross-entropy.

    Args:
        scores: class scores; batch x classes, or networks x batch x classes for one loss per network.
        labels: received label mixtures, of the same shape.
    """
    log_probability = torch.log_softmax(scores, dim=-1).clamp(min=math.log(SMALLEST_PROBABILITY))
    return -(labels * log_probability).sum(dim=-1).mean(dim=-1)
