"""The masks of one worker: those of its edges, with opposite signs at the two ends, and one of its own.

On the edge between i and j the worker with the smaller number adds the mask, the other subtracts it: m_ij = -m_ji, bit
for bit. Two workers may share several masks, each with a seed of its own. Deviations are per real
symbol. With b bits, masks are uniform modulo 2^b and hide perfectly.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from airmixml.masks.expansion import standard_normals, uniform_integers


def edge_sign(own: int, other: int) -> int:
    """Return 1 for the end of an edge that adds its mask, the smaller number, and -1 for the other."""
    return 1 if own < other else -1


def edge_masks(
    own: int, seeds: Mapping[int, Sequence[bytes]], deviation: float, slot: int, first: int, count: int
) -> NDArray[np.float64]:
    """Return sum_j m_ij over the edges of worker ``own``, whose seeds are given by the other end; shape count."""
    total = np.zeros(count)
    for other in sorted(seeds):
        for seed in seeds[other]:
            mask = standard_normals(seed, slot, first, count)
            mask *= edge_sign(own, other) * deviation
            total += mask
    return total


def self_mask(seed: bytes, deviation: float, slot: int, first: int, count: int) -> NDArray[np.float64]:
    """Return b_i of a worker with this seed; shape count."""
    return deviation * standard_normals(seed, slot, first, count)


def integer_edge_masks(
    own: int, seeds: Mapping[int, Sequence[bytes]], bits: int, slot: int, first: int, count: int
) -> NDArray[np.uint64]:
    """Return sum_j m_ij modulo 2^bits over the edges of worker ``own``; shape count."""
    total = np.zeros(count, dtype=np.uint64)
    for other in sorted(seeds):
        for seed in seeds[other]:
            mask = uniform_integers(seed, slot, first, count, bits)
            total = total + mask if edge_sign(own, other) > 0 else total - mask  # modulo 2^64, so modulo 2^bits too
    return total & np.uint64((1 << bits) - 1)
