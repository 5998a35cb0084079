"""The losses, and one optimiser step: plain on the CPU and as a replayed CUDA graph on a GPU.

The losses are defined for soft, noisy and partly negative labels.
"""

import math
from collections.abc import Callable
from typing import Final

import torch
from torch import nn

from airmixml.edge.adam import Adam

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

Step = Callable[[torch.Tensor, torch.Tensor], None]
"""Takes the inputs and labels of a batch and moves the model."""


def make_step(
    model: nn.Module,
    optimiser: Adam,
    loss_sum: torch.Tensor,
    full_batch: tuple[torch.Tensor, torch.Tensor],
    loss_name: str = "cross-entropy",
) -> Step:
    """Return a function that trains a network or a stack on one batch and adds the summed loss to ``loss_sum``.

    The optimiser has its state already; ``loss_sum`` is one value on the device, or one per network of a stack. A full
    batch has the size of all batches but the last of an epoch; its values do not matter.
    """
    loss_of = LOSSES[loss_name]

    def plain(inputs: torch.Tensor, labels: torch.Tensor) -> None:
        optimiser.zero_grad()
        loss = loss_of(model(inputs), labels)
        torch.autograd.backward(loss.sum())
        optimiser.step()
        loss_sum.add_(loss.detach(), alpha=inputs.shape[-2])

    if loss_sum.device.type != "cuda":
        return plain
    replayed = _capture(plain, model, optimiser, loss_sum, full_batch)
    full_size = full_batch[0].shape[-2]

    def step(inputs: torch.Tensor, labels: torch.Tensor) -> None:
        (replayed if inputs.shape[-2] == full_size else plain)(inputs, labels)

    return step


def _capture(
    step: Step,
    model: nn.Module,
    optimiser: Adam,
    loss_sum: torch.Tensor,
    full_batch: tuple[torch.Tensor, torch.Tensor],
) -> Step:
    """Record the step once and replay it: the launch of its many small kernels costs more than their work."""
    inputs, labels = (tensor.clone() for tensor in full_batch)
    start = [tensor.detach().clone() for tensor in _state(model, optimiser, loss_sum)]
    side_stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side_stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side_stream):
        for _ in range(3):
            step(inputs, labels)
    torch.cuda.current_stream().wait_stream(side_stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step(inputs, labels)
    # Warming up moved the model: put everything back to where training starts.
    with torch.no_grad():
        for tensor, value in zip(_state(model, optimiser, loss_sum), start, strict=True):
            tensor.copy_(value)

    def replay(batch_inputs: torch.Tensor, batch_labels: torch.Tensor) -> None:
        inputs.copy_(batch_inputs)
        labels.copy_(batch_labels)
        graph.replay()

    return replay


def _state(model: nn.Module, optimiser: Adam, loss_sum: torch.Tensor) -> list[torch.Tensor]:
    return [*model.parameters(), *(value for entry in optimiser.moments for value in entry.values()), loss_sum]
