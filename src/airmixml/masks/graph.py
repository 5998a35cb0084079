"""Who shares masks with whom: a random graph on the seats of a slot in which everybody has the same degree.

It is public once it is drawn, and drawn without regard to data, to who colludes and to who will be absent: from a seed
that no party chose. A simulation takes the scenario's seed, which stands for such a draw.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from airmixml.streams import Streams

_CHAPTER: Final = 0
MOST_ROUNDS: Final = 4
"""Graphs that workers draw for the same slots at most. A party that stops a round once it knows the graph gets another
one: all of them together may fail with the probability that statements name."""
_KRYLOV_VECTORS: Final = 40
_RITZ_MARGIN: Final = 1.05  # so few find a little less than the eigenvalue
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

        ends = self.edges.T
        ones = np.ones(2 * len(self.edges))
        both = (np.concatenate([ends[0], ends[1]]), np.concatenate([ends[1], ends[0]]))
        return csr_array((ones, both), shape=(self.seats, self.seats))

    @property
    def neighbours(self) -> dict[int, tuple[int, ...]]:
        """The seats that each seat shares masks with, one entry for each mask: the graph of a ``Round``."""
        ends = self.edges
        own, other = np.concatenate([ends, ends[:, ::-1]]).T
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
        np.add.at(counts, tuple(np.concatenate([self.edges, self.edges[:, ::-1]]).T), 1.0)
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
