"""Learning from sums that were received anywhere: on a network, on an air of hardware, from a file.

They hold no sample without noise and no signal-to-noise ratio; a simulation, which has both, learns by the same
functions (``training``).
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from airmixml.data import DataSet
from airmixml.edge.descents import Send, descend
from airmixml.edge.fitting import train_model
from airmixml.edge.learners import TrainedModel, build_model
from airmixml.edge.training import collector_for, last_of, score_solved, solve_sums
from airmixml.messages import ScenarioError
from airmixml.radio.rounds import as_gradient
from airmixml.scenario import Scenario
from airmixml.workers import Signal, declared_bounds
from airmixml.workers.gradients import gradient_unit
from airmixml.workers.payloads import Broadcast


class Received(NamedTuple):
    """What the server has of one slot."""

    mean: NDArray[np.floating]  # of the vectors of those who are in the sum, as they send them; symbols
    noise_variance: float  # on each of its numbers
    present: float  # how many are in the sum; of unequal shares q, 1 / sum q^2


def learn_from(
    scenario: Scenario, dataset: DataSet, slots: Sequence[Received], rounds: Sequence[Received] = ()
) -> tuple[TrainedModel, Broadcast | None]:
    """Learn what ``learn`` would from the slots, and the rounds of gradients so far, of a settled scenario.

    The ``dataset`` is for its dimensions and its test set, encoded; no training sample is looked at. With the model
    comes what to broadcast before the next round; None where there is none to come.
    """
    learner, workers = scenario.learner, scenario.workers
    build_model(learner, dataset.input_dim, dataset.label_dim, dataset.image_shape)
    if workers.centre_on_air:
        raise ScenarioError(
            f'workers.centre = "{workers.centre}": must be "none", "own" or "public" where sums are received; only a '
            "simulation averages samples before its slots"
        )
    told: list[Broadcast] = []  # before each round, the next one included
    send = _sender(scenario, dataset, rounds, told)

    def learned(trained: TrainedModel) -> tuple[TrainedModel, Broadcast | None]:
        return trained, told[-1] if len(told) > len(rounds) else None

    if workers.sends == "gradients":
        zeros = torch.zeros((dataset.input_dim, dataset.label_dim), dtype=torch.float64)
        models = descend(scenario, send, scenario.radio.slots, (zeros, zeros[0].clone()))
        return learned(last_of(models, dataset))
    signal = Signal.of(workers, dataset.input_dim, dataset.label_dim)
    means = [_symbols(each, signal, f"slot {number}").float()[None] for number, each in enumerate(slots)]
    parts = [(mean[:, : signal.input_symbols], mean[:, signal.input_symbols :] / signal.label_weight) for mean in means]
    if not learner.closed_form:
        inputs, labels = (torch.cat(each) for each in zip(*parts, strict=True))
        return train_model(learner, dataset, inputs, labels, seed=scenario.seed), None
    collector = collector_for(scenario, dataset)
    for inputs, labels in parts:
        collector.add(inputs, labels)
    variance = sum(each.noise_variance / len(slots) for each in slots)
    square_share = sum(1.0 / each.present / len(slots) for each in slots)
    share = scenario.radio.schedule_kind.varying_share(square_share, scenario.radio.scheduled, workers.count)
    solved, moments = solve_sums(scenario, collector, variance, share)
    if learner.rounds:
        return learned(last_of(descend(scenario, send, learner.rounds, solved, moments), dataset))
    return score_solved(learner, dataset, solved, moments), None


def _sender(scenario: Scenario, dataset: DataSet, received: Sequence[Received], told: list[Broadcast]) -> Send:
    """Return what gives the mean clipped gradient of one round after the other, and the deviation of its noise."""
    workers = replace(scenario.workers, sends="gradients")
    signal = Signal.of(workers, dataset.input_dim, dataset.label_dim)
    largest = math.sqrt(signal.largest_squared_norm(declared_bounds(workers, dataset.input_dim)[0]))

    def send(broadcast: Broadcast) -> tuple[torch.Tensor, float] | None:
        number, unit = len(told), gradient_unit(largest, broadcast.clip)
        told.append(broadcast)
        if number == len(received):
            return None
        symbols = _symbols(received[number], signal, f"round {number}")
        return as_gradient(signal, symbols) / unit, math.sqrt(received[number].noise_variance) / unit

    return send


def _symbols(received: Received, signal: Signal, which: str) -> torch.Tensor:
    """Return the mean as it is; refuse one of another length, or with numbers that are not finite."""
    mean = torch.as_tensor(np.asarray(received.mean))
    if mean.shape != (signal.symbols,) or not torch.isfinite(mean).all():
        raise ScenarioError(
            f"{which}: has {mean.numel():,} numbers; must have the {signal.symbols:,} that a worker of the scenario "
            "sends, all finite; receive it again: what workers protect and send once more is spent again"
        )
    return mean
