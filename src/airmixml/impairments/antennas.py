"""Several antennas at the server: a choice for the learner, and all of them for the adversary.

Every worker has a channel of its own to every antenna. The slot is received with the antenna whose weakest scheduled
worker is strongest, and workers invert the channel to that one. The server as adversary has the others too: each adds
independent noise, so what it can tell of a worker grows with P sum_a |h_a|^2 instead of P |h|^2. Mixtures come from the
chosen antenna alone, so whoever gets nothing but mixtures gains nothing.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import gammaincc, gammainccinv

from airmixml.arrays import Doubles, db_to_ratio
from airmixml.impairments.fading import draw_fading, renews
from airmixml.impairments.frame import frame_of
from airmixml.impairments.gain_laws import SumBound, gain_failure_of
from airmixml.scenario import Radio, Scenario

if TYPE_CHECKING:
    import torch

    from airmixml.randomness.slot_words import SlotWords

_SHARE_OF_FAILURE: Final = 0.5  # the rest is that of all other gains
_TINY, _HALVINGS, _POINTS = 1e-320, 100, 1024
MOST_FADINGS: Final = 1 << 10  # coherence times of a slot; more are refused (``impairments.renewal``)


@lru_cache(maxsize=64)
def antenna_gain_bound(scenario: Scenario, seats: int, symbols: int = 0, antennas: int = 0) -> float:
    """Return what no worker's sum_a |h_a|^2 / |h|^2 exceeds in a run; infinite where fading puts no bound on it.

    Without fading it is M. With fading the chosen channel may be arbitrarily weak, unless workers in a fade stay silent
    (``air.truncation_db``): then it is at least that, and the sum exceeds its quantile in a slot, seat and coherence
    time with half the probability of ``gain_failure_of``, all of them together. ``symbols`` are those of a slot;
    ``antennas`` asks for another number of them.
    """
    air, radio = scenario.air, scenario.radio
    count = antennas or air.antennas
    if count == 1:
        return 1.0
    if radio.fading == "none":
        return float(count)
    floor = db_to_ratio(air.truncation_db)
    if floor == 0.0 or (antennas and radio.fading_kind.rician_k(radio) is None):  # a law of one's own, if asked what if
        return math.inf
    each = _SHARE_OF_FAILURE * gain_failure_of(scenario) / (scenario.slots_on_air * seats * _fadings(scenario, symbols))
    if renews(scenario) and radio.direct_path == 0.0:  # where no antenna is chosen by its channels
        return largest_fading_ratio(count, floor, each)
    return largest_fading_sum(radio, count, each) / floor


def choose_antenna(
    scenario: Scenario, magnitude: torch.Tensor, path_gain: torch.Tensor, slots: range, source: SlotWords
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return abs(h) to the antenna whose weakest worker is strongest, and sum_a |h_a|^2 / |h|^2; slots x scheduled.

    ``magnitude`` is abs(h) to the first antenna, the path gain that without fading. One antenna at a time, in constant
    memory.
    """
    import torch  # here: bounds need none

    antennas = scenario.air.antennas
    if scenario.radio.fading == "none":  # all antennas are alike
        return magnitude, torch.full_like(magnitude, float(antennas))
    chosen, weakest, together = magnitude, magnitude.amin(dim=1), magnitude.square()
    for antenna in range(1, antennas):
        other = path_gain * draw_fading(scenario.radio, slots, magnitude.shape[1], source, antenna)
        together = together + other.square()
        its_weakest = other.amin(dim=1)
        better = its_weakest > weakest
        chosen = torch.where(better[:, None], other, chosen)
        weakest = torch.where(better, its_weakest, weakest)
    return chosen, together / chosen.square()


def with_antennas(scenario: Scenario, gains: SumBound | None, symbols: int, failure: float) -> SumBound | None:
    """Return the bound on sums of A G over rounds of so many symbols; None where none is known.

    G are gains that do not depend on channels, A the same ratio in the worst coherence time of a round: 0 for a worker
    that is silent in all of them, else at least their number, as tallies have it. No credit is taken for absent
    workers: they need not be absent. Half of the probability of ``failure`` is that of an A beyond the grid.
    """
    air, rounds = scenario.air, scenario.learner.rounds
    if gains is None:
        return None
    if scenario.radio.fading == "none":
        return gains._replace(tilts=gains.tilts / air.antennas)
    if not (renews(scenario) and scenario.radio.direct_path == 0.0):
        return None
    fadings, floor = _fadings(scenario, symbols), db_to_ratio(air.truncation_db)
    seats = scenario.workers.count * rounds
    most = largest_fading_ratio(air.antennas, floor, failure / (2.0 * seats * fadings))
    values = np.linspace(air.antennas, max(most, 2.0 * air.antennas), _POINTS)
    above = fadings * _ratio_excess(air.antennas, floor, values)
    sends = 1.0 - math.exp(fadings * math.log1p(-math.exp(-floor)))
    return gains.times(np.append(0.0, values), np.minimum.accumulate(np.append(sends, above)), rounds)


def _fadings(scenario: Scenario, symbols: int) -> int:
    """Return how many coherence times a slot of so many symbols has; 0: as many as any may have."""
    if not renews(scenario):
        return 1
    blocks = frame_of(scenario.air, symbols).block_count if symbols else 0
    return min((blocks - 1) // scenario.air.blocks_per_fading + 1, MOST_FADINGS) if symbols else MOST_FADINGS


def _ratio_excess(antennas: int, floor: float, ratios: Doubles) -> Doubles:
    """Return P(1 + S / u > ratio, u >= c); shape of the ratios. See ``largest_fading_ratio``."""
    orders, t = np.arange(antennas - 1)[:, None], ratios - 1.0
    terms = np.exp(orders * np.log(t / (1.0 + t))) / (1.0 + t) * gammaincc(orders + 1, floor * (1.0 + t))
    return np.asarray(terms.sum(axis=0))


def largest_fading_ratio(antennas: int, floor: float, failure: float) -> float:
    """Return what 1 + S / u exceeds with at most that probability where u, the power of one antenna, is at least c.

    Both at their worst at once are rarer than either. With Rayleigh fading u is exponential and S, of the m others,
    has a gamma law: P(S > t u, u >= c) = sum_(k < m) t^k / (1 + t)^(k + 1) Q(k + 1, c (1 + t)).
    """

    def log_excess(ratio: float) -> float:
        excess = float(_ratio_excess(antennas, floor, np.array([ratio]))[0])
        return math.log(max(excess, _TINY)) - math.log(failure)

    low, high = 1.0 + 1e-9, float(gammainccinv(antennas, failure)) / floor  # as if both were
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if log_excess(middle) > 0.0 else (low, middle)
    return high


def largest_fading_sum(radio: Radio, antennas: int, failure: float) -> float:
    """Return what sum_a |g_a|^2 over the antennas, E|g|^2 = 1, exceeds with at most that probability.

    Of Rayleigh fading it has a gamma law. Rician fading adds a direct path of norm sqrt(M K / (K + 1)) to a vector of
    such a sum over K + 1; norms add up at most.
    """
    scattered = 1.0 / (1.0 + radio.direct_path)
    direct = math.sqrt(antennas * (1.0 - scattered))
    return float(direct + math.sqrt(scattered * gammainccinv(antennas, failure))) ** 2
