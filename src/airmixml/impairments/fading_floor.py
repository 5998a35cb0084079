"""How weak a channel may get through fading, and what that makes of errors that are relative to it.

Workers invert their channels, so an error of a given size weighs the more the weaker the channel: e / h grows without
bound where fading has no floor. Truncated inversion gives it one: who is in a fade stays silent.
"""

import math

from airmixml.arrays import db_to_ratio
from airmixml.scenario import Scenario


def fades(scenario: Scenario) -> bool:
    """Return whether channels differ from their mean at all."""
    return bool(scenario.radio.fading_kind.rician_k(scenario.radio) != math.inf)


def renews(scenario: Scenario) -> bool:
    """Return whether fading is drawn anew within a slot, after every coherence time."""
    return fades(scenario) and scenario.air.blocks_per_fading > 0


def weakest_fading(scenario: Scenario) -> float:
    """Return the least power of a sender's channel over its mean, 1 without fading, 0 without ``air.truncation_db``."""
    if not fades(scenario):
        return 1.0
    return db_to_ratio(scenario.air.truncation_db)


def silent_share(scenario: Scenario) -> float:
    """Return the share of the scheduled workers that do not send: absent, or in a fade that lasts for a whole slot."""
    in_fade, floor = 0.0, weakest_fading(scenario)
    if fades(scenario) and floor > 0.0 and not renews(scenario):
        in_fade = scenario.radio.fading_kind.share_below(scenario.radio, floor)
    return 1.0 - (1.0 - scenario.air.absent) * (1.0 - in_fade)


def largest_ratio(scenario: Scenario, variance: float, failure: float) -> float:
    """Return what abs(e / h) exceeds with at most that probability, e ~ CN(0, variance), h of mean power 1.

    Where abs(h)^2 has a floor c that is sqrt(variance ln(1 / failure) / c), since abs(e)^2 is exponential. Without one
    it is sqrt((K + 1) variance / failure): the density of h is at most (K + 1) / pi, so that
    P(abs(h)^2 < y) <= (K + 1) y, and the probability is at most (K + 1) E abs(e)^2 / x^2. Rayleigh fading has K = 0.
    """
    floor = weakest_fading(scenario)
    if floor > 0.0:
        return math.sqrt(variance * math.log(1.0 / failure) / floor)
    direct = scenario.radio.direct_path
    return math.sqrt((direct + 1.0) * variance / failure)
