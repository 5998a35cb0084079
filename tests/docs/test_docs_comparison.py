"""docs/comparison.md shows what benchmarks/results/compare_mnist_epsilon_*.json hold."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from airmixml.output.numbers import NONE, epsilon_text, joules

pytestmark = pytest.mark.record
ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")
TABLES = re.findall(r"^\| method \| accuracy \|.*\n(?:\|.*\n)+", TEXT, re.MULTILINE)


def cells(row: dict[str, Any]) -> dict[str, str]:
    """Return what the documentation says of a row, by its columns."""
    accuracy, symbols, air_seconds = row["accuracy"], row["uplink_symbols"], row["air_seconds"]
    return {
        "method": row["method"],
        "accuracy": f"{100 * accuracy['mean']:.2f} ± {100 * accuracy['deviation']:.2f} %",
        "adversary": row["privacy"][0]["adversary"],
        **{f"epsilon, {each['adjacency']}": epsilon_text(each["epsilon"]) for each in row["privacy"]},
        "uplink symbols": NONE if symbols is None else f"{symbols:,}",
        "air time": NONE if air_seconds is None else f"{air_seconds:.3g} s",
        "energy": NONE if row["energy_joules"] is None else joules(row["energy_joules"]),
        "worker MACs": f"{row['worker_multiply_accumulates']:,}",
        "wall time": f"{row['seconds']:.1f} s",
    }


@pytest.mark.parametrize(("table", "epsilon"), list(zip(TABLES, (10, 1), strict=True)), ids=["epsilon 10", "epsilon 1"])
def test_the_tables_are_those_of_the_results(table: str, epsilon: int) -> None:
    path = ROOT / "benchmarks" / "results" / f"compare_mnist_epsilon_{epsilon}.json"
    results = json.loads(path.read_text(encoding="utf-8"))
    columns, _, *shown = ([cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines())
    assert results["target"]["epsilon"] == epsilon
    assert shown == [[cells(row)[column] for column in columns] for row in results["rows"]]


def test_epsilon_against_each_adversary() -> None:
    table = re.search(r"^\| target \| method \|.*\n\|.*\n((?:\|.*\n)+)", TEXT, re.MULTILINE)
    assert table is not None
    shown = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table[1].splitlines()]
    expected = []
    for epsilon in (10, 1):
        path = ROOT / "benchmarks" / "results" / f"compare_mnist_epsilon_{epsilon}.json"
        for row in json.loads(path.read_text(encoding="utf-8"))["rows"]:
            if row["exposure"] is not None:
                found = [row["exposure"][name] for name in ("server", "eavesdropper", "everyone")]
                texts = [
                    NONE if each is None else "inf" if each == "infinite" else epsilon_text(each) for each in found
                ]
                accuracy = f"{100 * row['accuracy']['mean']:.2f} %"
                expected.append([str(epsilon), row["method"], accuracy, *texts, row["exposure"]["rests_on"]])
    assert shown == expected


def test_how_often_the_mechanism_of_local_dp_is_the_best() -> None:
    path = ROOT / "benchmarks" / "results" / "local_dp_choice.json"
    cells_of = [each["accuracy"] for each in json.loads(path.read_text(encoding="utf-8"))["results"]]
    best = [max(each, key=lambda name: each[name]) for each in cells_of]
    said = TEXT.replace("\n", " ")
    ours, groups = best.count("gradients"), best.count("groups")
    assert f"Gradients are the best in {ours + groups} of {len(best)} cells" in said
    assert f"the former in {ours} cells and the latter in {groups}" in said
    assert max(abs(each["gradients"] - each["groups"]) for each in cells_of) < 0.003
