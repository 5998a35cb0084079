"""What a worker does to its input before it sends it: scale to [0, 1] by the declared bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["scale_to_unit"]

_VALUES_PER_BLOCK = 1 << 20


def scale_to_unit(inputs: NDArray[Any], lower: ArrayLike, upper: ArrayLike) -> tuple[NDArray[np.float32], int]:
    """Return the inputs scaled to [0, 1], and how many values lay outside the bounds and were clipped.

    Args:
        inputs: samples x features, finite, of any real type.
        lower: lower bound of each feature, or one for all; below ``upper`` (``declare_bounds`` checks that).
        upper: upper bound of each feature, or one for all.
    """
    lower_bounds, upper_bounds = _as_stored(inputs.dtype, lower, upper)
    width = upper_bounds - lower_bounds
    scaled = np.empty(inputs.shape, dtype=np.float32)
    clipped = 0
    # In blocks, so that bytes never become one large array of float64.
    samples_per_block = max(1, _VALUES_PER_BLOCK // max(1, inputs.shape[1]))
    for start in range(0, inputs.shape[0], samples_per_block):
        stop = start + samples_per_block
        block = inputs[start:stop].astype(np.float64)
        clipped += int(np.count_nonzero(block < lower_bounds)) + int(np.count_nonzero(block > upper_bounds))
        # Clipped first: then the difference cannot overflow, and rounding leaves the quotient within [0, 1].
        np.clip(block, lower_bounds, upper_bounds, out=block)
        block -= lower_bounds
        block /= width
        scaled[start:stop] = block
    return scaled, clipped


def _as_stored(
    dtype: np.dtype[Any], lower: ArrayLike, upper: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the bounds as the type of the inputs would store them.

    A float32 file stores 7.9 as 7.9000001; against the bound 7.9 that value would count as clipped though it
    lies on the bound.
    """
    lower_bounds = np.asarray(lower, dtype=np.float64)
    upper_bounds = np.asarray(upper, dtype=np.float64)
    if dtype.kind != "f":
        return lower_bounds, upper_bounds
    with np.errstate(over="ignore", under="ignore"):
        lower_stored = lower_bounds.astype(dtype).astype(np.float64)
        upper_stored = upper_bounds.astype(dtype).astype(np.float64)
    usable = (lower_stored < upper_stored) & np.isfinite(lower_stored) & np.isfinite(upper_stored)
    return np.where(usable, lower_stored, lower_bounds), np.where(usable, upper_stored, upper_bounds)
