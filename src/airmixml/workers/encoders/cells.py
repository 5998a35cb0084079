"""``cells``: edges, brightness and colour of an image, cell by cell, as waves. For images of any kind.

Unlike ``gradients``, which is made for strokes, nothing is straightened, and what is bright or coloured counts beside
what has an edge. Chosen on held-out training images of Fashion-MNIST (docs/beyond.md).
"""

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.random import Generator

from airmixml.arrays import Singles
from airmixml.scenario import Workers
from airmixml.shapes import ImageShape, planes
from airmixml.workers.encoder import HARD_OPERATION, Encoder, FeatureCost
from airmixml.workers.encoders.waves import waves, waves_cost

if TYPE_CHECKING:
    import torch

_DEFAULT_FEATURES: Final = 1024
_CELLS_ACROSS: Final = 7
_DIRECTIONS: Final = 8
_SHORTEST_SIDE: Final = 28  # larger images are averaged down: the edges of single pixels are noise there
_EDGE_POWER: Final = 0.4  # keeps a few bold edges from drowning the fine ones
_BRIGHTNESS_WEIGHT, _COLOUR_WEIGHT = 0.25, 0.5
_COLOUR_NUMBERS: Final = 64
_ANGLE: Final = 1.85  # two images at right angles to each other are so far apart, over sqrt(2)
_IMAGES_AT_ONCE: Final = 256
_TINY: Final = 1e-6
_NUMBERS: Final = (_DIRECTIONS + 1) * _CELLS_ACROSS**2 + _COLOUR_NUMBERS
# Two differences, their magnitudes compared, and two directions into four cells each; brightness into four cells.
_OPERATIONS_PER_PIXEL: Final = 2 + 3 + 2 * 4 + 4


class Cells(Encoder):
    """Around 7 x 7 places the edges in 8 directions and the brightness; the colour of larger parts."""

    about = "edges, brightness and colour around 7 x 7 places, as random waves of them (images)"
    needs_images = True

    def feature_count(self, workers: Workers, input_dim: int) -> int:
        """Return 1024 or as many as the scenario says."""
        return workers.features or _DEFAULT_FEATURES

    def features(self, workers: Workers, unit_inputs: Singles, image_shape: ImageShape, rng: Generator) -> Singles:
        """Return the waves; samples x features."""
        # Here: an account needs the number of features, but no torch.
        import torch

        assert image_shape is not None
        images = torch.from_numpy(np.ascontiguousarray(unit_inputs)).reshape(-1, *planes(image_shape))
        found = torch.cat([cell_numbers(some) for some in torch.split(images, _IMAGES_AT_ONCE)])
        return waves(np.float32(_ANGLE) * found.numpy(), self.feature_count(workers, unit_inputs.shape[1]), rng)

    def graph(self, workers: Workers, input_dim: int, image_shape: ImageShape, rng: Generator) -> Any:
        """Return the waves as a torch module."""
        from airmixml.workers.encoders.modules import CellWaves

        return CellWaves(image_shape, _ANGLE, self.feature_count(workers, input_dim), rng)

    def cost(self, workers: Workers, input_dim: int) -> FeatureCost:
        """Gradients, roots and norms of up to 512 numbers, then the waves; channels are added up first."""
        then = waves_cost(_NUMBERS, self.feature_count(workers, input_dim))
        operations = _OPERATIONS_PER_PIXEL * input_dim + 4 * _NUMBERS + 2 * HARD_OPERATION * _CELLS_ACROSS**2 * 8
        return FeatureCost(
            multiply_accumulates=operations + then.multiply_accumulates,
            constant_bytes=then.constant_bytes,
            working_numbers=then.working_numbers,
        )


def cell_numbers(images: "torch.Tensor") -> "torch.Tensor":
    """Return what is seen in the cells, of norm 1; images x numbers (441 of a grey image of 7 x 7 pixels or more).

    Images in [0, 1] are images x channels x height x width. Each block of numbers has a norm of its own, whatever the
    contrast; colour counts as much as it is strong beside the brightness.
    """
    import torch
    from torch.nn import functional

    from airmixml.workers.encoders.image_features import compass_edges, pool

    times = max(1, min(images.shape[2:]) // _SHORTEST_SIDE)
    if times > 1:
        images = functional.avg_pool2d(images, times, ceil_mode=True, count_include_pad=False)
    channels, shortest = images.shape[1], min(images.shape[2:])
    grey = images.mean(dim=1, keepdim=True)
    cells = min(_CELLS_ACROSS, max(1, shortest // 2))
    edges = pool(compass_edges(grey[:, 0]), cells, 1.0 / cells).clamp_(min=0.0) ** _EDGE_POWER
    parts = [_unit(edges), _BRIGHTNESS_WEIGHT * _unit(pool(grey, cells, 1.0 / cells))]
    if channels > 1:
        across = min(max(1, math.isqrt(_COLOUR_NUMBERS // channels)), shortest)
        level = pool(grey, across, 1.0 / across).norm(dim=1, keepdim=True)
        parts.append(_COLOUR_WEIGHT * pool(images - grey, across, 1.0 / across) / level.clamp(min=_TINY))
    numbers = torch.cat(parts, dim=1)
    return _unit(numbers - numbers.mean(dim=1, keepdim=True))


def _unit(vectors: "torch.Tensor") -> "torch.Tensor":
    import torch

    return torch.div(vectors, vectors.norm(dim=1, keepdim=True).clamp(min=_TINY))


CELLS: Final = Cells()
