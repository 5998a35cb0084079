"""Cosines and sines of random sums: they let a linear classifier see what is near, not only which way it lies.

With projections a of independent Gaussian numbers the mean of cos(a.z) cos(a.z') + sin(a.z) sin(a.z') is
exp(-||z - z'||^2 / 2) (Rahimi and Recht 2007). Here sums with random signs (``random_signs.py``) stand for them. Every
vector of waves has the same norm, and none points where all others do, so no part of it is spent on a common mean.
"""

import math
from typing import Final

import numpy as np
from numpy.random import Generator

from airmixml.arrays import Singles
from airmixml.workers.encoder import HARD_OPERATION, FeatureCost
from airmixml.workers.encoders.random_signs import draw_signs, mixing_matrix

_ROWS_AT_ONCE: Final = 8192


def transform_size(numbers: int) -> int:
    """Return the least power of 2 that holds so many numbers."""
    return 1 << max(0, numbers - 1).bit_length()


def waves(vectors: Singles, features: int, rng: Generator) -> Singles:
    """Return cosines and sines, all of norm 1; samples x features.

    The vectors z (samples x numbers) are in units of what should look different: at a distance of 1 the similarity of
    two samples has fallen to exp(-1/2).
    """
    angles = math.ceil(features / 2)
    matrix = turning_matrix(vectors.shape[1], angles, rng)
    found = np.empty((len(vectors), 2 * angles), dtype=np.float32)
    for start in range(0, len(vectors), _ROWS_AT_ONCE):
        some = slice(start, start + _ROWS_AT_ONCE)
        turned = vectors[some] @ matrix
        np.cos(turned, out=found[some, :angles])
        np.sin(turned, out=found[some, angles:])
    found /= np.float32(math.sqrt(angles))
    return np.ascontiguousarray(found[:, :features])


def turning_matrix(numbers: int, angles: int, rng: Generator) -> Singles:
    """Return what the transforms do to unit vectors, scaled; numbers x angles."""
    size = transform_size(numbers)
    return np.float32(math.sqrt(size)) * mixing_matrix(draw_signs(angles, size, rng), angles)[:numbers]


def waves_cost(numbers: int, features: int) -> FeatureCost:
    """Return the cost of the waves of one vector: per block two signed transforms, then a cosine or sine each."""
    size = transform_size(numbers)
    blocks = math.ceil(math.ceil(features / 2) / size)
    transform = size * (1 + int(math.log2(size)))
    return FeatureCost(
        multiply_accumulates=2 * blocks * transform + HARD_OPERATION * features,
        constant_bytes=math.ceil(2 * blocks * size / 8),
        working_numbers=size,
    )
