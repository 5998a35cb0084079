"""The losses, and an epoch of optimiser steps: plain on the CPU and as a replayed CUDA graph on a GPU.

The losses are defined for soft, noisy and partly negative labels.
"""

import math
from collections.abc import Callable
from typing import Final

import torch
from torch import nn

from airmixml.edge.adam import Adam
from airmixml.scenario import Learner

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

Epoch = Callable[[], None]
"""Moves the model through all mixtures once."""


def make_epoch(
    model: nn.Module,
    optimiser: Adam,
    loss_sum: torch.Tensor,
    mixtures: tuple[torch.Tensor, torch.Tensor],
    order: torch.Tensor,
    learner: Learner,
) -> Epoch:
    """Return a function that trains a network or a stack for an epoch and adds the summed loss to ``loss_sum``.

    Mixtures are inputs and labels, (networks x) slots x symbols on the device; ``loss_sum`` is one value there, or one
    per network of a stack. ``order`` (slots, or networks x slots) is read again in each epoch.
    """
    loss_of = LOSSES[learner.loss]

    def step(numbers: torch.Tensor) -> None:
        inputs, labels = (_chosen(part, numbers) for part in mixtures)
        loss = loss_of(model(inputs), labels)
        optimiser.step(torch.autograd.grad(loss.sum(), optimiser.parameters, materialize_grads=True))
        loss_sum.add_(loss.detach(), alpha=inputs.shape[-2])

    if order.is_cuda:
        return _captured(step, [*model.parameters(), *optimiser.state(), loss_sum], order, learner.batch_size)

    def epoch() -> None:
        for numbers in torch.split(order, learner.batch_size, dim=-1):
            step(numbers)

    return epoch


def _chosen(mixtures: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """Return some slots of (networks x) slots x symbols, the same ones for all networks or each network's own."""
    if numbers.dim() == 1:
        return mixtures.index_select(-2, numbers)
    return mixtures.take_along_dim(numbers.unsqueeze(-1), dim=-2)


def _captured(
    step: Callable[[torch.Tensor], None], state: list[torch.Tensor], order: torch.Tensor, batch_size: int
) -> Epoch:
    """Record a step once and replay it: the launch of its many small kernels costs more than their work.

    Which batch is next stands in memory of the GPU, too, so that a replay needs nothing from the CPU. ``state`` is all
    that a step moves.
    """
    slots = order.shape[-1]
    size = min(batch_size, slots)
    places = torch.arange(size, device=order.device)

    def next_step() -> None:
        step(order.index_select(-1, places))
        places.add_(size)

    start = [tensor.detach().clone() for tensor in state]
    side_stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side_stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side_stream):
        for _ in range(3):
            next_step()
            places.sub_(size)
    torch.cuda.current_stream().wait_stream(side_stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        next_step()
    # Warming up moved the model: put everything back to where training starts.
    with torch.no_grad():
        for tensor, value in zip(state, start, strict=True):
            tensor.copy_(value)

    def epoch() -> None:
        for _ in range(slots // size):
            graph.replay()
        places.sub_(slots // size * size)
        if slots % size:
            step(order[..., slots - slots % size :])

    return epoch
