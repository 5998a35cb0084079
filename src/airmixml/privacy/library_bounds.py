"""Renyi accounting and privacy loss distributions by the library dp-accounting, and one distribution that it lacks.

The library is imported at first use: it takes most of a second, and most commands need none of it. What it lacks is the
distribution of a sample without replacement.

Let a Gaussian mechanism move by mu between the two samples that a worker may hold, and let exactly k of N workers be
drawn in a slot, r = k / N. For replace-one neighbours the outputs are (1 - r) W + r P and (1 - r) W + r Q, where W, the
slots without the worker, comes out of P and of Q by putting somebody else in its seat, so no two of the three are
further apart than mu. Advanced joint convexity (Balle, Barthe and Gaboardi 2018, Thm. 2) then bounds the hockey-stick
divergence at e^x by

    h(e^x) = r H_mu(1 + (e^x - 1) / r)      for x >= 0,      H_mu(e^y) = Phi(mu/2 - y/mu) - e^y Phi(-mu/2 - y/mu),

and, since neighbours can be exchanged, h(e^-x) = 1 - e^-x + e^-x h(e^x). It bounds the divergence at all orders, also
below 1, so it composes (Zhu, Dong and Wang 2022, Thm. 10 and Prop. 30). A removed worker leaves its seat to somebody
else: (1 - r) W + r P against W, and back (Thm. 11). Coins that workers toss for themselves give the same two outputs
for replace-one neighbours, with the worker's seat empty in W.
"""

import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from airmixml.errors import PrivacyError
from airmixml.privacy.design import binomial_quantile
from airmixml.privacy.gaussian import gaussian_epsilon, gaussian_profile, total_variation
from airmixml.privacy.mechanism import Accountant, GaussianSlots, require

# Whole orders are exact in the library for both kinds of sampling; fractional ones only help below order 2.
_ORDERS: Final = (*(1.0 + x / 10.0 for x in range(1, 10)), *map(float, (*range(2, 33), 40, 48, 64, 96, 128, 256)))
_MOST_KINDS_RENYI: Final = 12
_TOO_SMALL: Final = "privacy.accountant = 'rdp': rounding leaves no digits of a loss this small; use pld or paper-tight"
_MOST_KINDS: Final = 8
_POINTS_PER_SLOT: Final = 40_000
_POINTS_IN_ALL: Final = 400_000
# What lies beyond that many deviations is counted as certain loss.
_DEVIATIONS: Final = 10.0
_ROUNDING_PER_SLOT: Final = 1e-14
_GRID: Final = 1e-4
_LARGEST_DIRECT_LOSS: Final = 600.0
_FOURIER_ROUNDING: Final = 8.0 * 2.0**-52
_COARSEST_STEP: Final = 20.0


def missing_library() -> str:
    """Return why nothing can be treated; empty if dp-accounting is installed."""
    return "" if find_spec("dp_accounting") else "the library dp-accounting is not installed; pip install dp-accounting"


class RdpAccountant(Accountant):
    """dp-accounting's Renyi accountant."""

    about = "Renyi accountant of the library dp-accounting"

    def refusal(self, mechanism: GaussianSlots) -> str:
        """Refuse what the library does not cover: without replacement is replace-one there, Poisson remove-one."""
        needed = {"without-replacement": "replace-one", "poisson": "remove-one"}.get(mechanism.as_drawn().sampling)
        if needed is None or mechanism.adjacency == needed:
            return missing_library()
        return f"dp-accounting's theorem for it is for {needed} neighbours; use pld"

    def epsilon(self, mechanism: GaussianSlots, delta: float) -> float:
        """Return the least over the orders."""
        if mechanism.total == 0.0:
            return 0.0
        import dp_accounting as dp
        from dp_accounting import rdp

        relation = dp.NeighboringRelation
        neighbours = relation.REPLACE_ONE if mechanism.adjacency == "replace-one" else relation.ADD_OR_REMOVE_ONE
        accountant = rdp.RdpAccountant(_ORDERS, neighbours)
        if mechanism.sampling == "none":
            accountant.compose(dp.GaussianDpEvent(1.0 / math.sqrt(mechanism.total)))
            return float(accountant.get_epsilon(delta))
        slots = mechanism.as_drawn().coarsened(_MOST_KINDS_RENYI)
        with _careful():
            for squared_shift, count in (kind for kind in slots.kinds if kind[0] > 0.0):
                event = dp.GaussianDpEvent(1.0 / math.sqrt(squared_shift))
                if slots.sampling == "poisson":
                    event = dp.PoissonSampledDpEvent(slots.sampling_rate, event)
                else:
                    event = dp.SampledWithoutReplacementDpEvent(slots.population, slots.sampled, event)
                accountant.compose(event, count)
            epsilon = float(accountant.get_epsilon(delta))
        # Zero is also what the library returns when rounding made a divergence negative.
        apart = (count * slots.sampling_rate * float(total_variation(math.sqrt(s))) for s, count in slots.kinds)
        require(epsilon > 0.0 or math.fsum(apart) <= delta, _TOO_SMALL)
        return epsilon


@contextmanager
def _careful() -> Iterator[None]:
    """Refuse what the library's logarithm of a sum that rounding made zero refuses, in our words.

    Its warnings stay off the terminal: on orders that it leaves out, and on zeros.
    """
    logger = logging.getLogger("absl")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    except (ValueError, OverflowError) as problem:
        raise PrivacyError(_TOO_SMALL) from problem
    finally:
        logger.setLevel(before)


class PldAccountant(Accountant):
    """Privacy loss distributions, discretised to the private side."""

    about = "privacy loss distribution (dp-accounting), the sharpest here for a hidden schedule"

    def refusal(self, mechanism: GaussianSlots) -> str:
        """Refuse nothing, if the library is there."""
        return missing_library()

    def epsilon(self, mechanism: GaussianSlots, delta: float, *, coarseness: float = 1.0) -> float:
        """Return the epsilon of all slots composed, the steps of the losses that many times as coarse as usual."""
        if mechanism.sampling == "none":
            return gaussian_epsilon(math.sqrt(mechanism.total), delta)  # the distribution is Gaussian, so this is exact
        slots = mechanism.as_drawn().coarsened(_MOST_KINDS)
        # On a grid of 0.01 %, rounded up, so that rounding on the way here cannot move the discretisation.
        kinds = [(math.exp(math.ceil(math.log(s) / _GRID) * _GRID), count) for s, count in slots.kinds if s > 0.0]
        if not kinds:
            return 0.0
        step = coarseness * _step(kinds, slots.sampling_rate)
        counted = counted_slots_epsilon(slots, delta)
        # The Fourier transform behind the composition rounds delta by this much, to either side.
        usable_delta = delta - _FOURIER_ROUNDING * slots.slots
        if step > _COARSEST_STEP:
            return counted
        if usable_delta < delta / 2.0:
            return min(counted, _renyi_epsilon(slots, delta))
        return min(counted, _composed_epsilon(slots, kinds, step, usable_delta))

    def quick_epsilon(self, mechanism: GaussianSlots, delta: float) -> float:
        """Return the same, ten times as fast and a little larger."""
        return self.epsilon(mechanism, delta, coarseness=10.0)


def _renyi_epsilon(slots: GaussianSlots, delta: float) -> float:
    """Return what Renyi accounting says; the two directions of a removal are the same for both ways to sample."""
    if slots.adjacency == "remove-one" and slots.sampling == "without-replacement":
        slots = replace(slots, sampling="poisson")
    try:
        return RdpAccountant().epsilon(slots, delta)
    except PrivacyError:
        return math.inf


def counted_slots_epsilon(slots: GaussianSlots, delta: float) -> float:
    """Return the epsilon that takes credit only for how often a worker is drawn, not for hiding when.

    With probability 1 - delta/2 it is drawn in at most m slots; those are one Gaussian mechanism, at delta/2. What a
    distribution of losses in the thousands cannot resolve, this can.
    """
    drawn = binomial_quantile(delta / 2.0, slots.slots, slots.sampling_rate)
    return gaussian_epsilon(math.sqrt(slots.strongest(drawn).total), delta / 2.0)


def _composed_epsilon(slots: GaussianSlots, kinds: list[tuple[float, int]], step: float, delta: float) -> float:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

    composed = None
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # the library's, in moments that it leaves out
        for squared_shift, count in kinds:
            pmfs = slot_pmfs(slots.adjacency, squared_shift, slots.sampling_rate, step)
            together = PrivacyLossDistribution(*pmfs).self_compose(count)
            composed = together if composed is None else composed.compose(together)
        assert composed is not None
        epsilon = float(composed.get_epsilon_for_delta(delta))
    if epsilon < _LARGEST_DIRECT_LOSS:
        return epsilon
    return _epsilon_by_halving(composed, delta, upper=counted_slots_epsilon(slots, delta))


def _epsilon_by_halving(composed: Any, delta: float, *, upper: float) -> float:
    """Return the epsilon of a distribution whose losses reach so far that the library's exp(-loss) vanishes."""
    low, high = 0.0, upper
    while high - low > 1e-9 * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if composed.get_delta_for_epsilon(middle) <= delta else (middle, high)
    return high


def slot_pmfs(adjacency: str, squared_shift: float, sampling_rate: float, step: float) -> tuple[Any, ...]:
    """Return the discretised privacy losses of one slot: with a worker against without it, and the other way round.

    One serves for both where the neighbours can be exchanged (replace-one).
    """
    mu = math.sqrt(squared_shift)
    points = max(1, math.ceil(_largest_loss(mu, sampling_rate) / step))
    loss = np.asarray(step * np.arange(points + 1))
    sampled = _sampled_profile(mu, sampling_rate, loss)
    if adjacency == "replace-one":
        return (_connected_dots(step, sampled, sampled),)
    added = _unsampled_profile(mu, sampling_rate, loss)
    return _connected_dots(step, sampled, added), _connected_dots(step, added, sampled)


def _sampled_profile(mu: float, sampling_rate: float, loss: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the divergence of (1 - r) W + r P from W at e^x, x >= 0: r H_mu(1 + (e^x - 1) / r)."""
    small = np.minimum(loss, _LARGEST_DIRECT_LOSS)  # beyond, the 1 is nothing
    unsampled = np.where(
        loss < _LARGEST_DIRECT_LOSS, np.log1p(np.expm1(small) / sampling_rate), loss - math.log(sampling_rate)
    )
    return sampling_rate * gaussian_profile(mu, unsampled)


def _unsampled_profile(mu: float, sampling_rate: float, loss: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the divergence of W from (1 - r) W + r P at e^x, x >= 0: t H_mu(e^x r / t), t = 1 - e^x (1 - r)."""
    share = 1.0 - np.exp(np.minimum(loss, _LARGEST_DIRECT_LOSS)) * (1.0 - sampling_rate)
    positive = np.maximum(share, 1e-300)
    unsampled = loss + math.log(sampling_rate) - np.log(positive)
    return np.asarray(np.where(share > 0.0, positive * gaussian_profile(mu, unsampled), 0.0))


def _connected_dots(step: float, above: NDArray[np.float64], mirrored: NDArray[np.float64]) -> Any:
    """Return the distribution with the profile ``above`` at e^x, x >= 0, and whose mirror image has ``mirrored``."""
    from dp_accounting.pld import pld_pmf

    points = len(above) - 1
    loss = step * np.arange(points + 1)
    below = -np.expm1(-loss) + np.exp(-loss) * mirrored
    profile = np.minimum.accumulate(np.clip(np.concatenate([below[:0:-1], above]), 0.0, 1.0))
    # Dense: the library composes sparse ones in Python.
    return pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(step, -points, points, profile).to_dense_pmf()


def _largest_loss(mu: float, sampling_rate: float) -> float:
    """Return a loss of one slot that is exceeded with negligible probability."""
    return _loss_at(mu**2 / 2.0 + _DEVIATIONS * mu, sampling_rate)


def _loss_at(unsampled: float, sampling_rate: float) -> float:
    """Return ln(1 + r (e^y - 1)), what a sampled slot loses where an unsampled one would lose y."""
    direct = float(np.log1p(sampling_rate * np.expm1(min(unsampled, _LARGEST_DIRECT_LOSS))))
    return direct + max(unsampled - _LARGEST_DIRECT_LOSS, 0.0)


def _step(kinds: list[tuple[float, int]], sampling_rate: float) -> float:
    """Return the step of the losses: fine against one slot, as far as all slots together still fit."""
    largest = max(_largest_loss(math.sqrt(s), sampling_rate) for s, _ in kinds)
    # Mean and spread of the total, were a slot to lose this with probability r and nothing else.
    losses = [(_loss_at(s / 2.0 + 2.0 * math.sqrt(s), sampling_rate), count) for s, count in kinds]
    mean = sum(count * sampling_rate * loss for loss, count in losses)
    spread = math.sqrt(sum(count * sampling_rate * loss**2 for loss, count in losses))
    # Probabilities are second differences over the step: rounding adds about 1e-16 / step to each point and slot.
    resolvable = math.sqrt(_ROUNDING_PER_SLOT * largest * sum(count for _, count in kinds))
    return max(largest / _POINTS_PER_SLOT, (mean + _DEVIATIONS * spread) / _POINTS_IN_ALL, resolvable)
