"""Federated learning over the air: every round workers send the clipped gradients of their own samples, all at once.

The server receives the sum of the gradients with its own receiver noise, or that of the workers where the scenario says
so (``privacy.noise``), takes an Adam step and broadcasts the model. The model is a linear softmax, whose gradient on
one sample is the outer product of the input with (p - l), so that sums over workers are matrix products and no worker's
own gradient is ever formed; or the paper's network, with per-sample gradients of some workers a round.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

import torch
from torch import nn
from torch.func import functional_call, grad, vmap

from airmixml.compare.baselines.rounds import Rounds, plan_rounds
from airmixml.compare.methods import Method, Outcome, Work, slow_on_a_cpu
from airmixml.compare.ours import (
    against_everyone,
    encoding_cost,
    is_variant_of_itself,
    paper_scenario,
    samples_scenario,
)
from airmixml.data import DataSet
from airmixml.edge.closed_form import linear_model
from airmixml.edge.fitting import class_scores, start_network
from airmixml.output.numbers import plural
from airmixml.scenario import Scenario, Speed
from airmixml.streams import Streams
from airmixml.workers.encoder import HARD_OPERATION

CLIP_NORM: Final = 1.0
# Fixed for all data sets. They were chosen once on 10,000 of MNIST's training images, held out; no test set was seen.
ROUNDS: Final = 100
LEARNING_RATE: Final = 0.2
_FEWER_ROUNDS: Final = 50
_SAMPLES_AT_ONCE: Final = 16384

_NETWORK_LEARNING_RATE: Final = 2e-3
_NETWORK_SCHEDULED: Final = 512
_NETWORK_EPOCHS: Final = 10
_FEWEST_NETWORK_ROUNDS: Final = 100
_NUMBERS_AT_ONCE: Final = 1 << 25

_MASKED: Final = partial(against_everyone, noise="masked")

_ADAM_BETAS: Final = (0.9, 0.999)
_ADAM_FLOOR: Final = 1e-8


class Federated(Method):
    """Analog over-the-air federated learning of a linear softmax on the scenario's features."""

    def __init__(self, rounds: int, *, masked: bool = False) -> None:
        self._rounds, self._masked = rounds, masked
        gradients = "clipped gradients of a linear softmax on the same features"
        added = "with noise and masks against everyone" if masked else "added up over the air"
        self.about = f"{gradients}, {added}, {plural(rounds, 'round')}"

    def run(self, work: Work) -> Outcome:
        """Let every worker send its gradient in every round."""
        scenario = samples_scenario(work.scenario)
        if self._masked:
            scenario = _MASKED(scenario)
        dataset, population = work.load(scenario.workers)
        count, symbols = population.count, (dataset.input_dim + 1) * dataset.label_dim
        rounds = plan_rounds(
            scenario, population, rounds=self._rounds, scheduled=count, symbols=symbols, norm=CLIP_NORM
        )
        inputs, labels = pool_tensors(dataset, work.device)
        held = torch.bincount(torch.from_numpy(population.sample_index), minlength=dataset.train_samples).to(inputs)
        parameters = torch.zeros((dataset.input_dim + 1, dataset.label_dim), device=work.device)
        adam = RoundAdam(LEARNING_RATE)
        for noise in round_noise(rounds, symbols, work, "federated"):
            gradient = clipped_gradient_sum(inputs, labels, held, parameters, CLIP_NORM) / count
            parameters += adam.change(gradient + noise.reshape(parameters.shape))
        model = linear_model(parameters[:-1].cpu(), parameters[-1].cpu())
        # Scores, softmax, the gradient, and its norm from those of its two factors.
        a_round = 2 * symbols + (HARD_OPERATION + 2) * dataset.label_dim
        return rounds.outcome(score(model, dataset), encoding_cost(scenario, dataset) + len(rounds) * a_round)

    def skipped(self, scenario: Scenario, speed: Speed) -> str:
        """Return why rounds with masks are not run unless asked for: without a word about masks they have them too."""
        return "the same as federated" if self._masked and is_variant_of_itself(scenario, _MASKED) else ""


class FederatedNetwork(Method):
    """Federated learning over the air of the paper's network on scaled raw samples."""

    about = "the same with the paper's network on raw samples"

    def run(self, work: Work) -> Outcome:
        """Let some workers send their gradients in every round."""
        scenario = paper_scenario(work.scenario)
        dataset, population = work.load(scenario.workers)
        network = start_network(scenario.learner, dataset, scenario.seed)
        symbols = sum(parameter.numel() for parameter in network.parameters())
        scheduled = min(_NETWORK_SCHEDULED, population.count)
        number = max(_FEWEST_NETWORK_ROUNDS, math.ceil(_NETWORK_EPOCHS * population.count / scheduled))
        rounds = plan_rounds(scenario, population, rounds=number, scheduled=scheduled, symbols=symbols, norm=CLIP_NORM)
        network.to(work.device)
        inputs, labels = pool_tensors(dataset, work.device)
        held = torch.from_numpy(population.sample_index).to(work.device)
        everybody = torch.arange(population.count)
        adam = RoundAdam(_NETWORK_LEARNING_RATE)
        for done, noise in enumerate(round_noise(rounds, symbols, work, "federated net")):
            senders = everybody if rounds.schedule is None else torch.from_numpy(rounds.schedule[done])
            samples = held[senders.to(work.device)]
            gradient = clipped_network_gradient_sum(network, inputs[samples], labels[samples], CLIP_NORM)
            _add(network, adam.change(gradient / len(senders) + noise))
        a_gradient = 3 * network_multiply_accumulates(network, dataset.input_dim) + 2 * symbols
        operations = 2 * dataset.input_dim + round(number * scheduled / population.count * a_gradient)
        return rounds.outcome(score(network, dataset), operations)

    def skipped(self, scenario: Scenario, speed: Speed) -> str:
        """Return why the network is not trained unless asked for."""
        return slow_on_a_cpu(scenario, speed)


FEDERATED, FEDERATED_50, FEDERATED_NETWORK = Federated(ROUNDS), Federated(_FEWER_ROUNDS), FederatedNetwork()
FEDERATED_MASKED = Federated(ROUNDS, masked=True)


@dataclass
class RoundAdam:
    """Adam on one tensor, as a server would run it on what it receives."""

    learning_rate: float
    _done: int = 0
    _mean: torch.Tensor | float = 0.0
    _square: torch.Tensor | float = 0.0

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


def clipped_network_gradient_sum(
    network: nn.Module, inputs: torch.Tensor, labels: torch.Tensor, norm: float
) -> torch.Tensor:
    """Return the same sum for a network, each sample counted once; shape parameters."""
    parameters = {name: value.detach() for name, value in network.named_parameters()}
    size = sum(value.numel() for value in parameters.values())

    def loss(values: dict[str, torch.Tensor], sample: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        scores = functional_call(network, values, (sample[None],))
        return -(label * torch.log_softmax(scores[0], dim=0)).sum()

    each = vmap(grad(loss), in_dims=(None, 0, 0))
    total = torch.zeros(size, device=inputs.device)
    at_once = max(1, _NUMBERS_AT_ONCE // size)
    for some in zip(torch.split(inputs, at_once), torch.split(labels, at_once), strict=True):
        flat = torch.cat([value.flatten(1) for value in each(parameters, *some).values()], dim=1)
        total += (norm / flat.norm(dim=1).clamp(min=norm)) @ flat
    return total


@torch.no_grad()
def _add(network: nn.Module, change: torch.Tensor) -> None:
    sizes = [parameter.numel() for parameter in network.parameters()]
    for parameter, part in zip(network.parameters(), torch.split(change, sizes), strict=True):
        parameter.add_(part.reshape(parameter.shape))


def network_multiply_accumulates(network: nn.Sequential, input_dim: int) -> int:
    """Return the multiply-accumulates of one forward pass; a gradient takes about twice as many again."""
    values, operations = torch.zeros((1, input_dim), device=next(network.parameters()).device), 0
    for layer in network:
        values = layer(values)
        if isinstance(layer, nn.Conv2d | nn.Linear):
            operations += layer.weight.numel() * math.prod(values.shape[2:])  # every filter once for each pixel
    return operations


def pool_tensors(dataset: DataSet, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the pool's inputs, samples x d, and one-hot labels, samples x classes, on the device."""
    inputs = torch.from_numpy(dataset.train_inputs).to(device)
    labels = nn.functional.one_hot(torch.from_numpy(dataset.train_labels), dataset.label_dim)
    return inputs, labels.to(inputs)


def round_noise(rounds: Rounds, numbers: int, work: Work, name: str) -> Iterator[torch.Tensor]:
    """Yield the noise on the mean gradient of each round; shape numbers. ``name`` is for the progress."""
    streams = Streams(rounds.scenario.seed)
    for number, deviation in enumerate(rounds.noise_deviation.tolist()):
        work.context.progress(name, number, len(rounds))
        drawn = streams.generator("noise", number).standard_normal(numbers, dtype="float32")
        yield deviation * torch.from_numpy(drawn).to(work.device)
    work.context.progress(name, len(rounds), len(rounds))


def score(model: nn.Module, dataset: DataSet) -> float:
    """Return the accuracy on the clean test set."""
    device, truth = next(model.parameters()).device, torch.from_numpy(dataset.test_labels)
    guessed = class_scores(model, torch.from_numpy(dataset.test_inputs).to(device)).argmax(dim=1).cpu()
    return float((guessed == truth).double().mean())
