"""A path loss: free space up to a breakpoint, and twice the slope beyond, where the ground reflects."""

import numpy as np
from numpy.typing import NDArray

from airmixml.impairments.fading import PathLoss


class TwoSlopes(PathLoss):
    """20 dB per decade of distance, then 40."""

    about = "20 dB per decade up to 100 m, 40 dB beyond"

    def __init__(self, breakpoint_metres: float = 100.0) -> None:
        self.breakpoint_metres = breakpoint_metres

    def loss_db(self, distance_metres: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the loss over each distance."""
        beyond = np.maximum(distance_metres / self.breakpoint_metres, 1.0)
        return np.asarray(32.0 + 20.0 * np.log10(distance_metres) + 20.0 * np.log10(beyond))
