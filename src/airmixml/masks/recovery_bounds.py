"""What the rules of a round guarantee against every list of absent workers that they let pass.

N workers, C of them colluding, a graph of degree k with adjacency A; ``eigenvalue`` is the largest eigenvalue lambda of
A on vectors that sum to zero (about 2 sqrt(k - 1) for a random regular graph, Friedman 2008). A list that passes leaves
each present worker at most alpha k absent neighbours. With at most c colluding ones, every honest present worker keeps
at least d = k - floor(alpha k) - c edges to others of its kind, R. Then, for x on R (0 elsewhere) that sums to zero,

    x' L(R) x = sum_i deg_R(i) x_i^2 - x' A x >= (d - lambda) |x|^2 .

So for d > lambda the graph on R is connected, whatever the server calls absent, and cannot be cut into small parts; as
L(R) 1 = 0,

    (S^-1)_ii <= 1 / (|R| sigma_s^2) + (1 - 1 / |R|) / (sigma_s^2 + sigma_e^2 (d - lambda)) ,

with |R| >= N (1 - largest absent share) - C. Without the last limit, a set in which all keep d edges has at least
N (d - lambda) / (k - lambda) workers (expander mixing lemma: the edges within it are at most those of the mean density
plus lambda for each member).
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from airmixml.errors import ProtocolError


def most_colluding(drawn: int, share: float, failure: float) -> int:
    """Return c such that more than c of ``drawn`` workers collude with at most this probability.

    For workers drawn without or with replacement from those of whom this share colludes: P(X >= m) is at most
    exp(-drawn KL(m / drawn | share)) (Hoeffding 1963, Thms. 1 and 4). Divide ``failure`` by the number of workers for a
    c that holds around all of them.
    """
    if not 0 <= share < 1 or not 0 < failure < 1:
        raise ProtocolError(f"share = {share} must be from 0 to below 1, and failure = {failure} between 0 and 1")
    if share == 0:
        return 0
    for most in range(math.ceil(drawn * share), drawn):
        part = (most + 1) / drawn
        if part > share and drawn * _divergence(part, share) >= -math.log(failure):
            return most
    return drawn


def majority(members: int, colluding: int) -> int:
    """Return the smallest number above (members + colluding) / 2: two such sets share an honest member.

    Threshold of shares for the neighbours of a worker, quorum of signatures for the witnesses.
    """
    return (members + colluding) // 2 + 1


def kept_edges(degree: int, absent_share: float, colluding: int) -> int:
    """Return d = k - floor(alpha k) - c, the least number of hidden edges of an honest present worker."""
    return degree - math.floor(absent_share * degree) - colluding


def smallest_part(workers: int, degree: int, eigenvalue: float, kept: int) -> float:
    """Return the least size of a set of workers that all keep so many edges within it."""
    if eigenvalue >= degree:  # no connected graph: it is cut already
        return kept + 1.0
    return max(kept + 1.0, workers * (kept - eigenvalue) / (degree - eigenvalue))


def inverse_bound(present: int, noise_deviation: float, mask_deviation: float, kept: int, eigenvalue: float) -> float:
    """Return a bound on (S^-1)_ii of every honest worker that is called present; ``present`` is |R|."""
    noise = noise_deviation**2
    gap = max(0.0, kept - eigenvalue)
    return 1.0 / (present * noise) + (1.0 - 1.0 / present) / (noise + mask_deviation**2 * gap)


def self_deviation(sensitivity: float, mu: float, noise_deviation: float) -> float:
    """Return the least sigma_b for which a worker that is called absent loses no more than mu.

    mu^2 = D^2 / (sigma_s^2 + sigma_b^2): of such a worker all edges may be known, so its own mask must do it alone.
    """
    return math.sqrt(max(0.0, (sensitivity / mu) ** 2 - noise_deviation**2))


def largest_eigenvalue(graph: Mapping[int, Sequence[int]]) -> float:
    """Return the largest eigenvalue of the graph's adjacency on vectors that sum to zero."""
    from scipy.sparse import csr_array
    from scipy.sparse.linalg import LinearOperator, eigsh

    place = {identity: number for number, identity in enumerate(sorted(graph))}
    rows = [place[identity] for identity, others in graph.items() for _ in others]
    columns = [place[other] for others in graph.values() for other in others]
    count = len(place)
    adjacency = csr_array((np.ones(len(rows)), (rows, columns)), shape=(count, count))

    def apply(
        x: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        centred = x.reshape(-1) - x.mean()
        moved = adjacency @ centred
        result: NDArray[np.float64] = moved - moved.mean()
        return result

    operator = LinearOperator((count, count), matvec=apply, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(count)
    return float(eigsh(operator, k=1, which="LA", v0=start, return_eigenvectors=False)[0])


def _divergence(part: float, share: float) -> float:
    """Return the divergence of two coins, in nats."""
    first = part * math.log(part / share)
    return first + (1.0 - part) * math.log((1.0 - part) / (1.0 - share)) if part < 1 else first
