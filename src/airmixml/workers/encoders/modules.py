"""Encoders as torch modules, for an export: the same computations on a batch of any size, without a Python loop."""

import math

import numpy as np
import torch
from numpy.random import Generator
from torch import nn
from torch.nn import functional

from airmixml.arrays import Integers, Singles
from airmixml.shapes import ImageShape, planes
from airmixml.workers.encoders.image_features import cell_numbers, compass_edges, pool_coarsely, straighten
from airmixml.workers.encoders.waves import turning_matrix

_SHORTEST = 1e-12


class Product(nn.Module):
    """A product with a matrix; inputs x features."""

    def __init__(self, matrix: Singles) -> None:
        super().__init__()
        self.register_buffer("matrix", torch.from_numpy(matrix.copy()))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return batch x features."""
        return inputs @ self.get_buffer("matrix")


class RectifiedMix(Product):
    """Vectors brought to length one, multiplied, and what is negative set to zero."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return batch x features."""
        lengths = inputs.square().sum(dim=1, keepdim=True).sqrt()
        return super().forward(inputs / lengths.clamp(min=_SHORTEST)).relu()


class CentredMix(RectifiedMix):
    """The same, less the mean of what it gives."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return batch x features."""
        mixed = super().forward(inputs)
        return mixed - mixed.mean(dim=1, keepdim=True)


class Images(nn.Module):
    """Inputs as grey images, the mean of their channels."""

    def __init__(self, image_shape: ImageShape) -> None:
        super().__init__()
        assert image_shape is not None
        self._shape = planes(image_shape)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return batch x height x width."""
        return inputs.reshape(-1, *self._shape).mean(dim=1)


class EdgeHistograms(Images):
    """What ``gradient_histograms`` computes."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return batch x 128."""
        return pool_coarsely(compass_edges(straighten(super().forward(inputs)))).clamp(min=0.0).sqrt()


class FilterSums(Images):
    """What ``convolution_features`` computes, the first ``features`` of it."""

    def __init__(self, image_shape: ImageShape, filters: Singles, features: int) -> None:
        super().__init__(image_shape)
        self.register_buffer("filters", torch.from_numpy(filters)[:, None])
        self._features = features

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return batch x features."""
        filters = self.get_buffer("filters")
        answers = functional.conv2d(super().forward(inputs)[:, None], filters, padding=filters.shape[-1] // 2)
        return pool_coarsely(answers.relu())[:, : self._features]


class Waves(nn.Module):
    """What ``waves`` computes."""

    def __init__(self, numbers: int, features: int, rng: Generator) -> None:
        super().__init__()
        self._features, self._angles = features, math.ceil(features / 2)
        self.register_buffer("matrix", torch.from_numpy(turning_matrix(numbers, self._angles, rng).copy()))

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        """Return batch x features."""
        turned = vectors @ self.get_buffer("matrix")
        found = torch.cat([turned.cos(), turned.sin()], dim=1)[:, : self._features]
        return found / math.sqrt(self._angles)


class CellWaves(nn.Module):
    """What the encoder ``cells`` computes."""

    def __init__(self, image_shape: ImageShape, angle: float, features: int, rng: Generator) -> None:
        super().__init__()
        assert image_shape is not None
        self._shape, self._angle = planes(image_shape), angle
        numbers = cell_numbers(torch.zeros(1, *self._shape)).shape[1]
        self.waves = Waves(numbers, features, rng)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return batch x features."""
        found: torch.Tensor = self.waves(self._angle * cell_numbers(inputs.reshape(-1, *self._shape)))
        return found


class WindowWaves(nn.Module):
    """What the encoder ``windows`` computes; the Fourier transform as a product, up to the last band.

    ``scales`` are how much the whole range, a fold of strength and a fold in a band count, and what counts as nothing.
    """

    def __init__(
        self,
        channels: int,
        times: int,
        edges: Integers,
        scales: tuple[float, float, float, float],
        features: int,
        rng: Generator,
    ) -> None:
        super().__init__()
        self._channels, self._times, self._scales = channels, times, scales
        turns = 2.0 * np.pi * np.outer(np.arange(times), np.arange(edges[-1])) / times
        first, last = edges[:-1, None], edges[1:, None]
        periods = np.arange(edges[-1])
        bands = ((periods >= first) & (periods < last)).astype(np.float32).T
        bands = bands if times > 1 else bands[:, :0]
        for name, table in (("cosines", np.cos(turns)), ("sines", np.sin(turns)), ("bands", bands)):
            self.register_buffer(name, torch.from_numpy(table.astype(np.float32)))
        self.waves = Waves(channels * (2 + bands.shape[1]), features, rng)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return batch x features."""
        per_range, per_fold, per_fold_in_band, faintest = self._scales
        series = inputs.reshape(-1, self._channels, self._times)
        means = series.mean(dim=2)
        moving = series - means[:, :, None]
        power = (moving @ self.get_buffer("cosines")).square() + (moving @ self.get_buffer("sines")).square()
        bands = (2.0 / self._times**2 * power) @ self.get_buffer("bands")
        strengths = moving.square().mean(dim=2).sqrt()
        parts = [
            per_range * (means - 0.5),
            per_fold * (1.0 + strengths / faintest).log(),
            per_fold_in_band * 0.5 * (1.0 + bands / faintest**2).log().flatten(1),
        ]
        found: torch.Tensor = self.waves(torch.cat(parts, dim=1))
        return found
