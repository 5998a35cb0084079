"""Shared by the tests of impairments: slots of a scenario on some air, as they are drawn."""

import numpy as np
from scipy import stats

from airmixml import Scenario
from airmixml.radio.draws import AirSetting, SlotTensors, draw_slots

INPUTS, CLASSES = 784, 10


def aired(*overrides: str) -> Scenario:
    """Return 200 workers of whom 50 send at a time, on that air."""
    return Scenario.preset("paper-iris").with_overrides(
        "workers.count=200", "radio.scheduled=50", "radio.slots=64", *overrides
    )


def setting_of(scenario: Scenario, distance_metres: np.ndarray | None = None) -> AirSetting:
    """Return the setting of workers that send 794 symbols, from 10 to 340 metres away unless said otherwise."""
    if distance_metres is None:
        distance_metres = np.linspace(10.0, 340.0, scenario.workers.count)
    return AirSetting.of(scenario, INPUTS, CLASSES, distance_metres)


def drawn_on(scenario: Scenario, slots: int = 64) -> SlotTensors:
    """Draw the first slots."""
    return draw_slots(setting_of(scenario), range(slots))


def gains_of(drawn: SlotTensors) -> np.ndarray:
    """Return g; slots x scheduled x pieces, or x 1."""
    assert drawn.gains is not None
    return drawn.gains.of(drawn.gains.parts[0]).numpy()


def has_deviation(sample: np.ndarray, deviation: float) -> bool:
    """Whether complex values are CN(0, deviation^2), by a Kolmogorov-Smirnov test of squares at the 1 in 10^4 level."""
    return bool(stats.kstest(np.abs(np.ravel(sample)) ** 2, stats.expon(scale=deviation**2).cdf).pvalue > 1e-4)
