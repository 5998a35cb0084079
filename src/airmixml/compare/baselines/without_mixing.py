"""Workers that mix nothing: each adds the noise that makes its own messages private, or sends its sample in the clear.

Local privacy needs no trust. In every round all workers send, at once, the clipped gradients of a linear softmax with
noise of their own; the server takes the sum, descends and broadcasts. Of the mechanisms that were tried on synthetic
data (``benchmarks/choose_local_dp.py``) gradients are the most accurate in 11 of 12 cells. One round is the noisy mean
of x l'. Noisy samples lose because noise is multiplied by noise, noisy moments because it is spread over d^2 numbers.
Groups of workers that send once need the same symbols and energy, and are as accurate; all at once need no groups.

Samples in the clear are the upper limit of accuracy: every worker has a slot of its own, and the receiver noise hides
next to nothing. The server learns in closed form from samples, each with noise of known variance.
"""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Self

import numpy as np
import torch
from torch import nn

from airmixml.arrays import Doubles, dbm_to_watts
from airmixml.compare.baselines import RECEIVER_NOISE_SHARE, pool_tensors, power_gains, score
from airmixml.compare.methods import Exposure, Method, Outcome, Work
from airmixml.compare.ours import encoding_cost, over_receiver_noise, samples_scenario, state_both
from airmixml.data import DataSet
from airmixml.edge.closed_form import MomentsCollector, ReceivedMoments, linear_model, solve
from airmixml.impairments.fading import weakest_gain
from airmixml.privacy import Design, PrivacyStatement, Sensitivity, facts, state_privacy
from airmixml.privacy.gaussian import gaussian_epsilon, gaussian_mu
from airmixml.progress import Progress, silent
from airmixml.radio.system import adversary_named, sensitivity_of
from airmixml.registries import NOISES
from airmixml.scenario import Privacy, Scenario
from airmixml.streams import Streams
from airmixml.workers import SYMBOLS_PER_SECOND, Population, Signal
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
        alone, rests_on = stated[0].epsilon, NOISES.load("workers").rests_on
        in_sum = epsilon_in_sum(scenario, plan)
        return Outcome(
            **score(model, dataset),
            privacy=stated,
            exposure=Exposure(server=in_sum, eavesdropper=alone, everyone=alone, rests_on=rests_on),
            uplink_symbols=uplink,
            downlink_bits=BITS_PER_NUMBER * uplink,
            slots_per_worker=plan.rounds,
            air_seconds=uplink / SYMBOLS_PER_SECOND,
            energy_joules=air.energy_joules,
            worker_multiply_accumulates=encoding_cost(scenario, dataset) + plan.rounds * a_round,
        )


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


_WORKERS_AT_ONCE: Final = 8192


class Raw(Method):
    """Every worker sends its sample in a slot of its own, in the clear."""

    about = "each worker sends its row in the clear"

    def run(self, work: Work) -> Outcome:
        scenario = over_receiver_noise(samples_scenario(work.scenario))
        dataset, population = work.load(scenario.workers)
        sensitivity = sensitivity_of(scenario, dataset.input_dim, dataset.label_dim)
        signal = Signal.of(scenario.workers, dataset.input_dim, dataset.label_dim)
        slots = plan_orthogonal(scenario, population, signal, squared_norm=sensitivity.removal)
        moments = received_moments(work, scenario, dataset, population, slots.noise_variance)
        model = linear_model(*(each.cpu() for each in solve(scenario.learner, moments)))
        state = partial(_state_orthogonal, scenario, sensitivity, slots, population)
        uplink = population.count * signal.symbols
        return Outcome(
            **score(model, dataset),
            privacy=state_both(scenario, state, targeted=False),
            exposure=Exposure.of_statements(
                lambda name: state(scenario.privacy.adjacency, against=name), noise="receiver"
            ),
            uplink_symbols=uplink,
            downlink_bits=0,
            slots_per_worker=1,
            air_seconds=uplink / SYMBOLS_PER_SECOND,
            energy_joules=float(slots.worker_energy_joules.sum()),
            worker_multiply_accumulates=encoding_cost(scenario, dataset),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class OrthogonalSlots:
    """One slot per worker; all of shape workers."""

    sent_watts: Doubles  # with how much a symbol of amplitude 1 is sent
    received_watts: Doubles  # how strongly it is received
    noise_variance: Doubles  # of the receiver noise on a symbol, relative to what was to be sent
    worker_energy_joules: Doubles


def plan_orthogonal(
    scenario: Scenario, population: Population, signal: Signal, *, squared_norm: float
) -> OrthogonalSlots:
    """Return slots in which every worker sends its own vector v once, with ||v||^2 <= ``squared_norm``.

    All are received alike: so strongly that the receiver noise is ``RECEIVER_NOISE_SHARE`` of the mean square of a
    vector at the bound. A worker whose power limit, at amplitude 1, does not allow that is received more weakly.
    """
    gains = power_gains(scenario, population.distance_metres, slots=1)[0]
    limit_watts = dbm_to_watts(scenario.radio.max_power_dbm)
    noise_watts = scenario.privacy.noise_kind.drawn_watts(scenario) / 2.0
    squared_sum = min(squared_norm, float(signal.symbols))
    needed_watts = noise_watts / (RECEIVER_NOISE_SHARE * squared_sum / signal.symbols)
    sent_watts = np.minimum(needed_watts / gains, limit_watts)
    return OrthogonalSlots(
        sent_watts=sent_watts,
        received_watts=sent_watts * gains,
        noise_variance=noise_watts / (sent_watts * gains),
        worker_energy_joules=sent_watts * squared_sum / SYMBOLS_PER_SECOND,
    )


def _state_orthogonal(
    scenario: Scenario,
    sensitivity: Sensitivity,
    slots: OrthogonalSlots,
    population: Population,
    adjacency: str,
    *,
    against: str = "",
) -> PrivacyStatement:
    """Return what the receiver noise alone hides of the worker that is received best; exact."""
    loudest = float(slots.received_watts.max())
    design = Design(
        workers=population.count,
        scheduled=1,
        received_watts=(loudest,),
        counts=(population.count,),
        sensitivity=sensitivity,
        noise_watts=scenario.privacy.noise_kind.stated_watts(scenario),
        facts=(
            facts.PowerTells(),
            facts.Transmitters(
                weakest_gain=weakest_gain(scenario, population.distance_metres),
                limit_watts=dbm_to_watts(scenario.radio.max_power_dbm),
            ),
            facts.Drawn(received_watts=loudest, participations=1, sent_watts=float(slots.sent_watts.max())),
        ),
    )
    adversary = adversary_named(against or scenario.privacy.adversary, scenario)
    return state_privacy(design, adversary, "gdp", adjacency=adjacency, delta=scenario.privacy.delta)


def received_moments(
    work: Work, scenario: Scenario, dataset: DataSet, population: Population, noise_variance: Doubles
) -> ReceivedMoments:
    """Return the moments of x and l from the noisy (x, w l) of all workers, without those of noise of that variance.

    With samples of variance m and noise of variance v on each number, an entry of the mean of N products errs by a
    variance of (v^2 + 2 v m) / N: a symmetric matrix of such entries has eigenvalues up to 2 sqrt(d (v^2 + 2 v m) / N).
    """
    device, weight = work.device, scenario.workers.label_weight
    inputs, labels = pool_tensors(dataset, device)
    table = torch.cat([inputs, weight * labels], dim=1)
    held = torch.from_numpy(population.sample_index).to(device)
    deviation = torch.from_numpy(np.sqrt(noise_variance)).to(device).float()
    streams, size, count = Streams(scenario.seed), dataset.input_dim, population.count
    collector = MomentsCollector(Signal.of(scenario.workers, size, dataset.label_dim))
    for part, first in enumerate(range(0, count, _WORKERS_AT_ONCE)):
        work.context.progress("one by one", first, count)
        some = slice(first, min(first + _WORKERS_AT_ONCE, count))
        drawn = streams.generator("noise", part).standard_normal((some.stop - first, table.shape[1]), dtype=np.float32)
        received = table[held[some]] + deviation[some, None] * torch.from_numpy(drawn).to(device)
        collector.add(received[:, :size], received[:, size:])
    work.context.progress("one by one", count, count)
    variance = float(noise_variance.mean())
    moments = collector.moments(variance, 1.0)
    own = max(float(moments.second.diagonal().mean()), 0.0)
    return replace(
        moments,
        cross=moments.cross / weight,
        label_mean=moments.label_mean / weight,
        noise_edge=2.0 * math.sqrt(size * (variance**2 + 2.0 * variance * own) / count),
    )


LOCAL_DP, RAW = LocalDp(), Raw()
