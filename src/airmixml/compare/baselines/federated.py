"""Federated learning over the air: every round each worker sends the clipped gradient of its own sample, all at once.

The server adds nothing to what the channel does: it receives the sum of the gradients and its own receiver noise, takes
an Adam step and broadcasts the model. The model is a linear softmax, whose gradient on one sample is the outer product
of the input with (p - l), so that sums over workers are matrix products and no worker's own gradient is ever formed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import torch
from torch import nn

from airmixml.compare.baselines.rounds import Rounds, plan_rounds
from airmixml.compare.methods import Method
from airmixml.compare.variants import HARD_OPERATION, encoding_operations, samples_scenario
from airmixml.compare.work import Outcome, Work
from airmixml.data import DataSet
from airmixml.edge.closed_form import linear_model
from airmixml.edge.fitting import class_scores
from airmixml.streams import Streams

# Fixed for all data sets. They were chosen once on 10,000 of MNIST's training images, held out; no test set was seen.
ROUNDS: Final = 100
LEARNING_RATE: Final = 0.2
CLIP_NORM: Final = 1.0

_ADAM_BETAS: Final = (0.9, 0.999)
_ADAM_FLOOR: Final = 1e-8
_SAMPLES_AT_ONCE: Final = 16384


class Federated(Method):
    """Analog over-the-air federated learning of a linear softmax on the scenario's features."""

    about = "clipped gradients of a linear softmax on the same features, added up over the air every round"

    def run(self, work: Work) -> Outcome:
        """Let every worker send its gradient in every round."""
        scenario = samples_scenario(work.scenario)
        dataset, population = work.load(scenario.workers)
        symbols = (dataset.input_dim + 1) * dataset.label_dim
        rounds = plan_rounds(
            scenario, population, rounds=ROUNDS, scheduled=population.count, symbols=symbols, norm=CLIP_NORM
        )
        inputs, labels = pool_tensors(dataset, work.device)
        held = torch.bincount(torch.from_numpy(population.sample_index), minlength=dataset.train_samples).to(inputs)
        parameters = torch.zeros((dataset.input_dim + 1, dataset.label_dim), device=work.device)
        adam = AdamSteps()
        for done, noise in enumerate(round_noise(rounds, symbols, work.device)):
            work.context.progress("federated", done, ROUNDS)
            gradient = clipped_gradient_sum(inputs, labels, held, parameters, CLIP_NORM) / population.count
            parameters += adam.change(gradient + noise.reshape(parameters.shape))
        work.context.progress("federated", ROUNDS, ROUNDS)
        model = linear_model(parameters[:-1].cpu(), parameters[-1].cpu())
        # Scores, softmax, the gradient, and its norm from those of its two factors.
        a_round = 2 * symbols + (HARD_OPERATION + 2) * dataset.label_dim
        operations = encoding_operations(scenario, dataset) + len(rounds) * a_round
        return rounds.outcome(score(model, dataset), operations)


@dataclass
class AdamSteps:
    """Adam on one tensor, as a server would run it on what it receives."""

    learning_rate: float = LEARNING_RATE

    def __post_init__(self) -> None:
        self._done = 0
        self._mean: torch.Tensor | float = 0.0
        self._square: torch.Tensor | float = 0.0

    def change(self, gradient: torch.Tensor) -> torch.Tensor:
        """Return what to add to the parameters; same shape as the gradient."""
        first, second = _ADAM_BETAS
        self._done += 1
        self._mean = first * self._mean + (1.0 - first) * gradient
        self._square = second * self._square + (1.0 - second) * gradient.square()
        mean = self._mean / (1.0 - first**self._done)
        square = torch.as_tensor(self._square / (1.0 - second**self._done))
        return -self.learning_rate * mean / (square.sqrt() + _ADAM_FLOOR)


def clipped_gradient_sum(
    inputs: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor, parameters: torch.Tensor, norm: float
) -> torch.Tensor:
    """Return sum_i w_i g_i min(1, C / ||g_i||), g_i the gradient of the cross-entropy of sample i; (d + 1) x classes.

    With p = softmax(W^T x + b) the gradient is (x, 1) (p - l)^T, and its norm ||(x, 1)|| ||p - l||.

    Args:
        inputs: x; samples x d.
        labels: one-hot l; samples x classes.
        weights: how many workers hold the sample; shape samples.
        parameters: W with b as its last row; (d + 1) x classes.
        norm: C.
    """
    total = torch.zeros_like(parameters)
    parts = (torch.split(each, _SAMPLES_AT_ONCE) for each in (inputs, labels, weights))
    for some_inputs, some_labels, some_weights in zip(*parts, strict=True):
        errors = torch.softmax(some_inputs @ parameters[:-1] + parameters[-1], dim=1) - some_labels
        lengths = errors.norm(dim=1) * (some_inputs.square().sum(dim=1) + 1.0).sqrt()
        errors *= (some_weights * (norm / lengths.clamp(min=norm)))[:, None]
        total[:-1] += some_inputs.T @ errors
        total[-1] += errors.sum(dim=0)
    return total


def pool_tensors(dataset: DataSet, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the pool's inputs, samples x d, and one-hot labels, samples x classes, on the device."""
    inputs = torch.from_numpy(dataset.train_inputs).to(device)
    labels = nn.functional.one_hot(torch.from_numpy(dataset.train_labels), dataset.label_dim)
    return inputs, labels.to(inputs)


def round_noise(rounds: Rounds, numbers: int, device: torch.device) -> Iterator[torch.Tensor]:
    """Yield the receiver noise on the mean gradient of each round; shape numbers."""
    streams = Streams(rounds.scenario.seed)
    for number, deviation in enumerate(rounds.noise_deviation.tolist()):
        drawn = streams.generator("noise", number).standard_normal(numbers, dtype="float32")
        yield deviation * torch.from_numpy(drawn).to(device)


def score(model: nn.Module, dataset: DataSet) -> float:
    """Return the accuracy on the clean test set."""
    device, truth = next(model.parameters()).device, torch.from_numpy(dataset.test_labels)
    guessed = class_scores(model, torch.from_numpy(dataset.test_inputs).to(device)).argmax(dim=1).cpu()
    return float((guessed == truth).double().mean())


FEDERATED = Federated()
