"""A transmission without data: who is scheduled, with which ratios and powers, tallied as the real one would be."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from airmixml.progress import Progress, silent
from airmixml.radio.draws import AirSetting, SlotDraws, chapter_count, draw_chapter
from airmixml.radio.tally import Tally
from airmixml.scenario import Scenario
from airmixml.streams import Streams
from airmixml.workers import place_workers

__all__ = ["placed_distances", "rehearse", "rehearsed_draws"]


def rehearsed_draws(setting: AirSetting, chapters: int) -> Iterator[SlotDraws]:
    """Yield the draws of the first chapters, without noise; a few are drawn ahead on other threads."""
    pending: deque[Future[SlotDraws]] = deque()
    threads = min(4, os.cpu_count() or 1)
    with ThreadPoolExecutor(threads, thread_name_prefix="airmix-rehearsal") as executor:
        for chapter in range(chapters):
            pending.append(executor.submit(draw_chapter, setting, chapter, noise=False))
            if len(pending) > 2 * threads:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


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
    for draws in rehearsed_draws(setting, chapter_count(scenario.radio.slots)):
        tally.add_draws(draws)
        progress("rehearsal", tally.slots, scenario.radio.slots)
    return tally


def placed_distances(scenario: Scenario) -> NDArray[np.float64]:
    """Return how far from the server the seed places each worker; shape workers."""
    workers = scenario.workers
    return place_workers(
        workers.count, workers.side_metres, workers.min_distance_metres, Streams(scenario.seed).generator("placement")
    )
