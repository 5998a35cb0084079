"""Short names for the arrays that pass between the rooms; each docstring gives their shapes."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from airmixml.errors import PluginError

Doubles = NDArray[np.float64]
Singles = NDArray[np.float32]
Integers = NDArray[np.int64]


def own_numbers(
    make: Callable[[], object], shape: tuple[int, ...], fits: Callable[[Doubles], NDArray[np.bool_]], refusal: str
) -> Doubles:
    """Return the numbers that an object of a user makes; refuse those of another shape, and those that do not fit."""
    try:
        found = np.asarray(make(), dtype=np.float64)
    except (TypeError, ValueError, NotImplementedError):
        found = np.full((), np.nan)
    if found.shape != shape or not np.all(fits(found)):
        raise PluginError(refusal)
    return found
