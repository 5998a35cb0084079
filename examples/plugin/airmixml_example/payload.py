"""A payload: samples without outliers, since every number of an input is clipped before it is sent."""

import numpy as np

from airmixml.arrays import Integers
from airmixml.workers.payloads import Samples
from airmixml.workers.signal import Vectors

LARGEST = 0.5


class ClippedSamples(Samples):
    """Clipping is a projection on a convex set: no norm and no distance grows, so that the bounds of samples hold."""

    about = "samples with every number of the input clipped to 0.5"

    def vectors(self, index: Integers) -> Vectors:
        """Return what workers with these samples of the pool send; workers x symbols."""
        sent = super().vectors(index)
        inputs = sent[:, : self.signal.input_symbols]
        np.clip(inputs, -LARGEST, LARGEST, out=inputs)
        return sent
