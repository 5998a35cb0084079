"""What an encoder declares about what it sends, which the privacy guarantee rests on, and inputs that keep to it.

Two bounds hold for every input, whatever the data set: on ||x||^2 (what a removal moves) and on ||x - x'||^2 (what a
replacement moves).
"""

import math
from dataclasses import replace
from typing import Final

import numpy as np

from airmixml.arrays import Doubles, Singles
from airmixml.errors import ScenarioError, private
from airmixml.scenario import Workers
from airmixml.workers.encoder import encoder_of
from airmixml.workers.encoding import bound_norms

# Inputs that were encoded elsewhere may be beyond their bounds by what float32 rounds.
_ROUNDING_ABOVE: Final = 1.0 + 1e-5
_UNIT_ROUNDOFF: Final = 2.0**-53


def declared_bounds(workers: Workers, features: int) -> tuple[float, float]:
    """Return the bounds on ||x||^2 and on ||x - x'||^2 of what leaves the encoder with that many numbers.

    Inputs in [0, 1]^d give d for both. A norm of at most C gives C^2 and, where no number is negative and so no two
    inputs point apart, 2 C^2; else 4 C^2.
    """
    encoder = encoder_of(workers)
    if not encoder.bounds_norm:
        return float(features), float(features)
    square = workers.clip_norm**2
    squared_norm, squared_distance = square, (2.0 if _never_negative(workers) else 4.0) * square
    if encoder.keeps_inputs and workers.norm == "clip" and workers.centre == "none":
        return min(squared_norm, float(features)), min(squared_distance, float(features))
    return squared_norm, squared_distance


def input_range(workers: Workers) -> tuple[float, float]:
    """Return the least and the largest number that may leave the encoder."""
    if not encoder_of(workers).bounds_norm:
        return 0.0, 1.0
    return (0.0 if _never_negative(workers) else -workers.clip_norm), workers.clip_norm


def within_declared(workers: Workers, inputs: Singles) -> Singles:
    """Return encoded inputs (samples x numbers), each within what is declared; refuse those that are far beyond it.

    An input beyond it by rounding alone is shortened by itself: what becomes of one must not depend on others.
    """
    features = inputs.shape[1]
    squared_norm, squared_distance = declared_bounds(workers, features)
    squares = np.einsum("ij,ij->i", inputs, inputs, dtype=np.float64)
    longest, least = float(squares.max(initial=0.0)), float(inputs.min(initial=0.0))
    if longest > squared_norm * _ROUNDING_ABOVE:
        raise ScenarioError(
            f"dataset: an input has {private(f'the squared norm {longest:.4g}', 'a larger squared norm')}: must be at "
            f"most {squared_norm:.4g}, which the scenario's encoder declares; encode the inputs first "
            "(airmixml.workers.encode)"
        )
    if squared_distance < 2.0 * squared_norm:  # it is each number that is bounded, but for the constant
        inputs = _within_cube(workers, inputs)
    if squared_distance < 4.0 * squared_norm and least < 0.0:
        raise ScenarioError(
            "dataset: an input is negative, but the scenario's encoder declares that none is; encode the inputs first "
            "(airmixml.workers.encode)"
        )
    long = _longer(inputs, squares, squared_norm)
    if squared_norm >= features or not long:
        return inputs
    kept = inputs.copy()
    kept[long] = bound_norms(replace(workers, norm="clip"), inputs[long])[0]
    return kept


def _longer(inputs: Singles, squares: Doubles, squared_norm: float) -> list[int]:
    """Return which inputs are longer than that; their squared norms are added up again where rounding could decide."""
    rounding = 2.0 * (inputs.shape[1] + 2) * _UNIT_ROUNDOFF
    near = np.flatnonzero(squares > squared_norm * (1.0 - rounding)).tolist()
    return [row for row in near if math.fsum(np.square(inputs[row], dtype=np.float64)) > squared_norm]


def _within_cube(workers: Workers, inputs: Singles) -> Singles:
    """Return the inputs with no number above 1, where none is far above it or negative; samples x numbers."""
    body = inputs[:, :-1] if workers.constant else inputs
    low, high = float(body.min(initial=0.0)), float(body.max(initial=0.0))
    if low < 0.0 or high > _ROUNDING_ABOVE:
        raise ScenarioError(
            f"dataset: inputs {private(f'reach from {low:.4g} to {high:.4g}', 'reach too far')}: must lie between 0 "
            f"and 1, which the encoder {workers.encoder} declares; scale them by public bounds first"
        )
    return inputs if high <= 1.0 else np.hstack([np.minimum(body, np.float32(1.0)), inputs[:, body.shape[1] :]])


def _never_negative(workers: Workers) -> bool:
    return encoder_of(workers).never_negative and workers.centre == "none"
