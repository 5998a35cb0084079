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
from scipy.special import erfc, i0e

from airmixml.arrays import Doubles
from airmixml.registries import ADVERSARIES
from airmixml.scenario import Scenario

MOST_OF_RUNS: Final = 1e-2
SHARE_OF_DELTA: Final = 0.02
_POINTS: Final = 2048
_RAREST: Final = 1e-40  # probability beyond which a grid need not reach
_FINEST, _GROWTH, _CELLS = 4e-3, 1.08, 96  # cells of the fading power: relative width of the first, of the next


class GaussianError(NamedTuple):
    """abs(g) is at most abs(mean + e) with e ~ CN(0, variance), independent of all other errors given the fading."""

    mean: float  # at least 1
    variance: float  # where ``over_fading``, of a channel of mean power
    over_fading: bool = False  # whether e is divided by the channel, which fades
    drawn: str = "piece"  # how often: once in a "slot", a "block" or a "piece"
    #: Where it grows while a block lasts (and is drawn in "block"): how many pieces have which share of the variance.
    parts: tuple[tuple[int, float], ...] = ((1, 1.0),)

    def deviation(self, fading: float) -> float:
        """Return the deviation of e / mean behind a channel of that power over its mean."""
        return math.sqrt(self.variance / (fading if self.over_fading else 1.0)) / self.mean


class UniformError(NamedTuple):
    """ln abs(g) is uniform, at most so much above or below 0; once in a slot."""

    largest: float


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
    a = math.sqrt(2.0) / deviation
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


def gain_failure_of(scenario: Scenario) -> float:
    """Return the probability with which some gain of a run may exceed its bound.

    Where the air does not say, one run in a hundred, or less where that would take more than a fiftieth of delta.
    """
    radio, workers = scenario.radio, scenario.workers.count
    others = workers if radio.schedule == "poisson" else radio.scheduled  # see ``Design.failure_of_gains``
    if others < workers and not ADVERSARIES.load(scenario.privacy.adversary).knows_schedule:
        others = 1
    return scenario.air.gain_failure or min(MOST_OF_RUNS, SHARE_OF_DELTA * scenario.privacy.delta * others)


@lru_cache(maxsize=256)
def joint_bound(errors: tuple[Error, ...], direct: float, floor: float, places: int, draws: float) -> float:
    """Return the least abs(g) on the grid that a seat exceeds in any of its places with probability <= 1 / draws."""
    step, in_place = _in_place(errors, direct, floor)
    in_slot, start = _Law(places * in_place.above), 0.0
    for error in errors:
        if isinstance(error, UniformError):
            in_slot = in_slot.plus(_Law(np.maximum(1.0 - step * np.arange(_POINTS) / (2.0 * error.largest), 0.0)))
            start -= error.largest
        else:
            start += math.log(error.mean)
            in_slot = in_slot.plus(_rice(error, 1.0, step)) if error.drawn == "slot" else in_slot
    rare = np.flatnonzero(in_slot.above * draws <= 1.0)
    return math.exp(start + step * int(rare[0])) if len(rare) else math.inf


@lru_cache(maxsize=256)
def _in_place(errors: tuple[Error, ...], direct: float, floor: float) -> tuple[float, "_Law"]:
    """Return the step of a grid that holds all errors together, and the law of those that differ from place to place.

    The latter is that of one place, in the mean over its fading; a union bound over the pieces of a block.
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
        powers, chances = fading_cells(direct, floor)
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
