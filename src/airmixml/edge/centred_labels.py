"""From moments with centred labels to those with one-hot labels, by what is known without noise.

A class sent as its one-hot vector less 1 / K, over sqrt(1 - 1 / K), has norm 1 like the one-hot vector itself, but all
of it tells classes apart: at the same sensitivity the moments that matter arrive with (1 - 1 / K) of the noise's
variance, half of it for two classes. What was left out is E[x] / K, and the moments of x with the constant hold that.

Other sums are known beforehand, so no noise need be believed about them: centred labels add up to 0, the constant's
square is public, and where all inputs are brought to one norm, the trace of their second moments is its square.
"""

import math

import torch


def one_hot_moments(
    second: torch.Tensor, cross: torch.Tensor, *, constant: float, squared_norm: float = 0.0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return E[x x^T] (d x d) and E[x l^T] for one-hot labels (d x classes), of those with centred labels.

    Args:
        second: received, d x d; the last number of x is the constant.
        cross: received with centred labels, d x classes.
        constant: value of that number.
        squared_norm: ||x||^2 where it is the same for all workers, constant included; 0 where it is not.
    """
    size, classes = cross.shape
    known = second.clone()
    known[-1, -1] = constant**2
    if squared_norm:
        others = torch.arange(size - 1, device=known.device)
        known[others, others] += (squared_norm - constant**2 - known[others, others].sum()) / (size - 1)
    centred = (cross - cross.mean(dim=1, keepdim=True)) * math.sqrt(1.0 - 1.0 / classes)
    return known, centred + (known[:, -1] / constant / classes)[:, None]
