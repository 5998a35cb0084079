"""Random sums without a stored matrix: signs and Walsh-Hadamard transforms.

H S1 H S0 z, with H the Walsh-Hadamard transform and S0, S1 random signs, is nearly as random as a product with a matrix
of independent numbers (Yu et al. 2016). A microcontroller needs additions alone and one bit per sign.
"""

import math

import numpy as np
from numpy.random import Generator

from airmixml.arrays import Singles


def draw_signs(features: int, size: int, rng: Generator) -> Singles:
    """Draw the signs of as many blocks as the features need; blocks x 2 x size."""
    blocks = math.ceil(features / size)
    return rng.choice(np.array([-1.0, 1.0], dtype=np.float32), size=(blocks, 2, size))


def rectified_product(vectors: Singles, matrix: Singles) -> Singles:
    """Return the positive parts of a product, samples x features; computed by torch, which takes turns with others."""
    import torch  # here: an account needs no torch

    return np.asarray(torch.from_numpy(vectors).matmul(torch.from_numpy(matrix)).relu_().numpy())


def mixing_matrix(signs: Singles, features: int) -> Singles:
    """Return what the transforms make of unit vectors, the first ``features`` of them; size x features."""
    # One product with it takes the place of the transforms: a processor multiplies faster than it shuffles.
    unit_vectors = np.eye(signs.shape[-1], dtype=np.float32)
    matrices = [walsh_hadamard(walsh_hadamard(unit_vectors * first) * second) for first, second in signs]
    return np.concatenate(matrices, axis=1)[:, :features]


def walsh_hadamard(vectors: Singles) -> Singles:
    """Return the Walsh-Hadamard transform of each row, scaled to keep its length; same shape."""
    samples, size = vectors.shape
    step = 1
    while step < size:
        pairs = vectors.reshape(samples, size // (2 * step), 2, step)
        vectors = np.stack([pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]], axis=2)
        step *= 2
    return np.asarray(vectors.reshape(samples, size) / np.float32(math.sqrt(size)))
