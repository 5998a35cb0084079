"""The best filter of an isolating listener for what one worker sends, and the masks that the filter hears.

Of what workers add S = s^2 I + e^2 L is the covariance (``masks.hidden_noise``), and the best filter for worker i is
w = S^-1 e_i: w' y has its signal with weight w_i in noise of variance w' S w = w_i. Here workers within a few steps of
i have weights of their own and all others share one, so that masks between two workers of equal weight cancel in the
score without being formed. At one step, for 2,000 or 60,000 workers with 32 masks each, it has all but a thousandth of
w_i.

Masks are formed as the workers' devices form them, from keys and by a cipher, by each end for itself. A mask that is
too weak, that two ends see differently, or that comes twice shows in what is heard.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from airmixml.arrays import Doubles, Integers
from airmixml.masks.hidden_noise import most_absent_neighbours
from airmixml.radio.masking import Masking
from airmixml.scenario import Scenario

Seeds = dict[int, dict[int, list[bytes]]]
"""The seeds of a worker's masks by the other end, by the worker's own seat; two seats may share several masks."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Listening:
    """How everybody in one slot is listened to."""

    near: Integers  # seats with weights of their own, the audited worker's first
    weights: Doubles  # of those, in 1 / watts; like near
    others: int  # how many other honest workers there are
    others_weight: float  # of each of them
    masks: Integers  # those whose ends have different weights, by their seats; masks x 2

    @property
    def seat(self) -> int:
        return int(self.near[0])

    @property
    def precision(self) -> float:
        """What (S^-1)_ii is at least: mu^2 of a move of 1 watt."""
        return float(self.weights[0])

    def weight_of(self, seat: int) -> float:
        """Return the weight of an honest seat."""
        place = np.flatnonzero(self.near == seat)
        return float(self.weights[place[0]]) if len(place) else self.others_weight


def listen(masking: Masking, seat: int, honest: NDArray[np.bool_], most_masks: int) -> Listening:
    """Return the best weights for a seat where as many have weights of their own as that many masks allow.

    ``honest`` says whose noise and masks are not known; shape seats.
    """
    graph, count = masking.graph, len(honest)
    masks = np.zeros((0, 2), dtype=np.int64) if graph is None else graph.edges
    masks = masks[honest[masks].all(axis=1)]
    near, touching = _within_reach(masks, seat, count, most_masks)
    place = np.full(count, len(near))
    place[near] = np.arange(len(near))
    ends, others = place[masks[touching]], int(honest.sum()) - len(near)
    apart = ends[:, 0] != ends[:, 1]
    ends = ends[apart]
    covariance = np.diag(masking.own_watts * np.append(np.ones(len(near)), max(others, 1)))
    for one, other in (ends.T, ends.T[::-1]):
        np.add.at(covariance, (one, one), masking.pair_watts)
        np.add.at(covariance, (one, other), -masking.pair_watts)
    weights = np.linalg.solve(covariance, np.eye(len(near) + 1)[0])
    return Listening(
        near=near,
        weights=weights[:-1],
        others=others,
        others_weight=float(weights[-1]) if others else 0.0,
        masks=masks[touching][apart],
    )


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


def _within_reach(masks: Integers, seat: int, count: int, most_masks: int) -> tuple[Integers, NDArray[np.bool_]]:
    """Return the seats within some steps of one, that one first, and which masks any of them has."""
    near, inside = np.array([seat], dtype=np.int64), np.zeros(count, dtype=np.bool_)
    inside[seat] = True
    touching = _touching(masks, inside)
    while True:
        wider = inside.copy()
        wider[masks[touching].ravel()] = True
        touched = _touching(masks, wider)
        if int(touched.sum()) > most_masks or int(wider.sum()) == int(inside.sum()):
            return near, touching
        near = np.concatenate([near, np.flatnonzero(wider & ~inside)])
        inside, touching = wider, touched


def _touching(masks: Integers, seats: NDArray[np.bool_]) -> NDArray[np.bool_]:
    return np.asarray(seats[masks].any(axis=1))


@dataclass(frozen=True, kw_only=True, eq=False)
class FormedMasks:
    """What masks add to the score of an adversary, and to what the audited worker sends."""

    seeds: Seeds  # of all masks with ends of different weight, as both ends have them
    weights: dict[int, float]  # of the seats in them, as the score has them; in 1 / watts
    seat: int  # of the audited worker
    masking: Masking  # how strong masks are
    reused: bool = False  # whether every slot has the masks of the first symbol of the first one: a fault

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
            masking=masking,
            reused=reused,
        )

    def added(self, weights: dict[int, float], bits: int, slot: int, first: int, count: int) -> NDArray[Any]:
        """Return sum_j w_j sum_l m_jl of each symbol, in sqrt(watts) times the weights' unit; shape count.

        Of masks that are integers of so many ``bits`` it is the sum, modulo 2^64, over the seats that have weights.
        """
        from airmixml.masks.expansion import edge_masks, integer_edge_masks  # here: they need the extra "masks"

        where = (0, 0, 1) if self.reused else (slot, first, count)
        deviation = float(np.sqrt(self.masking.pair_watts))
        total: NDArray[Any] = np.zeros(where[-1], dtype=np.uint64 if bits else np.float64)
        for own, weight in weights.items():
            if own in self.seeds and bits:
                total += integer_edge_masks(own, self.seeds[own], bits, *where)
            elif own in self.seeds:
                total += weight * edge_masks(own, self.seeds[own], deviation, *where)
        return np.broadcast_to(total, (count,))


def _agreed(seed: int, own: int, other: int, round_id: bytes, number: int) -> bytes:
    """Return the seed of a mask that a worker shares with another, from its own private and the other's public key."""
    from airmixml.masks.keys import KeyPair, pair_seed  # here: it needs the extra "masks"

    pair, far = (KeyPair(sha256(b"audit %d worker %d" % (seed, seat)).digest()) for seat in (own, other))
    return pair_seed(pair, own, _public_key(far.private), other, round_id, number)


@lru_cache(maxsize=1 << 14)
def _public_key(private: bytes) -> bytes:
    from airmixml.masks.keys import KeyPair  # here: it needs the extra "masks"

    return KeyPair(private).public
