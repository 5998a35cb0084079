"""How the mean gain of all workers falls while a block lasts, as a server built for a class of hardware expects it.

Phases that drift apart leave less of a sum: E exp(j phi(t)) falls from the start of a block on. A pilot tells the mean
gain there; what follows is known from how large drifts are: exp(-(2 pi s t)^2 / 2) for carrier offsets of s Hz,
exp(-pi w t) for phase noise of linewidth w, J_0(2 pi f_D t) for workers that move.
"""

import math

import numpy as np
from scipy.special import j0

from airmixml.arrays import Doubles
from airmixml.impairments.frame import Frame
from airmixml.scenario import Scenario


def expected_drift(scenario: Scenario, frame: Frame) -> Doubles:
    """Return the expected mean gain of each piece over that of the piece beside its pilot; shape pieces."""
    seconds = np.array(frame.seconds)
    at_pilot = seconds[np.array(frame.pilot_pieces)[np.array(frame.pilots)]]
    return np.asarray(_expected(scenario, seconds) / _expected(scenario, at_pilot))


def _expected(scenario: Scenario, seconds: Doubles) -> Doubles:
    """Return E g so long after a resynchronisation; shape of the seconds. At least a half: noise is raised too."""
    air = scenario.air
    turns = 2.0 * math.pi * seconds
    log_gain = -0.5 * (air.frequency_offset_hz * turns) ** 2 - 0.5 * air.phase_noise_hz * turns
    scattered = 1.0
    if scenario.radio.fading == "rician":
        scattered = 1.0 / (1.0 + scenario.radio.rician_k)
    moved = 1.0 - scattered + scattered * j0(air.doppler_hz * turns)
    return np.asarray(np.maximum(np.exp(np.maximum(log_gain, -50.0)) * moved, 0.5))
