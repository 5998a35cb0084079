"""The paper's tight bound (Proposition 1): Renyi divergence of a Gaussian mechanism on a sample without replacement.

A slot is a Gaussian mechanism with s = epsilon_t(2) = max q^2 (d_X + d_Y) / (sigma_n^2 / (2 beta)), so that
epsilon_t(gamma) = gamma s / 2. The paper prints exp(i - 1) eps_t(i) in C_t; the theorem it takes it from (Wang, Balle
and Kasiviswanathan 2019, Thm. 27 of the long version) has exp((i - 1) eps_t(i)), which is what stands here. It is for
replace-one neighbours; a removed worker, whose seat goes to somebody else, is the special case in which the second
sample is that other worker's.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, logsumexp

from airmixml.privacy.loose_bound import PaperBound, check_slots, log_subsampled_renyi_term
from airmixml.privacy.mechanism import GaussianSlots, require

DEFAULT_ORDERS: Final = tuple(range(2, 513))

_MOST_KINDS: Final = 12
_SUM_ABOVE: Final = 0.5
_STEP: Final = 1.0 / 16.0


def log_binomial(total: ArrayLike, chosen: ArrayLike) -> NDArray[np.float64]:
    """Return ln of the binomial coefficient."""
    n, k = np.asarray(total, dtype=np.float64), np.asarray(chosen, dtype=np.float64)
    return np.asarray(gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0))


def log_even_moment(squared_shift: float, even_order: int) -> float:
    """Return ln C_t(x) for even x, with C_t(x) = sum_i (-1)^i binom(x, i) exp((i - 1) eps_t(i)).

    C_t(x) is E (exp(sqrt(s) Z - s/2) - 1)^x for a standard normal Z. The alternating sum loses all digits for small s,
    where the expectation, an integral of a positive function, does not; for large s its last terms outweigh the rest.
    """
    if even_order == 0:
        return 0.0
    if squared_shift <= 0.0:
        return -math.inf
    if squared_shift >= _SUM_ABOVE:
        index = np.arange(even_order + 1)
        terms = log_binomial(even_order, index) + index * (index - 1.0) * squared_shift / 2.0
        return float(logsumexp(terms, b=np.where(index % 2, -1.0, 1.0)))
    root = math.sqrt(squared_shift)
    reach = 2.0 * math.sqrt(even_order) + 40.0
    normal = np.arange(-reach, even_order * root + reach, _STEP)
    with np.errstate(divide="ignore"):
        log_difference = np.log(np.abs(np.expm1(root * normal - squared_shift / 2.0)))
    log_density = -(normal**2) / 2.0 - math.log(math.sqrt(2.0 * math.pi)) + math.log(_STEP)
    return float(logsumexp(even_order * log_difference + log_density))


def subsampled_renyi_loss(
    squared_shift: float, sampling_rate: float, orders: Sequence[int] = DEFAULT_ORDERS
) -> NDArray[np.float64]:
    """Return epsilon'_t(gamma) of Proposition 1 for one slot; shape orders.

    Args:
        squared_shift: s = epsilon_t(2) of the slot.
        sampling_rate: r = |N_t| / N.
        orders: whole Renyi orders gamma from 2 on.
    """
    check_slots(squared_shift, sampling_rate)
    return _renyi_loss(squared_shift, sampling_rate, tuple(orders)).copy()


@lru_cache(maxsize=256)
def _renyi_loss(squared_shift: float, sampling_rate: float, orders: tuple[int, ...]) -> NDArray[np.float64]:
    gamma = np.asarray(orders, dtype=np.int64)
    if squared_shift <= 0.0:
        return np.zeros(len(gamma))
    log_rate = math.log(sampling_rate)
    moments = {x: log_even_moment(squared_shift, x) for x in range(2, int(gamma.max()) + 2, 2)}
    second = 2.0 * log_rate + float(log_subsampled_renyi_term(squared_shift))
    powers = np.arange(3, int(gamma.max()) + 1)
    between = np.array([0.5 * (moments[2 * (j // 2)] + moments[2 * -(-j // 2)]) for j in powers.tolist()])
    log_terms = math.log(4.0) + powers * log_rate + between
    inside = [
        logsumexp([0.0, second + log_binomial(g, 2), *(log_terms[: g - 2] + log_binomial(g, powers[: g - 2]))])
        for g in gamma.tolist()
    ]
    return np.asarray(np.asarray(inside) / (gamma - 1.0))


def tight_epsilon(
    squared_shifts: Sequence[float],
    counts: Sequence[int],
    *,
    sampling_rate: float,
    delta: float,
    orders: Sequence[int] = DEFAULT_ORDERS,
) -> tuple[float, int]:
    """Return epsilon of Proposition 1 and the order that gives it, for slots of several kinds.

    Args:
        squared_shifts: s of each kind of slot.
        counts: how many slots are of that kind.
        sampling_rate: r = |N_t| / N.
        delta: target delta.
        orders: whole Renyi orders to minimise over.
    """
    require(0.0 < delta < 1.0, f"delta = {delta:g}: must lie between 0 and 1")
    gamma = np.asarray(orders, dtype=np.float64)
    total = np.zeros(len(gamma))
    for squared_shift, count in zip(squared_shifts, counts, strict=True):
        total += count * subsampled_renyi_loss(squared_shift, sampling_rate, orders)
    epsilon = total + math.log(1.0 / delta) / (gamma - 1.0)
    best = int(np.argmin(epsilon))
    return float(epsilon[best]), int(gamma[best])


def gaussian_renyi_epsilon(total_squared_shift: float, delta: float, orders: Sequence[int] = DEFAULT_ORDERS) -> float:
    """Return epsilon of known slots that sum up to mu^2: the least of gamma mu^2 / 2 + ln(1/delta) / (gamma - 1)."""
    gamma = np.asarray(orders, dtype=np.float64)
    return float(np.min(gamma * total_squared_shift / 2.0 + math.log(1.0 / delta) / (gamma - 1.0)))


class PaperTight(PaperBound):
    """Proposition 1 with C_t corrected."""

    about = "Proposition 1 of the paper, C_t corrected: Renyi orders 2 to 512"

    def epsilon(self, mechanism: GaussianSlots, delta: float) -> float:
        """Return the least over the orders."""
        if mechanism.sampling == "none":
            return gaussian_renyi_epsilon(mechanism.total, delta)
        slots = mechanism.coarsened(_MOST_KINDS)
        return tight_epsilon(slots.squared_shifts, slots.counts, sampling_rate=slots.sampling_rate, delta=delta)[0]
