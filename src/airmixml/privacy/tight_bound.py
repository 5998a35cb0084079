"""The paper's tight bound (Proposition 1): Renyi divergence of a Gaussian mechanism on a sample without replacement.

A slot is a Gaussian mechanism with s = epsilon_t(2) = max q^2 (d_X + d_Y) / (sigma_n^2 / (2 beta)), so that
epsilon_t(gamma) = gamma s / 2. The paper prints exp(i - 1) eps_t(i) in C_t; the theorem it takes it from (Wang, Balle
and Kasiviswanathan 2019, Thm. 27 of the long version) has exp((i - 1) eps_t(i)), which is what stands here. It is for
replace-one neighbours; a removed worker, whose seat goes to another, is the special case in which the second
sample is that other worker's.
"""

import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

from airmixml.privacy.loose_bound import PaperBound, check_slots, log_subsampled_renyi_term
from airmixml.privacy.mechanism import GaussianSlots, require

DEFAULT_ORDERS: Final = tuple(range(2, 513))

_MOST_KINDS: Final = 12
_SUM_ABOVE: Final = 0.5
_STEP: Final = 1.0 / 16.0
_ENDS_OF_PARTS: Final = (16, 64)


def log_binomial(total: ArrayLike, chosen: ArrayLike) -> NDArray[np.float64]:
    """Return ln of the binomial coefficient, -inf where more are chosen than there are; arrays broadcast."""
    n, k = np.asarray(total, dtype=np.float64), np.asarray(chosen, dtype=np.float64)
    left = np.maximum(n - k, 0.0)
    return np.where(k > n, -np.inf, gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(left + 1.0))


def log_even_moments(squared_shift: float, highest: int) -> NDArray[np.float64]:
    """Return ln C_t(x) for x = 0, 2, ..., ``highest``, with C_t(x) = sum_i (-1)^i binom(x, i) exp((i - 1) eps_t(i)).

    C_t(x) is E (exp(sqrt(s) Z - s/2) - 1)^x for a standard normal Z. The alternating sum loses all digits for small s,
    where the expectation, an integral of a positive function, does not; for large s its last terms outweigh the rest.
    """
    even = np.arange(0, highest + 1, 2)
    if squared_shift <= 0.0:
        return np.where(even == 0, 0.0, -np.inf)
    if squared_shift >= _SUM_ABOVE:
        index = np.arange(highest + 1)
        terms = log_binomial(even[:, None], index) + index * (index - 1.0) * squared_shift / 2.0
        return log_sum(terms, np.where(index % 2, -1.0, 1.0))
    root = math.sqrt(squared_shift)
    reach = 2.0 * math.sqrt(highest) + 40.0
    normal = np.arange(-reach, highest * root + reach, _STEP)
    with np.errstate(divide="ignore"):
        log_difference = np.log(np.abs(np.expm1(root * normal - squared_shift / 2.0)))
    log_density = -(normal**2) / 2.0 - math.log(math.sqrt(2.0 * math.pi)) + math.log(_STEP)
    moments = np.zeros(len(even))
    moments[1:] = log_sum(even[1:, None] * log_difference + log_density)
    return moments


def log_sum(terms: NDArray[np.float64], signs: ArrayLike = 1.0) -> NDArray[np.float64]:
    """Return ln of the sum of ``signs`` e^terms over the last axis, whose largest term is finite."""
    largest = terms.max(axis=-1, keepdims=True)
    return np.asarray(largest[..., 0] + np.log((signs * np.exp(terms - largest)).sum(axis=-1)))


def log_term_bounds(squared_shift: float, sampling_rate: float, highest: int) -> NDArray[np.float64]:
    """Return ln of what binom(gamma, j) is multiplied by in Proposition 1; shape (``highest`` - 1), from j = 2 on."""
    powers = np.arange(2, highest + 1)
    moments = log_even_moments(squared_shift, highest + 1)
    bounds = math.log(4.0) + 0.5 * (moments[powers // 2] + moments[(powers + 1) // 2])
    bounds[0] = float(log_subsampled_renyi_term(squared_shift))
    return np.asarray(bounds + powers * math.log(sampling_rate))


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
    gamma = np.asarray(orders, dtype=np.int64)
    if squared_shift <= 0.0:
        return np.zeros(len(gamma))
    bounds = log_term_bounds(squared_shift, sampling_rate, int(gamma.max()))
    return np.asarray(log_binomial_sums(bounds, gamma) / (gamma - 1.0))


def log_binomial_sums(log_terms: NDArray[np.float64], orders: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return ln(1 + sum_j binom(gamma, j) e^(log_terms_j)) for each order gamma, terms from j = 2 on; shape orders."""
    powers = np.arange(2, len(log_terms) + 2)
    return np.logaddexp(0.0, log_sum(log_binomial(orders[:, None], powers) + log_terms))


def least_over_orders(
    orders: NDArray[np.float64],
    conversion: NDArray[np.float64],
    losses_of: Callable[[NDArray[np.float64]], NDArray[np.float64]],
) -> tuple[float, int]:
    """Return the least of loss + ``conversion`` over ascending orders, and its place among them.

    High orders are costly and seldom the best. Losses grow with the order, so once the loss of an order and the least
    conversion beyond it come to more than what was found, nothing beyond it can be less.
    """
    epsilon, best, done = math.inf, 0, 0
    for until in (*np.searchsorted(orders, _ENDS_OF_PARTS, side="right").tolist(), len(orders)):
        if until <= done:
            continue
        losses = losses_of(orders[done:until])
        found = losses + conversion[done:until]
        place = int(np.argmin(found))
        if found[place] < epsilon:
            epsilon, best = float(found[place]), done + place
        done = until
        if done < len(orders) and losses[-1] + conversion[done:].min() >= epsilon:
            break
    return epsilon, best


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
        orders: whole Renyi orders to minimise over, ascending.
    """
    require(0.0 < delta < 1.0, f"delta = {delta:g}: must lie between 0 and 1")
    gamma = np.asarray(orders, dtype=np.float64)

    def losses_of(these: NDArray[np.float64]) -> NDArray[np.float64]:
        of_kinds = (
            count * subsampled_renyi_loss(squared_shift, sampling_rate, these.astype(np.int64).tolist())
            for squared_shift, count in zip(squared_shifts, counts, strict=True)
        )
        return sum(of_kinds, np.zeros(len(these)))

    epsilon, best = least_over_orders(gamma, math.log(1.0 / delta) / (gamma - 1.0), losses_of)
    return epsilon, int(gamma[best])


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
