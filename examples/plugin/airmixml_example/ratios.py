"""Mixing ratios: shares that fall by half from one worker to the next, in random order."""

import numpy as np
from numpy.typing import NDArray

from airmixml.radio.mixing import Ratios


class Halving(Ratios):
    """The largest share is about one half, however many workers send."""

    about = "each share half of the one before"

    def shares(self, chances: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the same shares in every slot; they are dealt out in random order."""
        weights = 0.5 ** np.arange(chances.shape[1])
        return np.tile(weights / weights.sum(), (len(chances), 1))
