"""Adam by torch's own kernel.

``torch.optim.Adam`` is not used: it imports torch's compiler when it is made, which takes longer than a small training.
"""

from collections.abc import Sequence
from typing import Final

import torch
from torch import nn
from torch.optim.adam import adam

from airmixml.scenario import Learner

EPSILON: Final = 1e-8


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

    def state(self) -> list[torch.Tensor]:
        """Return all tensors of the moments."""
        return [value for entry in self.moments for value in entry.values()]

    @torch.no_grad()
    def step(self, gradients: Sequence[torch.Tensor]) -> None:
        """Move the parameters once."""
        steps, means, squares = zip(*(moments.values() for moments in self.moments), strict=True)
        adam(
            self.parameters,
            [gradient.contiguous() for gradient in gradients],
            list(means),
            list(squares),
            [],
            list(steps),
            fused=True,
            capturable=self.parameters[0].is_cuda,
            amsgrad=False,
            beta1=self.learner.adam_beta1,
            beta2=self.learner.adam_beta2,
            lr=self.learner.learning_rate,
            weight_decay=0.0,
            eps=EPSILON,
            maximize=False,
        )
