"""Renyi accounting of hidden schedules, by the bounds that dp-accounting uses too, without its loops in Python.

A sample without replacement has the bound of Wang, Balle and Kasiviswanathan (2019, Thm. 27 of the long version), for
replace-one neighbours: Proposition 1 of the paper, with each of its terms also bounded by 2 exp(j (j - 1) s / 2). Coins
that workers toss for themselves (Poisson) have the divergence of Mironov, Talwar and Zhang (2019), for remove-one
neighbours: exact at whole orders, bounded by the absolute values of its series at others. An order's loss becomes an
epsilon by Canonne, Kamath and Steinke (2020, Prop. 12).
"""

import math
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, log_ndtr

from airmixml.privacy.mechanism import Accountant, GaussianSlots
from airmixml.privacy.paper_bounds import least_over_orders, log_binomial, log_binomial_sums, log_sum, log_term_bounds

# Orders below 2 help where losses are large.
_ORDERS: Final = np.array(
    [*(1.0 + x / 10.0 for x in range(1, 10)), *range(2, 33), 40, 48, 64, 96, 128, 256], dtype=np.float64
)
_MOST_KINDS: Final = 12
_SERIES_TERMS: Final = 1000
# Terms this far (in logarithms) below the sum so far end a series.
_NEGLIGIBLE: Final = 30.0
_ROUNDING_OF_SERIES: Final = 1e-13
_SMALLEST_SERIES: Final = 1e-6


class RdpAccountant(Accountant):
    """The least epsilon over Renyi orders from 1.1 to 256."""

    about = "Renyi accountant, orders 1.1 to 256 (the bounds of dp-accounting)"

    def refusal(self, mechanism: GaussianSlots) -> str:
        """Refuse what has no such theorem: a draw without replacement is replace-one there, Poisson remove-one."""
        needed = {"without-replacement": "replace-one", "poisson": "remove-one"}.get(mechanism.as_drawn().sampling)
        if needed is None or mechanism.adjacency == needed:
            return ""
        return f"its theorem for it is for {needed} neighbours; use pld"

    def epsilon(self, mechanism: GaussianSlots, delta: float) -> float:
        slots = mechanism if mechanism.sampling == "none" else mechanism.as_drawn().coarsened(_MOST_KINDS)
        conversion = np.log1p(-1.0 / _ORDERS) - np.log(delta * _ORDERS) / (_ORDERS - 1.0)
        first = _losses(slots, _ORDERS[:1])
        # Losses this small bound the distance itself: delta <= sqrt(1 - exp(-loss)).
        if delta**2 + math.expm1(-float(first[0])) > 0.0:
            return 0.0
        return max(least_over_orders(_ORDERS, conversion, partial(_losses, slots))[0], 0.0)


def _losses(slots: GaussianSlots, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the losses of all slots at each order; shape orders."""
    if slots.sampling_rate == 1.0:
        return np.asarray(orders * slots.total / 2.0)
    losses_of = poisson_losses if slots.sampling == "poisson" else drawn_losses
    of_kinds = (count * losses_of(s, slots.sampling_rate, orders) for s, count in slots.kinds if s > 0.0)
    return sum(of_kinds, np.zeros(len(orders)))


def drawn_losses(squared_shift: float, sampling_rate: float, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the loss of one slot drawn without replacement at each order; shape orders.

    The logarithm of the moment is convex in the order and 0 at order 1, so that an order below 2 loses no more than 2.
    """
    whole = np.ceil(orders).astype(np.int64)
    powers = np.arange(2, int(whole.max()) + 1)
    largest = math.log(2.0) + powers * (powers - 1.0) * squared_shift / 2.0 + powers * math.log(sampling_rate)
    bounds = np.minimum(log_term_bounds(squared_shift, sampling_rate, int(whole.max())), largest)
    return np.asarray(log_binomial_sums(bounds, whole) / (whole - 1.0))


def poisson_losses(squared_shift: float, sampling_rate: float, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the loss of one slot in which workers toss coins at each order, ascending; shape orders.

    At a whole order the moment is 1 + sum_i binom(order, i) r^i (1 - r)^(order - i) (exp(i (i - 1) s / 2) - 1).
    """
    whole = np.ceil(orders).astype(np.int64)[:, None]
    powers = np.arange(2, int(whole.max()) + 1)
    exponents = powers * (powers - 1.0) * squared_shift / 2.0
    log_growths = exponents + np.log(-np.expm1(-exponents))
    log_chances = powers * math.log(sampling_rate) + np.maximum(whole - powers, 0) * math.log1p(-sampling_rate)
    log_moments = np.logaddexp(0.0, log_sum(log_binomial(whole, powers) + log_chances + log_growths))
    losses = np.asarray(log_moments / (whole[:, 0] - 1.0))
    between = orders < whole[:, 0]
    if between.any():
        series = _log_series(squared_shift, sampling_rate, orders[between])
        # Of small moments a series has no digits; any higher order, which loses no less, will do.
        series[series < _SMALLEST_SERIES] = np.inf
        losses[between] = np.minimum(series / (orders[between] - 1.0), losses[between])
    return np.minimum.accumulate(losses[::-1])[::-1]


def _log_series(squared_shift: float, sampling_rate: float, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ln of the moment's series at orders that are not whole, rounded up; infinite where it does not converge.

    Both halves of Mironov, Talwar and Zhang, Sec. 3.3: outputs below z, where coins seldom showed up, and above it.
    """
    index = np.arange(_SERIES_TERMS, dtype=np.float64)
    order, root = orders[:, None], math.sqrt(squared_shift)
    log_rate, log_rest = math.log(sampling_rate), math.log1p(-sampling_rate)
    middle = (log_rest - log_rate) / squared_shift + 0.5
    left = order - index
    log_binomials = gammaln(order + 1.0) - gammaln(index + 1.0) - gammaln(left + 1.0)
    below = index * log_rate + left * log_rest + index * (index - 1.0) * squared_shift / 2.0
    above = left * log_rate + index * log_rest + left * (left - 1.0) * squared_shift / 2.0
    below = log_binomials + below + log_ndtr((middle - index) * root)
    above = log_binomials + above + log_ndtr((left - middle) * root)
    sums = np.logaddexp.accumulate(np.logaddexp(below, above), axis=1)
    shrinking = (np.diff(below) < 0.0) & (np.diff(above) < 0.0)
    ended = shrinking & (np.maximum(below, above)[:, 1:] < sums[:, 1:] - _NEGLIGIBLE)
    last = ended.argmax(axis=1) + 1
    return np.where(ended.any(axis=1), sums[np.arange(len(orders)), last] + _ROUNDING_OF_SERIES, np.inf)
