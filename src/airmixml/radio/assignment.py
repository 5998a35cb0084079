"""Which scheduled worker gets which mixing ratio (Algorithm 1, line 8)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def assign_randomly(ratios: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Deal the ratios of each slot out in random order; slots x scheduled."""
    return rng.permuted(ratios, axis=1)


def assign_max_min(ratios: NDArray[np.float64], magnitude: NDArray[np.float64]) -> NDArray[np.float64]:
    """Deal the ratios out so that min_i |h_i|^2 / q_i^2 is as large as it can be; slots x scheduled.

    Sorting both the same way does it: wherever a stronger channel holds a smaller ratio than a weaker one, exchanging
    the two does not lower the minimum.
    """
    assigned = np.empty_like(ratios)
    np.put_along_axis(assigned, np.argsort(magnitude, axis=1, kind="stable"), np.sort(ratios, axis=1), axis=1)
    return assigned


def assign_ratios(
    assignment: str,
    ratios: NDArray[np.float64],
    magnitude: NDArray[np.float64],
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """Assign by the named rule; slots x scheduled."""
    if assignment == "max-min":
        return assign_max_min(ratios, magnitude)
    return assign_randomly(ratios, rng)
