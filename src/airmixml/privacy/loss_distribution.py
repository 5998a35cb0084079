"""The accountant ``pld``: privacy loss distributions of a hidden schedule, composed by a Fourier transform.

Let a Gaussian mechanism move by mu between the two samples that a worker may hold, and let exactly k of N workers be
drawn in a slot, r = k / N. For replace-one neighbours the outputs are (1 - r) W + r P and (1 - r) W + r Q, where W, the
slots without the worker, comes out of P and of Q by putting another worker in its seat, so no two of the three are
further apart than mu. Advanced joint convexity (Balle, Barthe and Gaboardi 2018, Thm. 2) then bounds the hockey-stick
divergence at e^x by

    h(e^x) = r H_mu(1 + (e^x - 1) / r)      for x >= 0,      H_mu(e^y) = Phi(mu/2 - y/mu) - e^y Phi(-mu/2 - y/mu),

and, since neighbours can be exchanged, h(e^-x) = 1 - e^-x + e^-x h(e^x). It bounds the divergence at all orders, also
below 1, so it composes (Zhu, Dong and Wang 2022, Thm. 10 and Prop. 30). A removed worker leaves its seat to
another: (1 - r) W + r P against W, and back (Thm. 11). Coins that workers toss for themselves give the same two outputs
for replace-one neighbours, with the worker's seat empty in W.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from airmixml.privacy.design import binomial_quantile
from airmixml.privacy.gaussian import ExactIfKnown, GaussianSlots, gaussian_epsilon, gaussian_profile
from airmixml.privacy.paper_bounds import RdpAccountant

# The log-moments that bound the tails are taken at rates that double; the best is then at most 6 % off.
_CHERNOFF_RATES: Final = 12
# Just within what exp can represent.
_LARGEST_DIRECT_LOSS: Final = 600.0
# What lies beyond that many deviations is counted as certain loss.
_DEVIATIONS: Final = 10.0
_MOST_KINDS: Final = 8
_POINTS_PER_SLOT: Final = 40_000
_POINTS_IN_ALL: Final = 400_000
_ROUNDING_PER_SLOT: Final = 1e-14
_GRID: Final = 1e-4
_FOURIER_ROUNDING: Final = 8.0 * 2.0**-52
_COARSEST_STEP: Final = 20.0
# Each side of a composed distribution may leave out this much, which is counted as certain loss.
_TAIL: Final = 1e-15


@dataclass(frozen=True, kw_only=True)
class LossDistribution:
    """A privacy loss on a grid, rounded to the private side."""

    step: float  # between two losses
    lowest: int  # the first loss, in steps
    masses: NDArray[np.float64]  # probability of each loss; shape losses
    infinite_mass: float  # probability of a loss beyond all bounds

    @property
    def losses(self) -> NDArray[np.float64]:
        """The losses; shape losses."""
        return np.asarray(self.step * np.arange(self.lowest, self.lowest + len(self.masses), dtype=np.float64))

    @classmethod
    def of_profile(cls, step: float, above: NDArray[np.float64], mirrored: NDArray[np.float64]) -> Self:
        """Return the distribution with the profile ``above`` at e^x, x >= 0, and whose mirror image has ``mirrored``.

        Between the points of the grid its profile is linear in e^x (Doroshenko and others 2022, "Connect the dots"), so
        it lies above every convex one through them.
        """
        points = len(above) - 1
        loss = step * np.arange(points + 1)
        below = -np.expm1(-loss) + np.exp(-loss) * mirrored
        profile = np.minimum.accumulate(np.clip(np.concatenate([below[:0:-1], above]), 0.0, 1.0))
        # Slopes of the profile in e^x, times e^x at the upper end; a loss has the mass by which they change there.
        slopes = -np.diff(profile) / math.expm1(step)
        masses = np.zeros(len(profile))
        masses[:-1] -= slopes
        masses[1:] += math.exp(step) * slopes
        masses[0] += 1.0 - profile[0]
        return cls(step=step, lowest=-points, masses=np.maximum(masses, 0.0), infinite_mass=float(profile[-1]))

    def delta(self, epsilon: float) -> float:
        """Return the hockey-stick divergence at e^epsilon."""
        beyond = self.losses > epsilon
        return self.infinite_mass - float(np.expm1(epsilon - self.losses[beyond]) @ self.masses[beyond])

    def epsilon(self, delta: float) -> float:
        """Return the least epsilon from 0 on with a divergence of at most ``delta``; infinite if there is none."""
        if self.infinite_mass > delta:
            return math.inf
        losses, upper = self.losses, self.infinite_mass + np.cumsum(self.masses[::-1])[::-1]
        above = np.flatnonzero(upper > delta)
        if not len(above):
            return 0.0
        # Delta is less than the chance of a larger loss, so epsilon is at most this, and not much less.
        last = int(above[-1])
        most = losses[last]
        first = int(np.searchsorted(losses, most - _LARGEST_DIRECT_LOSS))
        lower = np.cumsum((self.masses[first:] * np.exp(most - losses[first:]))[::-1])[::-1]
        # From a loss down to the next one delta is upper - e^(epsilon - most) lower; here it meets the one asked for.
        here = slice(first, last + 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            meets = most + np.log((upper[here] - delta) / lower[: last + 1 - first])
        inside = np.flatnonzero(meets[1:] >= losses[here][:-1])
        return max(float(meets[inside[-1] + 1] if len(inside) else meets[0]), 0.0)


def compose(parts: Sequence[tuple[LossDistribution, int]]) -> LossDistribution:
    """Return the distribution of the sum of independent losses: each of ``parts`` so many times, on one grid.

    What the transform wraps around or leaves out has a probability below ``_TAIL`` and is counted as certain loss.
    """
    low, high = _range_of_sum(parts)
    width = max(high - low + 1, *(len(part.masses) for part, _ in parts))
    size = _fast_size(width)
    spectrum = np.ones(size // 2 + 1, dtype=np.complex128)
    log_finite = 0.0
    for part, count in parts:
        spectrum *= _power(np.fft.rfft(part.masses, size), count)
        log_finite += count * math.log1p(-part.infinite_mass) if part.infinite_mass < 1.0 else -math.inf
    start = sum(count * part.lowest for part, count in parts)
    masses = np.roll(np.fft.irfft(spectrum, size), -(low % size))[: high - low + 1]
    first, _ = parts[0]
    return LossDistribution(
        step=first.step, lowest=start + low, masses=masses, infinite_mass=_TAIL - math.expm1(log_finite)
    )


def _range_of_sum(parts: Sequence[tuple[LossDistribution, int]]) -> tuple[int, int]:
    """Return between which steps above the lowest sum all but ``_TAIL`` of the sum lies, by Chernoff's bound."""
    log_share = math.log(2.0 / _TAIL)
    variance = 0.0
    for part, count in parts:
        places = np.arange(len(part.masses))
        away = places - float(places @ part.masses) / float(part.masses.sum())
        variance += count * float(away**2 @ part.masses)
    # The best rate for a normal sum, and smaller ones for a heavy tail, each half the next.
    rates = math.sqrt(2.0 * log_share / max(variance, 1.0)) * 2.0 ** np.arange(2 - _CHERNOFF_RATES, 2)
    log_moments = np.zeros((2, _CHERNOFF_RATES))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # rates too large for their moments drop out
        for part, count in parts:
            middle = 0.5 * (len(part.masses) - 1)
            growth = np.exp(rates[0] * (np.arange(len(part.masses)) - middle))
            for place, rate in enumerate(rates):
                log_moments[0, place] += count * (np.log(growth[::-1] @ part.masses) - rate * middle)
                log_moments[1, place] += count * (np.log(growth @ part.masses) + rate * middle)
                growth *= growth
        bounds = (log_moments + log_share) / rates
    lows, highs = (each[np.isfinite(each)].tolist() for each in bounds)
    highest = sum(count * (len(part.masses) - 1) for part, count in parts)
    return math.floor(max([0.0, *(-low for low in lows)])), math.ceil(min([float(highest), *highs]))


def _fast_size(least: int) -> int:
    """Return an even size from ``least`` on that a Fourier transform is fast for: 2^i 3^j 5^k."""
    odd_sizes: list[int] = [3**j * 5**k for j in range(8) for k in range(6)]
    return min(odd << max(1, math.ceil(math.log2(least / odd))) for odd in odd_sizes)


def _power(values: NDArray[np.complex128], exponent: int) -> NDArray[np.complex128]:
    """Return the values to a whole power, by squaring: NumPy's own takes many times as long."""
    power = np.ones_like(values)
    while exponent:
        if exponent & 1:
            power *= values
        exponent >>= 1
        if exponent:
            values = values * values
    return power


def slot_losses(
    adjacency: str, squared_shift: float, sampling_rate: float, step: float
) -> tuple[LossDistribution, ...]:
    """Return the losses of one slot, with a worker against without it and back; one serves both for replace-one."""
    mu = math.sqrt(squared_shift)
    loss = np.asarray(step * np.arange(max(1, math.ceil(largest_loss(mu, sampling_rate) / step)) + 1))
    sampled = _sampled_profile(mu, sampling_rate, loss)
    if adjacency == "replace-one":
        return (LossDistribution.of_profile(step, sampled, sampled),)
    added = _unsampled_profile(mu, sampling_rate, loss)
    return LossDistribution.of_profile(step, sampled, added), LossDistribution.of_profile(step, added, sampled)


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


def largest_loss(mu: float, sampling_rate: float) -> float:
    """Return a loss of one slot that is exceeded with negligible probability."""
    return loss_at(mu**2 / 2.0 + _DEVIATIONS * mu, sampling_rate)


def loss_at(unsampled: float, sampling_rate: float) -> float:
    """Return ln(1 + r (e^y - 1)), what a sampled slot loses where an unsampled one would lose y."""
    direct = float(np.log1p(sampling_rate * np.expm1(min(unsampled, _LARGEST_DIRECT_LOSS))))
    return direct + max(unsampled - _LARGEST_DIRECT_LOSS, 0.0)


class PldAccountant(ExactIfKnown):
    """Privacy loss distributions, discretised to the private side."""

    about = "privacy loss distribution, the sharpest here for a hidden schedule"

    def sampled_epsilon(self, mechanism: GaussianSlots, delta: float, *, coarseness: float = 1.0) -> float:
        """Return the epsilon of all slots composed, the steps of the losses that many times as coarse as usual."""
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
            # The two directions of a removal are the same for both ways to sample.
            drawn = slots.adjacency == "remove-one" and slots.sampling == "without-replacement"
            return min(counted, RdpAccountant().epsilon(replace(slots, sampling="poisson") if drawn else slots, delta))
        of_kinds = [slot_losses(slots.adjacency, s, slots.sampling_rate, step) for s, _ in kinds]
        directions = (zip(each, (count for _, count in kinds), strict=True) for each in zip(*of_kinds, strict=True))
        return min(counted, max(compose(list(each)).epsilon(usable_delta) for each in directions))

    def quick_epsilon(self, mechanism: GaussianSlots, delta: float) -> float:
        known = mechanism.sampling == "none"
        return self.epsilon(mechanism, delta) if known else self.sampled_epsilon(mechanism, delta, coarseness=10.0)


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
    return max(largest / _POINTS_PER_SLOT, (mean + _DEVIATIONS * spread) / _POINTS_IN_ALL, resolvable)
