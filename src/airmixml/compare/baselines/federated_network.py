"""Federated learning over the air with the paper's networks: per-sample gradients, clipped, of some workers a round."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import torch
from torch import nn
from torch.func import functional_call, grad, vmap

from airmixml.compare.baselines.federated import CLIP_NORM, AdamSteps, pool_tensors, round_noise, score
from airmixml.compare.baselines.rounds import Rounds, plan_rounds
from airmixml.compare.methods import Method
from airmixml.compare.variants import paper_scenario, slow_on_a_cpu
from airmixml.compare.work import Outcome, Work
from airmixml.data import DataSet
from airmixml.edge.fitting import start_network
from airmixml.edge.training import TrainedModel
from airmixml.progress import Progress, silent
from airmixml.scenario import Learner, Scenario, Speed
from airmixml.workers import Population

LEARNING_RATE: Final = 2e-3
_SCHEDULED: Final = 512
_EPOCHS: Final = 10
_FEWEST_ROUNDS: Final = 100
_NUMBERS_AT_ONCE: Final = 1 << 25


class FederatedNetwork(Method):
    """Federated learning over the air of the paper's network on scaled raw samples."""

    about = "the same with the paper's network on raw samples"

    def run(self, work: Work) -> Outcome:
        """Let some workers send their gradients in every round."""
        scenario = paper_scenario(work.scenario)
        dataset = work.dataset(scenario.workers)
        population = work.population(dataset)
        network = start_network(scenario.learner, dataset, scenario.seed)
        symbols = sum(parameter.numel() for parameter in network.parameters())
        scheduled = min(_SCHEDULED, population.count)
        number = max(_FEWEST_ROUNDS, math.ceil(_EPOCHS * population.count / scheduled))
        rounds = plan_rounds(scenario, population, rounds=number, scheduled=scheduled, symbols=symbols, norm=CLIP_NORM)
        trained = learn_federated_network(
            rounds,
            scenario.learner,
            dataset,
            population,
            norm=CLIP_NORM,
            device=work.device,
            progress=work.context.progress,
        )
        a_gradient = 3 * network_multiply_accumulates(network, dataset.input_dim) + 2 * symbols
        operations = 2 * dataset.input_dim + round(number * scheduled / population.count * a_gradient)
        return rounds.outcome(trained.history.final_accuracy, operations)

    def skipped(self, scenario: Scenario, speed: Speed) -> str:
        """Return why the network is not trained unless asked for."""
        return slow_on_a_cpu(scenario, speed)


def learn_federated_network(
    rounds: Rounds,
    learner: Learner,
    dataset: DataSet,
    population: Population,
    *,
    norm: float,
    device: torch.device,
    progress: Progress = silent,
) -> TrainedModel:
    """Train the learner's network over the air and score it on the clean test set.

    Args:
        rounds: who sends when, and with how much noise, planned for gradients of norm ``norm``.
        learner: which network; its optimiser is not used.
        dataset: what the workers hold.
        population: who holds which sample.
        norm: C, to which every gradient is shortened.
        device: where to compute.
        progress: told how many rounds are done.
    """
    network = start_network(learner, dataset, rounds.scenario.seed).to(device)
    inputs, labels = pool_tensors(dataset, device)
    held = torch.from_numpy(population.sample_index).to(device)
    everybody = torch.arange(population.count)
    adam = AdamSteps(LEARNING_RATE)
    for number, noise in enumerate(round_noise(rounds, rounds.symbols, device)):
        progress("federated net", number, len(rounds))
        senders = everybody if rounds.schedule is None else torch.from_numpy(rounds.schedule[number])
        samples = held[senders.to(device)]
        gradient = clipped_network_gradient_sum(network, inputs[samples], labels[samples], norm) / len(senders)
        _add(network, adam.change(gradient + noise))
    progress("federated net", len(rounds), len(rounds))
    return TrainedModel(model=network, history=score(network, dataset))


def clipped_network_gradient_sum(
    network: nn.Module, inputs: torch.Tensor, labels: torch.Tensor, norm: float
) -> torch.Tensor:
    """Return the sum of the samples' own cross-entropy gradients, each shortened to ``norm``; shape parameters.

    Args:
        network: inputs to class scores.
        inputs: samples x d.
        labels: one-hot; samples x classes.
        norm: C.
    """
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
    return sum(_layer_costs(network, input_dim))


def _layer_costs(network: nn.Sequential, input_dim: int) -> Iterator[int]:
    values = torch.zeros((1, input_dim), device=next(network.parameters()).device)
    for layer in network:
        values = layer(values)
        if isinstance(layer, nn.Conv2d):
            yield layer.weight.numel() * values.shape[-2] * values.shape[-1]
        elif isinstance(layer, nn.Linear):
            yield layer.weight.numel()


FEDERATED_NETWORK = FederatedNetwork()
