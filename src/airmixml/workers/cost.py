"""What an encoder costs the worker: multiply-accumulates and memory per sample, for sizing a microcontroller.

Counts follow the arithmetic of the encoder, sample by sample, without any vector unit. An addition or subtraction
counts as a multiply-accumulate, a square root or a division as ten. Constants are counted as stored:
signs take a bit each, other numbers four bytes; working memory holds the image and the features at once. Products are
formed one symbol at a time while sending, so they need no memory of their own.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Final

from airmixml.scenario import Workers
from airmixml.workers.features import HISTOGRAM_FEATURES, feature_count, filter_count
from airmixml.workers.signal import Signal

_HARD_OPERATION: Final = 10
_FLOAT_BYTES: Final = 4
_CELLS_PER_PIXEL: Final = 4
_FILTER_PIXELS: Final = 25
# Adding up the moments of an image, and interpolating each pixel between two.
_STRAIGHTENING_PER_PIXEL: Final = 5 + 3
# Two differences, their magnitudes compared, and two directions into four cells each.
_GRADIENT_PER_PIXEL: Final = 2 + 3 + 2 * _CELLS_PER_PIXEL


@dataclass(frozen=True, kw_only=True)
class WorkerCost:
    """Cost of one sample on the worker.

    Attributes:
        multiply_accumulates: to encode it and to form all symbols once.
        constant_bytes: filters, signs and tables, which can lie in flash memory.
        working_bytes: memory that the encoding needs besides.
        symbols: numbers that are sent per slot.
    """

    multiply_accumulates: int
    constant_bytes: int
    working_bytes: int
    symbols: int

    def to_dict(self) -> dict[str, int]:
        """Return the cost as plain values for JSON."""
        return asdict(self)


def worker_cost(workers: Workers, input_dim: int, signal: Signal) -> WorkerCost:
    """Return what one sample of ``input_dim`` numbers costs a worker that sends the given signal."""
    features = feature_count(workers, input_dim)
    operations, constant_bytes = _features_cost(workers, input_dim, features)
    if workers.centre in ("public", "private"):
        constant_bytes += _FLOAT_BYTES * features
    if workers.centre != "none":
        operations += 2 * features
    if workers.encoder != "scale":
        operations += 2 * features + 2 * _HARD_OPERATION
    if signal.moments:
        operations += signal.input_symbols + signal.features
    if signal.bits:
        operations += 3 * signal.symbols
    return WorkerCost(
        multiply_accumulates=2 * input_dim + operations,  # two to scale each input
        constant_bytes=constant_bytes,
        working_bytes=_FLOAT_BYTES * (input_dim + features + (HISTOGRAM_FEATURES if _is_mixed(workers) else 0)),
        symbols=signal.symbols,
    )


def _is_mixed(workers: Workers) -> bool:
    """Whether gradient histograms are mixed at random into another number of features."""
    return workers.encoder == "gradients" and workers.features > 0


def _features_cost(workers: Workers, input_dim: int, features: int) -> tuple[int, int]:
    """Return multiply-accumulates and bytes of constants of the features alone."""
    match workers.encoder:
        case "dct":
            return features * input_dim, _FLOAT_BYTES * input_dim
        case "projection":
            return features * input_dim, -(-features * input_dim // 8)
        case "convolution":
            filters = filter_count(workers)
            pooled = _CELLS_PER_PIXEL * input_dim * filters
            return filters * _FILTER_PIXELS * input_dim + pooled, _FLOAT_BYTES * filters * _FILTER_PIXELS
        case "gradients":
            operations = (_STRAIGHTENING_PER_PIXEL + _GRADIENT_PER_PIXEL) * input_dim
            operations += _HARD_OPERATION * HISTOGRAM_FEATURES
            if not _is_mixed(workers):
                return operations, 0
            blocks = math.ceil(features / HISTOGRAM_FEATURES)
            # Per block: signs and log2(size) rounds of additions, twice; before, centring and norm of the histograms.
            transform = HISTOGRAM_FEATURES * (1 + int(math.log2(HISTOGRAM_FEATURES)))
            operations += 4 * HISTOGRAM_FEATURES + 2 * blocks * transform
            return operations, 2 * blocks * HISTOGRAM_FEATURES // 8
        case _:
            return 0, 0
