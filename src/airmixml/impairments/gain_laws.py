"""Laws of what errors do to a worker's gain, and what many draws of their product do not exceed.

Errors are independent of each other given the fading. Their joint law is computed on a grid of ln abs(g), every step
rounded to the larger gain. Bounds on each cause alone would let the weakest channel, the worst estimate and the loudest
amplifier meet, which is far rarer than any of them is.
"""

import math
from functools import lru_cache
from itertools import product
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from scipy.special import erfc, i0e, logsumexp

from airmixml.arrays import Doubles
from airmixml.privacy.gaussian import bracket_root
from airmixml.registries import ADVERSARIES
from airmixml.scenario import Scenario

MOST_OF_RUNS: Final = 1e-2
SHARE_OF_DELTA: Final = 0.02
_POINTS: Final = 2048
_LEAST_DEVIATION: Final = 1e-100  # smaller ones count as this: their squares would overflow
_RAREST: Final = 1e-40  # probability beyond which a grid need not reach
_TILTS: Final = np.geomspace(1e-4, 1e4, 512)  # over the mean of a law
_TOLERANCE: Final = 1e-6  # of the logarithm of a sum
_FINEST, _GROWTH, _CELLS = 4e-3, 1.08, 96  # cells of the fading power: relative width of the first, of the next


class GaussianError(NamedTuple):
    """abs(g) is at most abs(mean + e) with e ~ CN(0, variance), independent of all other errors given the fading."""

    mean: float  # at least 1
    variance: float  # where ``over_fading``, of a channel of mean power
    over_fading: bool = False  # whether e is divided by the channel, which fades
    drawn: str = "piece"  # how often: once in a "slot", a "block" or a "piece"
    #: Where it grows while a block lasts (and is drawn in "block"): how many pieces have which share of the variance.
    parts: tuple[tuple[int, float], ...] = ((1, 1.0),)
    stays: bool = True  # whether a worker has the same in every slot, so that no mean over slots makes it smaller

    def deviation(self, fading: float) -> float:
        """Return the deviation of e / mean behind a channel of that power over its mean."""
        return math.sqrt(self.variance / (fading if self.over_fading else 1.0)) / self.mean


class UniformError(NamedTuple):
    """ln abs(g) is uniform, at most so much above or below 0; once in a slot."""

    largest: float
    stays: bool = True  # as of a ``GaussianError``


Error: TypeAlias = GaussianError | UniformError


def rice_tail(amplitude: Doubles, deviation: float) -> Doubles:
    """Return what P(abs(1 + e) > amplitude) is at most, e ~ CN(0, deviation^2); any shape.

    With a = sqrt(2) / deviation and b = a amplitude that is Marcum's Q_1(a, b) = integral of x exp(-(x^2 + a^2) / 2)
    I_0(a x) over x > b. exp(-z) I_0(z) falls with z, so it is at most exp(-a b) I_0(a b) times the integral of
    x exp(-(x - a)^2 / 2), which is exp(-(b - a)^2 / 2) + a sqrt(pi / 2) erfc((b - a) / sqrt(2)).
    (Simon and Alouini 2000, IEEE Trans. Inf. Theory 46(1).)
    """
    if deviation == 0.0:
        return np.where(amplitude < 1.0, 1.0, 0.0)
    a = math.sqrt(2.0) / max(deviation, _LEAST_DEVIATION)
    b = a * amplitude
    beyond = np.exp(-((b - a) ** 2) / 2.0) + a * math.sqrt(math.pi / 2.0) * erfc((b - a) / math.sqrt(2.0))
    return np.asarray(np.minimum(i0e(a * b) * beyond, 1.0))


def fading_cells(direct: float, floor: float) -> tuple[Doubles, Doubles]:
    """Return powers from the floor up, and what the chance of a fading power between each and the next is at most.

    Rician fading of mean power 1 has the density (K + 1) exp(-(sqrt(K) - sqrt((K + 1) u))^2) i0e(2 sqrt(K (K + 1) u)),
    K = 0 under Rayleigh fading; its first factor rises to u = K / (K + 1) and falls then, the other one falls.
    """
    widths = floor * _FINEST * _GROWTH ** np.arange(_CELLS)
    edges = floor + np.concatenate([[0.0], np.cumsum(widths)])
    roots = np.sqrt((direct + 1.0) * edges)
    nearest = np.clip(math.sqrt(direct), roots[:-1], roots[1:])
    density = (direct + 1.0) * np.exp(-((nearest - math.sqrt(direct)) ** 2)) * i0e(2.0 * math.sqrt(direct) * roots[:-1])
    return edges, np.append(np.minimum(density * widths, 1.0), 1.0)


class _Law:
    """How often a sum of independent values is above 0, step, 2 step ...: never less often than it really is."""

    def __init__(self, above: Doubles) -> None:
        self.above = np.minimum.accumulate(np.minimum(above, 1.0))  # shape points

    def plus(self, other: "_Law") -> "_Law":
        """Return the law of the sum with an independent value: what this one is, rounded up, and the other beyond."""
        chances = -np.diff(self.above, prepend=1.0)
        return _Law(np.convolve(chances, other.above)[: len(self.above)] + self.above)


class SumBound(NamedTuple):
    """What sums of independent draws of one law, none below 0, do not exceed: Chernoff's bound.

    P(X_1 + ... + X_n > y) <= exp(n ln M(t) - t y) for every t > 0, M(t) = E exp(t X). Where all of them have a factor
    F in common, that stays, the probability is the mean of this over F with y / F in the place of y, and each has a t.
    """

    tilts: Doubles  # t, rising from 0
    log_moments: Doubles  # ln M(t); shape of the tilts
    rarity: float  # ln of 1 over the probability of a larger sum
    factors: tuple[Doubles, Doubles] = (np.ones(1), np.ones(1))  # values of F, rising, and how often it has each

    @staticmethod
    def of(values: Doubles, above: Doubles, slots: int, draws: float) -> "SumBound | None":
        """Return the bound that sums of so many slots exceed with probability <= 1 / draws; None where none holds.

        ``above`` is how often a draw exceeds each of the values, at most; what exceeds the last one counts as failed.
        """
        left = 1.0 / draws - slots * above[-1]
        if left <= 0.0:
            return None
        chances = -np.diff(above, prepend=1.0)
        tilts = np.append(0.0, _TILTS) / float(chances @ values)
        return SumBound(tilts, logsumexp(tilts[:, None] * values, axis=1, b=chances), -math.log(left))

    @staticmethod
    def constant(value: float, draws: float) -> "SumBound":
        """Return that of a law which has one value alone."""
        tilts = np.append(0.0, _TILTS) / value
        return SumBound(tilts, tilts * value, math.log(draws))

    def total(self, count: float) -> float:
        """Return the bound on the sum of so many draws."""
        alone = float(((count * self.log_moments[1:] + self.rarity) / self.tilts[1:]).min())
        values, chances = self.factors
        if len(values) == 1:
            return alone * float(values[0])
        slopes = count * np.diff(self.log_moments) / np.diff(self.tilts)

        def rarer(log_total: float) -> float:
            """Return by how much larger sums are rarer than they may be, as logarithms."""
            sums = math.exp(log_total) / values
            best = np.searchsorted(slopes, sums)
            exponents = count * self.log_moments[best] - self.tilts[best] * sums
            return -self.rarity - float(logsumexp(np.minimum(exponents, 0.0), b=chances))

        ends = (math.log(alone * float(value)) for value in values[[0, -1]])
        return math.exp(bracket_root(rarer, *ends, tolerance=_TOLERANCE)[1])

    def behind(self, values: Doubles, above: Doubles) -> "SumBound | None":
        """Return the bound where all draws have an independent factor in common, of which ``above`` is as in ``of``."""
        left = math.exp(-self.rarity) - above[-1]
        if left <= 0.0:
            return None
        return self._replace(rarity=-math.log(left), factors=(values, -np.diff(above, prepend=1.0)))

    def times(self, values: Doubles, above: Doubles, slots: int) -> "SumBound | None":
        """Return the bound of the product with another value, of which ``above`` is as in ``of``; independent.

        M is then the mean of M(t x). ln M is convex, so that lines between its points are above it.
        """
        left = math.exp(-self.rarity) - slots * above[-1]
        if left <= 0.0:
            return None
        tilts = self.tilts[self.tilts * values[-1] <= self.tilts[-1]]
        log_moments = np.interp(tilts[:, None] * values, self.tilts, self.log_moments)
        chances = -np.diff(above, prepend=1.0)
        log_moments = logsumexp(log_moments, axis=1, b=chances)
        return self._replace(tilts=tilts, log_moments=log_moments, rarity=-math.log(left))


def gain_failure_of(scenario: Scenario) -> float:
    """Return the probability with which some gain of a run may exceed its bound.

    Where the air does not say, one run in a hundred, or less where that would take more than a fiftieth of delta.
    """
    others = scenario.radio.schedule_kind.seats_with_gains(scenario)  # see ``Design.failure_of_gains``
    if others < scenario.workers.count and not ADVERSARIES.load(scenario.privacy.adversary).knows_schedule:
        others = 1
    return scenario.air.gain_failure or min(MOST_OF_RUNS, SHARE_OF_DELTA * scenario.privacy.delta * others)


@lru_cache(maxsize=256)
def joint_bound(errors: tuple[Error, ...], direct: float, floor: float, places: int, draws: float) -> float:
    """Return the least abs(g) on the grid that a seat exceeds in any of its places with probability <= 1 / draws."""
    start, step, above = _in_slot(errors, direct, floor, places)
    rare = np.flatnonzero(above * draws <= 1.0)
    return math.exp(start + step * int(rare[0])) if len(rare) else math.inf


def joint_sum_bound(
    errors: tuple[Error, ...],
    fading: tuple[float, float],
    places: int,
    slots: int,
    draws: float,
    factor: float = 1.0,
    *,
    weakest: bool = False,
) -> SumBound | None:
    """Return what ``factor`` times a seat's largest abs(g)^2 in each slot add up to, but for a probability 1 / draws.

    Errors that stay are one factor of all slots; none of them may be relative to a channel. Fading is K and the floor.
    ``weakest``: as if all channels were at the floor. Given its channels a gain exceeds no value more often than that:
    so this one is independent of all that depends on channels.
    """
    renewed, staying = (tuple(error for error in errors if error.stays is stays) for stays in (False, True))
    start, step, above = _in_slot(renewed, *fading, places, weakest=weakest)
    sums = SumBound.of(factor * np.exp(2.0 * (start + step * np.arange(_POINTS))), above, slots, draws)
    if sums is None or not staying:
        return sums
    start, step, above = _in_slot(staying, *fading, places)
    return sums.behind(np.exp(2.0 * (start + step * np.arange(_POINTS))), above)


def _in_slot(
    errors: tuple[Error, ...], direct: float, floor: float, places: int, *, weakest: bool = False
) -> tuple[float, float, Doubles]:
    """Return start and step of a grid of ln abs(g), and how often a seat exceeds each point in any of its places."""
    step, in_place = _in_place(errors, direct, floor, weakest=weakest)
    in_slot, start = _Law(places * in_place.above), 0.0
    for error in errors:
        if isinstance(error, UniformError):
            with np.errstate(over="ignore"):  # of an error that is next to nothing
                above = np.maximum(1.0 - step * np.arange(_POINTS) / max(2.0 * error.largest, 1e-300), 0.0)
            in_slot = in_slot.plus(_Law(above))
            start -= error.largest
        else:
            start += math.log(error.mean)
            in_slot = in_slot.plus(_rice(error, 1.0, step)) if error.drawn == "slot" else in_slot
    return start, step, in_slot.above


@lru_cache(maxsize=256)
def _in_place(errors: tuple[Error, ...], direct: float, floor: float, *, weakest: bool) -> tuple[float, "_Law"]:
    """Return the step of a grid that holds all errors together, and the law of those that differ from place to place.

    That is in the mean over the fading of a place or behind the weakest; a union bound over the pieces of a block.
    """
    reach = math.sqrt(math.log(1.0 / _RAREST))
    longest = sum(
        2.0 * error.largest if isinstance(error, UniformError) else math.log1p(reach * error.deviation(floor))
        for error in errors
    )
    step = max(longest, 1e-12) / (_POINTS - 1)
    varying = [error for error in errors if isinstance(error, GaussianError) and error.drawn != "slot"]
    if not varying:
        return step, _Law(np.zeros(_POINTS))
    powers, chances = np.ones(1), np.ones(1)
    if any(each.over_fading for each in varying):
        powers, chances = (np.array([floor]), chances) if weakest else fading_cells(direct, floor)
    above, growing = np.zeros(_POINTS), max(varying, key=lambda error: len(error.parts))
    for (pieces, share), (power, chance) in product(
        growing.parts, list(zip(powers.tolist(), chances.tolist(), strict=True))
    ):
        now = (each._replace(variance=share * each.variance) if each is growing else each for each in varying)
        law, *others = (_rice(error, power, step) for error in now)
        for other in others:
            law = law.plus(other)
        above += pieces * chance * law.above
    return step, _Law(above)


def _rice(error: GaussianError, fading: float, step: float) -> "_Law":
    """Return the law of ln(abs(1 + e / mean)) where that is above 0, else of 0."""
    return _Law(rice_tail(np.exp(step * np.arange(_POINTS)), error.deviation(fading)))
