"""How much of a signal arrives without fading, by distance; one class for each kind, behind ``PATH_LOSSES``.

Bounds for privacy take the farthest or the nearest place that there may be: a loss must not fall with the distance.
Apart from the channel, whose draws need torch.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from airmixml.arrays import Doubles, db_to_ratio, own_numbers
from airmixml.errors import PluginError
from airmixml.impairments.fading import deepest_shadow, draw_shadowing, lightest_shadow, weakest_fading

if TYPE_CHECKING:
    from airmixml.scenario import Radio, Scenario

_TRIED: Final = 200  # distances at which a loss of one's own is looked at where a bound rests on it


class PathLoss:
    """A loss in decibels that follows from the distance alone."""

    about: str

    def loss_db(self, distance_metres: Doubles) -> Doubles:
        """Return by how many decibels power falls over each distance; same shape. It must not fall with distance."""
        raise NotImplementedError

    def gain(self, radio: Radio, distance_metres: Doubles) -> Doubles:
        """Return the amplitude gain at each distance; same shape."""
        named = f"radio.path_loss = {type(self).__name__}: its loss_db"
        wrong = f"{named} must return one finite number for each distance"
        loss = own_numbers(lambda: self.loss_db(distance_metres), distance_metres.shape, np.isfinite, wrong)
        if np.any(np.diff(loss[np.argsort(distance_metres)]) < 0.0):
            raise PluginError(f"{named} falls with the distance; must rise or stay the same")
        return np.asarray(10.0 ** (-loss / 20.0))


class _PowerLaw(PathLoss):
    """beta_U d^-n, the paper's."""

    about = "radio.path_loss_exponent and radio.unit_path_loss_db"

    def gain(self, radio: Radio, distance_metres: Doubles) -> Doubles:
        unit = math.sqrt(db_to_ratio(radio.unit_path_loss_db))
        return np.asarray(unit * distance_metres ** (-radio.path_loss_exponent / 2.0))


POWER_LAW: Final = _PowerLaw()


def path_gain(radio: Radio, distance_metres: Doubles) -> Doubles:
    """Return the amplitude gain without fading and shadows; same shape as the distances."""
    gain: Doubles = radio.path_loss_kind.gain(radio, distance_metres)
    return gain


def worker_path_gain(scenario: Scenario, distance_metres: Doubles) -> Doubles:
    """Return the same of all workers of a scenario, with the shadows that they are in; shape workers."""
    gain = path_gain(scenario.radio, distance_metres)
    return gain * draw_shadowing(scenario, len(gain)) if scenario.air.shadowing_db else gain


def weakest_gain(scenario: Scenario, distance_metres: Doubles | None = None) -> float:
    """Return the power gain of the weakest channel a sending worker may have; 0 if fading leaves no floor.

    That is the farthest corner, or the farthest of the given workers, in the deepest shadow and the deepest fade sent
    in.
    """
    if scenario.radio.fading != "none" and scenario.air.truncation_db == -math.inf:
        return 0.0
    corner = scenario.workers.farthest_metres
    farthest = corner if distance_metres is None else max(corner, float(distance_metres.max()))
    nearest = min(scenario.workers.min_distance_metres, farthest)
    gain = float(path_gain(scenario.radio, _between(nearest, farthest))[-1])
    return weakest_fading(scenario) * deepest_shadow(scenario) * gain**2


def best_power_gain(scenario: Scenario, distance_metres: float) -> float:
    """Return the power gain of the best channel of at least so many metres without fading: in the lightest shadow."""
    distances = _between(distance_metres, max(distance_metres, scenario.workers.farthest_metres))
    return float(path_gain(scenario.radio, distances)[0]) ** 2 * lightest_shadow(scenario)


def _between(nearest: float, farthest: float) -> Doubles:
    """Return distances at which a loss that does not rise would show."""
    return np.linspace(nearest, farthest, _TRIED)
