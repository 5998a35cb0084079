"""Measure what docs/trust.md tells: accuracy against everyone, at gain errors, on airs, with dropouts and colluders.

    python benchmarks/measure_trust.py --threads 2
    python benchmarks/measure_trust.py --parts gains --seeds 1

Every finished run is kept in benchmarks/results/trust.json, so that the same command goes on where it was stopped.
"""

from __future__ import annotations

import math
from pathlib import Path

from measure_air import Entry, measure_all

RESULTS = Path(__file__).parent / "results" / "trust.json"
GAIN_ERRORS = {"1": (0.01, 0.003), "10": (0.1, 0.01)}  # of relative size g, for each epsilon
CLEAR_GAIN_ERROR = 0.43  # half of a complex error is in phase: `gain_spread` finds 0.304 there on line-of-sight
ABSENT = ("air.absent=0.05", "privacy.most_absent=0.06")


def reciprocity(error: float) -> str:
    """Return the key that gives every worker a complex gain error of that relative size."""
    return f"air.reciprocity_nmse_db={20.0 * math.log10(error):.6g}"


def entries(parts: set[str], seeds: int) -> list[Entry]:
    """Return the runs of these parts, all with the first seed before any with the second."""
    found: list[Entry] = []

    def add(part: str, preset: str, air: str, *changes: str, runs: int = seeds) -> None:
        if part in parts:
            found.extend(Entry(part, preset, air, changes, seed) for seed in range(runs))

    for epsilon, errors in GAIN_ERRORS.items():
        target = f"privacy.epsilon={epsilon}"
        for error in errors:
            add("gains", "trustless-mnist", "ideal", target, reciprocity(error))
        add("gains", "trustless-mnist", "ideal", target)
        add("local", "trustless-mnist", "ideal", target, "privacy.noise=workers")
        add("lab", "trustless-mnist", "lab", target, runs=1)
        add("line-of-sight", "trustless-mnist", "line-of-sight", target, "privacy.most_absent=0.06", runs=1)
        add("line-of-sight", "trustless-mnist", "ideal", target, *ABSENT, reciprocity(CLEAR_GAIN_ERROR))
    for absent in (0.0, 0.01, 0.05, 0.2):
        for most in {0.0, 0.0 if not absent else absent + 0.01}:
            changes = (f"air.absent={absent}", f"privacy.most_absent={most}", reciprocity(0.01))
            add("absent", "trustless-mnist", "ideal", "privacy.epsilon=10", *changes)
    for colluders in (0, 600, 6000, 18000):
        add(
            "colluders",
            "trustless-mnist",
            "ideal",
            "privacy.epsilon=10",
            f"privacy.colluders={colluders}",
            reciprocity(0.01),
        )
    for preset in ("trustless-iris", "trustless-digits"):
        for air in ("ideal", "lab", "line-of-sight"):
            absent = ("privacy.most_absent=0.1",) if air == "line-of-sight" else ()
            add("small", preset, air, *absent, runs=10)
    return sorted(found, key=lambda entry: entry.seed)


if __name__ == "__main__":
    measure_all(__doc__, "gains,local,absent,colluders,line-of-sight,lab,small", entries, RESULTS)
