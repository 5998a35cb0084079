"""Masks of the workers that an adversary listens to, formed as their devices form them: from keys, by a cipher.

Every worker has a key pair, every mask a seed that its two ends agree on, and each end expands its own copy of it. A
mask that is too weak, that two ends see differently, or that comes twice shows in what is heard.
"""

from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from airmixml.audit.listening import Listening
from airmixml.radio.masking import Masking

Seeds = dict[int, dict[int, list[bytes]]]
"""The seeds of a worker's masks by the other end, by the worker's own seat; two seats may share several masks."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FormedMasks:
    """What masks add to the score of an adversary, and to what the audited worker sends.

    Attributes:
        seeds: of all masks with ends of different weight, as both ends have them.
        weights: of the seats in them.
        seat: of the audited worker.
        self_seed: of its self mask.
        masking: how strong masks are.
        reused: whether every slot has the masks of the first symbol of the first one: a fault.
    """

    seeds: Seeds
    weights: dict[int, float]
    seat: int
    self_seed: bytes
    masking: Masking
    reused: bool = False

    @classmethod
    def of(
        cls, listening: Listening, masking: Masking, *, seed: int, round_id: bytes, reused: bool = False
    ) -> "FormedMasks":
        """Agree on seeds for all masks that the score depends on; the keys of workers follow from the audit's seed."""
        seeds: Seeds = {}
        for one, other in listening.masks.tolist():
            for own, far in ((one, other), (other, one)):  # each end by itself
                shared = seeds.setdefault(own, {}).setdefault(far, [])
                shared.append(_agreed(seed, own, far, round_id, len(shared)))
        return cls(
            seeds=seeds,
            weights={seat: listening.weight_of(seat) for seat in seeds},
            seat=listening.seat,
            self_seed=sha256(round_id + b"self" + seed.to_bytes(16, "big")).digest(),
            masking=masking,
            reused=reused,
        )

    def in_score(self, slot: int, first: int, count: int) -> NDArray[np.float64]:
        """Return sum_j w_j sum_l m_jl of each symbol, in 1 / sqrt(watts); shape count."""
        return self._added(self.weights, slot, first, count)

    def of_worker(self, slot: int, first: int, count: int) -> NDArray[np.float64]:
        """Return sum_l m_il of the audited worker, in sqrt(watts); shape count."""
        return self._added({self.seat: 1.0}, slot, first, count)

    def of_others(self, slot: int, first: int, count: int) -> NDArray[np.float64]:
        """Return what all others add of these masks, in sqrt(watts); shape count."""
        return self._added({seat: 1.0 for seat in self.weights if seat != self.seat}, slot, first, count)

    def self_mask(self, slot: int, first: int, count: int) -> NDArray[np.float64]:
        """Return the self mask of the audited worker, in sqrt(watts); shape count."""
        from airmixml.masks.formed_masks import self_mask  # here: it needs the extra "masks"

        slot, first, made = (0, 0, 1) if self.reused else (slot, first, count)
        deviation = float(np.sqrt(self.masking.self_watts))
        return np.broadcast_to(self_mask(self.self_seed, deviation, slot, first, made), (count,))

    def _added(self, weights: dict[int, float], slot: int, first: int, count: int) -> NDArray[np.float64]:
        from airmixml.masks.formed_masks import edge_masks  # here: it needs the extra "masks"

        slot, first, made = (0, 0, 1) if self.reused else (slot, first, count)
        total, deviation = np.zeros(made), float(np.sqrt(self.masking.pair_watts))
        for own, weight in weights.items():
            if own in self.seeds:
                total += weight * edge_masks(own, self.seeds[own], deviation, slot, first, made)
        return np.broadcast_to(total, (count,))


def _agreed(seed: int, own: int, other: int, round_id: bytes, number: int) -> bytes:
    """Return the seed of a mask that a worker shares with another, from its own private and the other's public key."""
    from airmixml.masks.keys import KeyPair, pair_seed  # here: it needs the extra "masks"

    pair, far = (KeyPair(_private_key(seed, seat)) for seat in (own, other))
    return pair_seed(pair, own, _public_key(far.private), other, round_id, number)


def _private_key(seed: int, seat: int) -> bytes:
    return sha256(b"audit %d worker %d" % (seed, seat)).digest()


@lru_cache(maxsize=1 << 14)
def _public_key(private: bytes) -> bytes:
    from airmixml.masks.keys import KeyPair  # here: it needs the extra "masks"

    return KeyPair(private).public
