"""The accountant ``pld``: a privacy loss distribution where the schedule is hidden, exact where it is known."""

import math
from dataclasses import replace
from typing import Final

from airmixml.privacy.design import binomial_quantile
from airmixml.privacy.gaussian import gaussian_epsilon
from airmixml.privacy.loss_distribution import DEVIATIONS, compose, largest_loss, loss_at, slot_losses
from airmixml.privacy.mechanism import Accountant, GaussianSlots
from airmixml.privacy.renyi import RdpAccountant

_MOST_KINDS: Final = 8
_POINTS_PER_SLOT: Final = 40_000
_POINTS_IN_ALL: Final = 400_000
_ROUNDING_PER_SLOT: Final = 1e-14
_GRID: Final = 1e-4
_FOURIER_ROUNDING: Final = 8.0 * 2.0**-52
_COARSEST_STEP: Final = 20.0


class PldAccountant(Accountant):
    """Privacy loss distributions, discretised to the private side."""

    about = "privacy loss distribution, the sharpest here for a hidden schedule"

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


def _composed_epsilon(slots: GaussianSlots, kinds: list[tuple[float, int]], step: float, delta: float) -> float:
    """Return the larger epsilon of the two directions."""
    of_kinds = [slot_losses(slots.adjacency, s, slots.sampling_rate, step) for s, _ in kinds]
    counts = [count for _, count in kinds]
    directions = zip(*of_kinds, strict=True)
    return max(compose(list(zip(direction, counts, strict=True))).epsilon(delta) for direction in directions)


def _renyi_epsilon(slots: GaussianSlots, delta: float) -> float:
    """Return what Renyi accounting says; the two directions of a removal are the same for both ways to sample."""
    if slots.adjacency == "remove-one" and slots.sampling == "without-replacement":
        slots = replace(slots, sampling="poisson")
    return RdpAccountant().epsilon(slots, delta)


def counted_slots_epsilon(slots: GaussianSlots, delta: float) -> float:
    """Return the epsilon that takes credit only for how often a worker is drawn, not for hiding when.

    With probability 1 - delta/2 it is drawn in at most m slots; those are one Gaussian mechanism, at delta/2. What a
    distribution of losses in the thousands cannot resolve, this can.
    """
    if not delta / 2.0:  # the least number above 0 has no half
        return gaussian_epsilon(math.sqrt(slots.total), delta)
    drawn = binomial_quantile(delta / 2.0, slots.slots, slots.sampling_rate)
    return gaussian_epsilon(math.sqrt(slots.strongest(drawn).total), delta / 2.0)


def _step(kinds: list[tuple[float, int]], sampling_rate: float) -> float:
    """Return the step of the losses: fine against one slot, as far as all slots together still fit."""
    largest = max(largest_loss(math.sqrt(s), sampling_rate) for s, _ in kinds)
    # Mean and spread of the total, were a slot to lose this with probability r and nothing else.
    losses = [(loss_at(s / 2.0 + 2.0 * math.sqrt(s), sampling_rate), count) for s, count in kinds]
    mean = sum(count * sampling_rate * loss for loss, count in losses)
    spread = math.sqrt(sum(count * sampling_rate * loss**2 for loss, count in losses))
    # Probabilities are second differences over the step: rounding adds about 1e-16 / step to each point and slot.
    resolvable = math.sqrt(_ROUNDING_PER_SLOT * largest * sum(count for _, count in kinds))
    return max(largest / _POINTS_PER_SLOT, (mean + DEVIATIONS * spread) / _POINTS_IN_ALL, resolvable)
