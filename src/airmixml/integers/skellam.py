"""What Skellam noise hides: at least as much as Gaussian noise of nearly the same variance, in any dimension.

A Skellam number of variance V is the difference of two Poisson numbers of mean V / 2. Sums of independent ones are
Skellam, so that the noise of n workers with V each is exactly one of variance n V. Its chances are
p_t = exp(-V) I_t(V), t an integer.

Theorem 1. Adding such noise to every number of a vector of integers is mu-GDP (Dong, Roth and Su 2022) between vectors
at Euclidean distance s, with

    mu = s m(V),    m(V) = 2 Phi^-1((1 + p_0) / 2) = sqrt(8) erfinv(exp(-V) I_0(V)) ~ V^-1/2 (1 + 1 / (6 V)).

No l1 norm and no dimension enter, unlike in the Renyi bound of Agarwal, Kairouz and Liu (2021). m(V) is the least
such number, since one threshold on one number attains it.

Theorem 2. Let vectors of real numbers at distance s be rounded to integers first, each number up or down at random
with the chances that keep its mean. Then their d numbers with noise are mu-GDP up to a total variation distance of
d eta on either side, for any eta > 0, with

    mu = s m (e^(G m) - 1) / (G m),    G = m - Phi^-1(eta).

So rounding costs next to nothing where the noise is many steps wide, although it makes vectors longer, by as much as
d / 4 in their squared norm: where one worker rounds to is itself random. docs/proofs/skellam.md has both proofs.
"""

import math
from typing import Final

import numpy as np
from scipy.special import erfinv, i0e

from airmixml.arrays import Doubles
from airmixml.privacy.mechanism import require
from airmixml.privacy.roots import bracket_root
from airmixml.privacy.rounded_noise import tilt

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
    variance = variance_for(mu)
    _, log_variance = bracket_root(
        lambda place: max(mu - rounded_mu_per_step(math.exp(place), log_cut), -1e300),
        math.log(variance),
        math.log(_enough_to_tilt(mu, log_cut)),
        tolerance=1e-12,
    )
    variance = max(variance, math.exp(log_variance))
    while rounded_mu_per_step(variance, log_cut) > mu:
        variance *= 1.0 + _ROUNDING_MARGIN
    return variance


def _enough_to_tilt(mu: float, log_cut: float) -> float:
    """Return a variance that is enough."""
    variance = variance_for(mu)
    while rounded_mu_per_step(variance, log_cut) > mu:
        variance *= 4.0
    return variance


def variance_for(mu: float) -> float:
    """Return the least variance V with m(V) <= ``mu``, rounded up."""
    require(0.0 < mu < math.inf, f"mu = {mu:g}: must be finite and above 0")
    # m(V) is below (1 + 1 / V) / sqrt(V) where V is 1 or more, and grows without bound where V shrinks.
    high = 4.0 / min(mu, 1.0) ** 2
    low = high
    while mu_per_step(low) <= mu:
        low /= 4.0
    _, log_variance = bracket_root(
        lambda place: mu - mu_per_step(math.exp(place)), math.log(low), math.log(high), tolerance=1e-13
    )
    variance = math.exp(log_variance)
    while mu_per_step(variance) > mu:
        variance *= 1.0 + _ROUNDING_MARGIN
    return variance


def renyi_bound(order: int, variance: float, *, squared_distance: float, total_distance: float) -> float:
    """Return the bound on the Renyi divergence of Agarwal, Kairouz and Liu (2021), for comparison.

    alpha D^2 / (2 V) + min(((2 alpha - 1) D^2 + 6 D_1) / (4 V^2), 3 D_1 / (2 V)), for whole orders alpha above 1, with
    D^2 the squared Euclidean and D_1 the l1 distance of the two vectors in steps, V the variance.
    """
    first = order * squared_distance / (2.0 * variance)
    second = ((2.0 * order - 1.0) * squared_distance + 6.0 * total_distance) / (4.0 * variance**2)
    return first + min(second, 1.5 * total_distance / variance)


def chances(variance: float, largest: int) -> Doubles:
    """Return p_0 ... p_largest in float64, by the recurrence I_(t-1) = I_(t+1) + (2 t / V) I_t from the top down.

    Right to 1e-12 relative where p_t is above 1e-250 and ``largest`` lies well beyond what is asked for.
    """
    found = np.zeros(largest + 1)
    above, here = 0.0, 1e-290
    for place in range(largest, 0, -1):
        found[place] = here
        above, here = here, above + 2.0 * place / variance * here
        if here > 1e280:
            found[place:] *= 1e-280
            above, here = above * 1e-280, here * 1e-280
    found[0] = here
    return np.asarray(found / (found[0] + 2.0 * found[1:].sum()))


def one_number_delta(variance: float, move: float, epsilon: float) -> float:
    """Return the exact delta at ``epsilon`` where one number moves from 0 by ``move`` steps, rounded at random.

    delta = sum_t max(p_t - e^epsilon q_t, 0), q_t = (1 - f) p_(t - k) + f p_(t - k - 1) for a move of k + f: a lower
    bound on the delta of all vectors with that bound on their norm.
    """
    whole = math.floor(move)
    largest = whole + 60 + math.ceil(14.0 * math.sqrt(variance))
    half = chances(variance, largest)
    still = np.concatenate([half[:0:-1], half, np.zeros(whole + 1)])
    moved = np.roll(still, whole)
    moved += (move - whole) * (np.roll(moved, 1) - moved)
    return float(np.maximum(still - math.exp(epsilon) * moved, 0.0).sum())
