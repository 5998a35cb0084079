"""``mixed``: random features of a table's row, so that a linear learner can draw curved borders.

The centred row is brought to norm 1 and padded with zeros to a power of two. Signs and Walsh-Hadamard transforms mix it
as they mix an image's edges (``gradients``), and of each mixture the positive part is kept. Such features approximate a
kernel (Cho and Saul 2009), and a microcontroller needs additions alone. More of them fit better where there is no
noise; each carries its share of it where there is. ``airmix plan`` says how many serve a given target.
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

DEFAULT_FEATURES: Final = 64


class Mixed(Encoder):
    """Positive parts of random mixtures of all inputs."""

    about = "positive parts of random mixtures of all inputs, for tables (centred inputs, brought to one norm)"
    mixes_rows = True  # what it does after centring depends on how wide a row is

    def feature_count(self, workers: Workers, input_dim: int) -> int:
        """Return 64 or as many as the scenario says."""
        return workers.features or DEFAULT_FEATURES

    def features(self, workers: Workers, unit_inputs: Singles, image_shape: ImageShape, rng: Generator) -> Singles:
        """Return the inputs: they are mixed when they are centred."""
        return unit_inputs

    def after_centring(self, workers: Workers, rng: Generator) -> Callable[[Singles], Singles]:
        """Return what mixes centred rows; a row's own mean is subtracted, since positive parts are all positive."""
        count = workers.features or DEFAULT_FEATURES

        def mix(rows: Singles) -> Singles:
            size = _padded(rows.shape[1])
            lengths = np.linalg.norm(rows, axis=1, keepdims=True)
            padded = np.zeros((len(rows), size), dtype=np.float32)
            padded[:, : rows.shape[1]] = rows / np.maximum(lengths, np.float32(1e-12))
            mixed = rectified_product(padded, matrix_of(size))
            return np.asarray(mixed - mixed.mean(axis=1, keepdims=True))

        drawn: dict[int, Singles] = {}

        def matrix_of(size: int) -> Singles:
            # The width of a row is known only now; all rows of a run have one width, so it is drawn once.
            if size not in drawn:
                drawn[size] = mixing_matrix(draw_signs(count, size, rng), count)
            return drawn[size]

        return mix

    def graph(self, workers: Workers, input_dim: int, image_shape: ImageShape, rng: Generator) -> Any:
        """Return what changes nothing."""
        from torch.nn import Identity

        return Identity()

    def graph_after_centring(self, workers: Workers, rng: Generator, width: int = 0) -> Any:
        """Return the mixing of rows of that width as a torch module; None where the width is not known."""
        if not width:
            return None
        from airmixml.workers.encoders.modules import CentredMix

        count = workers.features or DEFAULT_FEATURES
        # What was padded is zero: the rest of the matrix would multiply nothing.
        return CentredMix(mixing_matrix(draw_signs(count, _padded(width), rng), count)[:width])

    def cost(self, workers: Workers, input_dim: int) -> FeatureCost:
        """A norm, two signed transforms for each block, and the mean of the mixtures."""
        count, size = workers.features or DEFAULT_FEATURES, _padded(input_dim)
        blocks = math.ceil(count / size)
        transform = size * (1 + int(math.log2(size)))
        return FeatureCost(
            multiply_accumulates=2 * input_dim + HARD_OPERATION + 2 * blocks * transform + 2 * count,
            constant_bytes=math.ceil(2 * blocks * size / 8),
            working_numbers=size,
        )


def _padded(width: int) -> int:
    """Return the power of two that rows of that width are padded to."""
    return 1 << max(1, width - 1).bit_length()


MIXED: Final = Mixed()
