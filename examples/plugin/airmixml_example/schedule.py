"""A schedule: all workers in turn."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from airmixml.radio.schedules import Schedule

Chances = Callable[[int], NDArray[np.float64]]


class InTurn(Schedule):
    """Round robin: no worker sends again before all others have."""

    about = "all workers in turn"

    def pick(self, slots: NDArray[np.int64], scheduled: int, workers: int, chances: Chances) -> NDArray[np.int64]:
        """Return the workers of each slot; slots x scheduled."""
        return (slots[:, None] * scheduled + np.arange(scheduled)) % workers

    def most_participations(self, slots: int, scheduled: int, workers: int) -> int:
        """Return the slots of the worker that sends most often."""
        return -(-slots * scheduled // workers)
