"""Renyi accounting of hidden schedules: the paper's own bounds, and those of dp-accounting.

The paper has a loose bound (Corollary 1), the power scale that meets it (Proposition 2) and a tight one (Prop. 1). All
speak of an adversary who sees every mixture but does not know which workers were scheduled (``release``), of noise
of power ``noise_watts`` per complex symbol at its receiver, and of neighbours that differ in the sample of one worker,
whose place and channel stay. The theorem behind the loose bound (Wang, Balle and Kasiviswanathan 2019, Thm. 9, at order
2) samples without replacement and holds for such *replace-one* neighbours; a sample in [0, 1]^d with a one-hot label
moves by at most d_X + d_Y in squared norm when it is removed or replaced, so the paper's sensitivity covers both.

The tight bound is the Renyi divergence of a Gaussian mechanism on a sample without replacement. A slot is one with
s = epsilon_t(2) = max q^2 (d_X + d_Y) / (sigma_n^2 / (2 beta)), so that epsilon_t(gamma) = gamma s / 2. The paper
prints exp(i - 1) eps_t(i) in C_t; the theorem it takes it from (the same paper, Thm. 27 of the long version) has
exp((i - 1) eps_t(i)), which is what stands here. A removed worker, whose seat goes to another, is the special case in
which the second sample is that other worker's.

``RdpAccountant`` has the bounds of dp-accounting, without its loops in Python: for a sample without replacement that of
Proposition 1, with each of its terms also bounded by 2 exp(j (j - 1) s / 2). Coins that workers toss for themselves
(Poisson) have the divergence of Mironov, Talwar and Zhang (2019), for remove-one neighbours: exact at whole orders,
bounded by the absolute values of its series at others. An order's loss becomes an epsilon by Canonne, Kamath and
Steinke (2020, Prop. 12).
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, log_ndtr

from airmixml.messages import PrivacyError
from airmixml.privacy.gaussian import Accountant, GaussianSlots, require

# Rounding of a few steps must not carry a calibrated epsilon above its target.
_ROUNDING_MARGIN: Final = 1.0 - 1e-12


def slot_squared_shift(
    largest_ratio: ArrayLike, power_scale_watts: ArrayLike, noise_watts: float, sensitivity: float
) -> NDArray[np.float64]:
    """Return epsilon_t(2) = max q^2 (d_X + d_Y) / (sigma_n^2 / (2 beta)), Eq. (renyi_distance) at order 2.

    max q (the largest ratio) and beta (the power scale) are of each slot, shape slots; sigma_n^2 is the noise power per
    complex symbol, and the sensitivity bounds ||i||^2 + ||l||^2.
    """
    ratio = np.asarray(largest_ratio, dtype=np.float64)
    beta = np.asarray(power_scale_watts, dtype=np.float64)
    return np.asarray(ratio**2 * sensitivity * beta / (noise_watts / 2.0))


def log_subsampled_renyi_term(squared_shift: ArrayLike) -> NDArray[np.float64]:
    """Return ln min{4 (e^x - 1), 2 e^x} of Corollary 1; the two meet at x = ln 2. Stable for any x >= 0."""
    x = np.asarray(squared_shift, dtype=np.float64)
    below = np.minimum(x, math.log(2.0))
    with np.errstate(divide="ignore"):
        return np.asarray(np.where(x < math.log(2.0), math.log(4.0) + np.log(np.expm1(below)), math.log(2.0) + x))


def check_slots(squared_shift: ArrayLike, sampling_rate: float) -> None:
    """Raise a PrivacyError for squared shifts below 0 and rates outside (0, 1]."""
    values = np.asarray(squared_shift, dtype=np.float64)
    fits = bool((np.isfinite(values) & (values >= 0.0)).all())
    require(fits, "squared shifts: must be finite and at least 0")
    require(0.0 < sampling_rate <= 1.0, f"sampling_rate = {sampling_rate:g}: must be above 0 and at most 1")


def slot_privacy_loss(squared_shift: ArrayLike, sampling_rate: float) -> NDArray[np.float64]:
    """Return ln(1 + r^2 min{4 (e^x - 1), 2 e^x}), one slot's term of Corollary 1, for x up to 10^300."""
    check_slots(squared_shift, sampling_rate)
    return np.asarray(np.logaddexp(0.0, 2.0 * math.log(sampling_rate) + log_subsampled_renyi_term(squared_shift)))


def total_privacy_loss(sum_of_slot_losses: float, delta: float) -> float:
    """Return epsilon of Corollary 1: the slots' terms plus ln(1/delta)."""
    require(0.0 < delta < 1.0, f"delta = {delta:g}: must lie between 0 and 1")
    return sum_of_slot_losses + math.log(1.0 / delta)


def smallest_certifiable_epsilon(delta: float) -> float:
    """Return ln(1/delta): the loose bound certifies only what lies above it, at any power."""
    return math.log(1.0 / delta)


def squared_shift_for_privacy(*, epsilon: float, delta: float, slots: int, sampling_rate: float) -> float:
    """Return epsilon_t(2) of ``slots`` alike for which Corollary 1 gives ``epsilon``: Proposition 2, both branches."""
    smallest = smallest_certifiable_epsilon(delta)
    per_slot = (epsilon - smallest) / slots
    if not per_slot > 0.0:
        raise PrivacyError(
            f"privacy.epsilon = {epsilon:g}: Proposition 2 certifies only epsilon above ln(1/delta) = {smallest:.4f} "
            f"for privacy.delta = {delta:g}; ask for more, for a larger delta, or for privacy.accountant = pld"
        )
    log_twice_rate_squared = math.log(2.0) + 2.0 * math.log(sampling_rate)
    log_growth = per_slot + math.log(-math.expm1(-per_slot))  # ln(e^per_slot - 1), no overflow
    if epsilon >= slots * math.log1p(4.0 * sampling_rate**2) + smallest:
        return log_growth - log_twice_rate_squared
    return math.log1p(math.exp(log_growth - log_twice_rate_squared - math.log(2.0)))


def power_scale_for_privacy(
    largest_ratio: ArrayLike,
    *,
    epsilon: float,
    delta: float,
    slots: int,
    sampling_rate: float,
    noise_watts: float,
    sensitivity: float,
) -> NDArray[np.float64]:
    """Return beta of Proposition 2 for each slot (both branches), in watts; arguments as in ``slot_squared_shift``.

    With these beta in all ``slots`` slots, Corollary 1 gives ``epsilon``, or a hair less, never more. The target must
    exceed ln(1/delta); ``sampling_rate`` is r = |N_t| / N.
    """
    squared_shift = squared_shift_for_privacy(epsilon=epsilon, delta=delta, slots=slots, sampling_rate=sampling_rate)
    ratio = np.asarray(largest_ratio, dtype=np.float64)
    return np.asarray(_ROUNDING_MARGIN * (noise_watts / 2.0) * squared_shift / (ratio**2 * sensitivity))


class PaperBound(Accountant):
    """A bound as it is in print."""

    considers_all_views = False

    def refusal(self, mechanism: GaussianSlots) -> str:
        """Refuse coins that workers toss for themselves, for which the theorem was not proven."""
        drawn = mechanism.as_drawn().sampling != "poisson"
        return "" if drawn else "its theorem samples without replacement; use pld or rdp"


class PaperLoose(PaperBound):
    """Corollary 1: order 2 of Proposition 1."""

    about = "Corollary 1 of the paper: Renyi order 2 alone"

    def epsilon(self, mechanism: GaussianSlots, delta: float) -> float:
        losses = np.asarray(mechanism.squared_shifts)
        if mechanism.sampling != "none":
            losses = slot_privacy_loss(losses, mechanism.sampling_rate)
        return total_privacy_loss(float(np.dot(losses, np.asarray(mechanism.counts, dtype=np.float64))), delta)

    def power_factor(self, mechanism: GaussianSlots, epsilon: float, delta: float) -> float | None:
        if len(set(mechanism.squared_shifts)) > 1:
            return None
        if mechanism.sampling == "none":
            return (epsilon - smallest_certifiable_epsilon(delta)) / mechanism.total
        allowed = squared_shift_for_privacy(
            epsilon=epsilon, delta=delta, slots=mechanism.slots, sampling_rate=mechanism.sampling_rate
        )
        return allowed / mechanism.squared_shifts[0]


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
    """Return epsilon'_t(gamma) of Proposition 1 for one slot, whole orders gamma from 2 on; shape orders."""
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

    ``squared_shifts`` are s of each kind, and ``counts`` how many slots are of it; orders are whole and ascending.
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


class PaperTight(PaperBound):
    """Proposition 1 with C_t corrected."""

    about = "Proposition 1 of the paper, C_t corrected: Renyi orders 2 to 512"

    def epsilon(self, mechanism: GaussianSlots, delta: float) -> float:
        if mechanism.sampling == "none":
            gamma = np.asarray(DEFAULT_ORDERS, dtype=np.float64)  # each loses gamma mu^2 / 2
            return float(np.min(gamma * mechanism.total / 2.0 + math.log(1.0 / delta) / (gamma - 1.0)))
        slots = mechanism.coarsened(_MOST_KINDS)
        return tight_epsilon(slots.squared_shifts, slots.counts, sampling_rate=slots.sampling_rate, delta=delta)[0]


# Orders below 2 help where losses are large.
_ORDERS: Final = np.array(
    [*(1.0 + x / 10.0 for x in range(1, 10)), *range(2, 33), 40, 48, 64, 96, 128, 256], dtype=np.float64
)
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
