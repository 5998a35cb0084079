"""``projection``: random sums of the inputs."""

import math
from typing import Final

import numpy as np

from airmixml.arrays import Singles
from airmixml.scenario import Workers
from airmixml.workers.encoder import Encoder, FeatureCost, ImageShape

_DEFAULT_FEATURES: Final = 64


class Projection(Encoder):
    """Sums of all inputs, each with a random sign, scaled to keep squared norms on average."""

    about = "sums of all inputs with random signs"

    def feature_count(self, workers: Workers, input_dim: int) -> int:
        """Return 64 or as many as the scenario says."""
        return workers.features or _DEFAULT_FEATURES

    def features(
        self, workers: Workers, unit_inputs: Singles, image_shape: ImageShape, rng: np.random.Generator
    ) -> Singles:
        """Return the sums; samples x features."""
        inputs = unit_inputs.shape[1]
        count = self.feature_count(workers, inputs)
        signs = rng.choice(np.array([-1.0, 1.0], dtype=np.float32), size=(inputs, count))
        return np.asarray(unit_inputs @ signs / np.float32(math.sqrt(count)))

    def cost(self, workers: Workers, input_dim: int) -> FeatureCost:
        """One addition and one stored sign for each feature and input."""
        additions = self.feature_count(workers, input_dim) * input_dim
        return FeatureCost(multiply_accumulates=additions, constant_bytes=math.ceil(additions / 8))


PROJECTION: Final = Projection()
