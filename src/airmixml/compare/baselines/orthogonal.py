"""Every worker in a slot of its own, at full power: nothing is mixed, and the receiver noise hides next to nothing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from airmixml.privacy import Design, PrivacyStatement, Sensitivity, state_privacy
from airmixml.privacy.gaussian import gaussian_epsilon, gaussian_mu
from airmixml.radio.channel import draw_fading, path_gain
from airmixml.radio.privacy_target import adversary_named, weakest_gain
from airmixml.scenario import Scenario
from airmixml.streams import Streams
from airmixml.units import dbm_to_watts
from airmixml.workers import SYMBOLS_PER_SECOND, Population, Signal


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
