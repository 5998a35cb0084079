"""``windows``: level, strength and spectrum of channels over time, as random waves."""

import math
from typing import Final

import numpy as np
from numpy.random import Generator

from airmixml.arrays import ImageShape, Integers, Singles, planes
from airmixml.scenario import Workers
from airmixml.workers.encoder import HARD_OPERATION, Encoder, FeatureCost
from airmixml.workers.encoders.random_features import waves, waves_cost

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


WINDOWS: Final = Windows()
