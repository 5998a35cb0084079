"""A fading: Nakagami's, between Rayleigh fading (m = 1) and none (m infinite)."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv

from airmixml.impairments.fading import Fading


class Nakagami(Fading):
    """The power of a channel over its mean has a gamma law of shape m."""

    about = "Nakagami fading, m = 2 unless an object says otherwise"

    def __init__(self, m: float = 2.0) -> None:
        self.m = m

    def quantile(self, chances: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the powers below which it lies with these probabilities."""
        return np.asarray(gammaincinv(self.m, chances) / self.m)
