"""``convolution``, ``gradients`` and ``cells``, what is seen around some places of an image; and ``dct``.

``cells`` is for images of any kind: unlike with ``gradients``, which is made for strokes, nothing is straightened, and
what is bright or coloured counts beside what has an edge (docs/beyond.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.random import Generator

from airmixml.arrays import ImageShape, Singles, planes
from airmixml.scenario import Workers
from airmixml.workers.encoder import FLOAT_BYTES, HARD_OPERATION, Encoder, FeatureCost
from airmixml.workers.encoders import random_features

if TYPE_CHECKING:
    from airmixml.workers.encoders.image_features import OnImages

_PLACES: Final = 16
_CELLS_PER_PIXEL: Final = 4  # around which it counts
_FILTER_SIDE: Final = 5
_DIRECTIONS: Final = 8
_HISTOGRAM: Final = _DIRECTIONS * _PLACES
# Adding up the moments of an image, and interpolating each pixel between two.
_STRAIGHTENING_PER_PIXEL: Final = 5 + 3
# Two differences, their magnitudes compared, and two directions into four cells each.
_EDGES_PER_PIXEL: Final = 2 + 3 + 2 * _CELLS_PER_PIXEL
_ANGLE: Final = 1.85  # two images at right angles to each other are so far apart, over sqrt(2)
_CELL_EDGES: Final = _DIRECTIONS * 7**2
_CELL_NUMBERS: Final = _CELL_EDGES + 7**2 + 64  # with brightness and, at most, colours


class ImageEncoder(Encoder):
    """Features of images, computed by torch, some images at a time."""

    needs_images = True
    takes_device = True

    def on_images(self, workers: Workers, rng: Generator) -> OnImages:
        """Return what makes features of images x channels x height x width; images x features."""
        raise NotImplementedError

    def features(
        self, workers: Workers, unit_inputs: Singles, image_shape: ImageShape, rng: Generator, device: str = "cpu"
    ) -> Singles:
        from airmixml.workers.encoders.image_features import in_blocks  # here: an account needs no torch

        return in_blocks(self.on_images(workers, rng), unit_inputs, image_shape, device)

    def graph(self, workers: Workers, input_dim: int, image_shape: ImageShape, rng: Generator) -> Any:
        from airmixml.workers.encoders.image_features import in_planes

        compute = self.on_images(workers, rng)
        return lambda inputs: compute(in_planes(inputs, image_shape))


class Convolution(ImageEncoder):
    """Each random filter of 5 x 5 gives 16 features."""

    about = "random filters, their positive answers added up around 4 x 4 places (images)"
    never_negative = True
    default_features = 32 * _PLACES

    def _filter_count(self, workers: Workers) -> int:
        return math.ceil(self.feature_count(workers, 0) / _PLACES)

    def on_images(self, workers: Workers, rng: Generator) -> OnImages:
        from airmixml.workers.encoders.image_features import filter_sums

        filters, count = random_filters(self._filter_count(workers), rng), self.feature_count(workers, 0)
        return lambda images: filter_sums(images, filters)[:, :count]

    def cost(self, workers: Workers, input_dim: int) -> FeatureCost:
        filters, pixels_per_filter = self._filter_count(workers), _FILTER_SIDE**2
        return FeatureCost(
            multiply_accumulates=filters * (pixels_per_filter + _CELLS_PER_PIXEL) * input_dim,
            constant_bytes=FLOAT_BYTES * filters * pixels_per_filter,
        )


def random_filters(count: int, rng: Generator) -> Singles:
    """Draw filters of 5 x 5 that give nothing on a plain surface; count x 5 x 5."""
    filters = rng.standard_normal((count, _FILTER_SIDE, _FILTER_SIDE))
    return np.asarray(filters - filters.mean(axis=(1, 2), keepdims=True), dtype=np.float32)


class Gradients(ImageEncoder):
    """Histograms of the edges, on request mixed at random into another number of features.

    Mixed is only what is centred and of one length: then all directions count alike. Of each mixture the positive part
    is kept.
    """

    about = "strength of the edges in 8 directions around 4 x 4 places, or random mixtures of them (images)"
    never_negative = True
    default_features = _HISTOGRAM

    def on_images(self, workers: Workers, rng: Generator) -> OnImages:
        from airmixml.workers.encoders.image_features import edge_histograms

        return edge_histograms

    def _matrix(self, workers: Workers, rng: Generator) -> Singles:
        signs = random_features.draw_signs(workers.features, _HISTOGRAM, rng)
        return random_features.mixing_matrix(signs, workers.features)

    def after_centring(self, workers: Workers, rng: Generator) -> Callable[[Singles], Singles] | None:
        if not workers.features:
            return None
        matrix = self._matrix(workers, rng)
        return lambda histograms: random_features.rectified_mix(histograms, matrix)

    def graph_after_centring(self, workers: Workers, width: int, rng: Generator) -> Any:
        return random_features.rectified_mix_graph(self._matrix(workers, rng))

    def cost(self, workers: Workers, input_dim: int) -> FeatureCost:
        operations = (_STRAIGHTENING_PER_PIXEL + _EDGES_PER_PIXEL) * input_dim + HARD_OPERATION * _HISTOGRAM
        if not workers.features:
            return FeatureCost(multiply_accumulates=operations)
        return random_features.transforms_cost(workers.features, _HISTOGRAM, operations + 4 * _HISTOGRAM)


class Cells(ImageEncoder):
    """Around 7 x 7 places the edges in 8 directions and the brightness; the colour of larger parts; as waves."""

    about = "edges, brightness and colour around 7 x 7 places, as random waves of them (images)"
    default_features = 1024

    def on_images(self, workers: Workers, rng: Generator) -> OnImages:
        from airmixml.workers.encoders.image_features import cell_numbers

        return cell_numbers

    def features(
        self, workers: Workers, unit_inputs: Singles, image_shape: ImageShape, rng: Generator, device: str = "cpu"
    ) -> Singles:
        found = super().features(workers, unit_inputs, image_shape, rng, device)
        count = self.feature_count(workers, unit_inputs.shape[1])
        return random_features.waves(np.float32(_ANGLE) * found, count, rng)

    def graph(self, workers: Workers, input_dim: int, image_shape: ImageShape, rng: Generator) -> Any:
        import torch

        cells = super().graph(workers, input_dim, image_shape, rng)
        numbers = cells(torch.zeros(1, input_dim)).shape[1]
        turn = random_features.waves_graph(numbers, self.feature_count(workers, input_dim), rng)
        return lambda inputs: turn(_ANGLE * cells(inputs))

    def cost(self, workers: Workers, input_dim: int) -> FeatureCost:
        """Gradients, brightness, roots and norms of up to 512 numbers, then the waves; channels are added up first."""
        per_pixel = _EDGES_PER_PIXEL + _CELLS_PER_PIXEL
        operations = per_pixel * input_dim + 4 * _CELL_NUMBERS + 2 * HARD_OPERATION * _CELL_EDGES
        return random_features.waves_cost(_CELL_NUMBERS, self.feature_count(workers, input_dim), operations)


class Cosines(random_features.Linear):
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
            for some in np.array_split(unit_inputs, max(1, len(unit_inputs) // random_features.ROWS_AT_ONCE))
        ]
        return np.concatenate(parts).astype(np.float32)

    def cost(self, workers: Workers, input_dim: int) -> FeatureCost:
        count = self.feature_count(workers, input_dim)
        return FeatureCost(multiply_accumulates=count * input_dim, constant_bytes=FLOAT_BYTES * input_dim)


DCT: Final = Cosines()
CONVOLUTION: Final = Convolution()
GRADIENTS: Final = Gradients()
CELLS: Final = Cells()
