"""Whom somebody who hears every worker listens to, and with which weights, to find out what one of them sends.

Of what workers add S = s^2 I + e^2 L is the covariance (``masks.hidden_noise``), and the best filter for worker i is
w = S^-1 e_i: w' y has its signal with weight w_i in noise of variance w' S w = w_i. Far from i all weights are nearly
alike. Here those within a few steps of i have weights of their own and all others share one. That is an attack by
itself, the best of its kind, and in its score masks between two workers of equal weight cancel without being formed. At
one step, for 2,000 or 60,000 workers with 32 masks each, it has all but a thousandth of w_i.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from airmixml.masks.hidden_noise import most_absent_neighbours
from airmixml.radio.masking import Masking
from airmixml.scenario import Scenario


@dataclass(frozen=True, kw_only=True, eq=False)
class Listening:
    """How everybody in one slot is listened to.

    Attributes:
        near: seats with weights of their own, the audited worker's first.
        weights: of those, in 1 / watts; like near.
        others: how many other honest workers there are.
        others_weight: of each of them.
        masks: those whose ends have different weights, by their seats; masks x 2.
    """

    near: NDArray[np.int64]
    weights: NDArray[np.float64]
    others: int
    others_weight: float
    masks: NDArray[np.int64]

    @property
    def seat(self) -> int:
        """Of the audited worker."""
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


def _within_reach(
    masks: NDArray[np.int64], seat: int, count: int, most_masks: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
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


def _touching(masks: NDArray[np.int64], seats: NDArray[np.bool_]) -> NDArray[np.bool_]:
    return np.asarray(seats[masks].any(axis=1))
