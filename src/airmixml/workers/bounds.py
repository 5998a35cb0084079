"""Declared bounds of the inputs: one pair per feature, given by whoever writes the scenario."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from airmixml.errors import DataError, ScenarioError

__all__ = ["declare_bounds"]


def declare_bounds(
    lower: Sequence[float],
    upper: Sequence[float],
    *,
    features: int,
    lower_name: str = "workers.input_lower",
    upper_name: str = "workers.input_upper",
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return lower and upper bounds with one entry per feature; one given value serves all features."""
    missing = [name for name, values in ((lower_name, lower), (upper_name, upper)) if len(values) == 0]
    if missing:
        raise DataError(
            f"{' and '.join(missing)}: must be declared for your own data, one value for all inputs or one "
            f"for each of the {features}; bounds measured on private samples would leak them, so write down "
            "what you know beforehand"
        )
    lower_bounds = _one_per_feature(lower_name, lower, features)
    upper_bounds = _one_per_feature(upper_name, upper, features)
    # Overflow gives an infinite width, which is refused below with the rest.
    with np.errstate(over="ignore", invalid="ignore"):
        width = upper_bounds - lower_bounds
    wrong = np.flatnonzero(~((width > 0) & np.isfinite(width)))
    if wrong.size:
        place = int(wrong[0])
        raise ScenarioError(
            f"{upper_name} = {upper_bounds[place]:g} for input {place + 1}: must be above {lower_name} = "
            f"{lower_bounds[place]:g}, at a finite distance; correct the two"
        )
    return lower_bounds, upper_bounds


def _one_per_feature(name: str, values: Sequence[float], features: int) -> NDArray[np.float64]:
    if len(values) not in (1, features):
        raise ScenarioError(
            f"{name} has {len(values)} values: must have 1, which serves all inputs, or {features}, one for each input"
        )
    return np.array(np.broadcast_to(np.asarray(values, dtype=np.float64), (features,)))
