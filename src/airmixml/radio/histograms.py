"""Counts of decibels and of how strong slots are, on the device of the slots, in memory that does not grow."""

import math
from typing import Final

import numpy as np
import torch

from airmixml.arrays import Doubles, Integers, as_tensor

# Steps of SlotStrengths; values that differ by rounding alone are one kind.
_STEP_DB: Final = 0.01
_LOWEST_DB: Final = -700.0
_STEPS: Final = 140_000
_SAME: Final = 1e-9


class DecibelHistogram:
    """Counts of values in dB, in steps of 0.1 dB from -600 to 600; zero power falls into the lowest step."""

    LOWEST_DB: Final = -600.0
    HIGHEST_DB: Final = 600.0
    STEP_DB: Final = 0.1

    def __init__(self) -> None:
        steps = round((self.HIGHEST_DB - self.LOWEST_DB) / self.STEP_DB)
        self._counts = torch.zeros(steps, dtype=torch.int64)
        self.edges_db: Doubles = np.linspace(self.LOWEST_DB, self.HIGHEST_DB, steps + 1)

    @property
    def counts(self) -> Integers:
        """How many values fell into each step; shape steps."""
        return self._counts.cpu().numpy()

    def add(self, values: torch.Tensor) -> None:
        """Count values of any shape; they are ratios or watts, not in dB yet."""
        steps_per_factor = 10.0 / self.STEP_DB
        step = values.flatten().log10().mul_(steps_per_factor).sub_(self.LOWEST_DB / self.STEP_DB)
        self._counts = _counted(self._counts, step.clamp_(0.0, len(self._counts) - 0.5).long())

    def quantile_db(self, share: float) -> float:
        """Return the middle of the step below which that share of the values lies."""
        counts = self.counts
        step = int(np.searchsorted(np.cumsum(counts), share * counts.sum()))
        return float(self.edges_db[min(step, len(counts) - 1)] + self.STEP_DB / 2.0)

    def merge(self, counts: Integers) -> None:
        """Add the ``counts`` of another one."""
        self._counts = self._counts + as_tensor(counts).to(self._counts)


class SlotStrengths:
    """Counts of beta max q^2, in steps of 0.01 dB, each at the upper end of its step: the side that hides less."""

    def __init__(self) -> None:
        self._counts = torch.zeros(_STEPS, dtype=torch.int64)
        self._range = torch.tensor([math.inf, 0.0], dtype=torch.float64)  # smallest and largest
        self._of_rounds: SlotStrengths | None = None  # counted apart: each kind may be exact by itself

    def add(self, received_watts: torch.Tensor, *, of_rounds: bool = False) -> None:
        """Count slots, or those of rounds; shape slots."""
        if of_rounds:
            self._of_rounds = self._of_rounds or SlotStrengths()
            self._of_rounds.add(received_watts)
            return
        ends = self._range.to(received_watts.device)
        smallest, largest = torch.aminmax(received_watts)
        self._range = torch.stack([torch.minimum(ends[0], smallest), torch.maximum(ends[1], largest)])
        step = received_watts.log10().mul_(10.0).sub_(_LOWEST_DB).div_(_STEP_DB).ceil_()
        self._counts = _counted(self._counts, step.clamp_(0, _STEPS - 1).long())

    def bounded(self, gain: float, in_rounds: tuple[float, ...]) -> tuple[tuple[float, ...], tuple[int, ...]]:
        """Return ``kinds`` with a bound on gains; rounds with one on their mean are one kind, as strong as any is."""
        (watts, counts), rounds = self._kinds(), self._of_rounds
        if rounds is None or not in_rounds:
            watts, counts = self.kinds()
            return tuple(gain * value for value in watts), counts
        more_watts, more_counts = rounds.kinds()
        return (*(gain * value for value in watts), in_rounds[-1] * max(more_watts)), (*counts, sum(more_counts))

    def kinds(self) -> tuple[tuple[float, ...], tuple[int, ...]]:
        """Return the strengths in watts, and how many slots had each; exact where all are equal, or all of rounds."""
        if self._of_rounds is None:
            return self._kinds()
        (watts, counts), (more_watts, more_counts) = self._kinds(), self._of_rounds.kinds()
        return (*watts, *more_watts), (*counts, *more_counts)

    def _kinds(self) -> tuple[tuple[float, ...], tuple[int, ...]]:
        counts, (smallest, largest) = self._counts.cpu().numpy(), self._range.tolist()
        if smallest >= largest * (1.0 - _SAME):
            return (largest,), (int(counts.sum()),)
        used = np.nonzero(counts)[0]
        upper_watts = 10.0 ** ((_LOWEST_DB + used * _STEP_DB) / 10.0)
        return tuple(np.minimum(upper_watts, largest).tolist()), tuple(counts[used].tolist())


def _counted(counts: torch.Tensor, steps: torch.Tensor) -> torch.Tensor:
    """Return the counts with one more for each step named, on the device of the steps; shape of the counts."""
    return counts.to(steps.device).add_(torch.bincount(steps, minlength=len(counts)))
