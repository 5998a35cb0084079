"""What a worker does to its scaled input before it sends it, and how large what it sends can be.

An encoder declares two bounds on the inputs that leave it: on ||i||^2 (what a removal moves) and on ||i - i'||^2 (what
a replacement moves). They hold for every sample, whatever the data set; nothing is measured.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from airmixml.scenario import Workers

__all__ = ["clip_norms", "declared_bounds", "encode"]

# float32 may round a norm up by less than this.
_ROUNDING_MARGIN = 1.0 - 1e-6


def clip_norms(inputs: NDArray[np.float32], norm: float) -> tuple[NDArray[np.float32], int]:
    """Return the inputs (samples x features), those longer than ``norm`` shortened to it, and how many were."""
    lengths = np.sqrt(np.einsum("ij,ij->i", inputs, inputs, dtype=np.float64))
    long = lengths > norm * _ROUNDING_MARGIN
    if not long.any():
        return inputs, 0
    clipped = inputs.copy()
    clipped[long] *= (norm * _ROUNDING_MARGIN / lengths[long])[:, None].astype(np.float32)
    return clipped, int(long.sum())


def encode(workers: Workers, unit_inputs: NDArray[np.float32]) -> tuple[NDArray[np.float32], int]:
    """Return what the scenario's encoder makes of inputs in [0, 1], samples x features, and how many it clipped."""
    if workers.encoder == "clip":
        return clip_norms(unit_inputs, workers.clip_norm)
    return unit_inputs, 0


def declared_bounds(workers: Workers, input_dim: int) -> tuple[float, float]:
    """Return the bounds on ||i||^2 and on ||i - i'||^2 of what leaves the encoder.

    Inputs lie in [0, 1]^d, so both are at most d. Clipped to the norm C they are at most C^2 and, since no entry is
    negative and so no two inputs point apart, 2 C^2.
    """
    if workers.encoder == "clip":
        square = workers.clip_norm**2
        return min(square, float(input_dim)), min(2.0 * square, float(input_dim))
    return float(input_dim), float(input_dim)
