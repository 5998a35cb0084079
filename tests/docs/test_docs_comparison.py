"""docs/comparison.md and benchmarks/results/compare_mnist/*.csv show what compare_mnist_epsilon_*.json hold."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.record
ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")


def test_the_tables_are_those_of_the_results(benchmark_script: Callable[[str], ModuleType]) -> None:
    tables = benchmark_script("compare_tables")
    shown, files = tables.made(tables.load_rows())
    assert not benchmark_script("doc_tables").stale(tables.DOCUMENT, shown, tables.FOLDER, files)
    assert all(f"`{name}.csv`" in TEXT for name in files)


@pytest.mark.parametrize("epsilon", [10, 1])
def test_every_accuracy_stands_in_its_row(epsilon: int) -> None:
    path = ROOT / "benchmarks" / "results" / f"compare_mnist_epsilon_{epsilon}.json"
    results = json.loads(path.read_text(encoding="utf-8"))
    assert results["target"]["epsilon"] == epsilon
    for row in results["rows"]:
        accuracy = row["accuracy"]
        shown = f" {100 * accuracy['mean']:.2f} ± {100 * accuracy['deviation']:.2f} % "
        assert re.search(rf"^\| {re.escape(row['method'])} \|.*{re.escape(shown)}", TEXT, re.MULTILINE), row["method"]


def test_how_often_the_mechanism_of_local_dp_is_the_best() -> None:
    path = ROOT / "benchmarks" / "results" / "local_dp_choice.json"
    cells_of = [each["accuracy"] for each in json.loads(path.read_text(encoding="utf-8"))["results"]]
    best = [max(each, key=lambda name: each[name]) for each in cells_of]
    said = TEXT.replace("\n", " ")
    ours, groups = best.count("gradients"), best.count("groups")
    assert f"Gradients are the best in {ours + groups} of {len(best)} cells" in said
    assert f"the former in {ours} cells and the latter in {groups}" in said
    assert max(abs(each["gradients"] - each["groups"]) for each in cells_of) < 0.003
