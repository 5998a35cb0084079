"""Local privacy: every worker adds the noise that makes its own messages private, and no trust is needed.

In every round all workers send, at once, the clipped gradients of a linear softmax with noise of their own; the server
takes the sum, descends and broadcasts. Of the mechanisms that were tried on synthetic data
(``benchmarks/choose_local_dp.py``) gradients are the most accurate in 11 of 12 cells. One round is the noisy mean of
x l'. Noisy samples lose because noise is multiplied by noise, noisy moments because it is spread over d^2 numbers.
Groups of workers that send once need the same symbols and energy, and are as accurate; all at once need no groups.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Final, Self

import numpy as np
import torch
from torch import nn

from airmixml.arrays import Doubles, dbm_to_watts
from airmixml.compare.baselines import RECEIVER_NOISE_SHARE, pool_tensors, power_gains, score
from airmixml.compare.methods import Exposure, Method, Outcome, Work
from airmixml.compare.ours import encoding_cost, samples_scenario, state_both
from airmixml.edge.closed_form import linear_model
from airmixml.privacy import PrivacyStatement, Sensitivity
from airmixml.privacy.gaussian import gaussian_epsilon, gaussian_mu
from airmixml.progress import Progress, silent
from airmixml.scenario import Privacy, Scenario
from airmixml.streams import Streams
from airmixml.workers import SYMBOLS_PER_SECOND, Population
from airmixml.workers.encoder import HARD_OPERATION
from airmixml.workers.gradients import BITS_PER_NUMBER

# Fixed for all data sets; docs/comparison.md says on which data they were chosen.
CLIP_NORM: Final = 0.4
SCORE_NOISE: Final = 1.2
STEP: Final = 16.0
MOST_ROUNDS: Final = 400


class LocalDp(Method):
    """Clipped gradients of a linear softmax, each with its worker's own noise, added up over the air."""

    about = "sums of gradients, each with its own noise"

    def run(self, work: Work) -> Outcome:
        scenario = samples_scenario(work.scenario)
        dataset, population = work.load(scenario.workers)
        symbols = dataset.input_dim * dataset.label_dim
        plan = LocalPlan.of(scenario.privacy, population.count)
        air = plan_air(scenario, population, plan, symbols)
        inputs, labels = pool_tensors(dataset, work.device)
        inputs = nn.functional.normalize(inputs)  # the highest of scores without bias is that of any length
        held = torch.bincount(torch.from_numpy(population.sample_index), minlength=dataset.train_samples).to(inputs)
        weights = descend(inputs, labels, held, plan, air, Streams(scenario.seed), progress=work.context.progress)
        model = linear_model(weights.cpu(), torch.zeros(dataset.label_dim))
        stated = state_both(scenario, partial(state_local, scenario.privacy, plan))
        uplink = plan.rounds * symbols
        # Scores, softmax, the gradient, its norm from those of its two factors, and the noise.
        a_round = (2 + HARD_OPERATION) * symbols + (HARD_OPERATION + 2) * dataset.label_dim
        return Outcome(
            **score(model, dataset),
            privacy=stated,
            exposure=Exposure.of_local_noise(stated[0].epsilon, in_sum=epsilon_in_sum(scenario, plan)),
            uplink_symbols=uplink,
            downlink_bits=BITS_PER_NUMBER * uplink,
            slots_per_worker=plan.rounds,
            air_seconds=uplink / SYMBOLS_PER_SECOND,
            energy_joules=air.energy_joules,
            worker_multiply_accumulates=encoding_cost(scenario, dataset) + plan.rounds * a_round,
        )


LOCAL_DP: Final = LocalDp()


@dataclass(frozen=True, kw_only=True)
class LocalPlan:
    """What the target and the number of workers decide; no data are looked at."""

    rounds: int
    step: float  # what the mean gradient of a round is multiplied by
    deviation: float  # of the noise that a worker adds to each number of a gradient

    @classmethod
    def of(cls, privacy: Privacy, workers: int) -> Self:
        """Return the plan for inputs of norm at most 1.

        With s = Delta / mu (Delta = C to a removal, 2 C to a replacement) noise of deviation s sqrt(R) on each of R
        gradients keeps the target. Let all steps add up to T: their noise then moves the score of an input of norm 1 by
        T s / sqrt(N), whatever R is. T makes that ``SCORE_NOISE``, in steps of about ``STEP``.
        """
        deviation = math.sqrt(_squared_move(privacy.adjacency)) / gaussian_mu(privacy.epsilon, privacy.delta)
        steps = SCORE_NOISE * math.sqrt(workers) / deviation
        rounds = max(1, min(round(steps / STEP), MOST_ROUNDS))
        return cls(rounds=rounds, step=min(steps / rounds, STEP), deviation=deviation * math.sqrt(rounds))


@dataclass(frozen=True, kw_only=True, eq=False)
class LocalAir:
    """What sending costs, and what it adds."""

    receiver_variance: Doubles  # of the receiver noise on a number of the sum, relative to what was to be sent; rounds
    energy_joules: float  # what all workers spend in all rounds


def plan_air(scenario: Scenario, population: Population, plan: LocalPlan, symbols: int) -> LocalAir:
    """Return the least power that costs no accuracy.

    All are received alike, with beta per squared amplitude. The receiver noise on the sum, N_0 / (2 beta), is to be
    ``RECEIVER_NOISE_SHARE`` of the workers' own, N s^2; a power limit that does not allow that makes it more. A vector
    with its noise has a squared norm of C^2 + symbols s^2 at most, on average.
    """
    radio = scenario.radio
    slots = 1 if radio.fading == "none" else plan.rounds
    gains = power_gains(scenario, population.distance_metres, slots=slots)
    noise_watts = scenario.privacy.noise_kind.drawn_watts(scenario) / 2.0
    limit_watts = dbm_to_watts(radio.max_power_dbm)
    squared_sum = CLIP_NORM**2 + symbols * plan.deviation**2
    needed = noise_watts / (RECEIVER_NOISE_SHARE * population.count * plan.deviation**2)
    beta = np.minimum(needed, limit_watts * gains.min(axis=1) * symbols / squared_sum)
    sent = beta[:, None] / gains * squared_sum
    return LocalAir(
        receiver_variance=np.broadcast_to(noise_watts / beta, (plan.rounds,)),
        energy_joules=float(sent.sum()) * plan.rounds / slots / SYMBOLS_PER_SECOND,
    )


def descend(
    inputs: torch.Tensor,
    labels: torch.Tensor,
    held: torch.Tensor,
    plan: LocalPlan,
    air: LocalAir,
    streams: Streams,
    progress: Progress = silent,
) -> torch.Tensor:
    """Return the mean of the weights of the second half of the rounds; d x classes.

    Inputs are samples x d, of norm at most 1, labels one-hot, ``held`` says how many workers hold each sample. The
    noise of the sum is drawn as such: that of N workers of deviation s has deviation s sqrt(N).
    """
    workers, norms = float(held.sum()), inputs.norm(dim=1)
    weights = inputs.new_zeros((inputs.shape[1], labels.shape[1]))
    total = torch.zeros_like(weights)
    for number, receiver_variance in enumerate(air.receiver_variance.tolist()):
        progress("local-dp", number, plan.rounds)
        errors = torch.softmax(inputs @ weights, dim=1) - labels
        errors *= (held * CLIP_NORM / (errors.norm(dim=1) * norms).clamp(min=CLIP_NORM))[:, None]
        drawn = streams.generator("noise", number).standard_normal(tuple(weights.shape), dtype=np.float32)
        deviation = math.sqrt(workers * plan.deviation**2 + receiver_variance)
        received = inputs.T @ errors + deviation * torch.from_numpy(drawn).to(inputs)
        weights = weights - plan.step / workers * received
        if number >= plan.rounds // 2:
            total += weights
    progress("local-dp", plan.rounds, plan.rounds)
    return total / (plan.rounds - plan.rounds // 2)


def _squared_move(adjacency: str) -> float:
    """Return how far, squared, a neighbour's message is from a worker's: gradients have norm C at most."""
    return Sensitivity(removal=CLIP_NORM**2, replacement=4.0 * CLIP_NORM**2).squared_move(adjacency, "none")


def epsilon_in_sum(scenario: Scenario, plan: LocalPlan) -> float:
    """Return what the server learns, who receives the sum alone: the noise of all honest workers hides each of them."""
    privacy, count = scenario.privacy, scenario.workers.count
    honest = max(1, count - privacy.colluders)
    mu = math.sqrt(plan.rounds * _squared_move(privacy.adjacency) / honest) / plan.deviation
    return gaussian_epsilon(mu, privacy.delta)


def state_local(privacy: Privacy, plan: LocalPlan, adjacency: str) -> PrivacyStatement:
    """Return what a worker's own noise promises; it needs no trust in the server and no receiver noise."""
    move = _squared_move(adjacency)
    return PrivacyStatement(
        epsilon=gaussian_epsilon(math.sqrt(plan.rounds * move) / plan.deviation, privacy.delta),
        delta=privacy.delta,
        adversary="everyone",
        accountant="gdp",
        adjacency=adjacency,
        sensitivity=move,
        sampling="none",
        sampling_rate=1.0,
        compositions=plan.rounds,
        noise_watts_per_symbol=0.0,
        given="any schedule",
        knows="every message, without receiver noise",
        why="each worker adds noise of its own before it sends",
    )
