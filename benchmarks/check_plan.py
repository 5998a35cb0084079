"""Check by simulation that what ``airmix plan`` recommends, moments of all workers in one slot, is what learns best.

    python benchmarks/check_plan.py --out benchmarks/results/plan_check.json

For each target the recommended design and a grid of others, all at the same privacy, are simulated with three seeds.
MNIST is read through the package's loader; --quick leaves
it out. On two CPU cores the whole takes about a quarter of an hour.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from airmixml import Scenario, __version__
from airmixml.edge import learn
from airmixml.errors import AirMixError
from airmixml.planning.planned import changed_keys, sent_at_once
from airmixml.streams import Streams
from airmixml.workers import load_dataset
from results_file import show_and_write

SEEDS = 3
MOST_SEATS = 3_000_000
DIGITS = (
    "workers.dataset=digits",
    "workers.train_samples=0",
    "workers.count=1198",
    "workers.holding=dealt",
    "workers.encoder=clip",
    "workers.features=0",
    "workers.norm=unit",
    "workers.centre=own",
    "workers.constant=0",
    "radio.scheduled=1198",
    "privacy.delta=1e-5",
    "learner.model=ridge",
)
MNIST = ("workers.features=300",)


@dataclass(frozen=True)
class Case:
    """A target and the scenario that is planned for it."""

    name: str
    preset: str
    changes: tuple[str, ...]
    sizes: tuple[int, ...]
    lengths: tuple[int, ...]
    weights: tuple[float, ...] = (0.15, 0.4, 1.0)


CASES = (
    Case("digits, server, epsilon 1", "private-mnist", (*DIGITS, "privacy.epsilon=1"), (4, 64), (100, 2000)),
    Case("digits, server, epsilon 10", "private-mnist", (*DIGITS, "privacy.epsilon=10"), (4, 64), (100, 2000)),
    Case(
        "digits, server, epsilon 3, lda, replace-one",
        "private-mnist",
        (*DIGITS, "privacy.epsilon=3", "learner.model=lda", "privacy.adjacency=replace-one"),
        (4, 64),
        (100, 2000),
    ),
    Case(
        "digits, release, epsilon 10",
        "private-mnist-release",
        (*DIGITS, "radio.scheduled=16", "radio.slots=2000", "privacy.epsilon=10"),
        (4, 32, 256),
        (300, 3000, 30000),
        (0.3, 1.0),
    ),
    Case(
        "digits, uncentred, release by paper-loose, epsilon 15",
        "private-mnist-release",
        (
            *DIGITS,
            "workers.centre=none",
            "radio.schedule=fixed",
            "radio.scheduled=16",
            "radio.slots=2000",
            "privacy.epsilon=15",
            "privacy.accountant=paper-loose",
        ),
        (1, 4, 32, 256),
        (300, 3000, 30000),
        (0.3, 1.0),
    ),
    Case("mnist, server, epsilon 1", "private-mnist", (*MNIST, "privacy.epsilon=1"), (256,), (50, 2000)),
    Case("mnist, server, epsilon 10", "private-mnist", (*MNIST, "privacy.epsilon=10"), (256,), (50, 2000)),
    Case(
        "mnist, release, epsilon 10",
        "private-mnist-release",
        (*MNIST, "privacy.epsilon=10"),
        (16, 128),
        (2000, 16000),
        (0.4, 1.0),
    ),
)


def grid(case: Case, everybody: int) -> Iterator[tuple[str, ...]]:
    """Yield the recommended design's rivals, as changes: moments of all in one slot, and others of either kind."""
    for weight in case.weights:
        common = (f"workers.label_weight={weight}", "mixing.policy=equalmix", "mixing.power=dp")
        yield (
            *common,
            "workers.sends=moments",
            f"radio.scheduled={everybody}",
            "radio.slots=1",
            "radio.schedule=fixed",
        )
        for size, slots in product(case.sizes, case.lengths):
            if size * slots > MOST_SEATS:
                continue
            for sends in ("samples", "moments") if slots <= 200 else ("samples",):
                yield (*common, f"workers.sends={sends}", f"radio.scheduled={size}", f"radio.slots={slots}")


def errors_of(scenario: Scenario) -> list[float]:
    """Return the measured error of each seed, in per cent."""
    errors = []
    for seed in range(SEEDS):
        dataset = load_dataset(scenario.workers, Streams(seed))
        errors.append(
            100.0 * (1.0 - learn(scenario.with_seed(seed), dataset=dataset).trained.history.test_accuracy[-1])
        )
    return errors


def check(case: Case) -> dict[str, Any]:
    started = time.perf_counter()
    scenario = Scenario.preset(case.preset).with_overrides(*case.changes)
    rows = []
    for changes in (changed_keys(scenario, sent_at_once(scenario)), *grid(case, scenario.workers.count)):
        try:
            errors = errors_of(scenario.with_overrides(*changes))
        except AirMixError:  # no power keeps the target
            continue
        mean, spread = round(float(np.mean(errors)), 2), round(float(np.std(errors, ddof=1)), 2)
        rows.append({"changes": changes, "error_percent": mean, "spread_percent": spread})
        print(f"  {rows[-1]}", file=sys.stderr, flush=True)
    best = min(rows, key=lambda row: row["error_percent"])
    return {
        "case": case.name,
        "recommended": rows[0],
        "best_of_grid": best,
        "behind_best_points": round(rows[0]["error_percent"] - best["error_percent"], 2),
        "designs": len(rows),
        "rows": rows,
        "seconds": round(time.perf_counter() - started, 1),
    }


def line(result: dict[str, Any]) -> str:
    chosen, best = result["recommended"], result["best_of_grid"]
    return (
        f"{result['case']:<55} error {chosen['error_percent']:6.2f} +- {chosen['spread_percent']:4.2f} %, best of "
        f"{result['designs']:>2} {best['error_percent']:6.2f} %, behind {result['behind_best_points']:5.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true", help="digits only")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    options = parser.parse_args()
    cases = [
        case for case in CASES if options.only in case.name and not (options.quick and case.name.startswith("mnist"))
    ]
    results: list[dict[str, Any]] = []
    for case in cases:
        results.append(check(case))
        print(line(results[-1]), file=sys.stderr, flush=True)
        if options.out is not None:  # a check that is stopped keeps the cases that it finished
            options.out.write_text(json.dumps(summary(results), indent=2) + "\n", encoding="utf-8")
    show_and_write(summary(results), options.out)
    print("\n".join(map(line, results)), file=sys.stderr)


def summary(results: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "command": "python benchmarks/" + " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "airmixml": __version__,
        "device": f"cpu, {os.cpu_count()} cores",
        "seeds": SEEDS,
        "cases": results,
    }


if __name__ == "__main__":
    main()
