"""Adam by torch's own kernel.

``torch.optim.Adam`` is not used: it imports torch's compiler when it is made, which takes longer than a small training.
"""

from collections.abc import Sequence
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
