"""Rounded vectors in integer noise: a Gaussian mechanism but for its tails, of which a share of delta takes care.

Vectors that are rounded at random to integers, in noise of which one step in one number has mu = m, are at distance s
mu-GDP up to a total variation distance of d eta on either side (Theorem 2 of docs/trust.md), with

    mu = s m (e^(G m) - 1) / (G m),    G = m - Phi^-1(eta),

so that delta grows by (1 + e^epsilon) d eta. Sums compose: mu^2 add up, and so do the d eta.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from scipy.special import ndtri_exp

SHARE_FOR_TAILS: Final = 1e-3
"""Of delta: what is set aside for tails, in which rounding may tell more."""

COMPOSED_SHARE: Final = 1e-9
"""The same for losses that are to be added up with those of other runs, whatever epsilon comes out (up to 200)."""

_COMPOSED_EPSILON: Final = 200.0
_ROUNDING_MARGIN: Final = 1e-13
_SETTLED: Final = 1e-12
_MOST_ROUNDS: Final = 200
_LARGEST_EXPONENT: Final = 700.0


def tilt(step_mu: float, log_cut: float) -> float:
    """Return (e^(G m) - 1) / (G m), m = ``step_mu``, eta = exp(``log_cut``); infinite where too large to matter."""
    exponent = (step_mu - float(ndtri_exp(log_cut))) * step_mu
    return math.expm1(exponent) / exponent * (1.0 + _ROUNDING_MARGIN) if exponent < _LARGEST_EXPONENT else math.inf


def log_cut(numbers: int, epsilon: float, delta: float, share: float = SHARE_FOR_TAILS) -> float:
    """Return ln eta with (1 + e^epsilon) d eta = the share of delta that is set aside."""
    assumed = max(epsilon, 0.0)
    return math.log(share * delta / numbers) - assumed - math.log1p(math.exp(-assumed))


def settled_epsilon(found: Callable[[float], float]) -> float:
    """Return the least e with ``found(e)`` <= e, or infinity; what is found hardly grows with what is assumed."""
    assumed = 0.0
    for _ in range(_MOST_ROUNDS):
        epsilon = found(assumed)
        if epsilon <= assumed or math.isinf(epsilon):
            return epsilon
        assumed = epsilon * (1.0 + _SETTLED) + _SETTLED
    return math.inf


@dataclass(frozen=True, kw_only=True)
class Rounding:
    """What makes sums of integers other than Gaussian."""

    step_mu: float  # m, of a single step in a single number
    numbers: int  # d, that are rounded in all sums together

    def times(self, sums: int) -> "Rounding":
        """Return that of so many sums."""
        return Rounding(step_mu=self.step_mu, numbers=self.numbers * sums)

    def squared_tilt(self, epsilon: float, delta: float) -> float:
        """Return by how much mu^2 is larger than without rounding, for an epsilon of at most this."""
        return tilt(self.step_mu, log_cut(self.numbers, epsilon, delta)) ** 2

    def composed_tilt(self, delta: float) -> float:
        """Return the same for losses that are added up with others; ``COMPOSED_SHARE`` of delta goes to tails."""
        return tilt(self.step_mu, log_cut(self.numbers, _COMPOSED_EPSILON, delta, COMPOSED_SHARE)) ** 2
