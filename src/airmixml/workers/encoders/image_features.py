"""Features of images that a microcontroller can compute: fixed before any data is seen, the same on every worker."""

import math
from collections.abc import Callable
from typing import Final

import numpy as np
import torch
from torch.nn import functional

from airmixml.arrays import ImageShape, Singles, planes
from airmixml.workers.encoding import for_each_block

_CELLS_ACROSS: Final = 4
# Cell centres are this share of the image apart: four of them cover all but the rim.
_CELL_PITCH: Final = 5.0 / 28.0
_STEEPEST_SHEAR: Final = 0.6
_IMAGES_AT_ONCE: Final = 256
_IMAGES_ON_DEVICE: Final = 8192
_TINY: Final = 1e-6
_MOST_CELLS_ACROSS: Final = 7
_SHORTEST_SIDE: Final = 28  # larger images are averaged down: the edges of single pixels are noise there
_EDGE_POWER: Final = 0.4  # keeps a few bold edges from drowning the fine ones
_BRIGHTNESS_WEIGHT, _COLOUR_WEIGHT = 0.25, 0.5
_COLOUR_NUMBERS: Final = 64


OnImages = Callable[[torch.Tensor], torch.Tensor]  #: From images x channels x height x width to images x features


def in_planes(inputs: torch.Tensor, image_shape: ImageShape) -> torch.Tensor:
    """Return inputs (samples x pixels) as images; images x channels x height x width."""
    assert image_shape is not None
    return inputs.reshape(-1, *planes(image_shape))


def in_blocks(features: OnImages, unit_inputs: Singles, image_shape: ImageShape, device: str) -> Singles:
    """Return the features of all inputs (samples x pixels), computed on the device some at a time."""
    images = in_planes(torch.from_numpy(np.ascontiguousarray(unit_inputs)).to(device), image_shape)
    if device != "cpu":
        blocks = [features(some) for some in torch.split(images, _IMAGES_ON_DEVICE)]
        return np.asarray(torch.cat(blocks).cpu().numpy())
    found = images.new_empty((len(images), features(images[:1]).shape[1]))

    def work(block: slice) -> None:
        found[block] = features(images[block])

    for_each_block(work, len(images), _IMAGES_AT_ONCE)
    return np.asarray(found.numpy())


def _grey(images: torch.Tensor) -> torch.Tensor:
    """Return the mean of the channels; images x height x width."""
    return images[:, 0] if images.shape[1] == 1 else images.mean(dim=1)


def edge_histograms(images: torch.Tensor) -> torch.Tensor:
    """Return how strong the edges in each of 8 directions are around each of 4 x 4 places; images x 128.

    Images in [0, 1] are straightened first. The square root at the end keeps a few bold strokes from drowning the fine
    ones.
    """
    return _pool(compass_edges(straighten(_grey(images)))).clamp(min=0.0).sqrt()


def filter_sums(images: torch.Tensor, filters: Singles) -> torch.Tensor:
    """Return the positive part of each filter's answer, added up around 4 x 4 places; images x (filters 16).

    Images are in [0, 1], filters are filters x side x side, the side odd.
    """
    weights = torch.from_numpy(filters)[:, None].to(images)
    answers = functional.conv2d(_grey(images)[:, None], weights, padding=filters.shape[-1] // 2)
    return _pool(answers.relu())


def straighten(images: torch.Tensor) -> torch.Tensor:
    """Shift the rows of each image until it stands upright in the middle; same shape.

    Upright means that its moment of height times breadth is zero, as far as a shear of 0.6 allows. Values between two
    columns are interpolated; what is shifted in from outside is zero.
    """
    height, width = images.shape[1:]
    rows = torch.arange(height, dtype=images.dtype, device=images.device) - (height - 1) / 2.0
    columns = torch.arange(width, dtype=images.dtype, device=images.device) - (width - 1) / 2.0
    mass = images.sum(dim=(1, 2)) + _TINY
    row_offset = rows - (images.sum(dim=2) @ rows / mass)[:, None]
    centre_column = images.sum(dim=1) @ columns / mass
    height_moment = (images.sum(dim=2) * row_offset.square()).sum(dim=1) / mass
    mixed_moment = torch.einsum("nij,ni,j->n", images, row_offset, columns) / mass
    shear = (mixed_moment / (height_moment + _TINY)).clamp(-_STEEPEST_SHEAR, _STEEPEST_SHEAR)
    shift = centre_column[:, None] + shear[:, None] * row_offset
    source = torch.arange(width, device=images.device) + shift[:, :, None]
    left = source.floor()
    share = source - left
    # A border of zeros on both sides, into which all that lies outside is clamped.
    bordered = functional.pad(images, (1, 2))
    place = left.long() + 1
    from_left = bordered.gather(2, place.clamp(0, width + 2))
    from_right = bordered.gather(2, (place + 1).clamp(0, width + 2))
    return torch.lerp(from_left, from_right, share)


def compass_edges(images: torch.Tensor) -> torch.Tensor:
    """Return each pixel's gradient, split exactly onto its two nearest of 8 compass directions; images x 8 x h x w.

    (a, b) with |a| >= |b| is |a| - |b| along its axis and sqrt(2) |b| along the diagonal, which takes neither angle nor
    root.
    """
    padded = functional.pad(images, (1, 1, 1, 1))
    across = padded[:, 1:-1, 2:] - padded[:, 1:-1, :-2]
    down = padded[:, 2:, 1:-1] - padded[:, :-2, 1:-1]
    sideways, upwards = across.abs(), down.abs()
    diagonal = math.sqrt(2.0) * torch.minimum(sideways, upwards)
    level, upright = (sideways - upwards).relu(), (upwards - sideways).relu()
    right, below = (across > 0).to(images.dtype), (down > 0).to(images.dtype)
    # What is not to one side is to the other: a difference is exact here, and cheaper than another mask.
    level_right, upright_below, diagonal_right = level * right, upright * below, diagonal * right
    diagonal_left = diagonal - diagonal_right
    right_below, left_below = diagonal_right * below, diagonal_left * below
    edges = [level_right, level - level_right, upright_below, upright - upright_below]
    edges += [right_below, diagonal_right - right_below, left_below, diagonal_left - left_below]
    return torch.stack(edges, dim=1)


def _pool(maps: torch.Tensor, cells: int = _CELLS_ACROSS, pitch_share: float = _CELL_PITCH) -> torch.Tensor:
    """Add up maps (images x maps x h x w) around ``cells`` x ``cells`` places, which are a share of the image apart.

    Weights fall to zero at the next place; images x (maps cells^2).
    """
    height, width = maps.shape[-2:]
    down, across = (_cell_weights(size, cells, pitch_share) for size in (height, width))
    # One product over all pixels: twice as fast as one along columns and one along rows, which must be reordered.
    both = (down.T[:, None, :, None] * across.T[None, :, None, :]).reshape(height * width, cells**2).to(maps)
    return (maps.reshape(-1, height * width) @ both).reshape(-1, maps.shape[1] * cells**2)


def _cell_weights(size: int, cells: int, pitch_share: float) -> torch.Tensor:
    """Return the weight of each pixel of a line in each cell; cells x size."""
    pitch = size * pitch_share
    centres = (torch.arange(cells) - (cells - 1) / 2.0) * pitch
    pixels = torch.arange(size) - (size - 1) / 2.0
    return (1.0 - (pixels - centres[:, None]).abs() / pitch).clamp(min=0.0)


def cell_numbers(images: torch.Tensor) -> torch.Tensor:
    """Return what is seen in the cells, of norm 1; images x numbers (441 of a grey image of 7 x 7 pixels or more).

    Images in [0, 1] are images x channels x height x width. Each block of numbers has a norm of its own, whatever the
    contrast; colour counts as much as it is strong beside the brightness.
    """
    times = max(1, min(images.shape[2:]) // _SHORTEST_SIDE)
    if times > 1:
        images = functional.avg_pool2d(images, times, ceil_mode=True, count_include_pad=False)
    channels, shortest = images.shape[1], min(images.shape[2:])
    grey = images.mean(dim=1, keepdim=True)
    cells = min(_MOST_CELLS_ACROSS, max(1, shortest // 2))
    edges = _pool(compass_edges(grey[:, 0]), cells, 1.0 / cells).clamp_(min=0.0) ** _EDGE_POWER
    parts = [_unit(edges), _BRIGHTNESS_WEIGHT * _unit(_pool(grey, cells, 1.0 / cells))]
    if channels > 1:
        across = min(max(1, math.isqrt(_COLOUR_NUMBERS // channels)), shortest)
        level = _pool(grey, across, 1.0 / across).norm(dim=1, keepdim=True)
        parts.append(_COLOUR_WEIGHT * _pool(images - grey, across, 1.0 / across) / level.clamp(min=_TINY))
    numbers = torch.cat(parts, dim=1)
    return _unit(numbers - numbers.mean(dim=1, keepdim=True))


def _unit(vectors: torch.Tensor) -> torch.Tensor:
    return torch.div(vectors, vectors.norm(dim=1, keepdim=True).clamp(min=_TINY))
