"""Histograms in decibels, in constant memory."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray


class DecibelHistogram:
    """Counts of values in dB, in steps of 0.1 dB from -600 to 600; zero power falls into the lowest step."""

    LOWEST_DB: Final = -600.0
    HIGHEST_DB: Final = 600.0
    STEP_DB: Final = 0.1

    def __init__(self) -> None:
        steps = round((self.HIGHEST_DB - self.LOWEST_DB) / self.STEP_DB)
        self.counts: NDArray[np.int64] = np.zeros(steps, dtype=np.int64)
        self.edges_db: NDArray[np.float64] = np.linspace(self.LOWEST_DB, self.HIGHEST_DB, steps + 1)

    def add(self, values_db: NDArray[np.float64]) -> None:
        """Count values of any shape."""
        inside = np.clip(values_db.ravel(), self.LOWEST_DB, self.HIGHEST_DB - self.STEP_DB / 2.0)
        step = ((inside - self.LOWEST_DB) / self.STEP_DB).astype(np.int64)
        self.counts += np.bincount(step, minlength=len(self.counts))

    def quantile_db(self, share: float) -> float:
        """Return the middle of the step below which that share of the values lies."""
        step = int(np.searchsorted(np.cumsum(self.counts), share * self.counts.sum()))
        return float(self.edges_db[min(step, len(self.counts) - 1)] + self.STEP_DB / 2.0)
