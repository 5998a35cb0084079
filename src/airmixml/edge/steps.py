"""An epoch of optimiser steps: in NumPy or torch on the CPU, and as a replayed CUDA graph on a GPU."""

from collections.abc import Callable

import torch
from torch import nn

from airmixml.edge.adam import LOSSES, Adam
from airmixml.edge.small_networks import SmallNetworks, is_small
from airmixml.edge.stack import chosen_slots
from airmixml.scenario import Learner

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

    Mixtures are (networks x) slots x symbols on the device; ``order``, (networks x) slots, is read again in each epoch.
    """
    if is_small(model, optimiser, learner):
        return SmallNetworks(optimiser, loss_sum, mixtures, order, learner)
    loss_of = LOSSES[learner.loss]

    def step(numbers: torch.Tensor) -> None:
        inputs, labels = (chosen_slots(part, numbers) for part in mixtures)
        loss = loss_of(model(inputs), labels)
        optimiser.step(torch.autograd.grad(loss.sum(), optimiser.parameters, materialize_grads=True))
        loss_sum.add_(loss.detach(), alpha=inputs.shape[-2])

    if order.is_cuda:
        return _captured(step, [*model.parameters(), *optimiser.state(), loss_sum], order, learner.batch_size)

    def epoch() -> None:
        for numbers in torch.split(order, learner.batch_size, dim=-1):
            step(numbers)

    return epoch


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
