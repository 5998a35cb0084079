"""``cells``: edges, brightness and colour of an image, cell by cell, as waves. For images of any kind.

Unlike ``gradients``, which is made for strokes, nothing is straightened, and what is bright or coloured counts beside
what has an edge. Chosen on held-out training images of Fashion-MNIST (docs/beyond.md).
"""

from typing import Any, Final

import numpy as np
from numpy.random import Generator

from airmixml.arrays import Singles
from airmixml.scenario import Workers
from airmixml.shapes import ImageShape
from airmixml.workers.encoder import HARD_OPERATION, Encoder, FeatureCost
from airmixml.workers.encoders.waves import waves, waves_cost

_DEFAULT_FEATURES: Final = 1024
_ANGLE: Final = 1.85  # two images at right angles to each other are so far apart, over sqrt(2)
_EDGES: Final = 8 * 7**2  # 8 directions around 7 x 7 places
_NUMBERS: Final = _EDGES + 7**2 + 64  # with brightness and, at most, colours
# Two differences, their magnitudes compared, and two directions into four cells each; brightness into four cells.
_OPERATIONS_PER_PIXEL: Final = 2 + 3 + 2 * 4 + 4


class Cells(Encoder):
    """Around 7 x 7 places the edges in 8 directions and the brightness; the colour of larger parts."""

    about = "edges, brightness and colour around 7 x 7 places, as random waves of them (images)"
    needs_images = True
    takes_device = True

    def feature_count(self, workers: Workers, input_dim: int) -> int:
        """Return 1024 or as many as the scenario says."""
        return workers.features or _DEFAULT_FEATURES

    def features(
        self, workers: Workers, unit_inputs: Singles, image_shape: ImageShape, rng: Generator, device: str = "cpu"
    ) -> Singles:
        """Return the waves; samples x features."""
        # Here: an account needs the number of features, but no torch.
        from airmixml.workers.encoders.image_features import cell_numbers_of_all, in_planes

        found = cell_numbers_of_all(in_planes(unit_inputs, image_shape, device)).cpu()
        return waves(np.float32(_ANGLE) * found.numpy(), self.feature_count(workers, unit_inputs.shape[1]), rng)

    def graph(self, workers: Workers, input_dim: int, image_shape: ImageShape, rng: Generator) -> Any:
        """Return the waves as a torch module."""
        from airmixml.workers.encoders.modules import CellWaves

        return CellWaves(image_shape, _ANGLE, self.feature_count(workers, input_dim), rng)

    def cost(self, workers: Workers, input_dim: int) -> FeatureCost:
        """Gradients, roots and norms of up to 512 numbers, then the waves; channels are added up first."""
        then = waves_cost(_NUMBERS, self.feature_count(workers, input_dim))
        operations = _OPERATIONS_PER_PIXEL * input_dim + 4 * _NUMBERS + 2 * HARD_OPERATION * _EDGES
        return FeatureCost(
            multiply_accumulates=operations + then.multiply_accumulates,
            constant_bytes=then.constant_bytes,
            working_numbers=then.working_numbers,
        )


CELLS: Final = Cells()
