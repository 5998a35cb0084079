"""How far several independent Gaussian errors carry a gain together.

Bounding each alone would let all be at their worst at once, which is far rarer than any of them is.
"""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from scipy.special import gammainccinv

_ROUNDING: Final = 1e-9
_HALVINGS: Final = 200


class GaussianError(NamedTuple):
    """abs(g) is at most mean + abs(e), with e ~ CN(0, variance) independent of all other errors."""

    mean: float
    variance: float


def largest_product(errors: Sequence[GaussianError], failure: float) -> float:
    """Return what the product of all (mean_k + abs(e_k))^2 exceeds with at most that probability.

    abs(e_k)^2 / variance_k is exponential, so that the sum of K of them has a gamma law and exceeds its quantile Q with
    that probability. Elsewhere, with a_k = abs(e_k) / mean_k and v_k = variance_k / mean_k^2, the product of (1 + a_k)
    is largest where sum_k a_k^2 / v_k = Q and a_k (1 + a_k) is in proportion to v_k (Lagrange).
    """
    if not errors:
        return 1.0
    most = float(gammainccinv(len(errors), failure))
    variances = [error.variance / error.mean**2 for error in errors]

    def moves(multiplier: float) -> list[float]:
        # a = (sqrt(1 + 4 m v) - 1) / 2, written so that no digits are lost.
        return [2.0 * multiplier * each / (math.sqrt(1.0 + 4.0 * multiplier * each) + 1.0) for each in variances]

    def spent(multiplier: float) -> float:
        return sum(move**2 / each for move, each in zip(moves(multiplier), variances, strict=True) if each)

    low, high = 0.0, 1.0
    while spent(high) < most and high < 1e300:
        high *= 2.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if spent(middle) < most else (low, middle)
    products = (error.mean * (1.0 + move) for error, move in zip(errors, moves(high), strict=True))
    return math.prod(products) ** 2 * (1.0 + _ROUNDING)
