"""What every worker of a round insists on, so that no list of absent workers reveals more than is stated.

Of n workers C collude, and at most A may be called absent; everybody has k masks, at most c of them shared with
colluders and at most a with workers that are called absent. Everybody in the list of those present then keeps at least
d = k - a - c masks that nobody reveals, whatever the server says: ``hidden_noise`` has what follows. The rest is what
makes the honest agree on one list, and still lets them answer it:

    quorum    > (n + C) / 2 of the signatures: two such sets share an honest worker, which signs one list;
    threshold > (k + c) / 2 of the shares: nobody can rebuild both secrets of a worker;
    A <= n - quorum and a <= k - threshold: those who are present can sign, and rebuild.
"""

import math
import struct
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from airmixml.errors import ProtocolError
from airmixml.masks.graph import MaskGraph
from airmixml.masks.hidden_noise import DEGREE_STEP, most_absent_neighbours, most_among, suitable_degree

_STOPPED_ROUNDS: Final = 1e-3  # share of rounds in which chance may leave a worker with too few shares


@dataclass(frozen=True)
class Rules:
    """What every worker of a round insists on; a mask counts as often as two workers share one."""

    threshold: int  # shares that rebuild a secret
    quorum: int  # witnesses that must have signed one list
    most_absent: int  # of all workers
    most_absent_neighbours: int  # of the neighbours of any worker that is present
    mask_deviation: float  # of a mask on an edge, per real symbol
    self_deviation: float  # of a worker's own mask, per real symbol

    def packed(self) -> bytes:
        """Return the rules as bytes of fixed length."""
        counts = self.threshold, self.quorum, self.most_absent, self.most_absent_neighbours
        return struct.pack(">QQQQdd", *counts, self.mask_deviation, self.self_deviation)


def majority(members: int, colluding: int) -> int:
    """Return the smallest number above (members + colluding) / 2: two such sets share an honest member."""
    return (members + colluding) // 2 + 1


def choose_rules(
    graph: MaskGraph, *, colluders: int, absent: int, mask_deviation: float, self_deviation: float
) -> Rules:
    """Return the rules of a round on this graph, with all workers as witnesses; refuse what they could not recover."""
    if not is_recoverable(graph.seats, graph.degree, colluders, absent):
        most = most_recoverable(graph.seats, lambda fewer: is_recoverable(graph.seats, graph.degree, colluders, fewer))
        raise ProtocolError(
            f"absent = {absent:,} of {graph.seats:,} workers: leaves too few to sign a list or to rebuild a secret; "
            f"must be at most {most:,}"
        )
    threshold = _threshold(graph.seats, graph.degree, colluders)
    return Rules(
        threshold=threshold,
        quorum=majority(graph.seats, colluders),
        most_absent=absent,
        most_absent_neighbours=min(most_absent_neighbours(graph, absent), graph.degree - threshold),
        mask_deviation=mask_deviation,
        self_deviation=self_deviation,
    )


def has_quorum(seats: int, colluders: int, absent: int) -> bool:
    """Return whether enough are present to agree on a list."""
    return absent <= seats - majority(seats, colluders)


def is_recoverable(seats: int, degree: int, colluders: int, absent: int) -> bool:
    """Return whether enough are present to agree on a list and, but by a rare chance, to rebuild every secret."""
    usually_absent = most_among(degree, absent, seats, _STOPPED_ROUNDS)
    return has_quorum(seats, colluders, absent) and usually_absent <= degree - _threshold(seats, degree, colluders)


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


def share_of(absent: int, seats: int) -> float:
    """Return so many workers as a share, rounded down to four digits: a share that stands for no more."""
    return math.floor(1e4 * absent / seats) / 1e4
