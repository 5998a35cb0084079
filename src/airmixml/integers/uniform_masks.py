"""Masks that are uniform modulo 2^b: they cancel in the sum, and hide everything else perfectly.

Workers i and j that share an edge of a graph share a seed, from which both draw the same word for every number; one
adds it, the other subtracts it. All arithmetic is modulo 2^b. For honest workers whose graph is connected, what they
send is uniform over all vectors with their sum: an adversary who hears every worker, colluders included, learns that
sum and nothing else, so no term for the masks enters epsilon. Where colluders (or absent workers, whose seeds were
revealed) disconnect the graph, the sum of each part is learned, and the noise of the smallest part alone hides its
members (``smallest_honest_group``). With seeds from a key agreement the guarantee is computational.
"""

from collections.abc import Callable, Collection

import numpy as np
from numpy.typing import NDArray

from airmixml.arrays import Integers
from airmixml.errors import PrivacyError

PairGenerator = Callable[[int, int], np.random.Generator]
"""A fresh generator from the seed that workers i < j share."""

Residues = NDArray[np.uint64]


def reduce(integers: Integers | Residues, bits: int) -> Residues:
    """Return the integers modulo 2^b; any shape."""
    return np.asarray(integers).astype(np.uint64) & np.uint64((1 << bits) - 1)


def signed(residues: Residues, bits: int) -> Integers:
    """Return the representatives in [-2^(b-1), 2^(b-1)); any shape."""
    values = residues.astype(np.int64)
    return np.where(values >= 1 << (bits - 1), values - (1 << bits), values)


def masked(integers: Integers, edges: Integers, pair_generator: PairGenerator, bits: int) -> Residues:
    """Return what every worker sends, its integers plus its masks modulo 2^b; workers x numbers, as the integers.

    Edges are pairs of different workers, edges x 2. Forms every mask: for few workers, and for tests of the rest.
    """
    workers, numbers = integers.shape
    sent = integers.astype(np.uint64)  # two's complement: sums modulo 2^64 are sums modulo 2^b too
    for one, other in _checked(edges, workers).tolist():
        first, second = min(one, other), max(one, other)
        mask = pair_generator(first, second).integers(0, 1 << bits, size=numbers, dtype=np.uint64)
        sent[first] += mask
        sent[second] -= mask
    return reduce(sent, bits)


def add_up(residues: Residues, bits: int) -> Residues:
    """Return the sum over workers modulo 2^b; numbers."""
    return reduce(residues.sum(axis=0, dtype=np.uint64), bits)


def smallest_honest_group(workers: int, edges: Integers, colluders: Collection[int] = ()) -> int:
    """Return how many honest workers the smallest connected part of their graph has.

    Edges to colluders are taken out. That many shares of noise hide a worker in the worst case.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    honest = np.ones(workers, dtype=bool)
    honest[list(colluders)] = False
    if not honest.any():
        raise PrivacyError(f"colluders = {len(colluders)}: must leave an honest worker of {workers}")
    kept = _checked(edges, workers)
    kept = kept[honest[kept].all(axis=1)]
    graph = coo_array((np.ones(len(kept)), (kept[:, 0], kept[:, 1])), shape=(workers, workers))
    _, part = connected_components(graph, directed=False)
    return int(np.unique(part[honest], return_counts=True)[1].min())


def _checked(edges: Integers, workers: int) -> Integers:
    pairs = np.asarray(edges, dtype=np.int64).reshape(-1, 2)
    if len(pairs) and (pairs.min() < 0 or pairs.max() >= workers or (pairs[:, 0] == pairs[:, 1]).any()):
        raise PrivacyError(f"edges: must join two different workers of 0 to {workers - 1}")
    return pairs
