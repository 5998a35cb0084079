"""A mean estimated over the air: one slot before all others in which every worker sends its input once, unlabelled.

The server broadcasts the noisy mean, and each worker subtracts it before it bounds the norm of what it sends from then
on. The slot has a share of epsilon and of delta to itself; the rest is what the other slots may spend (basic
composition, which holds for every accountant). A refined mean is what is left after a public one was subtracted, so
fewer inputs are clipped; by the exact accountant its slot and the others are one Gaussian mechanism. The mean is sent
unrounded, also where ``workers.bits`` rounds the others: its noise covers any input of the declared norm, and rounding
would only add to what the mean is off by.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from airmixml.arrays import Doubles, dbm_to_watts
from airmixml.data import DataSet
from airmixml.impairments.fading import worker_path_gain
from airmixml.messages import PrivacyError, ScenarioError
from airmixml.privacy import PrivacyStatement
from airmixml.privacy.evaluation import better_receivers
from airmixml.privacy.gaussian import gaussian_epsilon, gaussian_mu
from airmixml.radio.privacy_target import centring_target, composes_exactly
from airmixml.registries import ADVERSARIES
from airmixml.scenario import Scenario, Workers
from airmixml.streams import Streams
from airmixml.workers import (
    SYMBOLS_PER_SECOND,
    Population,
    declared_bounds,
    encode_centred,
    encoded_dim,
    encoder_of,
    within_declared,
)
from airmixml.workers.payloads import add_up_rows
from airmixml.workers.signal import rounding_backoff

_LEAST_EPSILON = 1e-300  # stands for 0, of which mu is not asked
_MEAN_NOISE_CHAPTER = 2  # chapters 0 and 1 of the stream "encoder" draw features and rounding


@dataclass(frozen=True, kw_only=True, eq=False)
class CentringSlot:
    """The slot that estimates the mean."""

    received_watts: float  # how strongly each worker is received, for an input of norm 1
    power_watts: Doubles  # transmit power of each worker; shape workers
    noise_deviation: float  # deviation of the noise on each number of the mean
    removal_mu: float  # mu of the Gaussian mechanism when a worker falls silent
    replacement_mu: float  # the same when another input takes the place of the worker's own
    features: int  # how many numbers the mean has, which are the slot's symbols
    delta: float  # share of delta that it may spend
    exact: bool = False  # whether it composes with the other slots as one Gaussian mechanism
    seconds: float  # how long it lasts
    energy_joules: Doubles  # what each worker spends; shape workers

    def epsilon(self, adversary: str, adjacency: str, copies: int = 1) -> float:
        """Return what it costs a row on so many workers; all send, so nobody's ignorance of the schedule helps."""
        if ADVERSARIES.load(adversary).own_receiver:
            raise PrivacyError(
                'workers.centre = "private" or "refined": what a receiver near the workers hears of the slot for the '
                'mean is not accounted for; use workers.centre = "public" or "own"'
            )
        return gaussian_epsilon(copies * self.mu(adjacency), self.delta)

    def joined(
        self, epsilon: float, delta: float, adversary: str, accountant: str, adjacency: str, copies: int = 1
    ) -> float:
        """Return epsilon of this slot and the others, which have ``epsilon`` at ``delta``, at the sum of both deltas.

        Where both are Gaussian mechanisms, their mu^2 add up.
        """
        own = self.epsilon(adversary, adjacency, copies)
        if not (self.exact and accountant == "gdp"):
            return epsilon + own
        others = gaussian_mu(max(epsilon, _LEAST_EPSILON), delta)
        together = math.hypot(others, copies * self.mu(adjacency))
        return gaussian_epsilon(together, delta + self.delta)

    def louder(self, factor: float) -> "CentringSlot":
        """Return the slot where ``factor`` times the power is received."""
        root = math.sqrt(factor)
        return replace(self, removal_mu=root * self.removal_mu, replacement_mu=root * self.replacement_mu)

    def mu(self, adjacency: str) -> float:
        """Return mu of the Gaussian mechanism that it is for one worker."""
        return self.removal_mu if adjacency == "remove-one" else self.replacement_mu

    def added_to(self, statement: PrivacyStatement, copies: int = 1) -> PrivacyStatement:
        """Return what holds for this slot and the others, which the statement is about, together."""
        adversary, adjacency, accountant = statement.adversary, statement.adjacency, statement.accountant
        composition = "one Gaussian mechanism" if self.exact and accountant == "gdp" else "basic composition"
        louder = {name: self.louder(factor) for name, factor in better_receivers(statement.antennas).items()}
        asked = statement.delta, adversary, accountant, adjacency, copies
        return replace(
            statement,
            epsilon=self.joined(statement.epsilon, *asked),
            delta=statement.delta + self.delta,
            why=f"{statement.why}; with the slot that estimated the mean ({composition})",
            if_better={
                name: None if epsilon is None else louder[name].joined(epsilon, *asked)
                for name, epsilon in statement.if_better.items()
            },
        )


def plan_centring(scenario: Scenario, features: int, distance_metres: Doubles) -> CentringSlot | None:
    """Return the slot that estimates the mean with the scenario's budget for it; None where it has none."""
    workers, privacy, radio = scenario.workers, scenario.privacy, scenario.radio
    if not workers.centre_on_air:
        return None
    squared_norm, squared_distance = declared_bounds(_before_centring(workers), features)
    move = squared_norm if privacy.adjacency == "remove-one" else squared_distance
    half_noise_watts = scenario.privacy.noise_kind.stated_watts(scenario) / 2.0
    mu, delta = centring_target(scenario)
    gain = worker_path_gain(scenario, distance_metres) ** 2
    limit_watts = dbm_to_watts(radio.max_power_dbm) * float(gain.min())
    received_watts = min(mu**2 * half_noise_watts / move, limit_watts)
    power_watts = received_watts / gain
    return CentringSlot(
        received_watts=received_watts,
        power_watts=power_watts,
        noise_deviation=math.sqrt(privacy.noise_kind.drawn_watts(scenario) / 2.0 / received_watts) / len(gain),
        removal_mu=math.sqrt(received_watts * squared_norm / half_noise_watts),
        replacement_mu=math.sqrt(received_watts * squared_distance / half_noise_watts),
        features=features,
        delta=delta,
        exact=composes_exactly(scenario),
        seconds=radio.slot_seconds or features / SYMBOLS_PER_SECOND,
        energy_joules=power_watts * (radio.slot_seconds or squared_norm / SYMBOLS_PER_SECOND),
    )


def averaged_numbers(workers: Workers, input_dim: int, held_dim: int | None) -> int:
    """Return how many numbers the mean has where d_X is ``input_dim``; ``held_dim`` are a row's columns, if known.

    A refined mean is of what comes before features are mixed, which are made of rows less that mean.
    """
    mixes = encoder_of(workers).after_centring(workers, np.random.default_rng(0)) is not None
    if workers.centre == "refined" and mixes and held_dim is not None:
        return held_dim
    return input_dim - (1 if workers.constant else 0)  # the constant needs no averaging


def mean_slot(scenario: Scenario, held_dim: int, distance_metres: Doubles) -> CentringSlot | None:
    """Return the slot that estimates the mean of rows with so many columns; None where the scenario has none."""
    workers = scenario.workers
    numbers = averaged_numbers(workers, encoded_dim(workers, held_dim), held_dim)
    return plan_centring(scenario, numbers, distance_metres)


def centre_privately(
    scenarios: Sequence[Scenario], dataset: DataSet, population: Population, streams: Streams | None = None
) -> DataSet:
    """Return the data less the mean that the workers of the scenario estimate over the air, if it asks for that."""
    scenario = scenarios[0]
    slot = plan_centring(scenario, dataset.input_dim, population.distance_metres)
    if slot is None:
        return dataset
    if len(scenarios) > 1:
        raise ScenarioError(
            f'workers.centre = "{scenario.workers.centre}": the mean depends on the target; simulate each scenario '
            "apart"
        )
    streams = streams or Streams(scenario.seed)
    noise = streams.generator("encoder", _MEAN_NOISE_CHAPTER).standard_normal(dataset.input_dim)
    inputs = within_declared(_before_centring(scenario.workers), dataset.train_inputs)
    held = np.bincount(population.sample_index, minlength=len(inputs)) / population.count
    summed = add_up_rows(rounding_backoff(population.count) * held, inputs)
    mean = np.asarray(summed + slot.noise_deviation * noise).astype(np.float32)
    train_inputs, shortened = encode_centred(scenario.workers, inputs - mean, streams)
    test_inputs, _ = encode_centred(scenario.workers, dataset.test_inputs - mean, streams)
    return replace(
        dataset, train_inputs=train_inputs, test_inputs=test_inputs, clipped_samples=shortened, private_mean=mean
    )


def _before_centring(workers: Workers) -> Workers:
    """Return the workers as they encode what they send in the slot for the mean."""
    return replace(workers, centre="public" if workers.centre == "refined" else "none")
