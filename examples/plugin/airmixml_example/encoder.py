"""An encoder: each input becomes four numbers that fill up one after the other, like a thermometer."""

import numpy as np
from numpy.typing import NDArray

from airmixml.scenario import Workers
from airmixml.workers import Encoder, FeatureCost

LEVELS = 4


class Thermometer(Encoder):
    """0.6 becomes (1, 1, 0.4, 0): a linear learner can then weigh low and high values differently."""

    about = "each input as four numbers that fill up one after the other"
    never_negative = True
    takes_features = False

    def feature_count(self, workers: Workers, input_dim: int) -> int:
        """Return four for each input."""
        return LEVELS * input_dim

    def features(
        self,
        workers: Workers,
        unit_inputs: NDArray[np.float32],
        image_shape: tuple[int, ...] | None,
        rng: np.random.Generator,
    ) -> NDArray[np.float32]:
        """Return the levels of inputs in [0, 1]; samples x features."""
        levels = LEVELS * unit_inputs[:, :, None] - np.arange(LEVELS, dtype=np.float32)
        return np.asarray(np.clip(levels, 0.0, 1.0), dtype=np.float32).reshape(len(unit_inputs), -1)

    def cost(self, workers: Workers, input_dim: int) -> FeatureCost:
        """One product and one difference for each number."""
        return FeatureCost(multiply_accumulates=2 * LEVELS * input_dim)
