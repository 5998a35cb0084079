"""What Skellam noise hides: at least as much as Gaussian noise of nearly the same variance, in any dimension.

A Skellam number of variance V is the difference of two Poisson numbers of mean V / 2; the noise of n workers with V
each is exactly one of variance n V. Its chances are p_t = exp(-V) I_t(V), t an integer. docs/proofs/skellam.md has
proofs.

Theorem 1. Adding such noise to every number of a vector of integers is mu-GDP (Dong, Roth and Su 2022) between vectors
at Euclidean distance s, with mu = s m(V), m(V) = 2 Phi^-1((1 + p_0) / 2) = sqrt(8) erfinv(exp(-V) I_0(V)).

Theorem 2. Let vectors of real numbers at distance s be rounded to integers first, each number up or down at random
with the chances that keep its mean. Then their d numbers with noise are mu-GDP up to a total variation distance of
d eta on either side, for any eta > 0, with mu = s m (e^(G m) - 1) / (G m), G = m - Phi^-1(eta).
"""

import math
from collections.abc import Callable
from typing import Final

from scipy.special import erfinv, i0e

from airmixml.privacy.gaussian import bracket_root
from airmixml.privacy.mechanism import require, tilt

# What i0e and erfinv may be wrong by, and more.
_ROUNDING_MARGIN: Final = 1e-13
_LARGEST_VARIANCE: Final = 1e300


def mu_per_step(variance: float) -> float:
    """Return m(V), the mu of a single step in a single number, rounded up."""
    require(0.0 < variance <= _LARGEST_VARIANCE, f"variance = {variance:g}: must be above 0 and at most 1e300")
    return math.sqrt(8.0) * float(erfinv(i0e(variance))) * (1.0 + _ROUNDING_MARGIN)


def rounded_mu_per_step(variance: float, log_cut: float) -> float:
    """Return mu / s of Theorem 2 with eta = exp(``log_cut``), rounded up."""
    single = mu_per_step(variance)
    return single * tilt(single, log_cut)


def rounded_variance_for(mu: float, log_cut: float) -> float:
    """Return the least variance with which ``rounded_mu_per_step`` is at most ``mu``, rounded up."""
    low = high = variance_for(mu)
    while rounded_mu_per_step(high, log_cut) > mu:
        high *= 4.0
    return _least(lambda variance: rounded_mu_per_step(variance, log_cut), mu, low, high, tolerance=1e-12)


def variance_for(mu: float) -> float:
    """Return the least variance V with m(V) <= ``mu``, rounded up."""
    require(0.0 < mu < math.inf, f"mu = {mu:g}: must be finite and above 0")
    # m(V) is below (1 + 1 / V) / sqrt(V) where V is 1 or more, and grows without bound where V shrinks.
    high = 4.0 / min(mu, 1.0) ** 2
    low = high
    while mu_per_step(low) <= mu:
        low /= 4.0
    return _least(mu_per_step, mu, low, high, tolerance=1e-13)


def _least(per_step: Callable[[float], float], mu: float, low: float, high: float, *, tolerance: float) -> float:
    """Return the least variance between two at which ``per_step`` is at most ``mu``, rounded up."""

    def spare(log_variance: float) -> float:
        return max(mu - per_step(math.exp(log_variance)), -1e300)

    variance = max(low, math.exp(bracket_root(spare, math.log(low), math.log(high), tolerance=tolerance)[1]))
    while per_step(variance) > mu:
        variance *= 1.0 + _ROUNDING_MARGIN
    return variance
