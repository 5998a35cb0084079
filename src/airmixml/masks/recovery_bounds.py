"""What the rules of a round guarantee against every list of absent workers that they let pass.

N workers, C of them colluding, a graph of degree k with adjacency A; ``eigenvalue`` is the largest eigenvalue lambda of
A on vectors that sum to zero (about 2 sqrt(k - 1) for a random regular graph, Friedman 2008). A list that passes leaves
each present worker at most alpha k absent neighbours. With at most c colluding ones, every honest present worker keeps
at least d = k - floor(alpha k) - c edges to others of its kind, R. Then, for x on R (0 elsewhere) that sums to zero,

    x' L(R) x = sum_i deg_R(i) x_i^2 - x' A x >= (d - lambda) |x|^2 .

So for d > lambda the graph on R is connected, whatever the server calls absent, and cannot be cut into small parts; and
``hidden_noise.Honest`` bounds (S^-1)_ii of everybody in R by d, d - lambda and |R| >= N (1 - largest absent share) - C.
Without the last limit, a set in which all keep d edges has at least N (d - lambda) / (k - lambda) workers (expander
mixing lemma: the edges within it are at most those of the mean density plus lambda for each member).
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from airmixml.errors import ProtocolError
from airmixml.masks.graph import largest_centred_eigenvalue
from airmixml.masks.hidden_noise import most_colluding
from airmixml.masks.rounds import Rules


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


def self_deviation(sensitivity: float, mu: float, noise_deviation: float) -> float:
    """Return the least sigma_b for which a worker that is called absent loses no more than mu.

    mu^2 = D^2 / (sigma_s^2 + sigma_b^2): of such a worker all edges may be known, so its own mask must do it alone.
    """
    return math.sqrt(max(0.0, (sensitivity / mu) ** 2 - noise_deviation**2))


def largest_eigenvalue(graph: Mapping[int, Sequence[int]], tolerance: float = 1e-3) -> float:
    """Return lambda of the graph, above the exact value by at most about twice this relative tolerance."""
    from scipy.sparse import csr_array  # here: it takes a while to import

    place = {identity: number for number, identity in enumerate(sorted(graph))}
    rows = [place[identity] for identity, others in graph.items() for _ in others]
    columns = [place[other] for others in graph.values() for other in others]
    adjacency = csr_array((np.ones(len(rows)), (rows, columns)), shape=(len(place), len(place)))
    return largest_centred_eigenvalue(adjacency, tolerance=tolerance) * (1.0 + tolerance)


def choose_rules(
    workers: int,
    degree: int,
    *,
    mask_deviation: float,
    self_deviation: float,
    colluding_share: float,
    witnesses: int | None = None,
    largest_absent_share: float = 0.2,
    largest_absent_neighbour_share: float = 0.3,
    failure: float = 1e-9,
) -> Rules:
    """Return rules whose assumptions on colluders hold with probability 1 - 2 ``failure`` over graph and witnesses.

    ``witnesses`` is the size of a committee, None for all workers. Refuses a degree at which colluders and absent
    neighbours leave no edge beyond lambda, and names the smallest that does.
    """

    if not 0 <= colluding_share < 1 or not 0 < failure < 1:
        raise ProtocolError(
            f"colluding_share = {colluding_share} must be from 0 to below 1, and failure = {failure} between 0 and 1"
        )

    def counts(degree: int) -> tuple[int, float, int]:
        colluding = most_colluding(degree, colluding_share, failure / workers)
        threshold = majority(degree, colluding)
        share = min(largest_absent_neighbour_share, 1.0 - threshold / degree)
        return threshold, share, kept_edges(degree, share, colluding)

    threshold, share, kept = counts(degree)
    if kept <= _usual_eigenvalue(degree):
        enough = next((more for more in range(degree, workers) if counts(more)[2] > _usual_eigenvalue(more)), None)
        raise ProtocolError(
            f"degree = {degree} leaves a worker {kept} hidden edges if a share {colluding_share:g} colludes, too few "
            f"for a connected graph; {f'take {enough}' if enough else 'assume fewer colluders'}"
        )
    if witnesses is None:
        quorum = majority(workers, math.floor(colluding_share * workers))
    else:
        quorum = majority(witnesses, most_colluding(witnesses, colluding_share, failure))
    if quorum > (1.0 - largest_absent_share) * (witnesses or workers):
        raise ProtocolError(
            f"largest_absent_share = {largest_absent_share:g} leaves fewer witnesses than the {quorum} that must "
            "agree; allow fewer absent workers, or assume fewer colluders"
        )
    return Rules(threshold, quorum, largest_absent_share, share, mask_deviation, self_deviation)


def _usual_eigenvalue(degree: int) -> float:
    """Return lambda of almost every large random regular graph, but for an error that vanishes as it grows."""
    return 2.0 * math.sqrt(degree - 1)
