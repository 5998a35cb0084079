"""Shadowing: what stands between a worker and the server, log-normal and the same for a whole run.

A worker's path loss is that of its distance and a normal number of decibels of standard deviation ``air.shadowing_db``
(3GPP TR 38.901, 7.4.1), cut at three standard deviations: one worker in 370 lies beyond, and a worker in so deep a
shadow would be served by another cell. The cut gives path loss a floor, which power limits and hidden schedules rest
on. Workers know their path loss and invert it, so that it costs power and no privacy.
"""

from typing import Final

import numpy as np
from scipy.special import ndtr, ndtri

from airmixml.arrays import Doubles, db_to_ratio
from airmixml.scenario import Scenario
from airmixml.streams import Streams

_CHAPTER, _TO_LISTENER = 2, 3
_CUT: Final = 3.0  # standard deviations


def draw_shadowing(scenario: Scenario, workers: int, *, to_listener: bool = False) -> Doubles:
    """Draw the amplitude gain of every worker's shadow, towards the server or a listener elsewhere; shape workers."""
    deviation_db = scenario.air.shadowing_db
    if not deviation_db:
        return np.ones(workers)
    share = Streams(scenario.seed).generator("air", _TO_LISTENER if to_listener else _CHAPTER).random(workers)
    lowest = ndtr(-_CUT)
    return np.asarray(10.0 ** (deviation_db * ndtri(lowest + share * (1.0 - 2.0 * lowest)) / 20.0))


def lightest_shadow(scenario: Scenario) -> float:
    """Return the power gain of a channel that is better than its distance tells by the most; 1 without shadowing."""
    return db_to_ratio(_CUT * scenario.air.shadowing_db)


def deepest_shadow(scenario: Scenario) -> float:
    """Return the power gain of the deepest shadow; 1 without."""
    return db_to_ratio(-_CUT * scenario.air.shadowing_db)
