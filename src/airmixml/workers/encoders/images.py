"""``convolution``, ``gradients`` and ``cells``, what is seen around some places of an image; and ``dct``.

Features that a microcontroller can compute: fixed before any data is seen, the same on every worker. ``cells`` is for
images of any kind: unlike with ``gradients``, which is made for strokes, nothing is straightened, and what is bright or
coloured counts beside what has an edge (docs/beyond.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.random import Generator

from airmixml.arrays import ImageShape, Singles, planes, torch
from airmixml.scenario import Workers
from airmixml.workers.encoder import FLOAT_BYTES, HARD_OPERATION, Encoder, FeatureCost
from airmixml.workers.encoders import random_features
from airmixml.workers.encoding import for_each_block

if TYPE_CHECKING:
    OnImages = Callable[[torch.Tensor], torch.Tensor]
    """From images x channels x height x width to images x features."""


_PLACES: Final = 16
_CELLS_PER_PIXEL: Final = 4  # around which it counts
_FILTER_SIDE: Final = 5
_DIRECTIONS: Final = 8
_HISTOGRAM: Final = _DIRECTIONS * _PLACES
# Adding up the moments of an image, and interpolating each pixel between two.
_STRAIGHTENING_PER_PIXEL: Final = 5 + 3
# Two differences, their magnitudes compared, and two directions into four cells each.
_EDGES_PER_PIXEL: Final = 2 + 3 + 2 * _CELLS_PER_PIXEL
_ANGLE: Final = 1.85  # two images at right angles to each other are so far apart, over sqrt(2)
_CELL_EDGES: Final = _DIRECTIONS * 7**2
_CELL_NUMBERS: Final = _CELL_EDGES + 7**2 + 64  # with brightness and, at most, colours


class ImageEncoder(Encoder):
    """Features of images, computed by torch, some images at a time."""

    needs_images = True
    takes_device = True

    def on_images(self, workers: Workers, rng: Generator) -> OnImages:
        """Return what makes features of images x channels x height x width; images x features."""
        raise NotImplementedError

    def features(
        self, workers: Workers, unit_inputs: Singles, image_shape: ImageShape, rng: Generator, device: str = "cpu"
    ) -> Singles:
        return in_blocks(self.on_images(workers, rng), unit_inputs, image_shape, device)

    def graph(self, workers: Workers, input_dim: int, image_shape: ImageShape, rng: Generator) -> Any:
        compute = self.on_images(workers, rng)
        return lambda inputs: compute(in_planes(inputs, image_shape))


class Convolution(ImageEncoder):
    """Each random filter of 5 x 5 gives 16 features."""

    about = "random filters, their positive answers added up around 4 x 4 places (images)"
    never_negative = True
    default_features = 32 * _PLACES

    def _filter_count(self, workers: Workers) -> int:
        return math.ceil(self.feature_count(workers, 0) / _PLACES)

    def on_images(self, workers: Workers, rng: Generator) -> OnImages:
        filters, count = random_filters(self._filter_count(workers), rng), self.feature_count(workers, 0)
        return lambda images: filter_sums(images, filters)[:, :count]

    def cost(self, workers: Workers, input_dim: int) -> FeatureCost:
        filters, pixels_per_filter = self._filter_count(workers), _FILTER_SIDE**2
        return FeatureCost(
            multiply_accumulates=filters * (pixels_per_filter + _CELLS_PER_PIXEL) * input_dim,
            constant_bytes=FLOAT_BYTES * filters * pixels_per_filter,
        )


def random_filters(count: int, rng: Generator) -> Singles:
    """Draw filters of 5 x 5 that give nothing on a plain surface; count x 5 x 5."""
    filters = rng.standard_normal((count, _FILTER_SIDE, _FILTER_SIDE))
    return np.asarray(filters - filters.mean(axis=(1, 2), keepdims=True), dtype=np.float32)


class Gradients(ImageEncoder):
    """Histograms of the edges, on request centred, brought to norm 1 and mixed at random into positive features."""

    about = "strength of the edges in 8 directions around 4 x 4 places, or random mixtures of them (images)"
    never_negative = True
    default_features = _HISTOGRAM

    def on_images(self, workers: Workers, rng: Generator) -> OnImages:
        return edge_histograms

    def _matrix(self, workers: Workers, rng: Generator) -> Singles:
        signs = random_features.draw_signs(workers.features, _HISTOGRAM, rng)
        return random_features.mixing_matrix(signs, workers.features)

    def after_centring(self, workers: Workers, rng: Generator) -> Callable[[Singles], Singles] | None:
        if not workers.features:
            return None
        matrix = self._matrix(workers, rng)
        return lambda histograms: random_features.rectified_mix(histograms, matrix)

    def graph_after_centring(self, workers: Workers, width: int, rng: Generator) -> Any:
        return random_features.rectified_mix_graph(self._matrix(workers, rng))

    def cost(self, workers: Workers, input_dim: int) -> FeatureCost:
        operations = (_STRAIGHTENING_PER_PIXEL + _EDGES_PER_PIXEL) * input_dim + HARD_OPERATION * _HISTOGRAM
        if not workers.features:
            return FeatureCost(multiply_accumulates=operations)
        return random_features.transforms_cost(workers.features, _HISTOGRAM, operations + 4 * _HISTOGRAM)


class Cells(ImageEncoder):
    """Around 7 x 7 places the edges in 8 directions and the brightness; the colour of larger parts; as waves."""

    about = "edges, brightness and colour around 7 x 7 places, as random waves of them (images)"
    default_features = 1024

    def on_images(self, workers: Workers, rng: Generator) -> OnImages:
        return cell_numbers

    def features(
        self, workers: Workers, unit_inputs: Singles, image_shape: ImageShape, rng: Generator, device: str = "cpu"
    ) -> Singles:
        found = super().features(workers, unit_inputs, image_shape, rng, device)
        count = self.feature_count(workers, unit_inputs.shape[1])
        return random_features.waves(np.float32(_ANGLE) * found, count, rng)

    def graph(self, workers: Workers, input_dim: int, image_shape: ImageShape, rng: Generator) -> Any:
        cells = super().graph(workers, input_dim, image_shape, rng)
        numbers = cells(torch.zeros(1, input_dim)).shape[1]
        turn = random_features.waves_graph(numbers, self.feature_count(workers, input_dim), rng)
        return lambda inputs: turn(_ANGLE * cells(inputs))

    def cost(self, workers: Workers, input_dim: int) -> FeatureCost:
        """Gradients, brightness, roots and norms of up to 512 numbers, then the waves; channels are added up first."""
        per_pixel = _EDGES_PER_PIXEL + _CELLS_PER_PIXEL
        operations = per_pixel * input_dim + 4 * _CELL_NUMBERS + 2 * HARD_OPERATION * _CELL_EDGES
        return random_features.waves_cost(_CELL_NUMBERS, self.feature_count(workers, input_dim), operations)


class Cosines(random_features.Linear):
    """Cosine coefficients, of rows and columns of an image together; all of them would keep every norm."""

    about = "cosine coefficients of lowest frequency"

    def feature_count(self, workers: Workers, input_dim: int) -> int:
        return min(super().feature_count(workers, input_dim), input_dim)

    def features(self, workers: Workers, unit_inputs: Singles, image_shape: ImageShape, rng: Generator) -> Singles:
        """Return the coefficients by frequency, rows first among equals, channels alike; samples x features."""
        from scipy.fft import dctn

        channels, height, width = planes(image_shape or (1, unit_inputs.shape[1]))
        frequency = np.add.outer(np.arange(height) / height, np.arange(width) / width)
        frequency = np.tile(frequency.ravel(), channels)
        lowest = np.argsort(frequency, kind="stable")[: self.feature_count(workers, unit_inputs.shape[1])]
        parts = [
            dctn(some.reshape(-1, channels, height, width), axes=(2, 3), norm="ortho").reshape(len(some), -1)[:, lowest]
            for some in np.array_split(unit_inputs, max(1, len(unit_inputs) // random_features.ROWS_AT_ONCE))
        ]
        return np.concatenate(parts).astype(np.float32)

    def cost(self, workers: Workers, input_dim: int) -> FeatureCost:
        count = self.feature_count(workers, input_dim)
        return FeatureCost(multiply_accumulates=count * input_dim, constant_bytes=FLOAT_BYTES * input_dim)


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
    answers = torch.nn.functional.conv2d(_grey(images)[:, None], weights, padding=filters.shape[-1] // 2)
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
    bordered = torch.nn.functional.pad(images, (1, 2))
    place = left.long() + 1
    from_left = bordered.gather(2, place.clamp(0, width + 2))
    from_right = bordered.gather(2, (place + 1).clamp(0, width + 2))
    return torch.lerp(from_left, from_right, share)


def compass_edges(images: torch.Tensor) -> torch.Tensor:
    """Return each pixel's gradient, split exactly onto its two nearest of 8 compass directions; images x 8 x h x w.

    (a, b) with |a| >= |b| is |a| - |b| along its axis and sqrt(2) |b| along the diagonal, which takes neither angle nor
    root.
    """
    padded = torch.nn.functional.pad(images, (1, 1, 1, 1))
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
    """Add up maps (images x maps x h x w) around places a share of the image apart; images x (maps cells^2)."""
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
        images = torch.nn.functional.avg_pool2d(images, times, ceil_mode=True, count_include_pad=False)
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
    lengths: torch.Tensor = vectors.norm(dim=1, keepdim=True)
    return vectors / lengths.clamp(min=_TINY)
