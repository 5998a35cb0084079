"""Write the tables of docs/comparison.md and benchmarks/results/compare_mnist/*.csv from compare_mnist_epsilon_*.json.

python benchmarks/compare_tables.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from airmixml.messages import NONE, epsilon_text, joules
from doc_tables import Table, write_tables

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
DOCUMENT, FOLDER = ROOT / "docs" / "comparison.md", RESULTS / "compare_mnist"
EPSILONS = (10, 1)
ADVERSARIES = ("server", "eavesdropper", "everyone")
COLUMNS = (
    "method", "accuracy", "adversary", "epsilon, remove-one", "epsilon, replace-one", "slots per worker",
    "uplink symbols", "downlink bits", "air time", "energy", "worker MACs", "wall time",
)  # fmt: skip
COUNTS = ("slots per worker", "uplink symbols", "downlink bits")

Plain = dict[str, Any]
Rows = dict[int, list[Plain]]


def results_file(epsilon: int) -> Path:
    return RESULTS / f"compare_mnist_epsilon_{epsilon}.json"


def load_rows() -> Rows:
    """Return the rows of every target."""
    return {epsilon: json.loads(results_file(epsilon).read_text(encoding="utf-8"))["rows"] for epsilon in EPSILONS}


def counted(row: Plain, name: str) -> str:
    """Return a whole number; empty where the row was measured before it was kept."""
    return "" if name not in row else NONE if row[name] is None else f"{row[name]:,}"


def cells(row: Plain) -> dict[str, str]:
    """Return what is said of a row, by its columns."""
    accuracy, air_seconds = row["accuracy"], row["air_seconds"]
    spread = "" if accuracy["deviation"] is None else f" ± {100 * accuracy['deviation']:.2f}"
    return {
        "method": row["method"],
        "accuracy": f"{100 * accuracy['mean']:.2f}{spread} %",
        "adversary": row["privacy"][0]["adversary"],
        **{f"epsilon, {each['adjacency']}": epsilon_text(each["epsilon"]) for each in row["privacy"]},
        **{name: counted(row, name.replace(" ", "_")) for name in COUNTS},
        "air time": NONE if air_seconds is None else f"{air_seconds:.3g} s",
        "energy": NONE if row["energy_joules"] is None else joules(row["energy_joules"]),
        "worker MACs": f"{row['worker_multiply_accumulates']:,}",
        "wall time": f"{row['seconds']:.1f} s",
    }


def methods(rows: Rows) -> Table:
    """One line per method: accuracy at both targets, and what it costs at the first."""
    first, second = rows.values()
    later = {row["method"]: cells(row) for row in second}
    costs = ("slots per worker", "uplink symbols", "energy")  # the files have the others
    lines = []
    for row in first:
        said, other = cells(row), later.get(row["method"], {})
        found = [said["method"], said["accuracy"], other.get("accuracy", ""), said["adversary"]]
        lines.append([*found, *(said[name] for name in costs)])
    return ["method", *(f"accuracy, epsilon {epsilon}" for epsilon in rows), "adversary", *costs], lines


def exposed(row: Plain) -> list[str]:
    """Return epsilon against each adversary, and what it rests on."""
    said = [row["exposure"][name] for name in ADVERSARIES]
    texts = [NONE if each is None else epsilon_text(None if each == "infinite" else each) for each in said]
    return [*texts, row["exposure"]["rests_on"]]


def alike(rows: list[list[str]]) -> list[list[str]]:
    """Put methods with the same cells into one line."""
    found: dict[tuple[str, ...], list[str]] = {}
    for name, *said in rows:
        found.setdefault(tuple(said), []).append(name)
    return [[", ".join(names), *said] for said, names in found.items()]


def made(rows: Rows) -> tuple[dict[str, Table], dict[str, Table]]:
    """Return the tables of the page and those of the files."""
    kept = [(epsilon, row) for epsilon, each in rows.items() for row in each if row["exposure"]]
    head = ["method", *ADVERSARIES, "rests on"]
    shown = {
        "methods": methods(rows),
        "adversaries": (
            head,
            alike([[row["method"], *exposed(row)] for epsilon, row in kept if epsilon == EPSILONS[0]]),
        ),
    }
    files: dict[str, Table] = {
        f"epsilon-{epsilon}": (list(COLUMNS), [[cells(row)[name] for name in COLUMNS] for row in each])
        for epsilon, each in rows.items()
    }
    files["adversaries"] = (
        ["target", *head],
        [[str(epsilon), row["method"], *exposed(row)] for epsilon, row in kept],
    )
    return shown, files


def update() -> None:
    """Write the tables of the page and of the files."""
    shown, files = made(load_rows())
    write_tables(DOCUMENT, shown, FOLDER, files)


if __name__ == "__main__":
    update()
