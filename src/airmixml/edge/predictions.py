"""From the scores of a trained network to what is predicted: one function for all who predict, and for the export."""

import math
from typing import Final

import torch

from airmixml.data import Bounded, LabelCode, Signs

NEVER_CERTAIN: Final = 1e-6


def predicted(scores: torch.Tensor, code: LabelCode | None = None) -> torch.Tensor:
    """Return what scores (samples x outputs) say, by the code in which labels were sent; same shape.

    Classes (None, one-hot): the probability of each class. Several labels: the probability that each holds; what least
    squares learns of a sign is its mean, (2 p - 1) / sqrt(labels). Targets: the targets in their own units, within
    their bounds.
    """
    if isinstance(code, Signs):
        return ((1.0 + scores * math.sqrt(code.count)) / 2.0).clamp(NEVER_CERTAIN, 1.0 - NEVER_CERTAIN)
    if isinstance(code, Bounded):
        lower, upper = (scores.new_tensor(bounds) for bounds in (code.lower, code.upper))
        unit = (scores * math.sqrt(len(code.lower))).clamp(-1.0, 1.0)
        return lower + (unit + 1.0) / 2.0 * (upper - lower)
    return torch.softmax(scores, dim=1)
