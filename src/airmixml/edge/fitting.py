"""Adam on Eq. (opt) for one network or a stack of them: the loop that both kinds of training share."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import nn

from airmixml.data import DataSet
from airmixml.devices import find_device, using_threads
from airmixml.edge.models import build_model, initialise
from airmixml.edge.stack import NetworkStack
from airmixml.edge.steps import make_step
from airmixml.errors import AirMixError
from airmixml.progress import Progress
from airmixml.scenario import Learner, Speed
from airmixml.streams import Streams

_SCORED_AT_ONCE = 1000
_FEWEST_SCORED_AT_ONCE = 100


class Checkpoint(Protocol):
    """Keeps the state of an interrupted training."""

    def load(self, like: dict[str, Any]) -> dict[str, Any] | None:
        """Return the last saved state, or None; it has the names and shapes of ``like``, the state at the start."""

    def save(self, state: dict[str, Any]) -> None:
        """Keep the state."""


@dataclass(kw_only=True)
class Fitted:
    """Loss on the mixtures and accuracy on the clean test set; epochs x networks (no accuracy without a test set)."""

    loss: list[list[float]] = field(default_factory=list)
    test_accuracy: list[list[float]] = field(default_factory=list)


def start_network(learner: Learner, dataset: DataSet, seed: int) -> nn.Sequential:
    """Return the learner's network with the initial values of the seed."""
    network = build_model(learner, dataset.input_dim, dataset.label_dim, dataset.image_shape)
    first_draw = int(Streams(seed).generator("training").integers(2**63 - 1))
    initialise(network, torch.Generator().manual_seed(first_draw))
    return network


def fit(
    model: nn.Module,
    learner: Learner,
    datasets: Sequence[DataSet],
    inputs: torch.Tensor,
    labels: torch.Tensor,
    *,
    seeds: Sequence[int],
    speed: Speed,
    progress: Progress,
    checkpoint: Checkpoint | None,
) -> Fitted:
    """Train in place; the order of the mixtures in each epoch follows from the seed alone.

    All networks of a stack share one data set and one seed, or each has its own.

    Args:
        model: a network, or a stack of them.
        learner: optimiser settings.
        datasets: for their test sets.
        inputs: received mixtures; slots x input_dim, for a stack networks x slots x input_dim.
        labels: received label mixtures, likewise.
        seeds: those of the runs.
        speed: device and threads.
        progress: told of each epoch.
        checkpoint: where an interrupted training is kept.
    """
    streams, device, slots = [Streams(seed) for seed in seeds], find_device(speed.device), inputs.shape[-2]
    model.to(device)
    inputs, labels = inputs.to(device).contiguous(), labels.to(device).contiguous()
    test_inputs = _shared_or_stacked([torch.from_numpy(each.test_inputs) for each in datasets]).to(device)
    test_labels = _shared_or_stacked([torch.from_numpy(each.test_labels) for each in datasets]).to(device)
    fitted = Fitted()
    threads = speed.threads or _useful_threads(model, learner.batch_size)
    with using_threads(threads), _repeatable_convolutions(), _current(device):
        optimiser = adam(model, learner)

        def state(epoch: int) -> dict[str, Any]:
            return {
                "epoch": epoch,
                "epochs": learner.epochs,
                "model": model.state_dict(),
                "moments": [optimiser.state[parameter] for parameter in model.parameters()],
                "loss": fitted.loss,
                "test_accuracy": fitted.test_accuracy,
            }

        saved = checkpoint.load(state(0)) if checkpoint is not None else None
        done = 0 if saved is None else _restore(saved, model, optimiser, fitted)
        loss_sum = torch.zeros(inputs.shape[:-2], device=device)
        full_batch = (inputs[..., : learner.batch_size, :], labels[..., : learner.batch_size, :])
        step = make_step(model, optimiser, loss_sum, full_batch, learner.loss)
        for epoch in range(done, learner.epochs):
            progress("training", epoch, learner.epochs)
            loss_sum.zero_()
            orders = [each.generator("training", epoch + 1).permutation(slots) for each in streams]
            order = _shared_or_stacked([torch.from_numpy(each) for each in orders]).to(device)
            shuffled = (torch.split(_reordered(part, order), learner.batch_size, dim=-2) for part in (inputs, labels))
            for batch in zip(*shuffled, strict=True):
                step(*batch)
            fitted.loss.append(_finite(loss_sum.double().reshape(-1) / slots, epoch, learner).tolist())
            if test_labels.numel():
                right = class_scores(model, test_inputs).argmax(dim=-1) == test_labels
                fitted.test_accuracy.append(right.double().mean(dim=-1).reshape(-1).tolist())
            if checkpoint is not None:
                checkpoint.save(state(epoch + 1))
        progress("training", learner.epochs, learner.epochs)
    return fitted


def _shared_or_stacked(parts: list[torch.Tensor]) -> torch.Tensor:
    """Return the one part that all networks share, or networks x part."""
    return parts[0] if len(parts) == 1 else torch.stack(parts)


def _reordered(mixtures: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    """Return the slots of (networks x) slots x symbols in a shared order, or each network's in its own."""
    if order.dim() == 1:
        return mixtures.index_select(-2, order)
    return mixtures.take_along_dim(order.unsqueeze(-1), dim=-2)


@torch.no_grad()
def class_scores(model: nn.Module, inputs: torch.Tensor) -> torch.Tensor:
    """Return the class scores of clean inputs (samples x input_dim), some at a time; samples x classes.

    A stack gives networks x samples x classes; it may get inputs of its own for each network.
    """
    at_once = _SCORED_AT_ONCE
    if isinstance(model, NetworkStack):
        at_once = max(_FEWEST_SCORED_AT_ONCE, _SCORED_AT_ONCE // model.count)
        inputs = inputs if inputs.dim() == 3 else inputs.unsqueeze(0)
    return torch.cat([model(batch) for batch in torch.split(inputs, at_once, dim=-2)], dim=-2)


def adam(model: nn.Module, learner: Learner) -> torch.optim.Adam:
    """Adam with its state already there, so that it can be restored and recorded in a CUDA graph."""
    on_gpu = next(model.parameters()).is_cuda
    optimiser = torch.optim.Adam(
        model.parameters(),
        lr=learner.learning_rate,
        betas=(learner.adam_beta1, learner.adam_beta2),
        fused=True,
        capturable=on_gpu,
    )
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
        optimiser.state[parameter] = {
            "step": torch.zeros((), device=parameter.device),
            "exp_avg": torch.zeros_like(parameter),
            "exp_avg_sq": torch.zeros_like(parameter),
        }
    return optimiser


def _restore(state: dict[str, Any], model: nn.Module, optimiser: torch.optim.Optimizer, fitted: Fitted) -> int:
    """Put back what was saved; return the number of epochs done."""
    model.load_state_dict(state["model"])
    for parameter, saved in zip(model.parameters(), state["moments"], strict=True):
        for name, value in saved.items():
            optimiser.state[parameter][name].copy_(value)
    fitted.loss += state["loss"]
    fitted.test_accuracy += state["test_accuracy"]
    return int(state["epoch"])


def _useful_threads(model: nn.Module, batch_size: int) -> int:
    """Return one thread for a network whose steps are over sooner than threads can be woken, else torch's number."""
    has_convolutions = any(isinstance(module, nn.Conv2d) for module in model.modules())
    multiplications = batch_size * sum(parameter.numel() for parameter in model.parameters())
    return torch.get_num_threads() if has_convolutions or multiplications > 5_000_000 else 1


def _finite(loss: torch.Tensor, epoch: int, learner: Learner) -> torch.Tensor:
    """Return the loss; raise if it went astray in every network, since training on is then in vain."""
    if not torch.isfinite(loss).any():
        raise AirMixError(
            f"training: the loss is {loss[0]:g} in epoch {epoch + 1}; the mixtures are too noisy or "
            f"learner.learning_rate = {learner.learning_rate:g} is too large; raise the power or lower the rate"
        )
    return loss


def _current(device: torch.device) -> AbstractContextManager[object]:
    """Make a GPU the current one: streams and graphs are made on that, wherever the tensors are."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


@contextmanager
def _repeatable_convolutions() -> Iterator[None]:
    """Use cuDNN's repeatable kernels in full float32: two runs of a seed are equal."""
    with torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False):
        yield
