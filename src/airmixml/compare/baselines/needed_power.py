"""The least power that a baseline needs: more would cost energy and gain nothing.

A method whose power no privacy target sets sends so strongly that the receiver noise is 20 dB below what limits it
anyway: the noise that workers add themselves, or, where they add none, the samples.
"""

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from airmixml.compare.baselines.rounds import power_gains
from airmixml.scenario import Scenario
from airmixml.units import db_to_ratio
from airmixml.workers import Population

RECEIVER_NOISE_SHARE: Final = db_to_ratio(-20.0)


def worker_gains(scenario: Scenario, population: Population) -> NDArray[np.float64]:
    """Return |h|^2 of every worker in the one slot in which it sends; shape workers."""
    gains = power_gains(replace(scenario.radio, slots=1), scenario.seed, population.distance_metres)
    return np.asarray(gains[0])
