"""The attack of an isolating listener, who hears every worker separately, perfectly, and without noise of its own.

Everything but one worker's sample is known. What is left of every worker's signal is its own noise and its masks with
honest workers, of covariance S = s^2 I + e^2 L; in the audited worker's also the canary, or another sample
(replace-one) or nothing (remove-one). A removed worker goes on with its noise and its masks, as the claim has it. The
best filter for worker i is w = S^-1 e_i: w' y has its signal with weight w_i in noise of variance w' S w = w_i. A trial
is that number for one symbol, along the canary's direction. The sum of integers is all there is of them: it is attacked
as the server's.

Whether noise and masks are as stated is looked at where devices form them. Masks are formed from keys and by a cipher,
by each end for itself: one that is too weak, that two ends see differently, or that comes twice shows. Symbol by symbol
in several slots two sums, each over its stated deviation, must be independent standard normal numbers, within a slot
and between slots:

- of all honest workers: masks cancel, n workers' own noise stays, of variance n s^2. Noise that is too weak shows here.
- of the audited worker, less the mean of all: k masks, of variance k e^2 + (1 - 1 / n) s^2. Masks that are missing show
  here, and masks that come again in another slot. A residue is uniform, and taken for the normal number of the same
  probability.

Without masks the worker's own noise is measured alone.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Any, Final, Self

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import ndtri

from airmixml.arrays import Doubles
from airmixml.attacks.isolating_listener import inverse_times
from airmixml.audit.canaries import sent_of, worst_samples
from airmixml.audit.noise_check import NoiseCheck, NoiseMeter
from airmixml.audit.sums import skellam_numbers
from airmixml.audit.trials import Bench, Trials, noise_source, seats_of_worker
from airmixml.integers.encoding import reduce, signed
from airmixml.masks.graph import most_absent_neighbours
from airmixml.messages import plural
from airmixml.radio.draws import AirSetting
from airmixml.radio.masking import Masking, any_masking, masking_of
from airmixml.radio.workers_noise import IntegerSums
from airmixml.scenario import Scenario
from airmixml.streams import Streams

_TRIALS_PER_BLOCK: Final = 8192
# Behind the chapters of the other attacks: of trials, of who colludes, of what workers form.
_CHAPTER: Final = 1 << 33
_COLLUDERS: Final = 1 << 34
_FORMED: Final = 1 << 35
_ROUND: Final = b"audit, one alone"
_ENOUGH_NUMBERS: Final = 4096
_MOST_SYMBOLS: Final = 1024
_LEAST_SLOTS: Final = 4
_CHECKED: Final = "what workers add"

Seeds = dict[int, dict[int, list[bytes]]]
"""The seeds of a worker's masks by the other end, by the worker's own seat; two seats may share several masks."""


def _filtered(seed: int, signals: Doubles, deviations: Doubles, block: int, size: int) -> Doubles:
    """Return the scores of a block of trials, with the canary and without; 2 x size.

    Signals (worlds x slots) are what the filters give without noise, deviations those of the noise there really is.
    """
    source = noise_source(seed, _CHAPTER + block)
    normals = torch.randn((2, size, len(deviations)), generator=source, dtype=torch.float64)
    return np.asarray(normals.numpy() @ deviations + signals.sum(axis=1, keepdims=True))


def isolating_trials(bench: Bench, worker: int) -> Trials:
    """Return scores of trials in which everybody is heard."""
    scenario, fault = bench.air.scenario, bench.fault
    masking, generator = masking_of(scenario), Streams(scenario.seed).generator("audit", _COLLUDERS)
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
    scored = partial(_filtered, scenario.seed, np.stack(signals, axis=1), np.array(deviations))
    by = f"by the best filter over {plural(masking.honest.count, 'worker')}, along the canary's direction"
    how = f"{plural(len(signals), 'slot')}, every worker heard separately and without noise, {by}"
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


@dataclass(frozen=True, kw_only=True, eq=False)
class FormedMasks:
    """The masks of one worker with honest others, as both ends form them."""

    seeds: Seeds
    seat: int  # of the worker
    masking: Masking  # how strong masks are stated to be
    reused: bool = False  # whether every slot has the masks of the first symbol of the first one: a fault

    @classmethod
    def of(cls, masking: Masking, seat: int, honest: NDArray[np.bool_], *, seed: int, reused: bool = False) -> Self:
        """Agree on seeds for the masks of a seat; the keys of workers follow from the audit's seed."""
        from airmixml.masks.keys import KeyPair, pair_seed  # here: it needs the extra "masks"

        assert masking.graph is not None
        masks, seeds, round_id = masking.graph.edges, Seeds(), _ROUND + b" seat %d" % seat
        for one, other in masks[honest[masks].all(axis=1) & (masks == seat).any(axis=1)].tolist():
            for own, far in ((one, other), (other, one)):  # each end by itself
                mine, other_end = (KeyPair(sha256(b"audit %d worker %d" % (seed, end)).digest()) for end in (own, far))
                shared = seeds.setdefault(own, {}).setdefault(far, [])
                shared.append(pair_seed(mine, own, other_end.public, far, round_id, len(shared)))
        return cls(seeds=seeds, seat=seat, masking=masking, reused=reused)

    @property
    def count(self) -> int:
        """How many masks the worker has."""
        return sum(map(len, self.seeds.get(self.seat, {}).values()))

    def added(self, bits: int, slot: int, symbols: int) -> NDArray[Any]:
        """Return what they add to what the worker sends, and to all others together, in sqrt(watts); 2 x symbols.

        Of masks that are integers of so many ``bits`` it is the sum modulo 2^64.
        """
        from airmixml.masks.keys import edge_masks  # here: it needs the extra "masks"

        where = (0, 0, 1) if self.reused else (slot, 0, symbols)
        deviation = float(np.sqrt(self.masking.pair_watts))
        total: NDArray[Any] = np.zeros((2, where[-1]), dtype=np.uint64 if bits else np.float64)
        for own, seeds in self.seeds.items():
            formed = edge_masks(own, seeds, deviation, *where, bits=bits)
            total[int(own != self.seat)] += formed
        return np.broadcast_to(total, (2, symbols))


def check_added_noise(bench: Bench, worker: int, failure: float) -> NoiseCheck:
    """Form what workers add in several slots, and return what it is like."""
    scenario, fault = bench.air.scenario, bench.fault
    own = next(int(where) for kind in bench.kinds for *_, seat in seats_of_worker(kind, worker) for where in seat)
    masking, formed = masking_of(scenario) or any_masking(scenario), None
    honest = draw_honest(scenario, masking, own, Streams(scenario.seed).generator("audit", _COLLUDERS))
    if masking.graph is not None:
        formed = FormedMasks.of(masking, own, honest, seed=scenario.seed, reused=fault.reused_seeds)
    sums = bench.air.integers
    if sums is None:
        standardised = _standardised(bench, masking, int(honest.sum()), formed)
    else:
        standardised = _standardised_residues(bench, sums, formed)
    symbols = min(bench.air.signal.symbols, _MOST_SYMBOLS)
    slots = max(_LEAST_SLOTS, -(-_ENOUGH_NUMBERS // symbols))
    meter = NoiseMeter(symbols, 2.0)
    for slot in range(slots):
        bench.context.progress(_CHECKED, slot, slots)
        masks: NDArray[Any] = np.zeros((2, symbols), dtype=np.float64 if sums is None else np.uint64)
        if formed is not None and not fault.unmasked:
            masks = formed.added(0 if sums is None else sums.noise.code.bits, slot, symbols)
        rows = torch.from_numpy(standardised(slot, *masks))
        meter.add(rows, torch.zeros_like(rows), np.ones(len(rows)))
    bench.context.progress(_CHECKED, slots, slots)
    return meter.finish(failure, of=_CHECKED)


Standardised = Callable[[int, NDArray[Any], NDArray[Any]], Doubles]
"""Returns sums of a slot over their stated deviations (rows x symbols), from its number and the masks in it."""


def _standardised(bench: Bench, masking: Masking, honest: int, formed: FormedMasks | None) -> Standardised:
    deviation = math.sqrt(masking.own_watts)

    def standardised(slot: int, masks: Doubles, of_others: Doubles) -> Doubles:
        source = noise_source(bench.air.scenario.seed, _FORMED + slot)
        drawn = torch.randn((2, len(masks)), generator=source).double().numpy()
        own, rest = deviation * bench.fault.noise_factor * drawn
        if formed is None:
            return np.asarray(own[None] / deviation)
        everybody = own + rest * math.sqrt(honest - 1) + masks + of_others
        masked_watts = formed.count * masking.pair_watts + (1.0 - 1.0 / honest) * masking.own_watts
        apart = own + masks - everybody / honest
        return np.stack([everybody / (deviation * math.sqrt(honest)), apart / math.sqrt(masked_watts)])

    return standardised


def _standardised_residues(bench: Bench, sums: IntegerSums, formed: FormedMasks | None) -> Standardised:
    bits, each, fault = sums.noise.code.bits, sums.noise.variance_per_worker, bench.fault

    def standardised(slot: int, masks: NDArray[np.uint64], of_others: NDArray[np.uint64]) -> Doubles:
        generator, shape = Streams(bench.air.scenario.seed).generator("audit", _FORMED + slot), masks.shape
        own = skellam_numbers(each, generator, shape, fault)
        rest = own * 0
        if sums.carriers > 1:
            rest = skellam_numbers((sums.carriers - 1) * each, generator, shape, fault)
        sent = reduce(reduce(own, bits) + masks, bits)
        everybody = signed(reduce(sent + reduce(rest, bits) + of_others, bits), bits)
        within = generator.random((2, *shape)) - 0.5  # of a step: what is on steps has no density
        rows = [(everybody + within[0]) / np.sqrt(sums.carriers * each)]
        if formed is not None:
            rows.append(ndtri((signed(sent, bits) + within[1] + 0.5) / 2.0**bits + 0.5))
        return np.stack(rows)

    return standardised
