"""docs/beyond.md shows what benchmarks/results/beyond.json and images.json hold, and the targets are met there."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from airmixml import Scenario

pytestmark = pytest.mark.record
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def beyond(benchmark_script: Callable[[str], ModuleType]) -> ModuleType:
    return benchmark_script("beyond_tables")


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for name in ("beyond", "images"):
        content = json.loads((ROOT / f"benchmarks/results/{name}.json").read_text(encoding="utf-8"))
        assert content["failures"] == []
        found += content["rows"]
    return found


def test_the_tables_are_those_of_the_results(
    beyond: ModuleType, rows: list[dict[str, Any]], benchmark_script: Callable[[str], ModuleType]
) -> None:
    shown, files = beyond.made(rows)
    assert not benchmark_script("doc_tables").stale(beyond.DOCUMENT, shown, beyond.FOLDER, files)
    text = beyond.DOCUMENT.read_text(encoding="utf-8")
    assert all(f"`{name}.csv`" in text for name in files)


@pytest.mark.parametrize(
    ("name", "least", "adversary", "epsilon", "delta", "seeds"),
    [
        ("private-mnist, epsilon 10", 0.98, "server", 10.0, 1e-5, 3),
        ("private-mnist, epsilon 1", 0.965, "server", 1.0, 1e-5, 3),
        ("private-mnist-release, epsilon 10", 0.97, "release", 10.0, 1e-5, 3),
        ("private-mnist-release, epsilon 1", 0.955, "release", 1.0, 1e-5, 3),
        ("paper's accounting, epsilon 10, delta 0.01", 0.95, "release", 10.0, 0.01, 3),
        ("private-iris", 0.93, "server", 5.0, 0.01, 20),
        ("cells, epsilon 10", 0.89, "server", 10.0, 1e-5, 5),
        ("cells, epsilon 1", 0.865, "server", 1.0, 1e-5, 5),
    ],
)
def test_the_targets_are_met(
    rows: list[dict[str, Any]], name: str, least: float, adversary: str, epsilon: float, delta: float, seeds: int
) -> None:
    row = next(row for row in rows if row["part"].endswith("targets") and row["name"] == name)
    own, *_, other = row["privacy"]
    assert len(row["accuracies"]) >= seeds
    assert row["mean"] >= least
    assert (own["adversary"], own["adjacency"], own["delta"]) == (adversary, "remove-one", delta)
    assert own["epsilon"] <= epsilon
    assert other["adjacency"] == "replace-one"


def test_every_command_of_the_results_is_a_scenario(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        words = row["command"].split()
        changes = [word for place, word in enumerate(words) if words[place - 1] == "--set"]
        Scenario.preset(words[3]).with_overrides(*changes)
