"""Training on the received mixtures: Adam on Eq. (opt), the clean test set scored after every epoch."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import nn

from airmixml.edge.fitting import Checkpoint, Fitted, class_scores, fit, start_network
from airmixml.edge.stack import NetworkStack
from airmixml.progress import Progress, silent
from airmixml.radio import Mixtures
from airmixml.scenario import Learner, Speed
from airmixml.workers import DataSet

__all__ = [
    "Checkpoint",
    "TrainedModel",
    "TrainingHistory",
    "class_scores",
    "train",
    "train_model",
    "train_stack",
]


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
    model = start_network(learner, dataset, seed)
    fitted = fit(
        model,
        learner,
        dataset,
        inputs,
        labels,
        seed=seed,
        speed=speed or Speed(),
        progress=progress,
        checkpoint=checkpoint,
    )
    return TrainedModel(model=model, history=_histories(fitted)[0])


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
) -> list[TrainingHistory]:
    """Train one network on each of several sets of mixtures, all at once, and return each network's history.

    Every network starts from the values and sees the mixtures in the order that ``train_model`` would give it with the
    same seed: apart from rounding, each is trained as if it were alone. A network whose loss stops being a number does
    not disturb the others.

    Args:
        learner: model and optimiser settings.
        dataset: for its dimensions and test set.
        inputs: received mixtures; networks x slots x input_dim.
        labels: received label mixtures; networks x slots x label_dim.
        seed: the seed of all these runs.
        speed: device and threads.
        progress: told of each epoch.
        checkpoint: where an interrupted training is kept.
    """
    stack = NetworkStack(start_network(learner, dataset, seed), len(inputs))
    fitted = fit(
        stack,
        learner,
        dataset,
        inputs,
        labels,
        seed=seed,
        speed=speed or Speed(),
        progress=progress,
        checkpoint=checkpoint,
    )
    return _histories(fitted)


def _histories(fitted: Fitted) -> list[TrainingHistory]:
    return [
        TrainingHistory(
            loss=[losses[network] for losses in fitted.loss],
            test_accuracy=[accuracies[network] for accuracies in fitted.test_accuracy],
        )
        for network in range(len(fitted.loss[0]))
    ]
