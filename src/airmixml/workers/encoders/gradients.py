"""``gradients``: histograms of the edges of an image, on request mixed at random into another number of features.

The mixing is by random signs (``random_signs.py``); of each sum the positive part is kept.
"""

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.random import Generator

from airmixml.arrays import Singles
from airmixml.scenario import Workers
from airmixml.shapes import ImageShape
from airmixml.workers.encoder import HARD_OPERATION, Encoder, FeatureCost
from airmixml.workers.encoders.random_signs import draw_signs, mixing_matrix, rectified_product

HISTOGRAM_FEATURES: Final = 128  # 8 directions around 4 x 4 places
_CELLS_PER_PIXEL: Final = 4
# Adding up the moments of an image, and interpolating each pixel between two.
_STRAIGHTENING_PER_PIXEL: Final = 5 + 3
# Two differences, their magnitudes compared, and two directions into four cells each.
_GRADIENT_PER_PIXEL: Final = 2 + 3 + 2 * _CELLS_PER_PIXEL


class Gradients(Encoder):
    """128 numbers: how strong the edges in each of 8 directions are around each of 4 x 4 places."""

    about = "strength of the edges in 8 directions around 4 x 4 places, or random mixtures of them (images)"
    never_negative = True
    needs_images = True
    takes_device = True

    def feature_count(self, workers: Workers, input_dim: int) -> int:
        """Return 128 or as many as the scenario says."""
        return workers.features or HISTOGRAM_FEATURES

    def features(
        self, workers: Workers, unit_inputs: Singles, image_shape: ImageShape, rng: Generator, device: str = "cpu"
    ) -> Singles:
        """Return the histograms; samples x 128."""
        # Here: an account needs the number of features, but no torch.
        from airmixml.workers.encoders.image_features import as_images, gradient_histograms

        return np.asarray(gradient_histograms(as_images(unit_inputs, image_shape, device)).cpu().numpy())

    def after_centring(self, workers: Workers, rng: Generator) -> Callable[[Singles], Singles] | None:
        """Mix only what is centred and of one length: then all directions count alike."""
        if not workers.features:
            return None
        matrix = mixing_matrix(draw_signs(workers.features, HISTOGRAM_FEATURES, rng), workers.features)

        def mix(histograms: Singles) -> Singles:
            lengths = np.linalg.norm(histograms, axis=1, keepdims=True)
            return rectified_product(histograms / np.maximum(lengths, np.float32(1e-12)), matrix)

        return mix

    def graph(self, workers: Workers, input_dim: int, image_shape: ImageShape, rng: Generator) -> Any:
        """Return the histograms as a torch module."""
        from airmixml.workers.encoders.modules import EdgeHistograms

        return EdgeHistograms(image_shape)

    def graph_after_centring(self, workers: Workers, rng: Generator) -> Any:
        """Return the mixing as a torch module."""
        from airmixml.workers.encoders.modules import RectifiedMix

        return RectifiedMix(mixing_matrix(draw_signs(workers.features, HISTOGRAM_FEATURES, rng), workers.features))

    def cost(self, workers: Workers, input_dim: int) -> FeatureCost:
        """Straightening, gradients and roots; where mixed, a norm and two signed transforms for each block."""
        operations = (_STRAIGHTENING_PER_PIXEL + _GRADIENT_PER_PIXEL) * input_dim
        operations += HARD_OPERATION * HISTOGRAM_FEATURES
        if not workers.features:
            return FeatureCost(multiply_accumulates=operations)
        blocks = math.ceil(workers.features / HISTOGRAM_FEATURES)
        # Per block: signs and log2(size) rounds of additions, twice; before, centring and norm of the histograms.
        transform = HISTOGRAM_FEATURES * (1 + int(math.log2(HISTOGRAM_FEATURES)))
        return FeatureCost(
            multiply_accumulates=operations + 4 * HISTOGRAM_FEATURES + 2 * blocks * transform,
            constant_bytes=2 * blocks * HISTOGRAM_FEATURES // 8,
            working_numbers=HISTOGRAM_FEATURES,
        )


GRADIENTS: Final = Gradients()
