"""From the scores of a trained network to what is predicted."""

import torch


def probabilities(scores: torch.Tensor) -> torch.Tensor:
    """Return the probability of each class; samples x classes, like the scores."""
    return torch.softmax(scores, dim=1)
