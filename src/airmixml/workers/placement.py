"""Where the workers stand: uniform in a square with the server in the middle."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["place_coordinates", "place_workers"]


def place_coordinates(count: int, side_metres: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return where each worker stands, in metres from the server to the east and to the north; workers x 2."""
    return rng.uniform(-side_metres / 2, side_metres / 2, size=(count, 2))


def place_workers(
    count: int, side_metres: float, min_distance_metres: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return the distance in metres of each worker from the server.

    Workers nearer than ``min_distance_metres`` count as being that far: path loss is a law of the far field.
    """
    places_metres = place_coordinates(count, side_metres, rng)
    distance_metres = np.hypot(places_metres[:, 0], places_metres[:, 1])
    return np.maximum(distance_metres, min_distance_metres, out=distance_metres)
