"""From a scaled input to features, centred: the first half of what an encoder does."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from airmixml.data.public_images import are_public, public_images
from airmixml.errors import ScenarioError
from airmixml.scenario import Workers
from airmixml.streams import Streams
from airmixml.workers.random_mixing import draw_signs, rectified_mixtures

_SMALL_FEATURES: Final = 64
_CELLS: Final = 16
HISTOGRAM_FEATURES: Final = _CELLS * 8
_DEFAULT_FILTERS: Final = 32
_ROWS_AT_ONCE: Final = 8192


def needs_images(workers: Workers) -> bool:
    """Whether the encoder looks at neighbouring pixels."""
    return workers.encoder in ("convolution", "gradients")


def filter_count(workers: Workers) -> int:
    """Return how many filters the convolution encoder needs: each gives 16 features."""
    return math.ceil(workers.features / _CELLS) if workers.features else _DEFAULT_FILTERS


def feature_count(workers: Workers, input_dim: int) -> int:
    """Return how many features the encoder computes of an input."""
    match workers.encoder:
        case "dct":
            return min(workers.features or _SMALL_FEATURES, input_dim)
        case "projection":
            return workers.features or _SMALL_FEATURES
        case "convolution":
            return workers.features or _DEFAULT_FILTERS * _CELLS
        case "gradients":
            return workers.features or HISTOGRAM_FEATURES
        case _:
            return input_dim


def extract_features(
    workers: Workers, unit_inputs: NDArray[np.float32], image_shape: tuple[int, int] | None, streams: Streams
) -> NDArray[np.float32]:
    """Return the features of inputs in [0, 1], centred by what the scenario says (not yet by a private mean).

    Args:
        workers: which encoder.
        unit_inputs: samples x inputs.
        image_shape: height and width of an input, where it is an image.
        streams: the run's seed, for what is random in an encoder.
    """
    if needs_images(workers) and image_shape is None:
        raise ScenarioError(
            f'workers.encoder = "{workers.encoder}": needs images, but the data set has none; use "clip", "dct" or '
            '"projection"'
        )
    public = _public_inputs(workers, unit_inputs, image_shape)
    features, public_features = (
        _base_features(workers, inputs, image_shape, streams) if inputs is not None else None
        for inputs in (unit_inputs, public)
    )
    assert features is not None
    if workers.encoder == "gradients" and workers.features:
        # Mixed at random only after they are centred and of one length: then all directions count alike.
        signs = draw_signs(workers.features, HISTOGRAM_FEATURES, streams.generator("encoder"))
        features, public_features = (
            None if part is None else rectified_mixtures(_unit(part), signs, workers.features)
            for part in _centred(features, public_features, own=workers.centre in ("own", "private"))
        )
        assert features is not None
    return _centred(features, public_features, own=workers.centre == "own")[0]


def _centred(
    features: NDArray[np.float32], public_features: NDArray[np.float32] | None, *, own: bool
) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
    """Return features and public features less the centre: the public mean, or each sample's own mean."""
    if public_features is not None:
        mean = public_features.mean(axis=0, dtype=np.float64).astype(np.float32)
        return features - mean, public_features - mean
    if own:
        return features - features.mean(axis=1, keepdims=True), None
    return features, None


def _unit(features: NDArray[np.float32]) -> NDArray[np.float32]:
    lengths = np.linalg.norm(features, axis=1, keepdims=True)
    return np.asarray(features / np.maximum(lengths, np.float32(1e-12)))


def _public_inputs(
    workers: Workers, unit_inputs: NDArray[np.float32], image_shape: tuple[int, int] | None
) -> NDArray[np.float32] | None:
    """Return the inputs whose mean is the public centre: public images, or the middle of the declared bounds."""
    if workers.centre != "public":
        return None
    if image_shape is None:
        return np.full((1, unit_inputs.shape[1]), 0.5, dtype=np.float32)
    if workers.dataset == "digits" or are_public(unit_inputs, image_shape):
        raise ScenarioError(
            'workers.centre = "public": its constants are means of scikit-learn\'s digits, which are the private data '
            'here; use workers.centre = "own"'
        )
    return public_images(image_shape)


def _base_features(
    workers: Workers, inputs: NDArray[np.float32], image_shape: tuple[int, int] | None, streams: Streams
) -> NDArray[np.float32]:
    match workers.encoder:
        case "dct":
            return _low_frequencies(inputs, feature_count(workers, inputs.shape[1]), image_shape)
        case "projection":
            return _projected(inputs, feature_count(workers, inputs.shape[1]), streams)
        case "convolution" | "gradients":
            assert image_shape is not None
            return _image_features(workers, inputs, image_shape, streams)
        case _:
            return inputs


def _low_frequencies(
    inputs: NDArray[np.float32], count: int, image_shape: tuple[int, int] | None
) -> NDArray[np.float32]:
    """Return the cosine coefficients of lowest frequency, of rows and columns together; samples x count."""
    from scipy.fft import dctn

    height, width = image_shape or (1, inputs.shape[1])
    frequency = np.add.outer(np.arange(height) / height, np.arange(width) / width).ravel()
    lowest = np.argsort(frequency, kind="stable")[:count]
    parts = [
        dctn(some.reshape(-1, height, width), axes=(1, 2), norm="ortho").reshape(len(some), -1)[:, lowest]
        for some in np.array_split(inputs, max(1, len(inputs) // _ROWS_AT_ONCE))
    ]
    return np.concatenate(parts).astype(np.float32)


def _projected(inputs: NDArray[np.float32], count: int, streams: Streams) -> NDArray[np.float32]:
    """Return random sums of the inputs, each with its sign, scaled to keep norms on average; samples x count."""
    signs = streams.generator("encoder").choice(np.array([-1.0, 1.0], dtype=np.float32), size=(inputs.shape[1], count))
    return np.asarray(inputs @ signs / np.float32(math.sqrt(count)))


def _image_features(
    workers: Workers, inputs: NDArray[np.float32], image_shape: tuple[int, int], streams: Streams
) -> NDArray[np.float32]:
    import torch  # here: an account needs the number of features, but no torch

    from airmixml.workers.image_features import convolution_features, gradient_histograms, random_filters

    images = torch.from_numpy(np.ascontiguousarray(inputs)).reshape(-1, *image_shape)
    if workers.encoder == "gradients":
        return np.asarray(gradient_histograms(images).numpy())
    filters = random_filters(filter_count(workers), streams.generator("encoder"))
    features = convolution_features(images, filters)[:, : feature_count(workers, inputs.shape[1])]
    return np.ascontiguousarray(features.numpy())
