"""Federated learning over the air with the paper's networks: per-sample gradients, clipped, of some workers a round."""

import math
from collections.abc import Iterator
from typing import Final

import torch
from torch import nn
from torch.func import functional_call, grad, vmap

from airmixml.compare.baselines.federated import CLIP_NORM, AdamSteps, pool_tensors, round_noise, score
from airmixml.compare.baselines.rounds import plan_rounds
from airmixml.compare.methods import Method
from airmixml.compare.variants import paper_scenario, slow_on_a_cpu
from airmixml.compare.work import Outcome, Work
from airmixml.edge.fitting import start_network
from airmixml.scenario import Scenario, Speed

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
        dataset, population = work.load(scenario.workers)
        network = start_network(scenario.learner, dataset, scenario.seed)
        symbols = sum(parameter.numel() for parameter in network.parameters())
        scheduled = min(_SCHEDULED, population.count)
        number = max(_FEWEST_ROUNDS, math.ceil(_EPOCHS * population.count / scheduled))
        rounds = plan_rounds(scenario, population, rounds=number, scheduled=scheduled, symbols=symbols, norm=CLIP_NORM)
        network.to(work.device)
        inputs, labels = pool_tensors(dataset, work.device)
        held = torch.from_numpy(population.sample_index).to(work.device)
        everybody = torch.arange(population.count)
        adam = AdamSteps(LEARNING_RATE)
        for done, noise in enumerate(round_noise(rounds, symbols, work.device)):
            work.context.progress("federated net", done, number)
            senders = everybody if rounds.schedule is None else torch.from_numpy(rounds.schedule[done])
            samples = held[senders.to(work.device)]
            gradient = clipped_network_gradient_sum(network, inputs[samples], labels[samples], CLIP_NORM)
            _add(network, adam.change(gradient / len(senders) + noise))
        work.context.progress("federated net", number, number)
        a_gradient = 3 * network_multiply_accumulates(network, dataset.input_dim) + 2 * symbols
        operations = 2 * dataset.input_dim + round(number * scheduled / population.count * a_gradient)
        return rounds.outcome(score(network, dataset), operations)

    def skipped(self, scenario: Scenario, speed: Speed) -> str:
        """Return why the network is not trained unless asked for."""
        return slow_on_a_cpu(scenario, speed)


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
