"""Every worker sends its own sample alone and in the clear: no privacy, the upper limit of accuracy.

Nothing is mixed, every worker has a slot of its own, and the receiver noise hides next to nothing. The server learns in
closed form from samples that arrive one by one, each with noise of known variance.
"""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np
import torch

from airmixml.arrays import Doubles, dbm_to_watts
from airmixml.compare.baselines import RECEIVER_NOISE_SHARE, pool_tensors, power_gains, score
from airmixml.compare.methods import Exposure, Method, Outcome, Work
from airmixml.compare.ours import encoding_cost, over_receiver_noise, samples_scenario, state_both
from airmixml.data import DataSet
from airmixml.edge.closed_form import MomentsCollector, ReceivedMoments, linear_model, solve
from airmixml.impairments.fading import weakest_gain
from airmixml.privacy import Design, PrivacyStatement, Sensitivity, facts, state_privacy
from airmixml.radio.system import adversary_named, sensitivity_of
from airmixml.scenario import Scenario
from airmixml.streams import Streams
from airmixml.workers import SYMBOLS_PER_SECOND, Population, Signal

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


RAW: Final = Raw()


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
