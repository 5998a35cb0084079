"""The files of a reproduction: a very small version of the whole paper, read back with other readers."""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

import airmixml.radio.transmission as mixtures_module
from airmixml import RunFolderError, Scenario, ScenarioError, simulate
from airmixml.reproduction import Reproduction, Request, reproduce

Airmix = Callable[..., subprocess.CompletedProcess[str]]
Whole = tuple[Reproduction, Path]

SIZE = ("radio.slots=40", "learner.epochs=2", "learner.hidden_units=[4]")
TINY = {
    "iris": Scenario.preset("paper-iris").with_overrides(*SIZE, "workers.count=60"),
    "mnist": Scenario.preset("digits").with_overrides(
        *SIZE, "learner.model=mlp", "workers.count=200", "workers.train_samples=200"
    ),
}


def tiny(*targets: str, bases: Mapping[str, Scenario] = TINY, **options: Any) -> Request:
    """Let every cell vary a scenario that takes milliseconds."""
    return Request(targets=targets, bases=bases, **options)


TABLES = ("table1-iris", "table1-mnist", "table2-iris", "table2-mnist", "fig3", "fig4")
CELLS = {"table1-iris": 36, "table1-mnist": 60, "table2-iris": 38, "table2-mnist": 60, "fig3": 12, "fig4": 20}
PART = tiny("table1", "fig2", dataset="iris", seeds=2)
VERDICTS = {"agrees", "trend agrees", "undecided", "does not follow from the stated settings"}
QUICK = "the rest is not decided by --quick."


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """Everything once, with two seeds."""
    folder = tmp_path_factory.mktemp("whole")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return reproduce(tiny("all", seeds=2), folder, draw=False), folder


@pytest.fixture(scope="module")
def part(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """Table I of Iris and Fig. 2 alone, in a folder of their own."""
    folder = tmp_path_factory.mktemp("part")
    return reproduce(PART, folder, draw=False), folder


def report_of(folder: Path) -> dict[str, Any]:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    return json.loads((folder / "report.json").read_text(encoding="utf-8"), parse_constant=refuse)


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def cells_of(folder: Path, table: str) -> list[dict[str, Any]]:
    """Return the cells of a table or figure from the report; the digits stand where the paper has MNIST."""
    target, _, half = table.partition("-")
    datasets = {"iris": ("iris",), "mnist": ("digits",), "": ("iris", "digits")}[half]
    return [cell for cell in report_of(folder)["cells"] if cell["target"] == target and cell.get("dataset") in datasets]


# --- Which files there are --------------------------------------------------------------------------------------------


def test_all_promised_files_and_no_others(whole: Whole) -> None:
    reproduction, folder = whole
    expected = {f"{table}.csv" for table in (*TABLES, "fig2", "claims")}
    expected |= {"report.md", "report.json"}
    assert {path.name for path in folder.iterdir()} == expected | {"batches"}
    assert sorted(reproduction.files) == sorted(folder / name for name in expected)
    assert (reproduction.failures, reproduction.kept_batches) == ([], 0)


@pytest.mark.parametrize(
    "request_of",
    [
        pytest.param(tiny("table2", dataset="iris", seeds=2), id="one"),
        pytest.param(tiny("all", seeds=2), id="all", marks=pytest.mark.long),
    ],
)
def test_the_pictures_can_be_opened_and_show_something(request_of: Request, whole: Whole, tmp_path: Path) -> None:
    shutil.copytree(whole[1] / "batches", tmp_path / "batches")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        files = reproduce(request_of, tmp_path).files
    drawn = {path.stem for path in files if path.suffix == ".png"}
    assert drawn == ({*TABLES, "fig2"} if "all" in request_of.targets else {"table2-iris"})
    assert drawn == {path.stem for path in files if path.suffix == ".svg"}
    for name in drawn:
        with Image.open(tmp_path / f"{name}.png") as picture:
            picture.load()
            assert min(picture.size) > 250
            assert len(np.unique(np.asarray(picture.convert("L")))) > 10, f"{name} is blank"
        drawing = ElementTree.parse(tmp_path / f"{name}.svg").getroot()
        assert drawing.tag == "{http://www.w3.org/2000/svg}svg"
        assert len(list(drawing.iter("{http://www.w3.org/2000/svg}path"))) > 20


# --- What they say ----------------------------------------------------------------------------------------------------


def test_the_report_holds_every_cell(whole: Whole) -> None:
    _, folder = whole
    report = report_of(folder)
    assert (report["targets"], report["seeds"]) == (["table1", "table2", "fig2", "fig3", "fig4"], 2)
    assert len(report["cells"]) == 5 + sum(CELLS.values())
    for table, count in CELLS.items():
        cells = cells_of(folder, table)
        assert len(cells) == count
        for cell in cells:
            measured = cell["measured"]
            assert measured["seeds"] == [0, 1]
            assert measured["mean"] == pytest.approx(sum(measured["values"]) / 2)
            assert measured["deviation"] == pytest.approx(abs(np.subtract(*measured["values"])) / np.sqrt(2))
            if table.startswith("table"):
                assert cell["verdict"] in VERDICTS
                gap = measured["mean"] - cell["printed"]
                share = gap if table.startswith("table1") else gap / cell["printed"]
                assert cell["difference"] == pytest.approx(share)
            else:
                assert (cell["printed"], cell["verdict"], cell["difference"]) == (None, "", None)
                assert len(cell["curve"]) == 2
    first = cells_of(folder, "table1-iris")[5]
    assert (first["row"], first["column"]) == ("epsilon = 5", "8 workers, alpha = 10^5")
    assert (first["printed"], first["bold"], first["unit"], first["epsilon"]) == (92.0, True, "%", 5.0)
    assert len(report["claims"]) == len(rows_of(folder / "claims.csv")) > 40


def test_accuracies_are_shares_of_the_fifty_test_samples_in_percent(whole: Whole) -> None:
    for cell in cells_of(whole[1], "table1-iris"):
        for kind in ("measured", "best_epoch"):
            halves = np.array(cell[kind]["values"]) / 2.0
            assert np.allclose(halves, np.round(halves))
            assert 0 <= halves.min() <= halves.max() <= 50
        assert cell["best_epoch"]["mean"] >= cell["measured"]["mean"]


def test_energies_are_those_of_the_same_scenario_simulated_alone(whole: Whole) -> None:
    cells = {(cell["row"], cell["column"], cell["reading"]): cell for cell in cells_of(whole[1], "table2-iris")}
    for row, settings in (("epsilon = 10", ["privacy.epsilon=10"]), ("max. power", ["mixing.power=max"])):
        alone = TINY["iris"].with_overrides("radio.scheduled=4", "mixing.alpha=10", *settings)
        expected = [simulate(alone.with_seed(seed)).report.energy_joules for seed in (0, 1)]
        cell = cells[row, "4 workers, alpha = 10", "as printed"]
        assert cell["measured"]["values"] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("table", TABLES)
def test_csv_holds_each_entry_beside_print(whole: Whole, table: str) -> None:
    _, folder = whole
    rows, cells = rows_of(folder / f"{table}.csv"), cells_of(folder, table)
    assert len(rows) == len(cells) == CELLS[table]
    for row, cell in zip(rows, cells, strict=True):
        assert None not in row
        assert None not in row.values()
        assert (row["row"], row["column"], row.get("verdict", "")) == (cell["row"], cell["column"], cell["verdict"])
        if cell["quantity"] == "accuracy":
            for name, kind in (("final epoch", "measured"), ("best epoch", "best_epoch")):
                assert row[name] == f"{cell[kind]['mean']:.1f} ± {cell[kind]['deviation']:.1f}"
        if cell["printed"] is not None:
            assert row["read as"] == cell["reading"].removeprefix("as ")
            assert row["printed"].endswith(" (bold)") == cell["bold"]


def test_csv_has_as_many_digits_as_print(whole: Whole) -> None:
    entries = {
        "table1-mnist": "90.25 (bold)",
        "table2-iris": "0.0912 µJ (bold)",
    }  # two decimals where the paper has them
    for table, entry in entries.items():
        assert entry in [row["printed"] for row in rows_of(whole[1] / f"{table}.csv")]


def test_claims_csv_holds_the_claims_of_the_report(whole: Whole) -> None:
    _, folder = whole
    claims = report_of(folder)["claims"]
    expected = []
    for claim in claims:
        case = f"{claim['case']}; {claim['light']}" if claim["light"] else claim["case"]
        expected.append([claim["place"], claim["says"], case, claim["decision"], claim["evidence"]])
    assert [list(row.values()) for row in rows_of(folder / "claims.csv")] == expected
    assert {claim["light"] for claim in claims} == {"", "best epoch", "read otherwise", "read otherwise, best epoch"}


# --- Markdown ---------------------------------------------------------------------------------------------------------


def markdown_tables(text: str) -> list[list[str]]:
    """Return the lines of each table."""
    blocks: list[list[str]] = [[]]
    for line in text.splitlines():
        if line.startswith("|"):
            blocks[-1].append(line)
        elif blocks[-1]:
            blocks.append([])
    return [block for block in blocks if block]


def count_bars(line: str) -> int:
    return len(re.findall(r"(?<!\\)\|", line))


def test_every_line_of_a_markdown_table_has_as_many_columns(whole: Whole) -> None:
    tables = markdown_tables((whole[1] / "report.md").read_text(encoding="utf-8"))
    for head, rule, *rows in tables:
        assert rows
        assert head.endswith("|")
        assert re.fullmatch(r"\|(---\|)+", rule)
        assert {count_bars(line) for line in (head, rule, *rows)} == {count_bars(head)}
    # What was asked, verdicts and claims counted; claims, Fig. 2, then each table.
    assert [len(block) - 2 for block in tables[5:]] == [CELLS[table] for table in TABLES]


def test_the_report_shows_every_picture(whole: Whole) -> None:
    text = (whole[1] / "report.md").read_text(encoding="utf-8")
    linked = set(re.findall(r"!\[[^\]]*\]\(([^)]+)\)", text))
    assert linked == {f"{name}.png" for name in (*TABLES, "fig2")}


# --- Again ------------------------------------------------------------------------------------------------------------

SAME = {"table1-iris.csv", "fig2.csv"}


def test_another_folder_and_another_request_give_the_same_bytes(whole: Whole, part: Whole) -> None:
    for name in sorted(SAME):
        assert (whole[1] / name).read_bytes() == (part[1] / name).read_bytes(), name


def test_the_same_request_again_runs_nothing_and_writes_the_same(part: Whole, tmp_path: Path) -> None:
    folder = tmp_path / "again"
    shutil.copytree(part[1] / "batches", folder / "batches")
    again = reproduce(PART, folder, draw=False)
    assert again.kept_batches == again.batches == part[0].batches == 4  # two seeds, as printed and read otherwise
    names = {path.name for path in part[1].iterdir() if path.is_file()}
    assert names == SAME | {"report.json", "report.md", "claims.csv"}
    for name in sorted(names):
        assert (folder / name).read_bytes() == (part[1] / name).read_bytes(), name


def test_claims_and_report_are_those_of_the_last_request(tmp_path: Path) -> None:
    claims, table = {"claims.csv"}, {"table2-iris.csv"}
    report = {"report.md", "report.json", "batches"}
    reproduce(tiny("table2", dataset="iris", seeds=1, as_printed=True), tmp_path, draw=False)
    assert {path.name for path in tmp_path.iterdir()} == claims | table | report
    reproduce(Request(targets=("fig2",)), tmp_path, draw=False)
    assert {path.name for path in tmp_path.iterdir()} == table | report | {"fig2.csv"}
    assert report_of(tmp_path)["claims"] == []


def test_a_quick_report_says_what_it_leaves_open(part: Whole, tmp_path: Path) -> None:
    assert QUICK not in (part[1] / "report.md").read_text(encoding="utf-8")
    found = reproduce(tiny("table2", seeds=1, quick=True), tmp_path, draw=False)
    report = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert QUICK in report
    assert [cell["half"] for cell in found.plain["cells"]] == ["iris"] * 38
    assert [claim["decision"] for claim in report_of(tmp_path)["claims"]][1:] == ["not decided by --quick"]
    assert "| not decided by --quick | airmix reproduce table2 --dataset mnist |" in report


# --- Cells that fail --------------------------------------------------------------------------------------------------


def fails_for(monkeypatch: pytest.MonkeyPatch, is_bad: Callable[[Scenario], bool]) -> None:
    """Let the simulation of some scenarios raise an error."""
    simulate_family = mixtures_module.simulate_family

    def failing(scenarios: Sequence[Scenario], **options: Any) -> Any:
        if is_bad(scenarios[0]):
            raise ScenarioError("the relay is on fire")
        return simulate_family(scenarios, **options)

    monkeypatch.setattr(mixtures_module, "simulate_family", failing)


def test_a_failing_cell_is_shown_as_failed_among_the_others(
    part: Whole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The column of 8 workers, alpha = 1 fails; that of alpha = 10 loses its second seed."""
    with monkeypatch.context() as patch:
        fails_for(
            patch,
            lambda scenario: (
                scenario.radio.scheduled == 8
                and (scenario.mixing.alpha == 1 or (scenario.mixing.alpha == 10 and scenario.seed == 1))
            ),
        )
        reproduction = reproduce(PART, tmp_path, draw=False)
    assert len(reproduction.failures) == 6 * 2 + 6  # five rows and one read otherwise
    assert reproduction.failures[0] == ("table1, iris, epsilon = 5, 8 workers, alpha = 1: seed 0: the relay is on fire")
    before = {(cell["row"], cell["column"], cell["reading"]): cell for cell in cells_of(part[1], "table1-iris")}
    for cell in cells_of(tmp_path, "table1-iris"):
        same = before[cell["row"], cell["column"], cell["reading"]]
        if cell["column"] == "8 workers, alpha = 1":
            assert (cell["measured"], cell["best_epoch"], cell["verdict"], cell["difference"]) == (None, None, "", None)
            assert cell["errors"] == [f"seed {seed}: the relay is on fire" for seed in (0, 1)]
        elif cell["column"] == "8 workers, alpha = 10":
            assert cell["measured"]["values"] == same["measured"]["values"][:1]
            assert (cell["measured"]["seeds"], cell["measured"]["deviation"]) == ([0], None)
            assert cell["errors"] == ["seed 1: the relay is on fire"]
        else:
            assert cell["measured"] == same["measured"]
            assert cell["errors"] == []
    table = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "| epsilon = 5 | 8 workers, alpha = 1 | printed | 68.0 | failed |  |  | failed |  |  |" in table
    assert table.count("| failed |") == 2 * 6
    rows = rows_of(tmp_path / "table1-iris.csv")
    assert [row["final epoch"] == "failed" for row in rows] == [row["column"] == "8 workers, alpha = 1" for row in rows]

    # What was refused would be refused again: it is kept as it is, and nothing is run.
    report = (tmp_path / "report.json").read_bytes()
    again = reproduce(PART, tmp_path, draw=False)
    assert again.kept_batches == again.batches == 4
    assert again.failures == reproduction.failures
    assert (tmp_path / "report.json").read_bytes() == report


def test_what_broke_is_tried_again(part: Whole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And ends where it would have ended without it."""

    def broken(scenarios: Sequence[Scenario], **_options: Any) -> Any:
        if scenarios[0].seed == 1:
            raise RuntimeError("out of luck")
        return simulate_family(scenarios, **_options)

    simulate_family = mixtures_module.simulate_family
    with monkeypatch.context() as patch:
        patch.setattr(mixtures_module, "simulate_family", broken)
        reproduction = reproduce(PART, tmp_path, draw=False)
    assert len(reproduction.failures) == 36
    assert all(failure.endswith(": seed 1: RuntimeError: out of luck") for failure in reproduction.failures)
    again = reproduce(PART, tmp_path, draw=False)
    assert (again.failures, again.kept_batches, again.batches) == ([], 2, 4)
    assert (tmp_path / "report.json").read_bytes() == (part[1] / "report.json").read_bytes()


@pytest.mark.parametrize("table", ["table2"])
def test_a_row_that_cannot_be_certified_leaves_the_other_rows_alone(table: str, tmp_path: Path) -> None:
    """With delta = 0.005 epsilon must be above ln 200 = 5.3, so only the row of epsilon = 5 is lost."""
    bases = {"iris": TINY["iris"].with_overrides("privacy.delta=0.005")}
    request = tiny(table, dataset="iris", seeds=1, as_printed=True, bases=bases)
    reproduction = reproduce(request, tmp_path, draw=False)
    failed = {cell["row"] for cell in reproduction.plain["cells"] if cell["measured"] is None}
    assert failed == {"epsilon = 5"}


# --- A full disk ------------------------------------------------------------------------------------------------------


def test_files_that_do_not_fit(
    airmix: Airmix, files_up_to: Callable[[int], AbstractContextManager[None]], tmp_path: Path
) -> None:
    command = ("reproduce", "table2", "--dataset", "iris", "--as-printed", "--seeds", "1", "--jobs", "1")
    with files_up_to(20_000):
        done = airmix(*command, "--out", "here")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("airmix: error: ")
    assert "cannot be written (File too large); free space or choose another --out" in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert not list(tmp_path.rglob("*.tmp"))
    assert not (tmp_path / "here" / "report.json").exists()


@pytest.mark.parametrize("writes_before", [1, 4])
def test_a_disk_that_fills_up_at_any_time(
    tmp_path: Path,
    disk_full_after: Callable[[int], AbstractContextManager[None]],
    writes_before: int,
) -> None:
    """Two seeds make two batches; then come claims, a table, and the report."""
    request = tiny("table2", dataset="iris", seeds=2, as_printed=True)
    refused = pytest.raises(RunFolderError, match=r"cannot be written \(No space left on device\)")
    with disk_full_after(writes_before), refused:
        reproduce(request, tmp_path / "here", draw=False)
    assert not list(tmp_path.rglob("*.tmp"))
    assert not (tmp_path / "here" / "report.json").exists()
    again = reproduce(request, tmp_path / "here", draw=False)  # there is room again: the same call goes through
    assert again.kept_batches == min(writes_before, 2)
    assert all(path.is_file() for path in again.files)
    assert len(report_of(tmp_path / "here")["cells"]) == 30
