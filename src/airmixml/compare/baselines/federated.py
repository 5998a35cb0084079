"""Federated learning over the air of the paper's network: some workers a round send per-sample gradients at once.

The server receives the sum of the clipped gradients with its own receiver noise, or that of the workers where the
scenario says so (``privacy.noise``), takes an Adam step and broadcasts the network. Linear models are scenarios of this
package (``compare.ours``).
"""

import math
from collections.abc import Iterator
from typing import Final

import torch
from torch import nn
from torch.func import functional_call, grad, vmap

from airmixml.compare.baselines.rounds import Rounds, plan_rounds
from airmixml.compare.methods import Method, Outcome, Work, slow_on_a_cpu
from airmixml.compare.ours import CLIP_NORM, paper_scenario
from airmixml.data import DataSet
from airmixml.edge.fitting import class_scores, start_network
from airmixml.scenario import Scenario, Speed
from airmixml.streams import Streams

_LEARNING_RATE: Final = 2e-3
_SCHEDULED: Final = 512
_EPOCHS: Final = 10
_FEWEST_ROUNDS: Final = 100
_NUMBERS_AT_ONCE: Final = 1 << 25


class FederatedNetwork(Method):
    """Federated learning over the air of the paper's network on scaled raw samples."""

    about = "clipped gradients of the paper's network on raw samples, added up over the air"

    def run(self, work: Work) -> Outcome:
        """Let some workers send their gradients in every round."""
        scenario = paper_scenario(work.scenario)
        dataset, population = work.load(scenario.workers)
        network = start_network(scenario.learner, dataset, scenario.seed)
        symbols = sum(parameter.numel() for parameter in network.parameters())
        scheduled = min(_SCHEDULED, population.count)
        number = max(_FEWEST_ROUNDS, math.ceil(_EPOCHS * population.count / scheduled))
        rounds = plan_rounds(scenario, population, rounds=number, scheduled=scheduled, symbols=symbols, norm=CLIP_NORM)
        network.to(work.device)
        inputs, labels = pool_tensors(dataset, work.device)
        held = torch.from_numpy(population.sample_index).to(work.device)
        adam = torch.optim.Adam(network.parameters(), lr=_LEARNING_RATE)
        for done, noise in enumerate(round_noise(rounds, symbols, work)):
            samples = held[torch.from_numpy(rounds.schedule[done]).to(work.device)]
            gradient = clipped_network_gradient_sum(network, inputs[samples], labels[samples], CLIP_NORM)
            received = torch.split(gradient / scheduled + noise, [each.numel() for each in network.parameters()])
            for parameter, part in zip(network.parameters(), received, strict=True):
                parameter.grad = part.view_as(parameter)
            adam.step()
        a_gradient = 3 * network_multiply_accumulates(network, dataset.input_dim) + 2 * symbols
        operations = 2 * dataset.input_dim + round(number * scheduled / population.count * a_gradient)
        return rounds.outcome(score(network, dataset), operations)

    def skipped(self, scenario: Scenario, speed: Speed) -> str:
        """Return why the network is not trained unless asked for."""
        return slow_on_a_cpu(scenario, speed)


FEDERATED_NETWORK = FederatedNetwork()


def clipped_network_gradient_sum(
    network: nn.Module, inputs: torch.Tensor, labels: torch.Tensor, norm: float
) -> torch.Tensor:
    """Return sum_i g_i min(1, C / ||g_i||), g_i the gradient of the cross-entropy of sample i; shape parameters."""
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


def round_noise(rounds: Rounds, numbers: int, work: Work) -> Iterator[torch.Tensor]:
    """Yield the noise on the mean gradient of each round; shape numbers."""
    streams = Streams(rounds.scenario.seed)
    for number, deviation in enumerate(rounds.noise_deviation.tolist()):
        work.context.progress("federated net", number, len(rounds))
        drawn = streams.generator("noise", number).standard_normal(numbers, dtype="float32")
        yield deviation * torch.from_numpy(drawn).to(work.device)
    work.context.progress("federated net", len(rounds), len(rounds))


def score(model: nn.Module, dataset: DataSet) -> float:
    """Return the accuracy on the clean test set."""
    device, truth = next(model.parameters()).device, torch.from_numpy(dataset.test_labels)
    guessed = class_scores(model, torch.from_numpy(dataset.test_inputs).to(device)).argmax(dim=1).cpu()
    return float((guessed == truth).double().mean())
