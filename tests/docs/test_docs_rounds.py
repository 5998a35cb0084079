"""docs/rounds.md shows what benchmarks/results/rounds.json holds, and the targets are met there."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytestmark = pytest.mark.record
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    content = json.loads((ROOT / "benchmarks/results/rounds.json").read_text(encoding="utf-8"))
    assert content["failures"] == []
    return list(content["rows"])


def test_the_tables_are_those_of_the_results(
    rows: list[dict[str, Any]], benchmark_script: Callable[[str], ModuleType]
) -> None:
    tables = benchmark_script("round_tables")
    shown, files = tables.made(rows)
    assert not benchmark_script("doc_tables").stale(tables.DOCUMENT, shown, tables.FOLDER, files)


@pytest.mark.parametrize(
    ("name", "epsilon", "least", "seeds"),
    [
        ("MNIST, 1024 features", "10", 0.9925, 5),
        ("MNIST, 1024 features", "1", 0.9875, 5),
        ("MNIST, 1024 features", "0.3", 0.981, 5),
        ("MNIST, 1024 features", "0.1", 0.972, 5),
        ("MNIST, 512 features", "10", 0.9915, 5),
        ("MNIST, 512 features", "1", 0.986, 5),
        ("Fashion-MNIST, 1024 features", "10", 0.91, 5),
        ("Fashion-MNIST, 1024 features", "1", 0.893, 5),
        ("gain errors of 1 %", "1", 0.982, 3),
    ],
)
def test_what_was_asked_for(rows: list[dict[str, Any]], name: str, epsilon: str, least: float, seeds: int) -> None:
    (row,) = (each for each in rows if each["name"] == name and f"privacy.epsilon={epsilon} " in each["command"] + " ")
    assert len(row["accuracies"]) == seeds
    assert row["mean"] >= least
    own = row["privacy"][0]
    assert own["epsilon"] <= float(epsilon) * (1.0 + 1e-9)
    assert own["delta"] == 1e-5
    if "512" in name:
        assert row["uplink_symbols"] <= 250_000
