"""Several antennas at the server: a choice for the learner, and all of them for the adversary.

Every worker has a channel of its own to every antenna. The slot is received with the antenna whose weakest scheduled
worker is strongest, and workers invert the channel to that one. The server as adversary has the others too: each adds
independent noise, so what it can tell of a worker grows with P sum_a |h_a|^2 instead of P |h|^2. Mixtures come from the
chosen antenna alone, so whoever gets nothing but mixtures gains nothing.
"""

import math
from typing import Final

import numpy as np
from scipy.special import gammaincc, gammainccinv

from airmixml.impairments.fading_floor import renews
from airmixml.impairments.gain_laws import gain_failure_of
from airmixml.scenario import Radio, Scenario
from airmixml.units import db_to_ratio

_SHARE_OF_FAILURE: Final = 0.5  # the rest is that of all other gains
_TINY, _HALVINGS = 1e-320, 100
MOST_FADINGS: Final = 1 << 10  # coherence times of a slot; more are refused (``impairments.renewal``)


def antenna_gain_bound(scenario: Scenario, seats: int) -> float:
    """Return what no worker's sum_a |h_a|^2 / |h|^2 exceeds in a run; infinite where fading puts no bound on it.

    Without fading it is M. With fading the chosen channel may be arbitrarily weak, unless workers in a fade stay silent
    (``air.truncation_db``): then it is at least that, and the sum exceeds its quantile in a slot, seat and coherence
    time with half the probability of ``gain_failure_of``, all of them together.
    """
    air, radio = scenario.air, scenario.radio
    if air.antennas == 1:
        return 1.0
    if radio.fading == "none":
        return float(air.antennas)
    floor = 0.0 if math.isinf(air.truncation_db) else db_to_ratio(air.truncation_db)
    if floor == 0.0:
        return math.inf
    fadings = MOST_FADINGS if renews(scenario) else 1
    each = _SHARE_OF_FAILURE * gain_failure_of(scenario) / (scenario.slots_on_air * seats * fadings)
    if renews(scenario) and radio.direct_path == 0.0:  # where no antenna is chosen by its channels
        return largest_fading_ratio(air.antennas, floor, each)
    return largest_fading_sum(radio, air.antennas, each) / floor


def largest_fading_ratio(antennas: int, floor: float, failure: float) -> float:
    """Return what 1 + S / u exceeds with at most that probability where u, the power of one antenna, is at least c.

    Both at their worst at once are rarer than either. With Rayleigh fading u is exponential and S, of the m others,
    has a gamma law: P(S > t u, u >= c) = sum_(k < m) t^k / (1 + t)^(k + 1) Q(k + 1, c (1 + t)).
    """
    orders = np.arange(antennas - 1)

    def log_excess(ratio: float) -> float:
        t = ratio - 1.0
        terms = np.exp(orders * math.log(t / (1.0 + t))) / (1.0 + t) * gammaincc(orders + 1, floor * (1.0 + t))
        return math.log(max(float(terms.sum()), _TINY)) - math.log(failure)

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
