"""docs/reproduction.md and the tables it links to say what their data files say; its commands are understood."""

import csv
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from test_docs_commands import fenced

pytestmark = pytest.mark.record
DOCS = Path(__file__).parents[2] / "docs"
DOCUMENT = DOCS / "reproduction.md"
DECISIONS = ("holds", "undecided", "does not hold")
TABLES = {"table1-iris": 36, "table1-mnist": 60, "table2-iris": 38, "table2-mnist": 60, "fig3": 12, "fig4": 20}
TITLES = {
    "table1-iris": "Table I, Iris",
    "table1-mnist": "Table I, MNIST",
    "table2-iris": "Table II, Iris",
    "table2-mnist": "Table II, MNIST",
    "fig3": "Fig. 3",
    "fig4": "Fig. 4",
}


def lines_of(document: Path) -> list[list[str]]:
    lines = document.read_text(encoding="utf-8").splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]


LINES = lines_of(DOCUMENT)


def rows_of(name: str) -> list[dict[str, str]]:
    with (DOCS / "reproduction" / f"{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def claims_of_the_runs() -> list[dict[str, str]]:
    files = [DOCS / "reproduction" / f"{name}.json" for name in ("iris", "mnist", "energy")]
    return [claim for file in files for claim in json.loads(file.read_text(encoding="utf-8"))["claims"]]


def cells_of_the_runs(name: str) -> list[dict[str, Any]]:
    target, _, half = name.partition("-")
    files = [DOCS / "reproduction" / f"{name}.json" for name in ("iris", "mnist", "energy")]
    cells = [cell for file in files for cell in json.loads(file.read_text(encoding="utf-8"))["cells"]]
    return [cell for cell in cells if cell["target"] == target and half in ("", cell["dataset"])]


def energy(joules: float) -> str:
    return f"{joules:.4g} J" if joules >= 0.01 else f"{joules * 1e6:.4g} µJ"


@pytest.mark.parametrize("name", TABLES)
def test_the_tables_of_all_entries_are_those_of_the_data(name: str) -> None:
    rows, cells = rows_of(name), cells_of_the_runs(name)
    assert len(rows) == len(cells) == TABLES[name]
    assert f"\n[All entries of {TITLES[name]}](reproduction/{name}.csv)\n" in DOCUMENT.read_text(encoding="utf-8")
    for row, cell in zip(rows, cells, strict=True):
        assert (row["row"], row["column"], row.get("verdict", "")) == (cell["row"], cell["column"], cell["verdict"])
        values = {heading: text.partition(" ± ")[0].removesuffix(" (bold)") for heading, text in row.items()}
        accuracy, printed = cell["unit"] == "%", cell["printed"]
        if accuracy:
            assert values["final epoch"] == f"{cell['measured']['mean']:.1f}"
            assert values["best epoch"] == f"{cell['best_epoch']['mean']:.1f}"
        else:
            assert values["energy"] == energy(cell["measured"]["mean"])
        if printed is not None:
            assert values["printed"] == (f"{printed:.2f}".removesuffix("0") if accuracy else energy(printed))
            assert values["read as"] == cell["reading"].removeprefix("as ")


@pytest.mark.parametrize("name", [name for name in TABLES if name.startswith("table")])
def test_the_verdicts_are_counted_right(name: str) -> None:
    kinds = (
        [("as printed", "verdict", "final epoch"), ("as printed", "best verdict", "best epoch on the test set")]
        if name.startswith("table1")
        else [("as printed", "verdict", "as printed"), ("other", "verdict", "read otherwise")]
    )
    for reading, kind, label in kinds:
        rows = [row for row in rows_of(name) if (row["read as"] == "printed") == (reading == "as printed")]
        counts = Counter(row[kind] for row in rows)
        expected = [
            str(counts[v]) for v in ("agrees", "trend agrees", "undecided", "does not follow from the stated settings")
        ]
        assert [f"{TITLES[name]}, {label}", *expected] in LINES


def test_the_claims_are_those_of_the_runs() -> None:
    claims = [
        [
            claim["place"],
            claim["says"],
            claim["case"] + (f"; {claim['light']}" if claim["light"] else ""),
            claim["decision"],
            claim["evidence"],
        ]
        for claim in claims_of_the_runs()
    ]
    assert len(claims) > 50
    with (DOCS / "reproduction" / "claims.csv").open(encoding="utf-8", newline="") as file:
        assert list(csv.reader(file))[1:] == claims


def test_the_claims_that_do_not_always_hold_are_counted_right() -> None:
    plain = [claim for claim in claims_of_the_runs() if not claim["light"]]
    counts = Counter((claim["place"], claim["says"], claim["decision"]) for claim in plain)
    expected = [
        [place, says, *(str(counts[place, says, decision]) for decision in DECISIONS)]
        for place, says in dict.fromkeys((claim["place"], claim["says"]) for claim in plain)
        if any(counts[place, says, decision] for decision in DECISIONS[1:])
    ]
    start = LINES.index(["place", "the paper says", *DECISIONS]) + 2
    assert LINES[start : start + len(expected)] == expected
    assert LINES[start + len(expected)][0] == "place"  # the next table: no further claim


def test_the_printed_values_in_the_data_are_those_of_the_package() -> None:
    from airmixml.reproduction.paper_cells import load_printed

    for table in ("table1", "table2"):
        for half in ("iris", "mnist"):
            printed = [
                value * row.get("unit_joules", 1.0)
                for row in load_printed(table)[half]["row"]
                for value in row["printed"]
            ]
            stated = [cell for cell in cells_of_the_runs(f"{table}-{half}") if cell["reading"] == "as printed"]
            assert [cell["printed"] for cell in stated] == pytest.approx(printed, rel=1e-12, abs=0)


def test_commands_too_long_to_run_are_at_least_understood(
    airmix_in: Callable[..., CompletedProcess[str]], tmp_path: Path
) -> None:
    long = [line for line in "".join(fenced(DOCUMENT, "sh")).splitlines() if line.startswith("airmix")]
    assert len(long) >= 4
    for command in long:
        done = airmix_in(*command.split()[1:], "--seeds", "0", cwd=tmp_path)
        assert (done.returncode, done.stderr.startswith("airmix: error: --seeds = 0")) == (2, True), done.stderr
