"""Measure what docs/comparison.md tells of MNIST, and write its tables and its picture.

    python benchmarks/measure_compare.py --device cuda
    python benchmarks/measure_compare.py --methods masked,workers-noise,federated-masked --seeds 1
    python benchmarks/measure_compare.py --docs

Finished runs are kept in runs/measure-compare, so that the same command goes on where it was stopped. Rows of methods
that are not run this time, or cannot be on this machine, stay as they are in benchmarks/results.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from pathlib import Path
from typing import Any

from airmixml import Scenario, Speed
from airmixml.compare import METHODS, Comparison, Outcome, Row, compare_methods, load_methods
from airmixml.compare.adversaries import HEARING
from airmixml.compare.comparison_picture import comparison_figure
from airmixml.output.figures import save_figure
from airmixml.output.numbers import NONE, epsilon_text, joules
from airmixml.scenario import RunContext
from airmixml.storage.results import from_plain

ROOT = Path(__file__).parents[1]
DOCUMENT, PICTURE = ROOT / "docs" / "comparison.md", ROOT / "docs" / "images" / "compare-mnist.png"
WORK = Path("runs") / "measure-compare"
EPSILONS = (10, 1)
SEEDS = 3
# What is run at each target; a network on raw samples learns nothing at epsilon 1, and logistic takes minutes.
LEFT_OUT = {10: ("logistic",), 1: ("logistic", "paper", "federated-network", "dp-logistic", "adassp")}
WHOLE = ("adversary", "epsilon, remove-one", "epsilon, replace-one", "uplink symbols", "air time", "energy")
COLUMNS = {
    10: ("method", "accuracy", *WHOLE, "worker MACs", "wall time"),
    1: ("method", "accuracy", *WHOLE[:4], "energy", "wall time"),
}

Plain = dict[str, Any]


def results_file(epsilon: int) -> Path:
    return ROOT / "benchmarks" / "results" / f"compare_mnist_epsilon_{epsilon}.json"


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


def cells(row: Plain) -> dict[str, str]:
    """Return what the documentation says of a row, by its columns."""
    accuracy, symbols, air_seconds = row["accuracy"], row["uplink_symbols"], row["air_seconds"]
    spread = "" if accuracy["deviation"] is None else f" ± {100 * accuracy['deviation']:.2f}"
    return {
        "method": row["method"],
        "accuracy": f"{100 * accuracy['mean']:.2f}{spread} %",
        "adversary": row["privacy"][0]["adversary"],
        **{f"epsilon, {each['adjacency']}": epsilon_text(each["epsilon"]) for each in row["privacy"]},
        "uplink symbols": NONE if symbols is None else f"{symbols:,}",
        "air time": NONE if air_seconds is None else f"{air_seconds:.3g} s",
        "energy": NONE if row["energy_joules"] is None else joules(row["energy_joules"]),
        "worker MACs": f"{row['worker_multiply_accumulates']:,}",
        "wall time": f"{row['seconds']:.1f} s",
    }


def adversary_cells(epsilon: int, row: Plain) -> list[str]:
    """Return the line of a row in the table of equal adversaries."""
    said = [row["exposure"][name] for name in HEARING]
    texts = [NONE if each is None else "inf" if each == "infinite" else epsilon_text(each) for each in said]
    accuracy = f"{100 * row['accuracy']['mean']:.2f} %"
    return [str(epsilon), row["method"], accuracy, *texts, row["exposure"]["rests_on"]]


def table(head: tuple[str, ...], lines: list[list[str]]) -> str:
    every = [list(head), ["---"] * len(head), *lines]
    return "".join("| " + " | ".join(line) + " |\n" for line in every)


def write_docs() -> None:
    """Write the tables between their marks, and the picture."""
    rows = {epsilon: json.loads(results_file(epsilon).read_text(encoding="utf-8"))["rows"] for epsilon in EPSILONS}
    text = DOCUMENT.read_text(encoding="utf-8")
    tables = {
        f"epsilon {epsilon}": table(
            COLUMNS[epsilon], [[cells(row)[name] for name in COLUMNS[epsilon]] for row in rows[epsilon]]
        )
        for epsilon in EPSILONS
    }
    head = ("target", "method", "accuracy", *HEARING, "rests on")
    every = [adversary_cells(epsilon, row) for epsilon in EPSILONS for row in rows[epsilon] if row["exposure"]]
    tables["adversaries"] = table(head, every)
    for name, content in tables.items():
        mark = f"<!-- table: {name} -->\n"
        text, times = re.subn(rf"{re.escape(mark)}(\|.*\n)*", lambda _, new=mark + content: new, text)
        assert times == 1, name
    DOCUMENT.write_text(text, encoding="utf-8")
    whole = tuple(read_row(row) for row in rows[EPSILONS[0]])
    seeds = list(range(len(rows[EPSILONS[0]][0]["accuracy"]["by_seed"])))
    shown = Comparison(scenario=scenario_at(EPSILONS[0]), rows=whole, seeds=seeds, kept=0, out=WORK)
    save_figure(comparison_figure(shown), PICTURE)


def read_row(row: Plain) -> Row:
    """Return a row of the results, for the picture."""
    exposure = row["exposure"]
    if exposure is not None:
        exposure = {name: math.inf if value == "infinite" else value for name, value in exposure.items()}
    costs = ("uplink_symbols", "air_seconds", "energy_joules", "worker_multiply_accumulates", "seconds")
    privacy = [{**each, "epsilon": math.inf if each["epsilon"] is None else each["epsilon"]} for each in row["privacy"]]
    said = {"privacy": privacy, "exposure": exposure, "note": row["note"], **{name: row[name] for name in costs}}
    outcomes = tuple(from_plain(Outcome, {"accuracy": each, **said}) for each in row["accuracy"]["by_seed"])
    return Row(name=row["method"], label=row["method"], about=row["about"], outcomes=outcomes)


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
