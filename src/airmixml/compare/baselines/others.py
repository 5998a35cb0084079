"""Alternatives that are no scenario of this package, on the same data, workers, channel and privacy target."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from typing import Final

import numpy as np

from airmixml.compare.baselines import dp_sgd
from airmixml.compare.baselines.federated import CLIP_NORM, ROUNDS, learn_federated
from airmixml.compare.baselines.federated_network import learn_federated_network, network_multiply_accumulates
from airmixml.compare.baselines.orthogonal import (
    local_noise_deviation,
    local_statement,
    plan_orthogonal,
    state_orthogonal,
)
from airmixml.compare.baselines.rounds import Rounds, plan_rounds
from airmixml.compare.baselines.separate import closed_form_learner, learn_from_separate_samples
from airmixml.compare.ours import adjacencies, paper_scenario
from airmixml.compare.work import Outcome, Work
from airmixml.data import DataSet
from airmixml.edge.fitting import start_network
from airmixml.errors import PrivacyError
from airmixml.privacy import PrivacyStatement
from airmixml.radio.privacy_target import sensitivity_of
from airmixml.scenario import Scenario
from airmixml.workers import SYMBOLS_PER_SECOND, Signal, worker_cost

_NETWORK_SCHEDULED: Final = 512
_NETWORK_EPOCHS: Final = 10
_FEWEST_NETWORK_ROUNDS: Final = 100
_HARD_OPERATION: Final = 10  # an exponential or a Gaussian number, in multiply-accumulates


def samples_scenario(scenario: Scenario) -> Scenario:
    """Return the scenario with the same features sent as samples, unrounded, and a learner in closed form.

    A mean estimated over the air belongs to the mixtures; the others centre without it.
    """
    workers = replace(scenario.workers, sends="samples", bits=0)
    if workers.centre == "private":
        workers = replace(workers, centre="own")
    return replace(scenario, workers=workers, learner=closed_form_learner(scenario.learner))


def run_federated(work: Work) -> Outcome:
    """Analog over-the-air federated learning of a linear softmax on the scenario's features, everybody every round."""
    scenario = samples_scenario(work.scenario)
    dataset = work.dataset(scenario.workers)
    population = work.population(dataset)
    symbols = (dataset.input_dim + 1) * dataset.label_dim
    rounds = plan_rounds(
        scenario, population, rounds=ROUNDS, scheduled=population.count, symbols=symbols, norm=CLIP_NORM
    )
    trained = learn_federated(rounds, dataset, population, device=work.device, progress=work.progress)
    # Scores, softmax, the gradient, and its norm from those of its two factors.
    a_round = 2 * symbols + (_HARD_OPERATION + 2) * dataset.label_dim
    operations = _encoding_operations(scenario, dataset) + len(rounds) * a_round
    return _outcome_of_rounds(trained.history.final_accuracy, rounds, operations)


def run_federated_network(work: Work) -> Outcome:
    """The same with the paper's network on scaled raw samples, some workers a round."""
    scenario = paper_scenario(work.scenario)
    dataset = work.dataset(scenario.workers)
    population = work.population(dataset)
    network = start_network(scenario.learner, dataset, scenario.seed)
    symbols = sum(parameter.numel() for parameter in network.parameters())
    scheduled = min(_NETWORK_SCHEDULED, population.count)
    number = max(_FEWEST_NETWORK_ROUNDS, math.ceil(_NETWORK_EPOCHS * population.count / scheduled))
    rounds = plan_rounds(scenario, population, rounds=number, scheduled=scheduled, symbols=symbols, norm=CLIP_NORM)
    trained = learn_federated_network(
        rounds, scenario.learner, dataset, population, norm=CLIP_NORM, device=work.device, progress=work.progress
    )
    a_gradient = 3 * network_multiply_accumulates(network, dataset.input_dim) + 2 * symbols
    operations = 2 * dataset.input_dim + round(number * scheduled / population.count * a_gradient)
    return _outcome_of_rounds(trained.history.final_accuracy, rounds, operations)


def _outcome_of_rounds(accuracy: float, rounds: Rounds, operations: int) -> Outcome:
    uplink = len(rounds) * rounds.symbols
    stated: list[PrivacyStatement] = []
    for number, adjacency in enumerate(adjacencies(rounds.scenario)):
        try:
            stated.append(rounds.state(adjacency))
        except PrivacyError:
            if not number:
                raise
    return Outcome(
        accuracy=accuracy,
        privacy=stated,
        uplink_symbols=uplink,
        air_seconds=uplink / SYMBOLS_PER_SECOND,
        energy_joules=float(rounds.worker_energy_joules.sum()),
        worker_multiply_accumulates=operations,
    )


def run_dp_sgd(work: Work) -> Outcome:
    """Central DP-SGD of the linear softmax on the scenario's features; the curator is trusted, no radio is used."""
    scenario = samples_scenario(work.scenario)
    dataset = work.dataset(scenario.workers)
    population = work.population(dataset)
    privacy = scenario.privacy
    design = dp_sgd.calibrate_dp_sgd(privacy, population.count)
    trained = dp_sgd.learn_dp_sgd(
        design, dataset, population, seed=scenario.seed, device=work.device, progress=work.progress
    )
    own, other = adjacencies(scenario)
    stated = [dp_sgd.state_dp_sgd(design, privacy, own)]
    with suppress(PrivacyError):
        stated.append(dp_sgd.state_dp_sgd(design, privacy, other))
    return Outcome(
        accuracy=trained.history.final_accuracy,
        privacy=stated,
        uplink_symbols=None,
        air_seconds=None,
        energy_joules=None,
        worker_multiply_accumulates=0,
    )


def run_local_dp(work: Work) -> Outcome:
    """Every worker adds the noise that makes its own message private, and sends it in a slot of its own."""
    return _run_separately(work, private=True)


def run_raw(work: Work) -> Outcome:
    """Every worker sends its sample as it is in a slot of its own: no privacy, and what can be had at most."""
    return _run_separately(work, private=False)


def _run_separately(work: Work, *, private: bool) -> Outcome:
    scenario = samples_scenario(work.scenario)
    dataset = work.dataset(scenario.workers)
    population = work.population(dataset)
    sensitivity = sensitivity_of(scenario, dataset.input_dim, dataset.label_dim)
    signal = Signal.of(scenario.workers, dataset.input_dim, dataset.label_dim)
    deviation = local_noise_deviation(scenario, sensitivity) if private else 0.0
    slots = plan_orthogonal(scenario, population, signal, squared_norm=sensitivity.removal, local_variance=deviation**2)
    trained = learn_from_separate_samples(
        scenario,
        dataset,
        population,
        np.asarray(deviation**2 + slots.noise_variance),
        device=work.device,
        progress=work.progress,
    )
    stated = [
        local_statement(scenario, sensitivity, deviation, adjacency)
        if private
        else state_orthogonal(scenario, slots, population, sensitivity, adjacency)
        for adjacency in adjacencies(scenario)
    ]
    uplink = population.count * signal.symbols
    return Outcome(
        accuracy=trained.history.final_accuracy,
        privacy=stated,
        uplink_symbols=uplink,
        air_seconds=uplink / SYMBOLS_PER_SECOND,
        energy_joules=float(slots.worker_energy_joules.sum()),
        worker_multiply_accumulates=_encoding_operations(scenario, dataset)
        + (_HARD_OPERATION * signal.symbols if private else 0),
    )


def _encoding_operations(scenario: Scenario, dataset: DataSet) -> int:
    signal = Signal.of(scenario.workers, dataset.input_dim, dataset.label_dim)
    return worker_cost(scenario.workers, dataset.held_dim or dataset.input_dim, signal).multiply_accumulates
