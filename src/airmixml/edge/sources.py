"""Learning from sums that were received anywhere: on a network, on an air of hardware, from a file.

A source hands out the mean of what workers sent in a slot, with the variance of the noise on it and how many are in
it. It holds no sample without noise and no signal-to-noise ratio; a simulation, which has both, learns by the same
functions (``training``).
"""

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from airmixml.data import DataSet
from airmixml.edge.closed_form import Solution
from airmixml.edge.descents import Send, descend
from airmixml.edge.fitting import train_model
from airmixml.edge.models import TrainedModel, build_model
from airmixml.edge.training import collector_for, last_of, score_solved, solve_sums
from airmixml.errors import ScenarioError
from airmixml.progress import Progress, silent
from airmixml.radio.rounds import as_gradient
from airmixml.scenario import Scenario, Speed
from airmixml.workers import Signal, declared_bounds
from airmixml.workers.gradients import gradient_unit
from airmixml.workers.payloads import Broadcast


class Received(NamedTuple):
    """What the server has of one slot."""

    mean: NDArray[np.floating]  # of the vectors of those who are in the sum, as they send them; symbols
    noise_variance: float  # on each of its numbers
    present: float  # how many are in the sum; of unequal shares q, 1 / sum q^2


class NoMoreRounds(Exception):
    """Raised by a source that has no further round: the model stays as it is."""


class Source(Protocol):
    """Where sums come from. Each slot and each round is asked for once, in order; the first has number 0."""

    def slot(self, number: int) -> Received:
        """Return what was received in one of the scenario's slots."""

    def round(self, number: int, told: Broadcast) -> Received:
        """Broadcast a model; return the mean of the gradients as workers send them, or raise ``NoMoreRounds``."""


def learn_from(
    scenario: Scenario, dataset: DataSet, source: Source, *, speed: Speed | None = None, progress: Progress = silent
) -> TrainedModel:
    """Learn what ``learn`` would from sums that a source has received, of a settled scenario.

    The ``dataset`` is for its dimensions and its test set, encoded; no training sample is looked at.
    """
    learner, workers = scenario.learner, scenario.workers
    build_model(learner, dataset.input_dim, dataset.label_dim, dataset.image_shape)
    if workers.centre_on_air:
        raise ScenarioError(
            f'workers.centre = "{workers.centre}": must be "none", "own" or "public" where sums are received; only a '
            "simulation averages samples before its slots"
        )
    send = _rounds_of(scenario, dataset, source, progress)
    if workers.sends == "gradients":
        zeros = torch.zeros((dataset.input_dim, dataset.label_dim), dtype=torch.float64)
        return last_of(_received(descend(scenario, send, scenario.radio.slots, (zeros, zeros[0].clone()))), dataset)
    signal = Signal.of(workers, dataset.input_dim, dataset.label_dim)
    collector, kept = collector_for(scenario, dataset), list[tuple[torch.Tensor, torch.Tensor]]()
    slots, variance, square_share = scenario.radio.slots, 0.0, 0.0
    for number in range(slots):
        progress("over the air", number, slots)
        received = source.slot(number)
        symbols = _symbols(received, signal, f"slot {number}").float()[None]
        inputs, labels = symbols[:, : signal.input_symbols], symbols[:, signal.input_symbols :] / signal.label_weight
        if learner.closed_form:
            collector.add(inputs, labels)
        else:
            kept.append((inputs, labels))
        variance += received.noise_variance / slots
        square_share += 1.0 / received.present / slots
    progress("over the air", slots, slots)
    if not learner.closed_form:
        inputs, labels = (torch.cat(each) for each in zip(*kept, strict=True))
        return train_model(learner, dataset, inputs, labels, seed=scenario.seed, speed=speed, progress=progress)
    share = scenario.radio.schedule_kind.varying_share(square_share, scenario.radio.scheduled, workers.count)
    solved, moments = solve_sums(scenario, collector, variance, share)
    if learner.rounds:
        return last_of(_received(descend(scenario, send, learner.rounds, solved, moments)), dataset)
    return score_solved(learner, dataset, solved, moments)


def _received(solutions: Iterator[Solution]) -> Iterator[Solution]:
    """Yield models until the source has no further round."""
    with suppress(NoMoreRounds):
        yield from solutions


def _rounds_of(scenario: Scenario, dataset: DataSet, source: Source, progress: Progress) -> Send:
    """Return what sends one round after the other."""
    workers = replace(scenario.workers, sends="gradients")
    rounds = scenario.learner.rounds or scenario.radio.slots
    signal, numbers = Signal.of(workers, dataset.input_dim, dataset.label_dim), iter(range(rounds))
    largest = math.sqrt(signal.largest_squared_norm(declared_bounds(workers, dataset.input_dim)[0]))

    def send(told: Broadcast) -> tuple[torch.Tensor, float]:
        number, unit = next(numbers), gradient_unit(largest, told.clip)
        progress("rounds", number, rounds)
        received = source.round(number, told)
        symbols = _symbols(received, signal, f"round {number}")
        progress("rounds", number + 1, rounds)
        return as_gradient(signal, symbols) / unit, math.sqrt(received.noise_variance) / unit

    return send


def _symbols(received: Received, signal: Signal, which: str) -> torch.Tensor:
    """Return the mean as it is; refuse one of another length, or with numbers that are not finite."""
    mean = torch.as_tensor(np.asarray(received.mean))
    if mean.shape != (signal.symbols,) or not torch.isfinite(mean).all():
        raise ScenarioError(
            f"{which}: has {mean.numel():,} numbers; must have the {signal.symbols:,} that a worker of the scenario "
            "sends, all finite; receive it again"
        )
    return mean
