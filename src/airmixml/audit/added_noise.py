"""What workers add to hide themselves, as their devices form it: is it as stated?

Masks are formed from keys and by a cipher, by each end for itself. A mask that is too weak, that two ends see
differently, or that comes twice shows. Symbol by symbol in several slots two sums, each over its stated deviation, must
be independent standard normal numbers, within a slot and between slots:

- of all honest workers: masks cancel, n workers' own noise stays, of variance n s^2. Noise that is too weak shows here.
- of the audited worker, less the mean of all: k masks, of variance k e^2 + (1 - 1 / n) s^2. Masks that are missing show
  here, and masks that come again in another slot. A residue is uniform, and taken for the normal number of the same
  probability.

Without masks the worker's own noise is measured alone.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import ndtri

from airmixml.arrays import Doubles
from airmixml.audit.isolating_listener import COLLUDERS, draw_honest
from airmixml.audit.known_schedule import skellam_numbers
from airmixml.audit.noise_check import NoiseCheck, NoiseMeter
from airmixml.audit.trials import Bench, noise_source, seats_of_worker
from airmixml.integers.rounding import reduce, signed
from airmixml.radio.masking import Masking, any_masking, masking_of
from airmixml.radio.workers_noise import IntegerSums
from airmixml.streams import Streams

Seeds = dict[int, dict[int, list[bytes]]]
"""The seeds of a worker's masks by the other end, by the worker's own seat; two seats may share several masks."""

_ROUND: Final = b"audit, one alone"
_CHAPTER: Final = 1 << 35
_ENOUGH_NUMBERS: Final = 4096
_MOST_SYMBOLS: Final = 1024
_LEAST_SLOTS: Final = 4
_CHECKED: Final = "what workers add"


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
        assert masking.graph is not None
        masks, seeds, round_id = masking.graph.edges, Seeds(), _ROUND + b" seat %d" % seat
        for one, other in masks[honest[masks].all(axis=1) & (masks == seat).any(axis=1)].tolist():
            for own, far in ((one, other), (other, one)):  # each end by itself
                shared = seeds.setdefault(own, {}).setdefault(far, [])
                shared.append(_agreed(seed, own, far, round_id, len(shared)))
        return cls(seeds=seeds, seat=seat, masking=masking, reused=reused)

    @property
    def count(self) -> int:
        """How many masks the worker has."""
        return sum(map(len, self.seeds.get(self.seat, {}).values()))

    def added(self, bits: int, slot: int, symbols: int) -> NDArray[Any]:
        """Return what they add to what the worker sends, and to all others together, in sqrt(watts); 2 x symbols.

        Of masks that are integers of so many ``bits`` it is the sum modulo 2^64.
        """
        from airmixml.masks.expansion import edge_masks  # here: it needs the extra "masks"

        where = (0, 0, 1) if self.reused else (slot, 0, symbols)
        deviation = float(np.sqrt(self.masking.pair_watts))
        total: NDArray[Any] = np.zeros((2, where[-1]), dtype=np.uint64 if bits else np.float64)
        for own, seeds in self.seeds.items():
            formed = edge_masks(own, seeds, deviation, *where, bits=bits)
            total[int(own != self.seat)] += formed
        return np.broadcast_to(total, (2, symbols))


def _agreed(seed: int, own: int, other: int, round_id: bytes, number: int) -> bytes:
    """Return the seed of a mask that a worker shares with another, from its own private and the other's public key."""
    from airmixml.masks.keys import KeyPair, pair_seed  # here: it needs the extra "masks"

    pair, far = (KeyPair(sha256(b"audit %d worker %d" % (seed, seat)).digest()) for seat in (own, other))
    return pair_seed(pair, own, _public_key(far.private), other, round_id, number)


@lru_cache(maxsize=1 << 14)
def _public_key(private: bytes) -> bytes:
    from airmixml.masks.keys import KeyPair  # here: it needs the extra "masks"

    return KeyPair(private).public


def check_added_noise(bench: Bench, worker: int, failure: float) -> NoiseCheck:
    """Form what workers add in several slots, and return what it is like."""
    scenario, fault = bench.air.scenario, bench.fault
    own = next(int(where) for kind in bench.kinds for *_, seat in seats_of_worker(kind, worker) for where in seat)
    masking, formed = masking_of(scenario) or any_masking(scenario), None
    honest = draw_honest(scenario, masking, own, Streams(scenario.seed).generator("audit", COLLUDERS))
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
        source = noise_source(bench.air.scenario.seed, _CHAPTER + slot)
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
        generator, shape = Streams(bench.air.scenario.seed).generator("audit", _CHAPTER + slot), masks.shape
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
