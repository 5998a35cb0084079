"""Measure what noise of float32 tells beyond Gaussian noise (Mironov 2012): docs/trust.md quotes it.

    python benchmarks/measure_float_leak.py

Sums of 0 and of what one worker of ``private-mnist`` adds to a number are told apart by counting, for every received
float32, how many of the 2^32 words of NumPy's ziggurat lead to it under each of the two.
"""

from __future__ import annotations

import math

import numpy as np

from results_file import show_and_write

RIGHTMOST, AREA, LAYERS, MANTISSA = 3.6541528853610088, 0.00492867323399141, 256, 2.0**23
NUMBERS = 2000
DEVIATION = 4.17  # of the noise on a sum, epsilon 1
MOVE = math.sqrt(1.25 / 35_456)  # by which a worker moves one of 35,456 numbers


def ziggurat() -> tuple[np.ndarray, np.ndarray]:
    """Width of each layer over 2^23, and the words below which a draw is taken at once; layers."""
    edges = np.zeros(LAYERS)
    edges[-1] = RIGHTMOST
    for layer in range(LAYERS - 2, 0, -1):
        above = edges[layer + 1]
        edges[layer] = math.sqrt(-2.0 * math.log(AREA / above + math.exp(-0.5 * above**2)))
    widths = edges.copy()
    widths[0] = AREA / math.exp(-0.5 * RIGHTMOST**2)
    taken = np.zeros(LAYERS)
    taken[0], taken[2:] = RIGHTMOST / widths[0], edges[1:-1] / edges[2:]
    return (widths / MANTISSA).astype(np.float32), taken * MANTISSA


def words_leading_to(received: np.ndarray, total: float) -> np.ndarray:
    """How many words give each received number on top of that sum; numbers."""
    normals = (received.astype(np.float64) - total) / DEVIATION
    found = np.zeros(len(received))
    for width, taken in zip(*ziggurat(), strict=True):
        for nearby in range(-3, 4):
            word = np.floor(np.abs(normals) / width) + nearby
            normal = word.astype(np.float32) * width * np.sign(normals).astype(np.float32)
            again = (total + DEVIATION * normal.astype(np.float64)).astype(np.float32)
            found += (word >= 0) & (word < taken) & (again == received)
    return found


def main() -> None:
    normals = np.random.default_rng(0).standard_normal(NUMBERS, dtype=np.float32)
    received = (DEVIATION * normals.astype(np.float64)).astype(np.float32)
    right, wrong = words_leading_to(received, 0.0), words_leading_to(received, MOVE)
    kept = (np.abs(normals) < 2.5) & (right > 0)
    show_and_write(
        {
            "numbers": int(kept.sum()),
            "impossible_if_moved": float((wrong[kept] == 0).mean()),
            "mean_log_likelihood_ratio": float(np.log(right[kept] / np.maximum(wrong[kept], 0.3)).mean()),
            "of_gaussian_noise": (MOVE / DEVIATION) ** 2 / 2.0,
        },
        None,
    )


if __name__ == "__main__":
    main()
