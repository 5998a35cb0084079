"""Check by simulation that what ``airmix plan`` recommends is what learns best, and that its score ranks designs.

    python benchmarks/check_plan.py --out benchmarks/results/plan_check.json

For each target the recommended design and a grid of others, all at the same privacy, are simulated with three seeds.
Every design is compared with its predicted learning noise. MNIST is read through the package's loader; --quick leaves
it out. On two CPU cores the whole takes about a quarter of an hour.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from airmixml import Scenario, __version__
from airmixml.data import DataSet
from airmixml.edge import learn
from airmixml.planning.learning_noise import DesignScorer, SendingPlan
from airmixml.planning.recommend import recommend
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
        "digits, server, epsilon 100, samples only",
        "private-mnist",
        (*DIGITS, "privacy.epsilon=100", "workers.sends=samples"),
        (2, 16, 128, 600),
        (30, 200, 1000, 5000),
        (0.3, 1.0),
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


def grid(case: Case, scorer: DesignScorer) -> Iterator[SendingPlan]:
    """Yield the recommended design's rivals: moments of all in one slot, and others of either kind."""
    everybody = scorer.scenario.workers.count
    kinds = ("samples",) if case.name.endswith("samples only") else ("samples", "moments")
    for weight in case.weights:
        if "moments" in kinds:
            yield replace(scorer.own, sends="moments", label_weight=weight, scheduled=everybody, slots=1,
                          schedule="fixed", policy="equalmix", alpha=None)  # fmt: skip
        for size in case.sizes:
            for slots in case.lengths:
                if size * slots > MOST_SEATS:
                    continue
                for sends in kinds if slots <= 200 else ("samples",):
                    yield replace(scorer.own, sends=sends, label_weight=weight, scheduled=size, slots=slots)
    # Unequal shares.
    yield replace(scorer.own, sends="samples", scheduled=case.sizes[-1], slots=case.lengths[-2], schedule="fixed",
                  policy="dirmix", alpha=2.0)  # fmt: skip


def scorer_of(scenario: Scenario, dataset: DataSet) -> DesignScorer:
    return DesignScorer(scenario, dataset.input_dim, dataset.label_dim, scenario.workers.clip_norm**2)


def errors_of(sending: SendingPlan, scenario: Scenario, datasets: list[DataSet]) -> list[float]:
    """Return the measured error of each seed, in per cent."""
    errors = []
    for seed, dataset in enumerate(datasets):
        learned = learn(sending.applied_to(scenario).with_seed(seed), dataset=dataset)
        errors.append(100.0 * (1.0 - learned.trained.history.test_accuracy[-1]))
    return errors


def check(case: Case) -> dict[str, Any]:
    started = time.perf_counter()
    scenario = Scenario.preset(case.preset).with_overrides(*case.changes)
    datasets = [load_dataset(scenario.workers, Streams(seed)) for seed in range(SEEDS)]
    scorer = scorer_of(scenario, datasets[0])
    found = recommend(scorer)
    assert found is not None
    recommended = found.best.sending
    if case.name.endswith("samples only"):
        rivals = [each for each in found.tried if each.sends == "samples"]
        recommended = min(rivals, key=lambda each: found.tried[each])
    rows = []
    for sending in dict.fromkeys((recommended, *grid(case, scorer))):
        noise = scorer.exact_noise(sending)
        if noise is None:
            continue
        errors = errors_of(sending, scenario, datasets)
        rows.append(
            {
                **vars(sending),
                "recommended": sending == recommended,
                "noise_variance": noise.quality.noise_variance,
                "varying_share": noise.quality.varying_share,
                "noise_db": round(10 * float(np.log10(noise.total)), 2),
                "second_db": round(10 * float(np.log10(noise.second_edge)), 2),
                "cross_db": round(10 * float(np.log10(noise.cross_edge)), 2),
                "error_percent": round(float(np.mean(errors)), 2),
                "spread_percent": round(float(np.std(errors, ddof=1)), 2),
            }
        )
        print(f"  {rows[-1]}", file=sys.stderr, flush=True)
    # Designs that leave nothing but noise are all at chance: no order is to be found among them.
    learnt = [row for row in rows if row["error_percent"] < 80.0]
    best = min(rows, key=lambda row: row["error_percent"])
    return {
        "case": case.name,
        "recommended": rows[0],
        "best_of_grid": best,
        "behind_best_points": round(rows[0]["error_percent"] - best["error_percent"], 2),
        "rank_correlation": round(rank_correlation(learnt), 3),
        "designs": len(rows),
        "designs_above_chance": len(learnt),
        "rows": rows,
        "seconds": round(time.perf_counter() - started, 1),
    }


def rank_correlation(rows: list[dict[str, Any]]) -> float:
    """Spearman's, between predicted learning noise and measured error."""
    return float(spearmanr([row["noise_db"] for row in rows], [row["error_percent"] for row in rows]).statistic)


def line(result: dict[str, Any]) -> str:
    chosen, best = result["recommended"], result["best_of_grid"]
    return (
        f"{result['case']:<55} recommended {chosen['sends']:<7} w={chosen['label_weight']:<4g} "
        f"|N_t|={chosen['scheduled']:<6} T={chosen['slots']:<6} error {chosen['error_percent']:6.2f} "
        f"+- {chosen['spread_percent']:4.2f} %, best of {result['designs']:>2} {best['error_percent']:6.2f} %, behind "
        f"{result['behind_best_points']:5.2f}, rank correlation {result['rank_correlation']:.3f}"
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
