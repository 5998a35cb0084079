"""Counts in decibels, in constant memory: of powers and ratios for pictures, of slots for the accountants."""

import math
from typing import Final

import numpy as np

from airmixml.arrays import Doubles, Integers

_STEP_DB: Final = 0.01
_LOWEST_DB: Final = -700.0
_STEPS: Final = 140_000
# Values that differ by rounding alone are one kind.
_SAME: Final = 1e-9


class DecibelHistogram:
    """Counts of values in dB, in steps of 0.1 dB from -600 to 600; zero power falls into the lowest step."""

    LOWEST_DB: Final = -600.0
    HIGHEST_DB: Final = 600.0
    STEP_DB: Final = 0.1

    def __init__(self) -> None:
        steps = round((self.HIGHEST_DB - self.LOWEST_DB) / self.STEP_DB)
        self.counts: Integers = np.zeros(steps, dtype=np.int64)
        self.edges_db: Doubles = np.linspace(self.LOWEST_DB, self.HIGHEST_DB, steps + 1)

    def add(self, values_db: Doubles) -> None:
        """Count values of any shape."""
        inside = np.clip(values_db.ravel(), self.LOWEST_DB, self.HIGHEST_DB - self.STEP_DB / 2.0)
        step = ((inside - self.LOWEST_DB) / self.STEP_DB).astype(np.int64)
        self.counts += np.bincount(step, minlength=len(self.counts))

    def quantile_db(self, share: float) -> float:
        """Return the middle of the step below which that share of the values lies."""
        step = int(np.searchsorted(np.cumsum(self.counts), share * self.counts.sum()))
        return float(self.edges_db[min(step, len(self.counts) - 1)] + self.STEP_DB / 2.0)


class SlotStrengths:
    """Counts of beta max q^2, in steps of 0.01 dB, each at the upper end of its step: the side that hides less."""

    def __init__(self) -> None:
        self._counts: Integers = np.zeros(_STEPS, dtype=np.int64)
        self._smallest, self._largest = math.inf, 0.0

    def add(self, received_watts: Doubles) -> None:
        """Count slots; shape slots."""
        self._smallest = min(self._smallest, float(received_watts.min()))
        self._largest = max(self._largest, float(received_watts.max()))
        with np.errstate(divide="ignore"):
            step = np.ceil((10.0 * np.log10(received_watts) - _LOWEST_DB) / _STEP_DB)
        self._counts += np.bincount(np.clip(step, 0, _STEPS - 1).astype(np.int64), minlength=_STEPS)

    def kinds(self) -> tuple[tuple[float, ...], tuple[int, ...]]:
        """Return the strengths in watts, and how many slots had each; exact where all are equal."""
        total = int(self._counts.sum())
        if self._smallest >= self._largest * (1.0 - _SAME):
            return (self._largest,), (total,)
        used = np.nonzero(self._counts)[0]
        upper_watts = 10.0 ** ((_LOWEST_DB + used * _STEP_DB) / 10.0)
        return (tuple(np.minimum(upper_watts, self._largest).tolist()), tuple(self._counts[used].tolist()))
