"""How much of a signal arrives without fading, and the weakest channel that a sending worker may have.

Apart from the channel, whose draws need torch.
"""

import math

import numpy as np

from airmixml.arrays import Doubles
from airmixml.impairments.fading_floor import weakest_fading
from airmixml.impairments.shadowing import deepest_shadow, draw_shadowing, lightest_shadow
from airmixml.scenario import Scenario
from airmixml.units import db_to_ratio


def path_gain(distance_metres: Doubles, path_loss_exponent: float, unit_path_loss_db: float) -> Doubles:
    """Return sqrt(beta_U) d^(-n/2), the amplitude gain without fading; same shape as the distances."""
    return np.asarray(math.sqrt(db_to_ratio(unit_path_loss_db)) * distance_metres ** (-path_loss_exponent / 2.0))


def worker_path_gain(scenario: Scenario, distance_metres: Doubles) -> Doubles:
    """Return the same of all workers of a scenario, with the shadows that they are in; shape workers."""
    radio = scenario.radio
    gain = path_gain(distance_metres, radio.path_loss_exponent, radio.unit_path_loss_db)
    return gain * draw_shadowing(scenario, len(gain)) if scenario.air.shadowing_db else gain


def weakest_gain(scenario: Scenario, distance_metres: Doubles | None = None) -> float:
    """Return the power gain of the weakest channel a sending worker may have; 0 if fading leaves no floor.

    Without fading that is the farthest corner of the square, or the farthest of the given workers, in the deepest
    shadow. Where workers in a fade stay silent it is that times the least fading of those who send.
    """
    workers = scenario.workers
    if scenario.radio.fading != "none" and scenario.air.truncation_db == -math.inf:
        return 0.0
    corner = max(workers.side_metres / math.sqrt(2.0), workers.min_distance_metres)
    farthest = corner if distance_metres is None else max(corner, float(distance_metres.max()))
    return weakest_fading(scenario) * deepest_shadow(scenario) * power_gain(scenario, farthest)


def power_gain(scenario: Scenario, distance_metres: float) -> float:
    """Return the power gain of a channel of so many metres without fading and shadows."""
    radio = scenario.radio
    return float(path_gain(np.array([distance_metres]), radio.path_loss_exponent, radio.unit_path_loss_db)[0]) ** 2


def best_power_gain(scenario: Scenario, distance_metres: float) -> float:
    """Return the power gain of the best channel of so many metres without fading: in the lightest shadow."""
    return power_gain(scenario, distance_metres) * lightest_shadow(scenario)
