"""A transmission without data: who is scheduled, with which ratios and powers, tallied as the real one would be."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from airmixml.progress import Progress, silent
from airmixml.radio.draws import AirSetting, draw_ahead
from airmixml.radio.tally import Tally
from airmixml.scenario import Scenario
from airmixml.streams import Streams
from airmixml.workers import place_workers

__all__ = ["placed_distances", "rehearse"]


def rehearse(scenario: Scenario, input_dim: int, label_dim: int, *, progress: Progress = silent) -> Tally:
    """Return the tally of all slots, the same that ``simulate`` with that seed would have.

    Args:
        scenario: what to rehearse; its data set is not read.
        input_dim: d_X.
        label_dim: d_Y.
        progress: told how many slots are done.
    """
    distance_metres = placed_distances(scenario)
    setting = AirSetting.of(scenario, input_dim, label_dim, distance_metres)
    tally = Tally(scenario, input_dim, label_dim, distance_metres)
    for draws in draw_ahead(setting, noise=False):
        tally.add_draws(draws)
        progress("rehearsal", tally.slots, scenario.radio.slots)
    return tally


def placed_distances(scenario: Scenario) -> NDArray[np.float64]:
    """Return how far from the server the seed places each worker; shape workers."""
    workers = scenario.workers
    return place_workers(
        workers.count, workers.side_metres, workers.min_distance_metres, Streams(scenario.seed).generator("placement")
    )
