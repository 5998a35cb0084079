"""Check by simulation that how ``airmix plan`` lets workers send, moments of all in one slot, is what learns best.

    python benchmarks/check_plan.py --jobs 14 --out benchmarks/results/plan_check.json

For each target, moments of all workers in one slot and a grid of other ways to send, all at the same privacy, are
simulated with three seeds. MNIST is read through the package's loader; --quick leaves it out. One CPU core takes about
ten minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product, repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from airmixml import Scenario, __version__
from airmixml.edge import learn
from airmixml.messages import AirMixError
from airmixml.planning.planned import changed_keys, sent_at_once
from airmixml.registries import ADVERSARIES
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


def at_once(case: Case, scenario: Scenario) -> Iterator[tuple[str, ...]]:
    """Yield what sends moments of all in one slot, as changes: first as recommended, then with other label weights."""
    changes = changed_keys(scenario, sent_at_once(scenario))
    for weight in sorted({scenario.workers.label_weight, *case.weights}, reverse=True):
        yield (*changes, f"workers.label_weight={weight}")


def others(case: Case, scenario: Scenario) -> Iterator[tuple[str, ...]]:
    """Yield other ways to send samples or moments, as changes.

    Against an adversary who knows the schedule no worker sends more often than it must: that needs the least noise.
    """
    limited = ADVERSARIES.load(scenario.privacy.adversary).knows_schedule
    for weight, size, slots in product(case.weights, case.sizes, case.lengths):
        if size * slots > MOST_SEATS:
            continue
        most = -(-slots // (scenario.workers.count // size)) if limited else 0
        for sends in ("samples", "moments") if slots <= 200 else ("samples",):
            yield (
                f"workers.label_weight={weight}",
                "mixing.policy=equalmix",
                "mixing.power=dp",
                f"workers.sends={sends}",
                f"radio.scheduled={size}",
                f"radio.slots={slots}",
                f"radio.max_participations={most}",
            )


def row(scenario: Scenario, changes: tuple[str, ...]) -> dict[str, Any] | None:
    """Return the measured error of all seeds, in per cent; None where no power keeps the target."""
    try:
        errors = errors_of(scenario.with_overrides(*changes))
    except AirMixError:
        return None
    mean, spread = round(float(np.mean(errors)), 2), round(float(np.std(errors, ddof=1)), 2)
    found = {"changes": changes, "error_percent": mean, "spread_percent": spread}
    print(f"  {found}", file=sys.stderr, flush=True)
    return found


def errors_of(scenario: Scenario) -> list[float]:
    """Return the measured error of each seed, in per cent."""
    errors = []
    for seed in range(SEEDS):
        dataset = load_dataset(scenario.workers, Streams(seed))
        errors.append(
            100.0 * (1.0 - learn(scenario.with_seed(seed), dataset=dataset).trained.history.test_accuracy[-1])
        )
    return errors


def check(case: Case, pool: Executor) -> dict[str, Any]:
    started = time.perf_counter()
    scenario = Scenario.preset(case.preset).with_overrides(*case.changes)
    designs = [list(of(case, scenario)) for of in (at_once, others)]
    found = list(pool.map(row, repeat(scenario), [changes for each in designs for changes in each]))
    ours, theirs = (
        [each for each in rows if each is not None] for rows in (found[: len(designs[0])], found[len(designs[0]) :])
    )
    best_other = min(theirs, key=lambda each: each["error_percent"])
    return {
        "case": case.name,
        "best_other": best_other,
        "ahead_points": round(best_other["error_percent"] - ours[0]["error_percent"], 2),
        "at_once": ours,  # the recommended one first
        "others": theirs,
        "seconds": round(time.perf_counter() - started, 1),
    }


def line(result: dict[str, Any]) -> str:
    ours, other = result["at_once"][0], result["best_other"]
    return (
        f"{result['case']:<55} at once {ours['error_percent']:6.2f} +- {ours['spread_percent']:4.2f} %, best other "
        f"{other['error_percent']:6.2f} %, ahead {result['ahead_points']:6.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--jobs", type=int, default=1, help="processes, of one thread each")
    parser.add_argument("--quick", action="store_true", help="digits only")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    options = parser.parse_args()
    cases = [
        case for case in CASES if options.only in case.name and not (options.quick and case.name.startswith("mnist"))
    ]
    results: list[dict[str, Any]] = []
    os.environ["OMP_NUM_THREADS"] = "1"  # of the processes that are started from here on
    with ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool:
        for case in cases:
            results.append(check(case, pool))
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
