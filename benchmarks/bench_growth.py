"""Time and memory of a streamed simulation against T, |N_t|, N and d, each alone, with the exponent of a power law."""

from __future__ import annotations

import numpy as np

import one_run
from bench_kit import Row, row

GROWN = {
    "T, slots": ("slots", (10_000, 30_000, 100_000, 300_000, 1_000_000)),
    "|N_t|, workers in a slot": ("scheduled", (8, 32, 128, 512)),
    "N, workers": ("workers", (10_000, 100_000, 1_000_000, 10_000_000)),
    "d, symbols of an input": ("inputs", (50, 200, 800, 3_200)),
}


def exponent(sizes: list[int], values: list[float]) -> float:
    """Return b of the least-squares fit log value = a + b log size."""
    return float(np.polyfit(np.log(sizes), np.log(np.maximum(values, 1e-3)), 1)[0])


def rows(_device: str, quick: bool) -> list[Row]:
    found = []
    for name, (key, all_sizes) in GROWN.items():
        sizes = [size // 10 for size in all_sizes[:3]] if quick else list(all_sizes)
        if key in ("scheduled", "inputs"):
            sizes = list(all_sizes[:3] if quick else all_sizes)
        common = {"slots": 500} if quick and key != "slots" else {}
        points = [one_run.measured(**{**common, key: size}) for size in sizes]
        seconds, megabytes = ([point[which] for point in points] for which in ("seconds", "megabytes"))
        found.append(
            row(
                name,
                "",
                points={"sizes": sizes, "seconds": seconds, "megabytes": megabytes},
                seconds_exponent=exponent(sizes, seconds),
                memory_exponent=exponent(sizes, megabytes),
            )
        )
    return found
