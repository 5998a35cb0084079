"""An assignment: the largest ratio to the weakest channel, so that distant workers are learned from most."""

import numpy as np
from numpy.typing import NDArray

from airmixml.radio.mixing import Assignment

Array = NDArray[np.float64]


class ToTheWeakest(Assignment):
    """The opposite of max-min."""

    about = "the largest ratio to the weakest channel"

    def assign(self, ratios: Array, magnitude: Array, chances: Array) -> Array:
        """Return the ratios in the order of the workers; slots x scheduled."""
        rank = (-magnitude).argsort(axis=1).argsort(axis=1)
        return np.take_along_axis(np.sort(ratios, axis=1), rank, axis=1)
