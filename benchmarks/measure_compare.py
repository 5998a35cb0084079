"""Measure what docs/comparison.md tells of MNIST, and write its tables and its picture.

    python benchmarks/measure_compare.py --device cuda
    python benchmarks/measure_compare.py --methods airmix-rounds,masked-rounds,federated --seeds 1
    python benchmarks/measure_compare.py --docs

Finished runs are kept in runs/measure-compare, so that the same command goes on where it was stopped. Rows of methods
that are not run this time, or cannot be on this machine, stay as they are in benchmarks/results.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import compare_tables
from airmixml import Scenario, Speed
from airmixml.compare import METHODS, compare_methods, load_methods
from airmixml.compare.comparison_page import comparison_figure
from airmixml.output.figures import save_figure
from airmixml.scenario import RunContext
from compare_tables import EPSILONS, ROOT, results_file

PICTURE = ROOT / "docs" / "images" / "compare-mnist.png"
WORK = Path("runs") / "measure-compare"
SEEDS = 3
# What is run at each target; a network on raw samples learns nothing at epsilon 1, and logistic takes minutes.
LEFT_OUT = {10: ("logistic",), 1: ("logistic", "paper", "dp-logistic", "adassp")}


def scenario_at(epsilon: int) -> Scenario:
    return Scenario.preset("private-mnist").with_overrides(f"privacy.epsilon={epsilon}")


def measure(epsilon: int, asked: list[str], seeds: int, context: RunContext) -> None:
    """Run the methods that this machine can run, and put their rows beside those that are there."""
    names = [name for name in asked or METHODS.own if asked or name not in LEFT_OUT[epsilon]]
    methods = load_methods(*names)
    missing = {name: why for name, method in methods.items() if (why := method.missing())}
    here = {name: method for name, method in methods.items() if name not in missing}
    out = WORK / f"epsilon-{epsilon}"
    found = compare_methods(scenario_at(epsilon), here, left_out=missing, seeds=seeds, out=out, context=context)
    for name, why in found.left_out.items():
        print(f"epsilon {epsilon}: {name} not run ({why})")
    path, plain = results_file(epsilon), found.to_dict()
    old = json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else []
    rows = {row["method"]: row for row in (*old, *plain["rows"])}
    plain["rows"] = [rows[name] for name in METHODS.own if name in rows]
    plain["left_out"] = {}
    path.write_text(json.dumps(plain, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def write_docs() -> None:
    """Write the tables and the picture."""
    compare_tables.update()
    rows = compare_tables.load_rows()[EPSILONS[0]]
    shown = {
        "rows": rows,
        "seeds": rows[0]["accuracy"]["by_seed"],
        "guess": 0.1135,
    }  # 1,135 of the 10,000 test images are a "1"
    save_figure(comparison_figure(shown, scenario_at(EPSILONS[0])), PICTURE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--methods", default="", help="with commas between them (default: all)")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--docs", action="store_true", help="write tables and picture of what is measured")
    given = parser.parse_args()
    if not given.docs:
        context = RunContext(speed=Speed(device=given.device, threads=given.threads), data_dir=given.data_dir)
        for epsilon in EPSILONS:
            measure(epsilon, [name for name in given.methods.split(",") if name], given.seeds, context)
    write_docs()


if __name__ == "__main__":
    main()
