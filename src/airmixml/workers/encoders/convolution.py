"""``convolution``: random filters, their positive answers added up around 4 x 4 places of an image."""

import math
from typing import Any, Final

import numpy as np
from numpy.random import Generator

from airmixml.arrays import Singles
from airmixml.scenario import Workers
from airmixml.shapes import ImageShape
from airmixml.workers.encoder import FLOAT_BYTES, Encoder, FeatureCost

_CELLS: Final = 16
_CELLS_PER_PIXEL: Final = 4
_DEFAULT_FILTERS: Final = 32
_FILTER_SIDE: Final = 5


class Convolution(Encoder):
    """Each filter of 5 x 5 gives 16 features."""

    about = "random filters, their positive answers added up around 4 x 4 places (images)"
    never_negative = True
    needs_images = True
    takes_device = True

    def feature_count(self, workers: Workers, input_dim: int) -> int:
        """Return 512 (of 32 filters) or as many as the scenario says."""
        return workers.features or _DEFAULT_FILTERS * _CELLS

    def features(
        self, workers: Workers, unit_inputs: Singles, image_shape: ImageShape, rng: Generator, device: str = "cpu"
    ) -> Singles:
        """Return the sums, filter by filter; samples x features."""
        # Here: an account needs the number of features, but no torch.
        from airmixml.workers.encoders.image_features import as_images, convolution_features

        images, filters = as_images(unit_inputs, image_shape, device), random_filters(_filter_count(workers), rng)
        sums = convolution_features(images, filters).cpu()
        return np.ascontiguousarray(sums[:, : self.feature_count(workers, unit_inputs.shape[1])].numpy())

    def cost(self, workers: Workers, input_dim: int) -> FeatureCost:
        """25 products for each filter and pixel, whose answer goes into four cells."""
        filters = _filter_count(workers)
        pixels_per_filter = _FILTER_SIDE**2
        return FeatureCost(
            multiply_accumulates=filters * (pixels_per_filter + _CELLS_PER_PIXEL) * input_dim,
            constant_bytes=FLOAT_BYTES * filters * pixels_per_filter,
        )

    def graph(self, workers: Workers, input_dim: int, image_shape: ImageShape, rng: Generator) -> Any:
        """Return the sums as a torch module."""
        from airmixml.workers.encoders.modules import FilterSums

        filters = random_filters(_filter_count(workers), rng)
        return FilterSums(image_shape, filters, self.feature_count(workers, input_dim))


def _filter_count(workers: Workers) -> int:
    return math.ceil(workers.features / _CELLS) if workers.features else _DEFAULT_FILTERS


def random_filters(count: int, rng: Generator) -> Singles:
    """Draw filters of 5 x 5 that give nothing on a plain surface; count x 5 x 5."""
    filters = rng.standard_normal((count, _FILTER_SIDE, _FILTER_SIDE))
    return np.asarray(filters - filters.mean(axis=(1, 2), keepdims=True), dtype=np.float32)


CONVOLUTION: Final = Convolution()
