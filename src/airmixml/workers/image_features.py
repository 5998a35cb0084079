"""Features of images that a microcontroller can compute: fixed before any data is seen, the same on every worker."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

__all__ = [
    "CELLS_ACROSS",
    "DIRECTIONS",
    "FILTER_SIDE",
    "convolution_features",
    "gradient_histograms",
    "random_filters",
    "straighten",
]

DIRECTIONS: Final = 12
CELLS_ACROSS: Final = 5
FILTER_SIDE: Final = 5
# Cell centres are this share of the image apart: five of them cover all but the rim.
_CELL_PITCH: Final = 1.0 / 7.0
_STEEPEST_SHEAR: Final = 0.6
_IMAGES_AT_ONCE: Final = 2000
_TINY: Final = 1e-6


def gradient_histograms(images: torch.Tensor) -> torch.Tensor:
    """Return how strong the edges in each direction are around each of 5 x 5 places; images x 300.

    The image is straightened first. Every pixel's gradient is shared out between the two nearest of 12 directions and
    between the nearest cells, linearly; the square root then keeps a few bold strokes from drowning the fine ones.

    Args:
        images: values in [0, 1]; images x height x width.
    """
    return torch.cat([_histograms_of(straighten(some)) for some in torch.split(images, _IMAGES_AT_ONCE)])


def straighten(images: torch.Tensor) -> torch.Tensor:
    """Move each image's centre of mass to the middle and shear its rows until it stands upright; same shape.

    Upright means that its moment of height times breadth is zero, as far as a shear of 0.6 allows.
    """
    height, width = images.shape[1:]
    rows = torch.arange(height, dtype=images.dtype, device=images.device) - (height - 1) / 2.0
    columns = torch.arange(width, dtype=images.dtype, device=images.device) - (width - 1) / 2.0
    mass = images.sum(dim=(1, 2)) + _TINY
    centre_row = images.sum(dim=2) @ rows / mass
    centre_column = images.sum(dim=1) @ columns / mass
    row_offset = rows - centre_row[:, None]
    column_offset = columns - centre_column[:, None]
    height_moment = (images.sum(dim=2) * row_offset.square()).sum(dim=1) / mass
    mixed_moment = torch.einsum("nij,ni,nj->n", images, row_offset, column_offset) / mass
    shear = (mixed_moment / (height_moment + _TINY)).clamp(-_STEEPEST_SHEAR, _STEEPEST_SHEAR)
    from_row = (rows + centre_row[:, None])[:, :, None].expand(-1, -1, width)
    from_column = columns + centre_column[:, None, None] + (shear[:, None] * rows)[:, :, None]
    places = torch.stack([from_column / (width / 2.0), from_row / (height / 2.0)], dim=-1)
    return functional.grid_sample(images[:, None], places, align_corners=False)[:, 0]


def _histograms_of(images: torch.Tensor) -> torch.Tensor:
    padded = functional.pad(images, (1, 1, 1, 1))
    across = (padded[:, 1:-1, 2:] - padded[:, 1:-1, :-2]) / 2.0
    down = (padded[:, 2:, 1:-1] - padded[:, :-2, 1:-1]) / 2.0
    strength = torch.hypot(across, down)
    place = torch.atan2(down, across) * (DIRECTIONS / (2.0 * math.pi))
    directions = torch.arange(DIRECTIONS, dtype=images.dtype, device=images.device)[:, None, None]
    half = DIRECTIONS / 2.0
    distance = (torch.remainder(place[:, None] - directions + half, DIRECTIONS) - half).abs()
    edges = (1.0 - distance).clamp_(min=0.0) * strength[:, None]
    return _pool(edges).clamp_(min=0.0).sqrt_()


def _pool(maps: torch.Tensor) -> torch.Tensor:
    """Add up maps around 5 x 5 places with weights that fall to zero at the next place; images x (maps 25)."""
    down, across = (_cell_weights(size).to(maps) for size in maps.shape[-2:])
    return torch.einsum("nkij,ai,bj->nkab", maps, down, across).flatten(1)


def _cell_weights(size: int) -> torch.Tensor:
    """Return the weight of each pixel of a line in each cell; cells x size."""
    pitch = size * _CELL_PITCH
    centres = (torch.arange(CELLS_ACROSS) - (CELLS_ACROSS - 1) / 2.0) * pitch
    pixels = torch.arange(size) - (size - 1) / 2.0
    return (1.0 - (pixels - centres[:, None]).abs() / pitch).clamp(min=0.0)


def random_filters(count: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Draw filters of 5 x 5 that give nothing on a plain surface; count x 5 x 5."""
    filters = rng.standard_normal((count, FILTER_SIDE, FILTER_SIDE))
    return np.asarray(filters - filters.mean(axis=(1, 2), keepdims=True), dtype=np.float32)


def convolution_features(images: torch.Tensor, filters: NDArray[np.float32]) -> torch.Tensor:
    """Return the positive part of each filter's answer, averaged around 5 x 5 places; images x (filters 25).

    Args:
        images: values in [0, 1]; images x height x width.
        filters: filters x 5 x 5.
    """
    weights = torch.from_numpy(filters)[:, None].to(images)
    parts = [
        _pool(functional.conv2d(some[:, None], weights, padding=FILTER_SIDE // 2).relu_())
        for some in torch.split(images, _IMAGES_AT_ONCE // 4)
    ]
    return torch.cat(parts)
