"""``dct`` and ``projection``: sums of the inputs, weighted by cosines of low frequency or by random signs."""

import math
from typing import Any, Final

import numpy as np
from numpy.random import Generator

from airmixml.arrays import ImageShape, Singles, planes
from airmixml.scenario import Workers
from airmixml.workers.encoder import FLOAT_BYTES, Encoder, FeatureCost

_ROWS_AT_ONCE: Final = 8192


class Linear(Encoder):
    """An encoder that is a product with a matrix."""

    default_features = 64

    def graph(self, workers: Workers, input_dim: int, image_shape: ImageShape, rng: Generator) -> Any:
        import torch

        found = self.features(workers, np.eye(input_dim, dtype=np.float32), image_shape, rng)
        matrix = torch.from_numpy(found.copy())
        return lambda inputs: inputs @ matrix


class Cosines(Linear):
    """Cosine coefficients, of rows and columns of an image together; all of them would keep every norm."""

    about = "cosine coefficients of lowest frequency"

    def feature_count(self, workers: Workers, input_dim: int) -> int:
        return min(super().feature_count(workers, input_dim), input_dim)

    def features(self, workers: Workers, unit_inputs: Singles, image_shape: ImageShape, rng: Generator) -> Singles:
        """Return the coefficients by frequency, rows first among equals, channels alike; samples x features."""
        from scipy.fft import dctn

        channels, height, width = planes(image_shape or (1, unit_inputs.shape[1]))
        frequency = np.add.outer(np.arange(height) / height, np.arange(width) / width)
        frequency = np.tile(frequency.ravel(), channels)
        lowest = np.argsort(frequency, kind="stable")[: self.feature_count(workers, unit_inputs.shape[1])]
        parts = [
            dctn(some.reshape(-1, channels, height, width), axes=(2, 3), norm="ortho").reshape(len(some), -1)[:, lowest]
            for some in np.array_split(unit_inputs, max(1, len(unit_inputs) // _ROWS_AT_ONCE))
        ]
        return np.concatenate(parts).astype(np.float32)

    def cost(self, workers: Workers, input_dim: int) -> FeatureCost:
        count = self.feature_count(workers, input_dim)
        return FeatureCost(multiply_accumulates=count * input_dim, constant_bytes=FLOAT_BYTES * input_dim)


class Projection(Linear):
    """Sums of all inputs, each with a random sign, scaled to keep squared norms on average."""

    about = "sums of all inputs with random signs"

    def features(self, workers: Workers, unit_inputs: Singles, image_shape: ImageShape, rng: Generator) -> Singles:
        inputs = unit_inputs.shape[1]
        count = self.feature_count(workers, inputs)
        signs = rng.choice(np.array([-1.0, 1.0], dtype=np.float32), size=(inputs, count))
        return np.asarray(unit_inputs @ signs / np.float32(math.sqrt(count)))

    def cost(self, workers: Workers, input_dim: int) -> FeatureCost:
        additions = self.feature_count(workers, input_dim) * input_dim
        return FeatureCost(multiply_accumulates=additions, constant_bytes=math.ceil(additions / 8))


DCT: Final = Cosines()
PROJECTION: Final = Projection()
