"""What a worker does to its scaled input before it sends it, and how large what it sends can be.

An encoder computes features, subtracts a centre, bounds the norm, and may append a constant. It declares two bounds on
what leaves it: on ||x||^2 (what a removal moves) and on ||x - x'||^2 (what a replacement moves). They hold for every
sample, whatever the data set; nothing is measured on private samples.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from airmixml.scenario import Workers
from airmixml.streams import Streams
from airmixml.workers.features import extract_features, feature_count

# float32 may round a norm up by less than this.
_ROUNDING_MARGIN = 1.0 - 1e-6
_NEVER_NEGATIVE = ("scale", "clip", "convolution", "gradients")


def clip_norms(inputs: NDArray[np.float32], norm: float) -> tuple[NDArray[np.float32], int]:
    """Return the inputs (samples x features), those longer than ``norm`` shortened to it, and how many were."""
    lengths = _lengths(inputs)
    long = lengths > norm * _ROUNDING_MARGIN
    if not long.any():
        return inputs, 0
    clipped = inputs.copy()
    clipped[long] *= (norm * _ROUNDING_MARGIN / lengths[long])[:, None].astype(np.float32)
    return clipped, int(long.sum())


def bound_norms(workers: Workers, inputs: NDArray[np.float32]) -> tuple[NDArray[np.float32], int]:
    """Return the inputs within the declared norm, or all of that norm, and how many were shortened for it."""
    if workers.norm == "clip":
        return clip_norms(inputs, workers.clip_norm)
    lengths = _lengths(inputs)
    factors = np.where(lengths > 0.0, workers.clip_norm * _ROUNDING_MARGIN / np.maximum(lengths, 1e-300), 0.0)
    return np.asarray(inputs * factors[:, None], dtype=np.float32), 0


def _lengths(inputs: NDArray[np.float32]) -> NDArray[np.float64]:
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", inputs, inputs, dtype=np.float64)))


def encode(
    workers: Workers,
    unit_inputs: NDArray[np.float32],
    *,
    image_shape: tuple[int, int] | None = None,
    streams: Streams | None = None,
) -> tuple[NDArray[np.float32], int]:
    """Return what the scenario's encoder makes of inputs in [0, 1], samples x features, and how many it clipped.

    With ``centre = "private"`` the mean is not known yet: the inputs are of bounded norm and uncentred, and
    ``finish_encoding`` is to follow.

    Args:
        workers: which encoder.
        unit_inputs: samples x inputs.
        image_shape: height and width of an input, where it is an image.
        streams: the run's seed; its stream "encoder" draws what is random in an encoder.
    """
    if workers.encoder == "scale":
        return unit_inputs, 0
    features = extract_features(workers, unit_inputs, image_shape, streams or Streams(0))
    if workers.centre == "private":
        return bound_norms(workers, features)
    return finish_encoding(workers, features)


def finish_encoding(workers: Workers, features: NDArray[np.float32]) -> tuple[NDArray[np.float32], int]:
    """Return centred features with their norm bounded and the constant appended, and how many were shortened."""
    bounded, shortened = bound_norms(workers, features)
    if not workers.constant:
        return bounded, shortened
    share = np.float32(np.sqrt(1.0 - workers.constant**2))
    last = np.full((len(bounded), 1), workers.constant * workers.clip_norm * _ROUNDING_MARGIN, dtype=np.float32)
    return np.hstack([bounded * share, last]), shortened


def keeps_pixels(workers: Workers) -> bool:
    """Whether an image is still an image when it leaves the encoder."""
    return workers.encoder in ("scale", "clip") and not workers.constant


def encoded_dim(workers: Workers, input_dim: int) -> int:
    """Return d, how many numbers the encoder makes of an input."""
    return feature_count(workers, input_dim) + (1 if workers.constant else 0)


def declared_bounds(workers: Workers, features: int) -> tuple[float, float]:
    """Return the bounds on ||x||^2 and on ||x - x'||^2 of what leaves the encoder with that many numbers.

    Inputs in [0, 1]^d give d for both. A norm of at most C gives C^2 and, where no number is negative and so no two
    inputs point apart, 2 C^2; else 4 C^2.
    """
    if workers.encoder == "scale":
        return float(features), float(features)
    square = workers.clip_norm**2
    never_negative = workers.encoder in _NEVER_NEGATIVE and workers.centre == "none"
    squared_norm, squared_distance = square, (2.0 if never_negative else 4.0) * square
    if workers.encoder == "clip" and workers.norm == "clip" and workers.centre == "none":
        return min(squared_norm, float(features)), min(squared_distance, float(features))
    return squared_norm, squared_distance


def input_range(workers: Workers) -> tuple[float, float]:
    """Return the least and the largest number that may leave the encoder."""
    if workers.encoder == "scale":
        return 0.0, 1.0
    never_negative = workers.encoder in _NEVER_NEGATIVE and workers.centre == "none"
    return (0.0 if never_negative else -workers.clip_norm), workers.clip_norm
