"""Random features that need no stored matrix: ``mixed`` for tables, waves for others, ``windows``; and ``projection``.

H S1 H S0 z, with H the Walsh-Hadamard transform and S0, S1 random signs, is nearly as random as a product with a matrix
of independent numbers (Yu et al. 2016). A microcontroller needs additions alone and one bit per sign.

Waves are cosines and sines of such sums: they let a linear classifier see what is near, not only which way it lies.
With projections a of independent Gaussian numbers the mean of cos(a.z) cos(a.z') + sin(a.z) sin(a.z') is
exp(-||z - z'||^2 / 2) (Rahimi and Recht 2007). Every vector of waves has the same norm.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.random import Generator

from airmixml.arrays import ImageShape, Integers, Singles, planes, torch
from airmixml.scenario import Workers
from airmixml.workers.encoder import HARD_OPERATION, Encoder, FeatureCost

ROWS_AT_ONCE: Final = 8192
_SHORTEST: Final = 1e-12


def draw_signs(features: int, size: int, rng: Generator) -> Singles:
    """Draw the signs of as many blocks as the features need; blocks x 2 x size."""
    blocks = math.ceil(features / size)
    return rng.choice(np.array([-1.0, 1.0], dtype=np.float32), size=(blocks, 2, size))


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


def transforms_cost(features: int, size: int, besides: int) -> FeatureCost:
    """Return the cost of so many features: per block signs and log2(size) rounds of additions, twice; and others."""
    blocks = math.ceil(features / size)
    return FeatureCost(
        multiply_accumulates=besides + 2 * blocks * size * (1 + int(math.log2(size))),
        constant_bytes=math.ceil(2 * blocks * size / 8),
        working_numbers=size,
    )


def power_of_two(numbers: int, least: int = 1) -> int:
    """Return the least power of 2 that holds so many numbers."""
    return max(least, 1 << max(0, numbers - 1).bit_length())


def rectified_mix(rows: Singles, matrix: Singles) -> Singles:
    """Return the positive parts of a product of rows, brought to norm 1 and padded with zeros; samples x features."""
    padded = np.zeros((len(rows), len(matrix)), dtype=np.float32)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    padded[:, : rows.shape[1]] = rows / np.maximum(lengths, np.float32(_SHORTEST))
    return np.asarray(torch.from_numpy(padded).matmul(torch.from_numpy(matrix)).relu_().numpy())


def rectified_mix_graph(matrix: Singles) -> Callable[[Any], Any]:
    """Return ``rectified_mix`` as a function of a torch tensor."""
    weights = torch.from_numpy(matrix.copy())

    def mix(rows: torch.Tensor) -> torch.Tensor:
        lengths = rows.square().sum(dim=1, keepdim=True).sqrt()
        return (rows / lengths.clamp(min=_SHORTEST) @ weights).relu()

    return mix


class Mixed(Encoder):
    """Positive parts of random mixtures of a table's row, so that a linear learner can draw curved borders.

    The centred row is brought to norm 1 and padded with zeros to a power of two. Such features approximate a kernel
    (Cho and Saul 2009). More of them fit better where there is no noise; each carries its share of it where there is.
    ``airmix plan`` says how many serve a given target.
    """

    about = "positive parts of random mixtures of all inputs, for tables (centred inputs, brought to one norm)"
    default_features = 64

    def features(self, workers: Workers, unit_inputs: Singles, image_shape: ImageShape, rng: Generator) -> Singles:
        return unit_inputs

    def _matrix(self, workers: Workers, width: int, rng: Generator) -> Singles:
        count = self.feature_count(workers, width)
        return mixing_matrix(draw_signs(count, power_of_two(width, 2), rng), count)

    def after_centring(self, workers: Workers, rng: Generator) -> Callable[[Singles], Singles]:
        """Return what mixes centred rows; a row's own mean is subtracted, since positive parts are all positive."""
        # The width of a row is known only then; all rows of a run have one width, so it is drawn once.
        matrix_of = cache(lambda width: self._matrix(workers, width, rng))

        def mix(rows: Singles) -> Singles:
            mixed = rectified_mix(rows, matrix_of(rows.shape[1]))
            return np.asarray(mixed - mixed.mean(axis=1, keepdims=True))

        return mix

    def graph(self, workers: Workers, input_dim: int, image_shape: ImageShape, rng: Generator) -> Any:
        return lambda rows: rows

    def graph_after_centring(self, workers: Workers, width: int, rng: Generator) -> Any:
        # What was padded is zero: the rest of the matrix would multiply nothing.
        mix = rectified_mix_graph(self._matrix(workers, width, rng)[:width])

        def centred(rows: Any) -> Any:
            mixed = mix(rows)
            return mixed - mixed.mean(dim=1, keepdim=True)

        return centred

    def cost(self, workers: Workers, input_dim: int) -> FeatureCost:
        count = self.feature_count(workers, input_dim)
        return transforms_cost(count, power_of_two(input_dim, 2), 2 * input_dim + HARD_OPERATION + 2 * count)


def waves(vectors: Singles, features: int, rng: Generator) -> Singles:
    """Return cosines and sines, all of norm 1; samples x features.

    The vectors z (samples x numbers) are in units of what should look different: at a distance of 1 the similarity of
    two samples has fallen to exp(-1/2).
    """
    angles = math.ceil(features / 2)
    matrix = _turning_matrix(vectors.shape[1], angles, rng)
    found = np.empty((len(vectors), 2 * angles), dtype=np.float32)
    for start in range(0, len(vectors), ROWS_AT_ONCE):
        some = slice(start, start + ROWS_AT_ONCE)
        turned = vectors[some] @ matrix
        np.cos(turned, out=found[some, :angles])
        np.sin(turned, out=found[some, angles:])
    found /= np.float32(math.sqrt(angles))
    return np.ascontiguousarray(found[:, :features])


def waves_graph(numbers: int, features: int, rng: Generator) -> Callable[[Any], Any]:
    """Return ``waves`` as a function of a torch tensor."""
    angles = math.ceil(features / 2)
    matrix = torch.from_numpy(_turning_matrix(numbers, angles, rng).copy())

    def turn(vectors: torch.Tensor) -> torch.Tensor:
        turned = vectors @ matrix
        return torch.cat([turned.cos(), turned.sin()], dim=1)[:, :features] / math.sqrt(angles)

    return turn


def _turning_matrix(numbers: int, angles: int, rng: Generator) -> Singles:
    """Return what the transforms do to unit vectors, scaled; numbers x angles."""
    size = power_of_two(numbers)
    return np.float32(math.sqrt(size)) * mixing_matrix(draw_signs(angles, size, rng), angles)[:numbers]


def waves_cost(numbers: int, features: int, besides: int) -> FeatureCost:
    """Return the cost of the waves of one vector: transforms, then a cosine or sine each; and of others."""
    return transforms_cost(math.ceil(features / 2), power_of_two(numbers), besides + HARD_OPERATION * features)


class Linear(Encoder):
    """An encoder that is a product with a matrix."""

    default_features = 64

    def graph(self, workers: Workers, input_dim: int, image_shape: ImageShape, rng: Generator) -> Any:
        found = self.features(workers, np.eye(input_dim, dtype=np.float32), image_shape, rng)
        matrix = torch.from_numpy(found.copy())
        return lambda inputs: inputs @ matrix


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


_BANDS: Final = 6
_FAINTEST: Final = 1e-3  # of the declared range: what is fainter counts as nothing
# How much a step counts: a channel, or a band of it, e times as strong; the whole declared range.
_PER_FOLD, _PER_FOLD_IN_BAND, _PER_RANGE = 0.3, 0.2, 2.0
_WINDOWS_AT_ONCE: Final = 4096
_MOST_CHANNELS: Final = 16  # that the cost is counted for


class Windows(Encoder):
    """Mean and strength of each channel, and its strength in bands of frequency, as waves; for channels over time.

    When in the window something happens does not matter, how strongly and how fast it repeats does. Strengths are
    taken on a logarithmic scale, on which twice as strong is the same step everywhere.
    """

    about = "level, strength and spectrum in bands of channels over time, as random waves of them (series)"
    needs_series = True
    default_features = 256

    def features(self, workers: Workers, unit_inputs: Singles, image_shape: ImageShape, rng: Generator) -> Singles:
        assert image_shape is not None
        channels, _, times = planes(image_shape)
        series = unit_inputs.reshape(-1, channels, times)
        parts = [window_numbers(some) for some in np.array_split(series, max(1, len(series) // _WINDOWS_AT_ONCE))]
        return waves(np.concatenate(parts), self.feature_count(workers, unit_inputs.shape[1]), rng)

    def cost(self, workers: Workers, input_dim: int) -> FeatureCost:
        numbers = _MOST_CHANNELS * (2 + _BANDS)
        transform = 4 * input_dim * math.ceil(math.log2(max(2, input_dim)))
        besides = transform + 4 * input_dim + HARD_OPERATION * numbers
        return waves_cost(numbers, self.feature_count(workers, input_dim), besides)


def band_edges(times: int) -> Integers:
    """Return where the bands begin and the last one ends, in periods per window; each is about twice the last."""
    edges = np.geomspace(1.0, max(2, times // 2 + 1), _BANDS + 1)
    return np.unique(np.rint(edges).astype(np.int64))


def window_numbers(series: Singles) -> Singles:
    """Return the numbers of each window; windows x numbers. Series in [0, 1] are windows x channels x time."""
    windows, channels, times = series.shape
    means = series.mean(axis=2, dtype=np.float64)
    moving = series - means[:, :, None]
    power = 2.0 * np.square(np.abs(np.fft.rfft(moving, axis=2))) / times**2
    edges = band_edges(times)
    bands = np.add.reduceat(power[:, :, : edges[-1]], edges[:-1], axis=2) if times > 1 else power[:, :, :0]
    strengths = np.sqrt(np.square(moving).mean(axis=2))
    parts = (
        _PER_RANGE * (means - 0.5),
        _PER_FOLD * np.log1p(strengths / _FAINTEST),
        _PER_FOLD_IN_BAND * 0.5 * np.log1p(bands / _FAINTEST**2).reshape(windows, channels * bands.shape[2]),
    )
    return np.concatenate(parts, axis=1).astype(np.float32)
