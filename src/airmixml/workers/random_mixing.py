"""Random features without a stored matrix: signs and Walsh-Hadamard transforms, then the positive part.

A microcontroller needs additions alone and one bit per sign: H S1 H S0 z, with H the Walsh-Hadamard transform and S0,
S1 random signs, is nearly as random as a matrix of independent numbers (Yu et al. 2016).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray


def draw_signs(features: int, size: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Draw the signs of as many blocks as the features need; blocks x 2 x size."""
    blocks = math.ceil(features / size)
    return rng.choice(np.array([-1.0, 1.0], dtype=np.float32), size=(blocks, 2, size))


def rectified_mixtures(vectors: NDArray[np.float32], signs: NDArray[np.float32], features: int) -> NDArray[np.float32]:
    """Return the positive parts of H S1 H S0 z, block after block; samples x features.

    Args:
        vectors: z; samples x size, the size a power of 2.
        signs: S0 and S1 of each block; blocks x 2 x size.
        features: how many of them are kept.
    """
    unit_vectors = np.eye(vectors.shape[1], dtype=np.float32)
    # One product with what the transforms do to unit vectors: a processor multiplies faster than it shuffles.
    matrices = [walsh_hadamard(walsh_hadamard(unit_vectors * first) * second) for first, second in signs]
    mixed = vectors @ np.concatenate(matrices, axis=1)[:, :features]
    return np.asarray(np.maximum(mixed, np.float32(0.0), out=mixed))


def walsh_hadamard(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the Walsh-Hadamard transform of each row, scaled to keep its length; same shape."""
    samples, size = vectors.shape
    step = 1
    while step < size:
        pairs = vectors.reshape(samples, size // (2 * step), 2, step)
        vectors = np.stack([pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]], axis=2)
        step *= 2
    return np.asarray(vectors.reshape(samples, size) / np.float32(math.sqrt(size)))
