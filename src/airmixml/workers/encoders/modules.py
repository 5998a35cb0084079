"""Encoders as torch modules, for an export: the same computations on a batch of any size, without a Python loop."""

import torch
from torch import nn
from torch.nn import functional

from airmixml.arrays import Singles
from airmixml.workers.encoder import ImageShape
from airmixml.workers.encoders.image_features import compass_edges, pool, straighten

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


class Images(nn.Module):
    """Inputs as grey images, the mean of their channels."""

    def __init__(self, image_shape: ImageShape) -> None:
        super().__init__()
        assert image_shape is not None
        self._shape = (1, *image_shape) if len(image_shape) == 2 else tuple(image_shape)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return batch x height x width."""
        return inputs.reshape(-1, *self._shape).mean(dim=1)


class EdgeHistograms(Images):
    """What ``gradient_histograms`` computes."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return batch x 128."""
        return pool(compass_edges(straighten(super().forward(inputs)))).clamp(min=0.0).sqrt()


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
        return pool(answers.relu())[:, : self._features]
