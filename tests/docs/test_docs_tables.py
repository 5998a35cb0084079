"""docs/tables.md shows what benchmarks/results/tables.json and tables_plan_check.json hold."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.record
ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "tables.md").read_text(encoding="utf-8")


def shown(name: str) -> list[list[str]]:
    """Return the cells of the table after that comment, without its head."""
    after = TEXT.split(f"<!-- table: {name} -->\n")[1]
    lines = after[: after.index("\n\n")].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def results(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((ROOT / "benchmarks" / "results" / name).read_text())["results"]
    return found


def test_the_comparison_is_that_of_the_results() -> None:
    assert shown("tables") == [
        [
            each["dataset"],
            f"{each['epsilon']:g}",
            *(f"{100 * one['mean']:.1f}" for one in each["accuracy"].values()),
        ]
        for each in results("tables.json")
    ]


def test_the_check_of_the_plan_is_that_of_the_results() -> None:
    found = results("tables_plan_check.json")
    assert [each["epsilon"] for each in found] == [1, 10] * 11
    rows = [each["rows"] for each in found]
    gains = [100 * (each["recommended"] - each["plain"]) for each in found]
    regrets = [100 * (each["best"] - each["recommended"]) for each in found]
    (worse,) = (each for each, gain in zip(found, gains, strict=True) if gain < -0.05)
    said = " ".join(TEXT.split())
    assert f"on 11 real tables of {min(rows)} to {max(rows):,} rows" in said
    assert f"{sum(gains) / 22:.1f} points above the plain one and {sum(regrets) / 22:.1f} below the best" in said
    far = found[regrets.index(max(regrets))]
    assert f"at most {max(regrets):.1f} ({far['table']} at epsilon {far['epsilon']:g})" in said
    assert f"once in 22 ({worse['table']} at epsilon {worse['epsilon']:g})" in said
    best = found[gains.index(max(gains))]
    assert f"the largest gain is {max(gains):.1f} points ({best['table']} at epsilon {best['epsilon']:g})" in said


def test_files_for_other_programs_have_plain_numbers() -> None:
    """No cell is "36.7 billion", "10,600" or "no guarantee": a program reads 36700000000, 10600 and inf."""
    written = re.compile(r"[\d.,]+ (million|billion)|\d{1,3}(,\d{3})+(\.\d+)?|no guarantee|–")
    for path in (ROOT / "benchmarks" / "results").rglob("*.csv"):
        with path.open(encoding="utf-8", newline="") as file:
            wrong = [cell for row in csv.reader(file) for cell in row if written.fullmatch(cell)]
        assert not wrong, (path.name, wrong[:3])
