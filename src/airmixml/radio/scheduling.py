"""Which workers transmit in which slot: |N_t| of N, uniform, without replacement (Algorithm 1, line 5)."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["draw_schedule"]

_SPARE_DRAWS: Final = 4
_DENSE_CELLS: Final = 4_000_000


def draw_schedule(slots: int, scheduled: int, workers: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw the scheduled workers of each slot in random order; shape slots x scheduled."""
    if scheduled * 4 > workers:
        return _by_shuffling(slots, scheduled, workers, rng)
    return _by_skipping_repeats(slots, scheduled, workers, rng)


def _by_shuffling(slots: int, scheduled: int, workers: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Shuffle all workers and take the first; a few slots at a time, so that memory follows the workers."""
    chosen = np.empty((slots, scheduled), dtype=np.int64)
    step = max(1, _DENSE_CELLS // workers)
    for first in range(0, slots, step):
        rows = min(step, slots - first)
        everyone = np.broadcast_to(np.arange(workers), (rows, workers))
        chosen[first : first + rows] = rng.permuted(everyone, axis=1)[:, :scheduled]
    return chosen


def _by_skipping_repeats(slots: int, scheduled: int, workers: int, rng: np.random.Generator) -> NDArray[np.int64]:
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


def _first_occurrences(drawn: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Mark the first occurrence of each value in its row; same shape."""
    order = np.argsort(drawn, axis=1, kind="stable")
    ascending = np.take_along_axis(drawn, order, axis=1)
    repeated = np.zeros(drawn.shape, dtype=bool)
    np.put_along_axis(repeated[:, :], order[:, 1:], ascending[:, 1:] == ascending[:, :-1], axis=1)
    return ~repeated
