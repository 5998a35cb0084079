"""What every worker of a round insists on, so that no list of absent workers reveals more than is stated.

Of n workers C collude, and at most A may be called absent; everybody has k masks, at most c of them shared with
colluders and at most a with workers that are called absent. docs/trust.md#recovery says why a ``quorum`` is above
(n + C) / 2 and a ``threshold`` above (k + c) / 2; those who are present can sign, and rebuild, with A <= n - quorum and
a <= k - threshold.

More signatures cost nothing but workers that fall silent between their last symbol and the list. So the quorum lies
half-way between the least and n - A: 2 quorum - n workers, not two, must then sign twice before there can be two lists.

The graph is drawn when the rules stand. So they say what any graph must keep to, a little worse than the planned one,
and masks are so much stronger that they hide as much on the worst of those.
"""

import math
import struct
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from airmixml.masks.graph import (
    DEGREE_STEP,
    NEIGHBOURS_FAILURE,
    MaskGraph,
    most_absent_neighbours,
    most_among,
    suitable_degree,
    who_is_left,
)
from airmixml.messages import ProtocolError

_STOPPED_ROUNDS: Final = 1e-3  # share of rounds in which chance may leave a worker with too few shares
_LEAST_GAP: Final = 0.75  # of the planned gap that any graph must have; it falls short in fewer rounds than that
_MORE_REPEATS: Final = 8  # beyond half as many again as in the planned graph: the same


@dataclass(frozen=True)
class Rules:
    """What every worker of a round insists on; a mask counts as often as two workers share one."""

    workers: int  # of the round
    degree: int  # masks of each worker
    most_repeats: int  # sum_j A_ij^2 - k of any worker, A_ij masks shared with j; 0 if no two workers share two masks
    second_eigenvalue: float  # of the graph, at most
    threshold: int  # shares that rebuild a secret
    quorum: int  # workers that must have signed one list
    most_absent: int  # of all workers
    most_absent_neighbours: int  # of the neighbours of any worker that is present
    mask_deviation: float  # of a mask on an edge, per real symbol
    self_deviation: float  # of a worker's own mask, per real symbol
    bits: int = 0  # masks are uniform modulo 2^bits; 0: they are Gaussian. One width: two would share a key stream

    def packed(self) -> bytes:
        """Return the rules as bytes of fixed length."""
        counts = self.bits, self.workers, self.degree, self.most_repeats, self.threshold, self.quorum
        lists, sizes = (self.most_absent, self.most_absent_neighbours), (self.mask_deviation, self.self_deviation)
        return struct.pack(">8Q3d", *counts, *lists, self.second_eigenvalue, *sizes)


def majority(members: int, colluding: int) -> int:
    """Return the smallest number above (members + colluding) / 2: two such sets share an honest member."""
    return (members + colluding) // 2 + 1


def choose_rules(
    graph: MaskGraph, *, colluders: int, absent: int, mask_deviation: float, self_deviation: float, bits: int = 0
) -> Rules:
    """Return the rules of a round that was planned on this graph; refuse what its workers could not recover."""
    if not is_recoverable(graph.seats, graph.degree, colluders, absent):
        most = most_recoverable(graph.seats, lambda fewer: is_recoverable(graph.seats, graph.degree, colluders, fewer))
        raise ProtocolError(
            f"absent = {absent:,} of {graph.seats:,} workers: leaves too few to sign a list or to rebuild a secret; "
            f"must be at most {most:,}"
        )
    quorum, threshold = quorum_and_threshold(graph, colluders, absent)
    planned = who_is_left(graph, colluders, absent)
    most_repeats, least_gap = graph.most_repeated, planned.gap
    if not graph.complete:  # of which there is but one
        most_repeats, least_gap = most_repeats * 3 // 2 + _MORE_REPEATS, _LEAST_GAP * max(planned.gap, 0.0)
    repeats = planned.repeats + (most_repeats - graph.most_repeated) / max(planned.neighbours, 1)
    worst = replace(planned, gap=least_gap, repeats=repeats)
    stronger = 1.0 if planned.is_cut else math.sqrt(worst.inverse_per_pair / planned.inverse_per_pair)
    return Rules(
        workers=graph.seats,
        degree=graph.degree,
        most_repeats=most_repeats,
        second_eigenvalue=graph.second_eigenvalue + min(planned.gap - least_gap, graph.eigenvalue_room),
        threshold=threshold,
        quorum=quorum,
        most_absent=absent,
        most_absent_neighbours=min(most_absent_neighbours(graph, absent), graph.degree - threshold),
        mask_deviation=stronger * mask_deviation,
        self_deviation=self_deviation,
        bits=bits,
    )


def quorum_and_threshold(graph: MaskGraph, colluders: int, absent: int) -> tuple[int, int]:
    """Return how many must sign a list, and how many shares rebuild a secret, if so many collude or may be absent."""
    least, most = majority(graph.seats, colluders), graph.seats - absent
    return max(least, (least + most) // 2), _threshold(graph.seats, graph.degree, colluders)


def keep_one_secret(
    graph: MaskGraph, quorum: int, threshold: int, colluders: int, failure: float = NEIGHBOURS_FAILURE
) -> bool:
    """Return whether one secret of each worker stays unknown to colluders who do not know the graph.

    They cannot have two lists signed; and hold fewer shares than rebuild a secret, except with probability ``failure``.
    """
    return colluders < 2 * quorum - graph.seats and (
        most_among(graph.degree, colluders, graph.seats, failure) < threshold
    )


def fewest_who_know(graph: MaskGraph, quorum: int, threshold: int) -> int:
    """Return how many colluders who know the graph can have both secrets of a worker at least.

    They hold ``threshold`` shares of it themselves; or they sign two lists, one of which calls the worker absent, with
    one part of the honest workers each, and its honest neighbours in each part hold the shares that they lack.
    """
    two_lists = max(2 * quorum - graph.seats, graph.fewest_sharing(max(2 * threshold - graph.degree, 1)))
    return min(graph.fewest_sharing(threshold), two_lists)


def is_recoverable(seats: int, degree: int, colluders: int, absent: int) -> bool:
    """Return whether enough are present to agree on a list and, but by a rare chance, to rebuild every secret."""
    usually_absent = most_among(degree, absent, seats, _STOPPED_ROUNDS)
    can_agree = absent <= seats - majority(seats, colluders)
    return can_agree and usually_absent <= degree - _threshold(seats, degree, colluders)


def most_recoverable(seats: int, works: Callable[[int], bool]) -> int:
    """Return the largest number of absent workers that works, given that fewer do as well; 0 where none does."""
    return bisect_right(range(1, seats), False, key=lambda absent: not works(absent))


def recovering_degree(seats: int, colluders: int, absent: int) -> int:
    """Return a suitable degree at which secrets can be rebuilt, or that of everybody with everybody."""
    suitable = suitable_degree(seats, colluders, absent)
    if not absent:
        return suitable
    degrees = range(suitable, seats - 1, DEGREE_STEP)
    return next((each for each in degrees if is_recoverable(seats, each, colluders, absent)), seats - 1)


def _threshold(seats: int, degree: int, colluders: int) -> int:
    return majority(degree, most_among(degree, colluders, seats))
