"""Adam by torch's own kernel, and the losses that it descends, for soft, noisy and partly negative labels.

``torch.optim.Adam`` is not used: it imports torch's compiler when it is made, which takes longer than a small training.
"""

import math
from collections.abc import Callable, Sequence
from typing import Final

import torch
from torch import nn

from airmixml.scenario import Learner

EPSILON: Final = 1e-8
# A GPU moves 65,536 values by one block of threads: cut into as many pieces as one launch takes, 10 times faster.
_PIECES, _SMALLEST_PIECE = 30, 4096


class Adam:
    """Moves a model by its gradients; its state is there at once, to be restored and recorded in a CUDA graph."""

    def __init__(self, model: nn.Module, learner: Learner) -> None:
        self.learner = learner
        self.parameters: list[torch.Tensor] = [each for each in model.parameters() if each.requires_grad]
        self.moments = [
            {
                "step": torch.zeros((), device=parameter.device),
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }
            for parameter in self.parameters
        ]
        values = sum(parameter.numel() for parameter in self.parameters)
        on_gpu = any(parameter.is_cuda for parameter in self.parameters)
        self._piece = max(_SMALLEST_PIECE, -(-values // (4 * _PIECES)) * 4) if on_gpu else max(values, 1)
        self._moved = [
            self._pieces(each)
            for each in (
                [parameter.detach() for parameter in self.parameters],
                [moments["exp_avg"] for moments in self.moments],
                [moments["exp_avg_sq"] for moments in self.moments],
            )
        ]
        self._steps = [moments["step"] for moments in self.moments]
        self._step_of_piece = [
            step
            for step, parameter in zip(self._steps, self.parameters, strict=True)
            for _ in range(len(self._pieces([parameter.detach()])))
        ]

    def _pieces(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        return [piece for tensor in tensors for piece in torch.split(tensor.reshape(-1), self._piece)]

    def state(self) -> list[torch.Tensor]:
        """Return all tensors of the moments."""
        return [value for entry in self.moments for value in entry.values()]

    @torch.no_grad()
    def step(self, gradients: Sequence[torch.Tensor]) -> None:
        """Move the parameters once."""
        torch._foreach_add_(self._steps, 1.0)
        values, means, squares = self._moved
        torch._fused_adam_(
            values,
            self._pieces(gradients),
            means,
            squares,
            [],
            self._step_of_piece,
            lr=self.learner.learning_rate,
            beta1=self.learner.adam_beta1,
            beta2=self.learner.adam_beta2,
            weight_decay=0.0,
            eps=EPSILON,
            amsgrad=False,
            maximize=False,
        )


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
