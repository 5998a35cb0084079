"""Every worker sends its own sample alone: in the clear, or with noise of its own that makes it private (local DP).

Nothing is mixed, every worker has a slot of its own at full power, and the receiver noise hides next to nothing. The
server learns in closed form from samples that arrive one by one, each with noise of known variance.
"""

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from airmixml.compare.baselines.federated import pool_tensors, score
from airmixml.compare.methods import Method
from airmixml.compare.variants import HARD_OPERATION, adjacencies, encoding_operations, samples_scenario
from airmixml.compare.work import Outcome, Work
from airmixml.data import DataSet
from airmixml.edge.closed_form import ReceivedMoments, linear_model, solve
from airmixml.privacy import Design, PrivacyStatement, Sensitivity, state_privacy
from airmixml.privacy.gaussian import gaussian_epsilon, gaussian_mu
from airmixml.progress import Progress, silent
from airmixml.radio.channel import draw_fading, path_gain
from airmixml.radio.privacy_target import adversary_named, sensitivity_of, weakest_gain
from airmixml.scenario import Scenario
from airmixml.streams import Streams
from airmixml.units import dbm_to_watts
from airmixml.workers import SYMBOLS_PER_SECOND, Population, Signal

_WORKERS_AT_ONCE: Final = 8192


class SeparateSamples(Method):
    """Every worker sends its sample in a slot of its own; ``private``: with the noise that keeps the target."""

    def __init__(self, about: str, *, private: bool) -> None:
        self.about, self._private = about, private

    def run(self, work: Work) -> Outcome:
        """Send all samples and learn from what arrives."""
        scenario = samples_scenario(work.scenario)
        dataset, population = work.load(scenario.workers)
        sensitivity = sensitivity_of(scenario, dataset.input_dim, dataset.label_dim)
        signal = Signal.of(scenario.workers, dataset.input_dim, dataset.label_dim)
        deviation = local_noise_deviation(scenario, sensitivity) if self._private else 0.0
        slots = plan_orthogonal(
            scenario, population, signal, squared_norm=sensitivity.removal, local_variance=deviation**2
        )
        variance = np.asarray(deviation**2 + slots.noise_variance)
        moments = received_moments(
            scenario, dataset, population, variance, device=work.device, progress=work.context.progress
        )
        model = linear_model(*(each.cpu() for each in solve(scenario.learner, moments)))
        uplink = population.count * signal.symbols
        noise_operations = HARD_OPERATION * signal.symbols if self._private else 0
        return Outcome(
            accuracy=score(model, dataset),
            privacy=tuple(
                local_statement(scenario, sensitivity, deviation, adjacency)
                if self._private
                else state_orthogonal(scenario, slots, population, sensitivity, adjacency)
                for adjacency in adjacencies(scenario)
            ),
            uplink_symbols=uplink,
            air_seconds=uplink / SYMBOLS_PER_SECOND,
            energy_joules=float(slots.worker_energy_joules.sum()),
            worker_multiply_accumulates=encoding_operations(scenario, dataset) + noise_operations,
        )


LOCAL_DP = SeparateSamples("every worker adds its own noise and sends alone", private=True)
RAW = SeparateSamples("every worker sends its features alone, in the clear", private=False)


@dataclass(frozen=True, kw_only=True, eq=False)
class OrthogonalSlots:
    """One slot per worker.

    Attributes:
        received_watts: how strongly a symbol of amplitude 1 is received from each worker; shape workers.
        noise_variance: variance of the receiver noise on a symbol, relative to what was to be sent; shape workers.
        worker_energy_joules: what each worker spends; shape workers.
    """

    received_watts: NDArray[np.float64]
    noise_variance: NDArray[np.float64]
    worker_energy_joules: NDArray[np.float64]


def plan_orthogonal(
    scenario: Scenario, population: Population, signal: Signal, *, squared_norm: float, local_variance: float = 0.0
) -> OrthogonalSlots:
    """Return slots in which every worker sends its own vector once.

    Without local noise a symbol of amplitude 1 is sent with the power limit, as mixtures are. With it symbols have no
    largest amplitude: they are scaled so that their mean power is the limit.

    Args:
        scenario: channel, noise and power limit.
        population: where the workers stand.
        signal: what is sent.
        squared_norm: bound on ||v||^2 of a worker's vector.
        local_variance: variance of the noise that the worker itself adds to each symbol.
    """
    radio = scenario.radio
    gains = path_gain(population.distance_metres, radio.path_loss_exponent, radio.unit_path_loss_db) ** 2
    if radio.fading != "none":
        rng = Streams(scenario.seed).generator("fading")
        gains = gains * draw_fading(radio.fading, radio.rician_k, gains.shape, rng) ** 2
    limit_watts = dbm_to_watts(radio.max_power_dbm)
    squared_sum = min(squared_norm, float(signal.symbols)) + signal.symbols * local_variance
    mean_square = squared_sum / signal.symbols if local_variance else 1.0
    received_watts = limit_watts * gains / mean_square
    joules = limit_watts / mean_square * squared_sum / SYMBOLS_PER_SECOND
    return OrthogonalSlots(
        received_watts=received_watts,
        noise_variance=dbm_to_watts(radio.noise_dbm) / 2.0 / received_watts,
        worker_energy_joules=np.full(len(gains), joules),
    )


def state_orthogonal(
    scenario: Scenario, slots: OrthogonalSlots, population: Population, sensitivity: Sensitivity, adjacency: str
) -> PrivacyStatement:
    """Return what the receiver noise alone hides of the worker that is received best; exact."""
    limit_watts = dbm_to_watts(scenario.radio.max_power_dbm)
    loudest = float(slots.received_watts.max())
    design = Design(
        workers=population.count,
        scheduled=1,
        received_watts=(loudest,),
        counts=(population.count,),
        sensitivity=sensitivity,
        noise_watts=dbm_to_watts(scenario.radio.noise_dbm),
        weakest_gain=weakest_gain(scenario, population.distance_metres),
        max_power_watts=limit_watts,
        power_tells_schedule=True,
        worst_received_watts=loudest,
        worst_sent_watts=limit_watts,
        worst_participations=1,
    )
    adversary = adversary_named(scenario.privacy.adversary, scenario)
    return state_privacy(design, adversary, "gdp", adjacency=adjacency, delta=scenario.privacy.delta)


def local_noise_deviation(scenario: Scenario, sensitivity: Sensitivity) -> float:
    """Return s = Delta / mu: a worker's vector with that much noise keeps the target by itself, against anybody."""
    privacy = scenario.privacy
    move = sensitivity.squared_move(privacy.adjacency, "none")
    return float(np.sqrt(move)) / gaussian_mu(privacy.epsilon, privacy.delta)


def local_statement(scenario: Scenario, sensitivity: Sensitivity, deviation: float, adjacency: str) -> PrivacyStatement:
    """Return what a worker's own noise promises; it needs no trust in the server and no receiver noise."""
    privacy = scenario.privacy
    move = sensitivity.squared_move(adjacency, "none")
    return PrivacyStatement(
        epsilon=gaussian_epsilon(float(np.sqrt(move)) / deviation, privacy.delta),
        delta=privacy.delta,
        adversary="anybody",
        accountant="gdp",
        adjacency=adjacency,
        sensitivity=move,
        sampling="none",
        sampling_rate=1.0,
        compositions=1,
        noise_watts_per_symbol=0.0,
        given="any schedule",
        knows="every message, without receiver noise",
        why="each worker adds noise of its own before it sends",
        target_epsilon=privacy.epsilon if adjacency == privacy.adjacency else None,
    )


def received_moments(
    scenario: Scenario,
    dataset: DataSet,
    population: Population,
    noise_variance: NDArray[np.float64],
    *,
    device: torch.device,
    progress: Progress = silent,
) -> ReceivedMoments:
    """Return the moments of x and l from the noisy (x, w l) of all workers, without those of the noise.

    Args:
        scenario: weight of the labels, and seed of the noise.
        dataset: what the workers hold.
        population: who holds which sample.
        noise_variance: variance of the noise on each symbol of each worker; shape workers.
        device: where to compute.
        progress: told how many workers have been heard.
    """
    inputs, labels = pool_tensors(dataset, device)
    table = torch.cat([inputs, scenario.workers.label_weight * labels], dim=1)
    held = torch.from_numpy(population.sample_index).to(device)
    deviation = torch.from_numpy(np.sqrt(noise_variance)).to(device).float()
    streams, size, count = Streams(scenario.seed), dataset.input_dim, population.count
    sums = torch.zeros(table.shape[1], dtype=torch.float64, device=device)
    products = torch.zeros((size, table.shape[1]), dtype=torch.float64, device=device)
    for part, first in enumerate(range(0, count, _WORKERS_AT_ONCE)):
        progress("one by one", first, count)
        some = slice(first, min(first + _WORKERS_AT_ONCE, count))
        drawn = streams.generator("noise", part).standard_normal((some.stop - first, table.shape[1]), dtype=np.float32)
        received = table[held[some]] + deviation[some, None] * torch.from_numpy(drawn).to(device)
        sums += received.sum(dim=0, dtype=torch.float64)
        products += (received[:, :size].T @ received).double()
    progress("one by one", count, count)
    moments = _without_noise(sums / count, products / count, float(noise_variance.mean()), count)
    weight = scenario.workers.label_weight
    return replace(moments, cross=moments.cross / weight, label_mean=moments.label_mean / weight)


def _without_noise(mean: torch.Tensor, products: torch.Tensor, noise_variance: float, count: int) -> ReceivedMoments:
    """Return the covariances without the noise's own, and how large an eigenvalue its remains can make.

    With samples of variance m and noise of variance v on each number, an entry of the mean of N products errs by a
    variance of (v^2 + 2 v m) / N: a symmetric matrix of such entries has eigenvalues up to 2 sqrt(d (v^2 + 2 v m) / N).
    """
    size = len(products)
    covariance = products - torch.outer(mean[:size], mean)
    second = covariance[:, :size] - noise_variance * torch.eye(size).to(products)
    own = max(float(second.diagonal().mean()), 0.0)
    return ReceivedMoments(
        second=second,
        cross=covariance[:, size:],
        input_mean=mean[:size],
        label_mean=mean[size:],
        noise_edge=2.0 * math.sqrt(size * (noise_variance**2 + 2.0 * noise_variance * own) / count),
    )
