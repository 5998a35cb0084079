"""The attack of an isolating listener, who hears every worker separately, perfectly, and without noise of its own.

Everything but one worker's sample is known. What is left of every worker's signal is its own noise and its masks with
honest workers, of covariance S = s^2 I + e^2 L; in the audited worker's also the canary, or another sample
(replace-one) or nothing (remove-one). A removed worker goes on with its noise and its masks, as the claim has it. The
best filter for worker i is w = S^-1 e_i: w' y has its signal with weight w_i in noise of variance w' S w = w_i. A trial
is that number for one symbol, along the canary's direction. Whether noise and masks are as stated is looked at where
workers form them (``added_noise``). The sum of integers is all there is of them: it is attacked as the server's.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray

from airmixml.arrays import Doubles
from airmixml.attacks.isolating_listener import inverse_times
from airmixml.audit.canaries import sent_of, worst_samples
from airmixml.audit.trials import Bench, Trials, noise_source, seats_of_worker
from airmixml.masks.graph import most_absent_neighbours
from airmixml.radio.draws import AirSetting
from airmixml.radio.masking import Masking, masking_of
from airmixml.scenario import Scenario
from airmixml.streams import Streams
from airmixml.wording import plural

_TRIALS_PER_BLOCK: Final = 8192
_CHAPTER: Final = 1 << 33  # behind the chapters of the other attacks
COLLUDERS: Final = 1 << 34


@dataclass(frozen=True, kw_only=True, eq=False)
class _Filtered:
    """What the filters give in the slots of a worker."""

    seed: int  # of noise
    signals: Doubles  # without noise; worlds x slots
    deviations: Doubles  # of the noise there really is; shape slots

    def __call__(self, block: int, size: int) -> Doubles:
        """Return the scores of a block of trials, with the canary and without; 2 x size."""
        source = noise_source(self.seed, _CHAPTER + block)
        normals = torch.randn((2, size, len(self.deviations)), generator=source, dtype=torch.float64).numpy()
        return np.asarray(normals @ self.deviations + self.signals.sum(axis=1, keepdims=True))


def isolating_trials(bench: Bench, worker: int) -> Trials:
    """Return scores of trials in which everybody is heard."""
    scenario, fault = bench.air.scenario, bench.fault
    masking, generator = masking_of(scenario), Streams(scenario.seed).generator("audit", COLLUDERS)
    assert masking is not None
    filters, signals, deviations = dict[int, tuple[float, float]](), list[Doubles](), list[float]()
    for kind in bench.kinds:
        along = _along(bench, kind.air)
        for drawn, draws, slot, seat in seats_of_worker(kind, worker):
            assert drawn.planned_ratios is not None
            # What a worker sends more softly than planned it sends with softer noise and masks.
            amplitudes = np.sqrt(draws.power_scale_watts[slot]) * drawn.planned_ratios.numpy()[slot, seat]
            for amplitude, own in zip(amplitudes.tolist(), seat.tolist(), strict=True):
                if own not in filters:
                    honest = draw_honest(scenario, masking, own, generator)
                    weights = inverse_times(masking, honest, np.eye(len(honest), 1, -own))[:, 0]
                    noise, precision = masking.own_watts * float(weights @ weights), float(weights[own])
                    masks = 0.0 if fault.unmasked else precision - noise
                    filters[own] = precision, math.sqrt(fault.noise_factor**2 * noise + masks)
                precision, deviation = filters[own]
                move = amplitude * (along[0] - along[1])
                # Half-way between the worlds is 0.
                signals.append(move * amplitude * precision * (along - along.mean()))
                deviations.append(move * deviation)
    honest_count = masking.honest.count
    how = f"every worker heard separately and without noise, by the best filter over {plural(honest_count, 'worker')}"
    scored = _Filtered(seed=scenario.seed, signals=np.stack(signals, axis=1), deviations=np.array(deviations))
    how = f"{plural(len(signals), 'slot')}, {how}, along the canary's direction"
    return bench.run("all workers heard", min(_TRIALS_PER_BLOCK, bench.trials), scored, how=how, normal=True)


def _along(bench: Bench, air: AirSetting) -> Doubles:
    """Return what the canary and what takes its place are in a kind of slots, along the direction between them."""
    samples = worst_samples(air.scenario, air.signal.features, bench.classes)
    canary, other, _ = sent_of(air.scenario, samples, bench.fault)
    if bench.adjacency == "remove-one":
        other = np.zeros_like(canary)
    direction = (canary - other) / math.sqrt(math.fsum((canary - other) ** 2))
    return np.array([canary @ direction, other @ direction])


def draw_honest(scenario: Scenario, masking: Masking, seat: int, generator: Generator) -> NDArray[np.bool_]:
    """Draw who colludes, and whom a server that lies calls absent; return whose masks stay unknown, shape seats.

    Colluders are chosen without regard to the graph. Absent are as many of the audited worker's neighbours as workers
    put up with, then anybody of whom nobody has too many.
    """
    privacy, count = scenario.privacy, scenario.radio.scheduled
    honest = np.ones(count, dtype=np.bool_)
    if masking.graph is None:  # who else colludes changes nothing
        return honest
    others = np.delete(np.arange(count), seat)
    honest[generator.permutation(others)[: min(privacy.colluders, count - 1)]] = False
    absent = math.ceil(privacy.most_absent * count)
    if not absent:
        return honest
    adjacency, limit = masking.graph.adjacency, most_absent_neighbours(masking.graph, absent)
    called = np.zeros(count)  # how many neighbours of each seat are called absent
    order = generator.permutation(others[honest[others]])
    beside = np.asarray(adjacency[[seat]].toarray()[0] > 0.0)
    for other in np.concatenate([order[beside[order]], order[~beside[order]]]):
        if not absent:
            break
        neighbours = slice(adjacency.indptr[other], adjacency.indptr[other + 1])
        where, by = adjacency.indices[neighbours], adjacency.data[neighbours]
        if (called[where] + by).max() <= limit:
            called[where] += by
            honest[other], absent = False, absent - 1
    return honest
