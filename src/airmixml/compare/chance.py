"""Whether two methods differ beyond chance: tested on the same test rows, with the same seeds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from airmixml.data import DataSet

LEVEL: Final = 0.05  # two-sided, for each pair


@dataclass(frozen=True, kw_only=True)
class RightRows:
    """Which test rows a model got right, "1" or "0" for each, and which one answer for all of them, the best, does.

    Methods with the same ``guess`` were tested on the same rows.
    """

    right: str
    guess: str

    @classmethod
    def of(cls, dataset: DataSet, predicted: NDArray[np.int64]) -> Self:
        """Return what was right of the classes predicted for the test rows."""
        from airmixml.runs.baselines import right_and_guessed  # here: it loads torch

        right, guess = ("".join("01"[int(each)] for each in rows) for rows in right_and_guessed(dataset, predicted))
        return cls(right=right, guess=guess)


@dataclass(frozen=True, kw_only=True)
class Difference:
    """By how much the first is more accurate than the second."""

    mean: float
    error: float  # standard error, over test rows and seeds
    p_value: float  # two-sided

    @property
    def beyond_chance(self) -> bool:
        """Whether the first is more accurate than chance explains."""
        return self.mean > 0.0 and self.p_value < LEVEL


def difference(first: Sequence[str], second: Sequence[str]) -> Difference:
    """Return how two differ that got these test rows right with each seed.

    One seed is McNemar's exact test. Of several, the error is that over seeds and that over rows, each row with its
    mean over the seeds: that shrinks with more seeds only where they draw other test rows. Degrees of freedom by Welch
    and Satterthwaite.
    """
    from scipy.stats import binomtest, t  # here: it takes a while to import

    seeds, rows = len(first), max(map(len, first))
    table = np.full((seeds, rows), np.nan)  # seeds may have more or fewer rows
    for place, pair in enumerate(zip(first, second, strict=True)):
        one, other = (np.frombuffer(text.encode(), dtype=np.int8) for text in pair)
        table[place, : len(one)] = one - other
    by_seed, by_row = np.nanmean(table, axis=1), np.nanmean(table, axis=0)
    mean = float(by_seed.mean())
    of_rows, of_seeds = float(by_row.var()) / rows, float(by_seed.var(ddof=1)) / seeds if seeds > 1 else 0.0
    error = math.sqrt(of_rows + of_seeds)
    if seeds == 1:
        for_first, for_second = int((table > 0.0).sum()), int((table < 0.0).sum())
        p_value = float(binomtest(for_first, for_first + for_second).pvalue) if for_first + for_second else 1.0
    elif error == 0.0:
        p_value = 0.0 if mean else 1.0
    else:
        freedom = error**4 / (of_rows**2 / max(rows - 1, 1) + of_seeds**2 / (seeds - 1))
        p_value = 2.0 * float(t.sf(abs(mean) / error, freedom))
    return Difference(mean=mean, error=error, p_value=p_value)
