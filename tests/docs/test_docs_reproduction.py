"""docs/reproduction.md says what its data files say, and the commands it shows are understood."""

import csv
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from test_docs_commands import fenced

DOCS = Path(__file__).parents[2] / "docs"
DOCUMENT = DOCS / "reproduction.md"
TEXT = DOCUMENT.read_text(encoding="utf-8")
LINES = [[cell.strip() for cell in line.strip("|").split("|")] for line in TEXT.splitlines() if line.startswith("|")]
TABLES = {"table1-iris": 36, "table1-mnist": 60, "table2-iris": 38, "table2-mnist": 60, "fig3": 12, "fig4": 20}


def rows_of(name: str) -> list[dict[str, str]]:
    with (DOCS / "reproduction" / f"{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def shown(row: dict[str, str]) -> str:
    """Return the entry as the page should show it."""
    mean = float(row["measured_mean"])
    if row["unit"] == "%":
        printed = f"{float(row['printed']):.2f}".removesuffix("0") + " → " if row["printed"] else ""
        return f"{printed}{mean:.1f} ({float(row['best_epoch_mean']):.1f})"
    values = [f"{value:.4g} J" if value >= 0.01 else f"{value * 1e6:.4g} µJ" for value in (float(row["printed"]), mean)]
    return " → ".join(values)


@pytest.mark.parametrize("name", TABLES)
def test_every_entry_stands_in_its_row(name: str) -> None:
    rows = rows_of(name)
    assert len(rows) == TABLES[name]
    for row in rows:
        label = row["row"] if row["reading"] == "as printed" else f"{row['row']}, read otherwise"
        assert any(line[0] == label and shown(row) in line[1:] for line in LINES), (name, label, shown(row))


@pytest.mark.parametrize("name", [name for name in TABLES if name.startswith("table")])
def test_the_verdicts_are_counted_right(name: str) -> None:
    title = {"table1": "Table I", "table2": "Table II"}[name[:6]] + {"iris": ", Iris", "mnist": ", MNIST"}[name[7:]]
    kinds = (
        [("as printed", "verdict", "final epoch"), ("as printed", "best_epoch_verdict", "best epoch on the test set")]
        if name.startswith("table1")
        else [("as printed", "verdict", "as printed"), ("other", "verdict", "read otherwise")]
    )
    for reading, kind, label in kinds:
        rows = [row for row in rows_of(name) if (row["reading"] == "as printed") == (reading == "as printed")]
        counts = Counter(row[kind] for row in rows)
        expected = [
            str(counts[v]) for v in ("agrees", "trend agrees", "undecided", "does not follow from the stated settings")
        ]
        assert [f"{title}, {label}", *expected] in LINES


def test_the_claims_are_those_of_the_runs() -> None:
    claims = [
        [
            claim["place"],
            claim["says"],
            claim["case"] + (f"; {claim['light']}" if claim["light"] else ""),
            claim["decision"],
            claim["evidence"],
        ]
        for name in ("iris", "mnist", "energy")
        for claim in json.loads((DOCS / "reproduction" / f"{name}.json").read_text(encoding="utf-8"))["claims"]
    ]
    assert len(claims) > 50
    assert [line for line in LINES if line[0] and line[3:4] in (["holds"], ["undecided"], ["does not hold"])] == claims


def test_the_printed_values_in_the_data_are_those_of_the_package() -> None:
    from airmixml.reproduction.printed_tables import load_printed

    for table in ("table1", "table2"):
        for half in ("iris", "mnist"):
            printed = [
                value * row.get("unit_joules", 1.0)
                for row in load_printed(table)[half]["row"]
                for value in row["printed"]
            ]
            rows = [row for row in rows_of(f"{table}-{half}") if row["reading"] == "as printed"]
            assert [float(row["printed"]) for row in rows] == pytest.approx(printed, rel=1e-12, abs=0)


def test_commands_too_long_to_run_are_at_least_understood(tmp_path: Path) -> None:
    long = [line for line in "".join(fenced(DOCUMENT, "sh")).splitlines() if line.startswith("airmix")]
    assert len(long) >= 4
    for command in long:
        arguments = [*command.split()[1:], "--seeds", "0"]
        done = subprocess.run(
            [sys.executable, "-m", "airmixml", *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr.startswith("airmix: error: --seeds = 0")) == (2, True), done.stderr
