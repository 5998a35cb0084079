"""Which workers transmit in which slot: |N_t| of N, uniform, without replacement (Algorithm 1, line 5).

With a limit on a worker's participations the slots are cut into rounds. In a round no worker sends twice: the seats of
all its slots together are one uniform sample without replacement. Rounds are independent of each other, and there are
no more of them than the limit. A limit of T gives rounds of one slot, the paper's schedule.

A Poisson schedule lets each worker decide by a coin of its own. As many as that would be are drawn, and seats that
nobody takes stay silent.
"""

from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from airmixml.arrays import Integers
from airmixml.privacy.design import binomial_quantile, slots_per_round
from airmixml.scenario import Scenario
from airmixml.streams import SLOTS_PER_CHAPTER, Streams

_SPARE_DRAWS: Final = 4
_DENSE_CELLS: Final = 4_000_000
# More workers than there are seats would toss heads in a slot with this probability: over 10^12 slots, the most there
# are, far below the smallest delta that a scenario with a Poisson schedule may ask for.
_NO_SEAT_LEFT: Final = 1e-30
NOBODY_SENT: Final = (
    "radio.scheduled: nobody tossed heads in any slot; schedule more workers on average, run more slots, or use "
    "another seed"
)


def draw_schedule(slots: int, scheduled: int, workers: int, rng: np.random.Generator) -> Integers:
    """Draw the scheduled workers of each slot in random order; shape slots x scheduled."""
    if scheduled * 4 > workers:
        return _by_shuffling(slots, scheduled, workers, rng)
    return _by_skipping_repeats(slots, scheduled, workers, rng)


@lru_cache(maxsize=64)
def seats_of(scenario: Scenario) -> int:
    """Return the most workers that may transmit in a slot: |N_t|, or what chance all but rules out to be exceeded."""
    scheduled, workers = scenario.radio.scheduled, scenario.workers.count
    if scenario.radio.schedule == "fixed":
        return scheduled
    return max(1, binomial_quantile(_NO_SEAT_LEFT, workers, scheduled / workers))


def presence_of(scenario: Scenario, streams: Streams, chapter: int, slots: int) -> NDArray[np.bool_]:
    """Draw which seats of a Poisson schedule are taken: Binomial(N, |N_t| / N) of them; slots x seats."""
    taken = streams.generator("ratios", chapter).binomial(
        scenario.workers.count, scenario.sampling_rate, size=(slots, 1)
    )
    return np.asarray(np.arange(seats_of(scenario)) < taken)


def draw_schedule_of(scenario: Scenario, streams: Streams, chapter: int, slots: int) -> Integers:
    """Draw the scheduled workers of a chapter, with the scenario's limit on participations; slots x scheduled."""
    radio, workers = scenario.radio, scenario.workers.count
    if not radio.max_participations:
        return draw_schedule(slots, seats_of(scenario), workers, streams.generator("schedule", chapter))
    length = slots_per_round(radio.slots, radio.max_participations)
    rounds = max(1, SLOTS_PER_CHAPTER // length)
    first = chapter * SLOTS_PER_CHAPTER
    books = range(first // (rounds * length), (first + slots - 1) // (rounds * length) + 1)
    drawn = np.concatenate([_draw_book(streams, book, rounds, length, radio.scheduled, workers) for book in books])
    offset = first - books.start * rounds * length
    return drawn[offset : offset + slots]


@lru_cache(maxsize=2)
def _draw_book(streams: Streams, book: int, rounds: int, length: int, scheduled: int, workers: int) -> Integers:
    """Draw some rounds in one go, about a chapter of slots or one long round; (rounds * length) x scheduled."""
    seats = draw_schedule(rounds, length * scheduled, workers, streams.generator("schedule", book))
    return seats.reshape(rounds * length, scheduled)


def _by_shuffling(slots: int, scheduled: int, workers: int, rng: np.random.Generator) -> Integers:
    """Shuffle all workers and take the first; a few slots at a time, so that memory follows the workers."""
    chosen = np.empty((slots, scheduled), dtype=np.int64)
    step = max(1, _DENSE_CELLS // workers)
    for first in range(0, slots, step):
        rows = min(step, slots - first)
        everyone = np.broadcast_to(np.arange(workers), (rows, workers))
        chosen[first : first + rows] = rng.permuted(everyone, axis=1)[:, :scheduled]
    return chosen


def _by_skipping_repeats(slots: int, scheduled: int, workers: int, rng: np.random.Generator) -> Integers:
    """Take the first ``scheduled`` distinct values of a sequence of independent draws, which is exactly uniform."""
    drawn = rng.integers(workers, size=(slots, scheduled + _SPARE_DRAWS))
    chosen = np.empty((slots, scheduled), dtype=np.int64)
    unfinished = np.arange(slots)
    while True:
        new = _first_occurrences(drawn)
        order = np.cumsum(new, axis=1)
        complete = order[:, -1] >= scheduled
        wanted = new[complete] & (order[complete] <= scheduled)
        chosen[unfinished[complete]] = drawn[complete][wanted].reshape(-1, scheduled)
        if complete.all():
            return chosen
        unfinished, drawn = unfinished[~complete], drawn[~complete]
        more = rng.integers(workers, size=(len(unfinished), scheduled // 4 + _SPARE_DRAWS))
        drawn = np.concatenate([drawn, more], axis=1)


def _first_occurrences(drawn: Integers) -> NDArray[np.bool_]:
    """Mark the first occurrence of each value in its row; same shape."""
    order = np.argsort(drawn, axis=1, kind="stable")
    ascending = np.take_along_axis(drawn, order, axis=1)
    repeated = np.zeros(drawn.shape, dtype=bool)
    np.put_along_axis(repeated[:, :], order[:, 1:], ascending[:, 1:] == ascending[:, :-1], axis=1)
    return ~repeated
