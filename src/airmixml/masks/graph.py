"""Who shares masks with whom, a random graph on the seats of a slot, and how much noise that leaves to hide a worker.

Everybody has the same degree. The graph is public once it is drawn, and drawn without regard to data, to who colludes
and to who will be absent: from a seed that no party chose. A simulation takes the scenario's seed, which stands for
such a draw.

The listener hears every worker separately, perfectly and without noise. Worker i sends q_i v_i + n_i + b_i + sum_j
m_ij, with its own noise n_i of variance s^2 per symbol, masks m_ij = -m_ji of variance e^2, and a self mask b_i. Of
everybody's signals the honest ones have the covariance, symbol by symbol,

    S = s^2 I + e^2 L,

L the Laplacian of the graph of those who are honest and whose masks nobody revealed: all other masks are known, and
subtracted. (Self masks of those who took part are revealed, and count for nothing.) A change of v_i by D then has
mu^2 = q^2 D^2 (S^-1)_ii (the Gaussian mechanism with covariance S).

**What is left out**: a worker that colludes, or is absent and whose masks are revealed, leaves the graph with all its
edges. For any set of honest workers H, each with at least d neighbours in H, with A the adjacency matrix and a_2 the
second largest eigenvalue of the *whole* graph's:

1. S = B - e^2 A_H with B diagonal, b_i = s^2 + e^2 d_i, so S^-1 = B^-1 + e^2 B^-1 A_H B^-1 + (e^2 B^-1 A_H) S^-1
   (e^2 A_H B^-1). A_H has a zero diagonal, so (S^-1)_ii = 1 / b_i + z' S^-1 z, with z = e^2 A_H e_i / b_i.
2. S 1 = s^2 1. So z' S^-1 z <= (z' 1)^2 / (|H| s^2) + |z|^2 / (e^2 l_2), l_2 the second smallest eigenvalue of L_H, and
   z' 1 < 1, |z|^2 <= sum_j A_ij^2 / d_i^2.
3. L_H >= d I - A_H, and eigenvalues of a principal submatrix interlace: l_2 >= d - a_2.

    (S^-1)_ii <= 1 / (|H| s^2) + (1 + r / (d - a_2)) / (d e^2),     r = sum_j A_ij^2 / d_i, 1 if no mask is repeated

For a regular graph without colluders that is 1 / (N s^2) + (1 + 1 / (k - a_2)) / (k e^2), with a_2 about 2 sqrt(k - 1).
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from airmixml.messages import UNINFORMED
from airmixml.streams import Streams

_CHAPTER: Final = 0
MOST_ROUNDS: Final = 4
"""Graphs that workers draw for the same slots at most. A party that stops a round once it knows the graph gets another
one: all of them together may fail with the probability that statements name."""
_KRYLOV_VECTORS: Final = 40
_RITZ_MARGIN: Final = 1.05  # so few find a little less than the eigenvalue
_OTHER_GRAPHS: Final = 0.03  # by how much of it, at most, another graph's second eigenvalue is larger
_OTHER_SMALL_GRAPHS: Final = 3.0  # the same, times seats^(-2/3), in which it fluctuates (Tracy and Widom)
_LEAST_SEATS_OF_LANCZOS: Final = 64


@dataclass(frozen=True, kw_only=True, eq=False)
class MaskGraph:
    """Everybody with everybody, or some random cycles through all seats, each of which gives a seat two neighbours.

    Two seats that are neighbours in several cycles share as many independent masks.
    """

    seats: int  #: n, workers that send in a slot
    #: The next seat in each cycle; cycles x seats. Empty: everybody with everybody.
    successors: NDArray[np.int64]

    @property
    def complete(self) -> bool:
        """Whether every two seats share one mask."""
        return len(self.successors) == 0

    @property
    def degree(self) -> int:
        """k, masks of a seat."""
        return self.seats - 1 if self.complete else 2 * len(self.successors)

    @property
    def edges(self) -> NDArray[np.int64]:
        """The two ends of every mask; masks x 2."""
        if self.complete:
            return np.column_stack(np.triu_indices(self.seats, 1))
        first = np.tile(np.arange(self.seats), len(self.successors))
        return np.column_stack([first, self.successors.ravel()])

    @property
    def adjacency(self) -> Any:
        """How many masks two seats share, as a sparse matrix; seats x seats."""
        from scipy.sparse import csr_array  # here: it takes a while to import

        own, other = self._both_ways
        shared = csr_array((np.ones(len(own)), (own, other)), shape=(self.seats, self.seats))
        shared.sum_duplicates()  # SciPy 1.13.0 leaves two masks of the same two seats apart, which would count twice
        return shared

    @property
    def _both_ways(self) -> NDArray[np.int64]:
        """The two ends of every mask, as either seat sees it; 2 x twice the masks."""
        return np.concatenate([self.edges, self.edges[:, ::-1]]).T

    @property
    def neighbours(self) -> dict[int, tuple[int, ...]]:
        """The seats that each seat shares masks with, one entry for each mask: the graph of a ``Round``."""
        own, other = self._both_ways
        order = np.lexsort((other, own))
        each = other[order].reshape(self.seats, self.degree)
        return {seat: tuple(others) for seat, others in enumerate(each.tolist())}

    def fewest_sharing(self, masks: int) -> int:
        """Return how many others share at least so many masks of one seat, where the fewest do."""
        if self.complete:
            return masks
        adjacency = self.adjacency
        seats = np.repeat(np.arange(self.seats), np.diff(adjacency.indptr))
        most_first = adjacency.data[np.lexsort((-adjacency.data, seats))]
        short = np.cumsum(most_first) - self.degree * seats < masks  # each seat before has ``degree`` masks
        return int(np.bincount(seats[short], minlength=self.seats).min()) + 1

    @cached_property
    def second_eigenvalue(self) -> float:
        """The second largest eigenvalue of the adjacency matrix; the largest is k, of the constant vector."""
        if self.complete or self.seats < _LEAST_SEATS_OF_LANCZOS:
            return self._by_eigenvalues
        from scipy.sparse.linalg import LinearOperator, eigsh  # here: it takes a while to import

        adjacency = self.adjacency

        def without_mean(vector: NDArray[np.float64]) -> NDArray[np.float64]:
            summed = adjacency @ (vector.ravel() - vector.mean())
            return np.asarray(summed - summed.mean())

        operator = LinearOperator(adjacency.shape, matvec=without_mean, dtype=np.float64)
        start = np.random.default_rng(0).standard_normal(self.seats)
        # Eigenvalues of a random graph lie close together: each further digit costs much.
        how: dict[str, Any] = {"which": "LA", "ncv": _KRYLOV_VECTORS, "tol": 0.03, "return_eigenvectors": False}
        return float(eigsh(operator, k=1, v0=start, **how)[0]) * _RITZ_MARGIN

    @property
    def eigenvalue_room(self) -> float:
        """How much larger the second eigenvalue of another such graph may be: chance all but never exceeds that."""
        if self.complete:
            return 0.0
        share = max(_OTHER_GRAPHS, _OTHER_SMALL_GRAPHS / float(np.cbrt(self.seats)) ** 2)
        return share * self.second_eigenvalue

    @cached_property
    def checked_eigenvalue(self) -> float:
        """The same without SciPy, for a worker that checks a graph: Lanczos' method without restarts, in NumPy alone.

        So many steps find all but a few per cent of it, which the margin covers and the rules leave room for.
        """
        if self.complete or self.seats < _LEAST_SEATS_OF_LANCZOS:
            return self._by_eigenvalues
        predecessors = np.argsort(self.successors, axis=1)
        basis = np.empty((_KRYLOV_VECTORS, self.seats))
        vector = np.random.default_rng(0).standard_normal(self.seats)
        diagonal, beside = np.zeros(_KRYLOV_VECTORS), np.zeros(_KRYLOV_VECTORS)
        for step in range(_KRYLOV_VECTORS):
            vector -= vector.mean()
            vector -= basis[:step].T @ (basis[:step] @ vector)
            beside[step] = np.linalg.norm(vector)
            basis[step] = vector / beside[step]
            vector = sum(
                (basis[step][each] for ring in (self.successors, predecessors) for each in ring), np.zeros(self.seats)
            )
            diagonal[step] = basis[step] @ vector
        tridiagonal = np.diag(diagonal) + np.diag(beside[1:], 1) + np.diag(beside[1:], -1)
        return float(np.linalg.eigvalsh(tridiagonal)[-1]) * _RITZ_MARGIN

    @property
    def _by_eigenvalues(self) -> float:
        """The second eigenvalue of a small graph, from all of them."""
        if self.complete:
            return -1.0
        counts = np.zeros((self.seats, self.seats))
        np.add.at(counts, tuple(self._both_ways), 1.0)
        return float(np.linalg.eigvalsh(counts)[-2])

    @cached_property
    def most_repeated(self) -> int:
        """The largest excess of sum_j A_ij^2 over k: 0 where no two seats share two masks."""
        if self.complete:
            return 0
        adjacency = self.adjacency
        return int(adjacency.power(2).sum(axis=1).max()) - self.degree


@lru_cache(maxsize=8)
def draw_graph(seats: int, degree: int, seed: int) -> MaskGraph:
    """Return the graph of that degree, which is even, or the complete one where there are not more seats than that."""
    if degree >= seats - 1:
        return MaskGraph(seats=seats, successors=np.zeros((0, seats), dtype=np.int64))
    generator = Streams(seed).generator("masks", _CHAPTER)
    successors = np.empty((degree // 2, seats), dtype=np.int64)
    for cycle in successors:
        order = generator.permutation(seats)
        cycle[order] = np.roll(order, -1)
    return MaskGraph(seats=seats, successors=successors)


# Nobody is left with fewer honest neighbours than assumed in a drawn graph, except with this probability.
NEIGHBOURS_FAILURE: Final = 1e-9
_LEAST_DEGREE: Final = 32
DEGREE_STEP: Final = 8
_GAP_SHARE: Final = 0.25
_LEAST_GAP_SHARE: Final = 0.05  # a drawn graph's a_2, and the bound on it, differ from 2 sqrt(k - 1) by less


@dataclass(frozen=True, kw_only=True)
class Honest:
    """Who is left of a slot's workers when colluders, and absent ones whose masks are revealed, are taken out."""

    count: int  #: how many
    neighbours: int = 0  #: how many of each one's masks are shared with others of them, at least
    #: L_2, a lower bound on the second smallest eigenvalue of their graph's Laplacian; at most 0: it may be cut.
    gap: float = 0.0
    repeats: float = 1.0  #: r, a bound on sum_j A_ij^2 / d_i
    #: Probability with which a worker has fewer neighbours than that, in any of the graphs that a party could have by
    #: stopping rounds.
    failure: float = 0.0

    @property
    def is_cut(self) -> bool:
        """Whether nothing keeps those who are left from falling apart into groups that share no masks."""
        return self.neighbours < 1 or self.gap <= 0.0

    @property
    def assumption(self) -> str:
        """What is assumed of colluders, in words that follow what hides a worker; empty where it does not matter."""
        return f", {UNINFORMED}" if self.failure else ""

    @property
    def inverse_per_pair(self) -> float:
        """What to divide by e^2 for the masks' part of (S^-1)_ii; infinite where the graph may be cut."""
        if self.is_cut:
            return math.inf
        return (1.0 + self.repeats / self.gap) / self.neighbours

    def inverse(self, own_variance: float, pair_variance: float) -> float:
        """Return a bound on (S^-1)_ii; without masks, or where the graph may be cut, 1 / s^2, a worker's own noise."""
        alone = 1.0 / own_variance
        if not pair_variance or self.is_cut:
            return alone
        return min(alone, alone / self.count + self.inverse_per_pair / pair_variance)


def who_is_left(graph: MaskGraph, colluders: int = 0, absent: int = 0, failure: float = NEIGHBOURS_FAILURE) -> Honest:
    """Return who is left of the seats when so many collude, and so many are at most called absent.

    In a complete graph it does not matter who. Otherwise colluders are chosen without knowing the graph. A seat's two
    neighbours in each cycle are then a random sample without replacement, how many of its k collude is a sum of
    independent coins (Vatutin and Mikhailov 1982), whose upper tail is at most that of k equal coins (Hoeffding 1956,
    Thm. 4); a union bound takes all seats, and all ``MOST_ROUNDS`` graphs that a party may have drawn. Workers answer
    no list that calls more of anybody's neighbours absent than ``most_absent_neighbours``: so it does not matter who is
    called absent, or whether the server lies. ``failure`` is for one graph.
    """
    count = graph.seats - colluders - absent
    if graph.complete:
        return Honest(count=count, neighbours=max(count - 1, 0), gap=float(count), repeats=1.0, failure=0.0)
    colluding = most_among(graph.degree, colluders, graph.seats, failure)
    lost = min(colluding + most_among(graph.degree, absent, graph.seats), graph.degree)
    neighbours = graph.degree - lost
    return Honest(
        count=count,
        neighbours=neighbours,
        gap=neighbours - graph.second_eigenvalue,
        repeats=1.0 + graph.most_repeated / max(neighbours, 1),
        failure=MOST_ROUNDS * failure if 0 < colluding < graph.degree else 0.0,
    )


def most_absent_neighbours(graph: MaskGraph, absent: int) -> int:
    """Return how many of one's neighbours may be called absent: what chance all but never exceeds."""
    return graph.degree if graph.complete else most_among(graph.degree, absent, graph.seats)


def suitable_degree(seats: int, colluders: int = 0, absent: int = 0) -> int:
    """Return a degree at which everybody keeps a good part of its masks, and the graph cannot be cut.

    Random graphs have a_2 of about 2 sqrt(k - 1) (Friedman 2008).
    """
    return _degree_with_gap(range(_LEAST_DEGREE, seats - 1, DEGREE_STEP), seats, colluders, absent, _GAP_SHARE)


def connected_degree(seats: int, colluders: int = 0, absent: int = 0) -> int:
    """Return about the least degree at which the graph cannot be cut; fewer masks hide a worker less well."""
    return _degree_with_gap(range(2, seats - 1, 2), seats, colluders, absent, _LEAST_GAP_SHARE)


def _degree_with_gap(degrees: range, seats: int, colluders: int, absent: int, share: float) -> int:
    for degree in degrees:
        lost = most_among(degree, colluders, seats) + most_among(degree, absent, seats)
        if degree - lost - 2.0 * math.sqrt(degree - 1.0) >= share * degree:
            return degree
    return seats - 1


def most_among(degree: int, chosen: int, seats: int, failure: float = NEIGHBOURS_FAILURE) -> int:
    """Return how many of a seat's neighbours are among so many chosen ones at most, for all seats together."""
    if degree >= seats - 1:
        return min(chosen, degree)
    from airmixml.privacy.design import binomial_quantile  # here: it needs SciPy, and a worker does not

    return binomial_quantile(failure / seats, degree, min(chosen / (seats - 1), 1.0)) if chosen else 0
