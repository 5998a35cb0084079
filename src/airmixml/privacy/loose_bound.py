"""The paper's loose bound (Corollary 1) and the power scale that meets it (Proposition 2).

Both speak of an adversary who sees every mixture but does not know which workers were scheduled (``release``), of
noise of power ``noise_watts`` per complex symbol at that adversary's receiver, and of neighbours that differ in the
sample of one worker, whose place and channel stay. The theorem behind them (Wang, Balle and Kasiviswanathan 2019,
Thm. 9, at order 2) samples without replacement and holds for such *replace-one* neighbours; a sample in [0, 1]^d with
a one-hot label moves by at most d_X + d_Y in squared norm when it is removed or replaced, so the paper's sensitivity
covers both.
"""

import math
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from airmixml.errors import PrivacyError
from airmixml.privacy.mechanism import Accountant, GaussianSlots, require

# Rounding of a few steps must not carry a calibrated epsilon above its target.
_ROUNDING_MARGIN: Final = 1.0 - 1e-12


def slot_squared_shift(
    largest_ratio: ArrayLike, power_scale_watts: ArrayLike, noise_watts: float, sensitivity: float
) -> NDArray[np.float64]:
    """Return epsilon_t(2) = max q^2 (d_X + d_Y) / (sigma_n^2 / (2 beta)), Eq. (renyi_distance) at order 2.

    Args:
        largest_ratio: max_i q_{i,t} of each slot; shape slots.
        power_scale_watts: beta of each slot; shape slots.
        noise_watts: sigma_n^2, noise power per complex symbol.
        sensitivity: bound on ||i||^2 + ||l||^2.
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
    """Return the epsilon_t(2) of every slot that makes Corollary 1 give ``epsilon``: Proposition 2, both branches.

    ``sampling_rate`` is r = |N_t| / N, and all ``slots`` are alike.
    """
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
    """Return beta of Proposition 2 for each slot (both branches), in watts.

    With these beta in all ``slots`` slots, Corollary 1 gives ``epsilon``, or a hair less, never more.

    Args:
        largest_ratio: max_i q_{i,t} of each slot; shape slots.
        epsilon: target, must exceed ln(1/delta).
        delta: target.
        slots: T.
        sampling_rate: r = |N_t| / N.
        noise_watts: sigma_n^2, noise power per complex symbol.
        sensitivity: bound on ||i||^2 + ||l||^2, d_X + d_Y in the paper.
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
    closed_form = True

    def epsilon(self, mechanism: GaussianSlots, delta: float) -> float:
        """Return the sum of the slots' losses plus ln(1/delta)."""
        losses = np.asarray(mechanism.squared_shifts)
        if mechanism.sampling != "none":
            losses = slot_privacy_loss(losses, mechanism.sampling_rate)
        return total_privacy_loss(float(np.dot(losses, np.asarray(mechanism.counts, dtype=np.float64))), delta)

    def power_factor(self, mechanism: GaussianSlots, epsilon: float, delta: float) -> float | None:
        """Return the factor by Proposition 2, for slots that are all alike."""
        if len(set(mechanism.squared_shifts)) > 1:
            return None
        if mechanism.sampling == "none":
            return (epsilon - smallest_certifiable_epsilon(delta)) / mechanism.total
        allowed = squared_shift_for_privacy(
            epsilon=epsilon, delta=delta, slots=mechanism.slots, sampling_rate=mechanism.sampling_rate
        )
        return allowed / mechanism.squared_shifts[0]
