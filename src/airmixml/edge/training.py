"""Training on the received mixtures: Adam on Eq. (opt), the clean test set scored after every epoch."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import nn

from airmixml.devices import find_device, using_threads
from airmixml.edge.models import build_model, initialise
from airmixml.edge.steps import make_step
from airmixml.errors import AirMixError
from airmixml.progress import Progress, silent
from airmixml.radio import Mixtures
from airmixml.scenario import Learner, Speed
from airmixml.streams import Streams
from airmixml.workers import DataSet

__all__ = [
    "Checkpoint",
    "TrainedModel",
    "TrainingHistory",
    "class_scores",
    "train",
    "train_model",
]

_SCORING_BATCH = 1000


class Checkpoint(Protocol):
    """Keeps the state of an interrupted training."""

    def load(self) -> dict[str, Any] | None:
        """Return the last saved state, or None."""

    def save(self, state: dict[str, Any]) -> None:
        """Keep the state."""


@dataclass(kw_only=True)
class TrainingHistory:
    """Loss on the mixtures and accuracy on the clean test set after each epoch (empty without a test set)."""

    loss: list[float] = field(default_factory=list)
    test_accuracy: list[float] = field(default_factory=list)

    @property
    def final_accuracy(self) -> float:
        """Accuracy of the model after the last epoch: the figure to trust."""
        return self.test_accuracy[-1]

    @property
    def best_accuracy(self) -> float:
        """Accuracy of the best epoch. It is picked on the test set, so it flatters."""
        return max(self.test_accuracy)

    @property
    def best_epoch(self) -> int:
        """Number of the best epoch, counted from 1."""
        return self.test_accuracy.index(self.best_accuracy) + 1


@dataclass(frozen=True, kw_only=True)
class TrainedModel:
    """The model after the last epoch, and how it got there."""

    model: nn.Sequential
    history: TrainingHistory


def train(
    mixtures: Mixtures,
    *,
    speed: Speed | None = None,
    progress: Progress = silent,
    checkpoint: Checkpoint | None = None,
) -> TrainedModel:
    """Train the scenario's learner on simulated mixtures (Algorithm 1, lines 15 to 17) and score it on clean data."""
    return train_model(
        mixtures.scenario.learner,
        mixtures.dataset,
        mixtures.inputs,
        mixtures.labels,
        seed=mixtures.scenario.seed,
        speed=speed,
        progress=progress,
        checkpoint=checkpoint,
    )


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
    """Train the learner on the mixtures and score it on the clean test set after each epoch.

    Initial values and the order of the mixtures in each epoch follow from the seed alone, so that a training resumed
    from a checkpoint ends where an uninterrupted one does.

    Args:
        learner: model and optimiser settings.
        dataset: for its dimensions and test set.
        inputs: received mixtures; slots x input_dim.
        labels: received label mixtures; slots x label_dim.
        seed: the run's seed.
        speed: device and threads.
        progress: told of each epoch.
        checkpoint: where an interrupted training is kept.
    """
    speed = speed or Speed()
    streams = Streams(seed)
    device = find_device(speed.device)
    model = build_model(learner, dataset.input_dim, dataset.label_dim, dataset.image_shape)
    first_draw = int(streams.generator("training").integers(2**63 - 1))
    initialise(model, torch.Generator().manual_seed(first_draw))
    model.to(device)
    inputs, labels = inputs.to(device).contiguous(), labels.to(device).contiguous()
    test_inputs = torch.from_numpy(dataset.test_inputs).to(device)
    test_labels = torch.from_numpy(dataset.test_labels).to(device)
    history = TrainingHistory()
    threads = speed.threads or _useful_threads(model, learner.batch_size)
    with using_threads(threads), _repeatable_convolutions(), _current(device):
        optimiser = _adam(model, learner)
        done = _restore(checkpoint, model, optimiser, history)
        loss_sum = torch.zeros((), device=device)
        full_batch = inputs[: learner.batch_size], labels[: learner.batch_size]
        step = make_step(model, optimiser, loss_sum, full_batch)
        for epoch in range(done, learner.epochs):
            progress("training", epoch, learner.epochs)
            loss_sum.zero_()
            order = torch.from_numpy(streams.generator("training", epoch + 1).permutation(len(inputs))).to(device)
            for batch in zip(*(torch.split(part[order], learner.batch_size) for part in (inputs, labels)), strict=True):
                step(*batch)
            history.loss.append(_finite_loss(float(loss_sum) / len(inputs), epoch, learner))
            if len(test_labels):
                right = class_scores(model, test_inputs).argmax(dim=1) == test_labels
                history.test_accuracy.append(float(right.double().mean()))
            if checkpoint is not None:
                checkpoint.save(
                    {
                        "epoch": epoch + 1,
                        "model": model.state_dict(),
                        "moments": [optimiser.state[parameter] for parameter in model.parameters()],
                        "loss": history.loss,
                        "test_accuracy": history.test_accuracy,
                    }
                )
        progress("training", learner.epochs, learner.epochs)
    return TrainedModel(model=model, history=history)


@torch.no_grad()
def class_scores(model: nn.Module, inputs: torch.Tensor) -> torch.Tensor:
    """Return the class scores of clean inputs (samples x input_dim), a thousand at a time; samples x classes."""
    return torch.cat([model(batch) for batch in torch.split(inputs, _SCORING_BATCH)])


def _adam(model: nn.Module, learner: Learner) -> torch.optim.Adam:
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


def _restore(
    checkpoint: Checkpoint | None,
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    history: TrainingHistory,
) -> int:
    """Put back what was saved; return the number of epochs done."""
    state = checkpoint.load() if checkpoint is not None else None
    if state is None:
        return 0
    model.load_state_dict(state["model"])
    for parameter, saved in zip(model.parameters(), state["moments"], strict=True):
        for name, value in saved.items():
            optimiser.state[parameter][name].copy_(value)
    history.loss += state["loss"]
    history.test_accuracy += state["test_accuracy"]
    return int(state["epoch"])


def _useful_threads(model: nn.Module, batch_size: int) -> int:
    """Return one thread for a network whose steps are over sooner than threads can be woken, else torch's number."""
    has_convolutions = any(isinstance(module, nn.Conv2d) for module in model.modules())
    multiplications = batch_size * sum(parameter.numel() for parameter in model.parameters())
    return torch.get_num_threads() if has_convolutions or multiplications > 5_000_000 else 1


def _finite_loss(loss: float, epoch: int, learner: Learner) -> float:
    if not math.isfinite(loss):
        raise AirMixError(
            f"training: the loss is {loss} in epoch {epoch + 1}; the mixtures are too noisy or learner.learning_rate = "
            f"{learner.learning_rate:g} is too large; raise the power or lower the rate"
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
