"""Training of networks on mixtures: Adam on Eq. (opt), for one network or a stack of them.

An epoch of steps runs in NumPy or torch on the CPU, and as a replayed CUDA graph on a GPU.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Protocol

import torch
from torch import nn

from airmixml.arrays import find_device, using_threads
from airmixml.data import DataSet
from airmixml.edge.adam import LOSSES, Adam, SmallNetworks, is_small
from airmixml.edge.learners import (
    TrainedModel,
    TrainingHistory,
    class_scores,
    leading_score,
    note_scores,
    start_network,
)
from airmixml.edge.stack import NetworkStack, can_be_stacked
from airmixml.messages import AirMixError
from airmixml.progress import Progress, silent
from airmixml.scenario import Learner, Speed
from airmixml.streams import Streams

Epoch = Callable[[], None]
"""Moves the model through all mixtures once."""


def make_epoch(
    model: nn.Module,
    optimiser: Adam,
    loss_sum: torch.Tensor,
    mixtures: tuple[torch.Tensor, torch.Tensor],
    order: torch.Tensor,
) -> Epoch:
    """Return a function that trains a network or a stack for an epoch and adds the summed loss to ``loss_sum``.

    Mixtures are (networks x) slots x symbols on the device; ``order``, slots, is read again in each epoch.
    """
    if is_small(model, optimiser):
        return SmallNetworks(optimiser, loss_sum, mixtures, order)
    loss_of, batch_size = LOSSES[optimiser.learner.loss], optimiser.learner.batch_size

    def step(numbers: torch.Tensor) -> None:
        inputs, labels = (part.index_select(-2, numbers) for part in mixtures)
        loss = loss_of(model(inputs), labels)
        optimiser.step(torch.autograd.grad(loss.sum(), optimiser.parameters, materialize_grads=True))
        loss_sum.add_(loss.detach(), alpha=inputs.shape[-2])

    if order.is_cuda:
        moved = [*model.parameters(), *optimiser.means, *optimiser.squares, *optimiser.steps, loss_sum]
        return _captured(step, moved, order, batch_size)

    def epoch() -> None:
        for numbers in torch.split(order, batch_size, dim=-1):
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


_WORTH_WAKING = 100_000_000


class Checkpoint(Protocol):
    """Keeps the state of an interrupted training."""

    def load(self, like: dict[str, Any]) -> dict[str, Any] | None:
        """Return the last saved state, or None; it has the names and shapes of ``like``, the state at the start."""

    def save(self, state: dict[str, Any]) -> None:
        """Keep the state."""


@contextmanager
def repeatable_kernels(device: torch.device) -> Iterator[None]:
    """Let cuDNN take repeatable kernels in full float32, so that two runs of a seed are equal; a CPU has no others.

    ``torch.backends.cudnn.flags`` does the same, and reads an option besides of which torch 2.9 warns.
    """
    if device.type != "cuda":
        yield
        return
    cudnn: Any = torch.backends.cudnn
    settings = {"enabled": True, "benchmark": False, "deterministic": True}
    before = {name: getattr(cudnn, name) for name in settings}
    precision = cudnn.conv.fp32_precision
    try:
        for name, value in settings.items():
            setattr(cudnn, name, value)
        cudnn.conv.fp32_precision = "ieee"
        yield
    finally:
        for name, value in before.items():
            setattr(cudnn, name, value)
        cudnn.conv.fp32_precision = precision


def train_stack(
    learner: Learner,
    dataset: DataSet,
    inputs: torch.Tensor,
    labels: torch.Tensor,
    *,
    seed: int,
    speed: Speed | None = None,
    progress: Progress = silent,
    checkpoint: Checkpoint | None = None,
    network: nn.Module | None = None,
) -> list[TrainingHistory]:
    """Train one network on each of several sets of mixtures, all at once, and return each network's history.

    Apart from rounding, each is trained as ``train_model`` would train it alone with the same seed, and one whose loss
    stops being a number does not disturb the others. Inputs and labels have the networks as their first axis; or they
    are slots x symbols for a single ``network``, which is trained in place.
    """
    model = network
    if model is None:
        model = NetworkStack([start_network(learner, dataset, seed)] * len(inputs))
    speed = speed or Speed()
    streams, device, slots = Streams(seed), find_device(speed.device), inputs.shape[-2]
    model.to(device)
    threads = speed.threads or _useful_threads(model, learner.batch_size, inputs.shape[-1])
    if isinstance(model, nn.Sequential) and can_be_stacked(model):
        model = NetworkStack([model])
    inputs, labels = inputs.to(device).contiguous(), labels.to(device).contiguous()
    test_inputs = torch.from_numpy(dataset.test_inputs).to(device)
    test_labels = torch.from_numpy(dataset.test_labels).to(device)
    losses: list[list[float]] = []
    accuracies: list[list[float]] = []
    # Streams and graphs are made on the current GPU, wherever the tensors are.
    current: AbstractContextManager[object] = torch.cuda.device(device) if device.type == "cuda" else nullcontext()
    with using_threads(threads), repeatable_kernels(device), current:
        optimiser = Adam(model, learner)

        def state(epoch: int) -> dict[str, Any]:
            return {
                "epoch": epoch,
                "epochs": learner.epochs,
                "epoch_steps": -(-slots // learner.batch_size),
                "model": model.state_dict(),
                "moments": optimiser.moments,
                "loss": losses,
                "test_accuracy": accuracies,
                "lowest_score": -math.inf if dataset.task == "regression" else 0.0,
            }

        saved = checkpoint.load(state(0)) if checkpoint is not None else None
        if saved is not None:
            model.load_state_dict(saved["model"])
            for moments, kept in zip(optimiser.moments, saved["moments"], strict=True):
                for name, value in kept.items():
                    moments[name].copy_(value)
            losses, accuracies = saved["loss"], saved["test_accuracy"]
        loss_sum = torch.zeros(inputs.shape[:-2], device=device)
        order = torch.zeros(slots, dtype=torch.int64, device=device)
        train_epoch = make_epoch(model, optimiser, loss_sum, (inputs, labels), order)
        for epoch in range(0 if saved is None else int(saved["epoch"]), learner.epochs):
            progress("training", epoch, learner.epochs)
            loss_sum.zero_()
            order.copy_(torch.from_numpy(streams.generator("training", epoch + 1).permutation(slots)))
            train_epoch()
            losses.append(_finite(loss_sum.double().reshape(-1) / slots, epoch, learner).tolist())
            if test_labels.numel():
                accuracies.append(leading_score(dataset, class_scores(model, test_inputs), test_labels).tolist())
            if checkpoint is not None:
                checkpoint.save(state(epoch + 1))
        progress("training", learner.epochs, learner.epochs)
        last = class_scores(model, test_inputs) if test_labels.numel() else None
    histories = []
    for number in range(len(losses[0])):
        history = TrainingHistory(loss=[each[number] for each in losses])
        if last is not None:
            curve = [each[number] for each in accuracies]
            note_scores(history, dataset, curve, last[number] if last.dim() == 3 else last)
        histories.append(history)
    return histories


def _useful_threads(model: nn.Module, batch_size: int, input_dim: int) -> int:
    """Return one thread for a network whose steps are over sooner than threads can be woken, else torch's number."""
    kernels = [module for module in model.modules() if isinstance(module, nn.Conv2d)]
    used_everywhere = sum(parameter.numel() for module in kernels for parameter in module.parameters())
    used_once = sum(parameter.numel() for parameter in model.parameters()) - used_everywhere
    multiplications = batch_size * (used_once + input_dim * used_everywhere)
    return torch.get_num_threads() if multiplications > _WORTH_WAKING else 1


def _finite(loss: torch.Tensor, epoch: int, learner: Learner) -> torch.Tensor:
    """Return the loss; raise if it went astray in every network, since training on is then in vain."""
    if not torch.isfinite(loss).any():
        raise AirMixError(
            f"training: the loss is {loss[0]:g} in epoch {epoch + 1}; the mixtures are too noisy or "
            f"learner.learning_rate = {learner.learning_rate:g} is too large; raise the power or lower the rate"
        )
    return loss


def train_model(
    learner: Learner,
    dataset: DataSet,
    inputs: torch.Tensor,
    labels: torch.Tensor,
    *,
    seed: int,
    speed: Speed | None = None,
    progress: Progress = silent,
    checkpoint: Checkpoint | None = None,
) -> TrainedModel:
    """Train the learner on the mixtures, slots x symbols, and score it on the clean test set after each epoch.

    Initial values and the order of the mixtures in each epoch follow from the seed alone, so that a training resumed
    from a checkpoint ends where an uninterrupted one does.
    """
    model = start_network(learner, dataset, seed)
    how: dict[str, Any] = {"seed": seed, "speed": speed, "progress": progress, "checkpoint": checkpoint}
    (history,) = train_stack(learner, dataset, inputs, labels, **how, network=model)
    return TrainedModel(model=model, history=history)
