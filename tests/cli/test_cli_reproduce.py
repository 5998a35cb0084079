"""``airmix reproduce``: what it prints and writes, mistakes, failures, and Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from airmixml import Scenario, ScenarioError
from airmixml.messages import quick_reproduction
from airmixml.output.page import Page
from airmixml.output.tables import Table
from airmixml.radio import tally as rehearsal
from airmixml.reproduction import Request
from airmixml.reproduction.paper_claims import Claim
from airmixml.reproduction.reproduce import reproduction_page

Airmix = Callable[..., subprocess.CompletedProcess[str]]
Refused = Callable[..., str]

# Energies take no training: seconds, and without torch.
ENERGIES = ("reproduce", "table2", "--dataset", "iris", "--jobs", "1")


def has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


# --- What it prints and writes ----------------------------------------------------------------------------------------


@pytest.mark.long
def test_fig2(airmix: Airmix, tmp_path: Path) -> None:
    done = airmix("reproduce", "fig2")
    assert (done.returncode, done.stderr) == (0, "")
    assert "runs/reproduce/report.md" in done.stdout
    assert "pictures: runs/reproduce/fig2.png\n" in done.stdout
    assert "Fig. 2 prints no values; drawn for 5 alphas: the mean sum of " in " ".join(done.stdout.split())
    out = tmp_path / "runs" / "reproduce"
    files = {path.name for path in out.iterdir() if path.is_file()}
    reports = {"report.md", "report.json", "report.html"}
    assert files == {"fig2.csv", "fig2.png", "fig2.svg"} | reports
    cells = json.loads((out / "report.json").read_text(encoding="utf-8"))["cells"]
    assert [cell["alpha"] for cell in cells] == [0.1, 1.0, 10.0, 100.0, 1e5]
    for cell in cells:
        assert cell["measured"]["mean"] == pytest.approx((1 + cell["alpha"] / 8) / (1 + cell["alpha"]), rel=0.02)


@pytest.mark.long
def test_json_prints_one_object_and_the_tables_go_on_from_it(airmix: Airmix, tmp_path: Path) -> None:
    done = airmix(*ENERGIES, "--quick", "--seeds", "2", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    printed: dict[str, Any] = json.loads(done.stdout)
    assert {"targets", "seeds", "quick", "cells", "claims", "failures", "out", "files", "seconds"} <= set(printed)
    assert (printed["targets"], printed["seeds"], printed["quick"]) == (["table2"], 2, True)
    assert (printed["out"], printed["failures"]) == ("runs/reproduce-quick", [])
    assert printed["seconds"] > 0
    out = tmp_path / "runs" / "reproduce-quick"
    written = sorted(f"runs/reproduce-quick/{path.name}" for path in out.iterdir() if path.is_file())
    assert sorted([*printed["files"], printed["report"]]) == written
    report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    assert {name: printed[name] for name in report} == report

    cells = {(cell["row"], cell["column"], cell["reading"]): cell for cell in printed["cells"]}
    assert len(cells) == 30 + 8
    # What the paper prints, in joules, and what becomes of it.
    for place, value, verdict in (
        (("epsilon = 5", "8 workers, alpha = 10^5", "as printed"), 0.375e-6, "agrees"),
        (("epsilon = 10", "8 workers, alpha = 1", "as printed"), 0.125e-6, "agrees"),
        (("max. power", "8 workers, alpha = 10^5", "as printed"), 0.817, "agrees"),
        (("epsilon = 10^4", "4 workers, alpha = 10^5", "as printed"), 8.35e-6, "does not follow"),
        (("epsilon = 10^4", "4 workers, alpha = 10^5", "epsilon = 10^5"), 8.35e-6, "agrees"),
    ):
        cell = cells[place]
        assert cell["printed"] == pytest.approx(value)
        assert cell["verdict"].startswith(verdict)
        assert (abs(cell["measured"]["mean"] / value - 1) <= 0.05) == (verdict == "agrees")
        assert cell["measured"]["seeds"] == [0, 1]
    assert [claim["says"] for claim in printed["claims"]] == ["a smaller alpha spends less energy"]

    # The same without --json: nothing is run again.
    again = airmix(*ENERGIES, "--quick", "--seeds", "2")
    assert (again.returncode, again.stderr) == (0, "")
    assert "(4 of 4 batches already finished); everything in runs/reproduce-quick/report.md\n" in again.stdout
    assert "pictures: runs/reproduce-quick/table2-iris.png\n" in again.stdout
    assert "a smaller alpha spends less energy" in " ".join(again.stdout.split())
    assert [claim["decision"] for claim in printed["claims"]] == ["holds"]
    first = "1 claim holds, 0 do not, 0 undecided. Energies of Iris, at the paper's settings; the rest is not decided "
    assert first in " ".join(again.stdout.split())
    lines = {" ".join(line.strip("│┃ ").replace("│", " ").split()) for line in again.stdout.splitlines()}
    words = ("agrees", "trend", "undecided", "does")
    counts = [sum(cell["verdict"].startswith(word) for cell in cells.values()) for word in words]
    assert sum(counts) == len(cells)
    stated = next(line for line in lines if line.startswith("table2 iris, as printed"))
    reread = next(line for line in lines if line.startswith("table2 iris, read otherwise"))
    pairs = zip(stated.split()[-4:], reread.split()[-4:], strict=True)
    assert [int(one) + int(other) for one, other in pairs] == counts
    assert json.loads((out / "report.json").read_text(encoding="utf-8")) == report


def test_cells_that_fail(airmix: Airmix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever eight workers send cannot be computed."""
    rehearse = rehearsal.rehearse_family

    def faulty(scenarios: Sequence[Scenario], **dimensions: int) -> Any:
        if scenarios[0].radio.scheduled == 8:
            raise ScenarioError("eight is\nenough")
        return rehearse(scenarios, **dimensions)

    monkeypatch.setattr(rehearsal, "rehearse_family", faulty)
    done = airmix(*ENERGIES, "--as-printed", "--seeds", "1", "--json", "--out", "here")
    assert done.returncode == 1
    printed = json.loads(done.stdout)
    failed = [cell for cell in printed["cells"] if cell["measured"] is None]
    assert {cell["scheduled"] for cell in failed} == {8}
    assert len(failed) == len(printed["failures"]) == 15
    assert len(printed["cells"]) == 30
    assert all(cell["errors"] == ["seed 0: eight is enough"] for cell in failed)
    lines = done.stderr.splitlines()
    assert len(lines) == 5 + 2
    assert lines[0] == ("airmix: failed: table2, iris, epsilon = 5, 8 workers, alpha = 1: seed 0: eight is enough")
    assert lines[5] == "airmix: failed: 10 more, see report.json"
    assert lines[6].endswith("; the same command tries the failed ones again")
    assert (tmp_path / "here" / "table2-iris.csv").read_text(encoding="utf-8").count(",failed,") == 15


@pytest.mark.parametrize(
    ("targets", "made"),
    [
        (("all",), "Fig. 2, energies of Iris and some accuracies of Iris, at "),
        (("table1",), "Some accuracies of Iris, at "),
        (("fig2", "fig3"), "Fig. 2, at "),
    ],
)
def test_a_quick_reproduction_names_what_it_made(targets: tuple[str, ...], made: str) -> None:
    assert quick_reproduction(Request(targets=targets, quick=True).wanted).startswith(made)


def test_a_sentence_of_the_paper_is_in_one_table() -> None:
    """Two cases of one sentence, of which a quick reproduction decides one."""
    decided = Claim(place="Table I", says="bold is best", case="a", decision="holds", evidence="")
    left = replace(decided, case="b", decision="not decided by --quick", evidence="airmix reproduce table1")
    other = replace(left, says="another sentence")
    found = {"targets": ["table1"], "quick": True, "seeds": 1, "cells": []}

    def page(*claims: Claim) -> Page:
        return reproduction_page({**found, "claims": list(map(asdict, claims))})

    assert page(decided, left).verdict.startswith("1 claim holds, 0 do not, 0 undecided. Some accuracies of Iris, at ")
    several = [decided, replace(decided, case="c"), replace(decided, decision="does not hold")]
    assert page(*several, left).verdict.startswith("2 claims hold, 1 does not, 0 undecided. ")
    assert page(left).verdict.startswith("Some accuracies of Iris, at ")
    above, below = page(decided, left, other).all(Table)
    assert above.columns[-1] == "not run"
    assert [(row[1], row[-1]) for row in above.rows] == [("bold is best", "1")]
    assert [row[1] for row in below.rows] == ["another sentence"]


# --- Mistakes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ([], ["give what to reproduce", "table1, table2, fig2, fig3, fig4 or all"]),
        (["--quick", "--device", "tpu"], ["--device", "'tpu'"]),  # all is asked for then
        (["tabel1"], ["'tabel1'", "did you mean table1?"]),
        (["table9"], ["'table9': must be one of table1, table2, fig2, fig3, fig4, all\n"]),
        (["table1", "--dataset", "digits"], ["--dataset", "'digits'", "iris or mnist"]),
        (["fig3", "--dataset", "iris"], ["--dataset", "iris", "fig3"]),
        (["fig2", "--seeds", "0"], ["--seeds", "0: must be at least 1"]),
        (["fig2", "--jobs", "0"], ["--jobs", "= 0: must be from 1"]),
        (["fig2", "--engine", "dask"], ["--engine", "'dask'", "local or ray"]),
    ],
)
def test_mistakes_on_the_command_line(refused: Refused, arguments: list[str], parts: list[str]) -> None:
    line = refused("reproduce", *arguments)
    for part in parts:
        assert part in line


def test_cuda_on_a_machine_without_it(refused: Refused) -> None:
    if has_gpu():
        pytest.skip("this machine has a GPU")
    line = refused("reproduce", "table1", "--dataset", "iris", "--quick", "--seeds", "1", "--device", "cuda")
    assert "device = 'cuda': this machine has no CUDA device" in line


def test_an_out_that_is_a_file(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine\n")
    line = refused("reproduce", "fig2", "--out", "taken")
    assert "taken: is a file" in line
    assert "--out" in line
    assert (tmp_path / "taken").read_text() == "mine\n"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_an_out_that_cannot_be_written(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o555)
    line = refused("reproduce", "fig2", "--out", "locked/inside")
    assert "locked/inside: cannot be written (Permission denied)" in line
    assert "--out" in line


def test_a_data_dir_that_does_not_exist(refused: Refused) -> None:
    line = refused("reproduce", "fig3", "--seeds", "1", "--jobs", "1", "--data-dir", "nowhere")
    assert "--data-dir" in line
    assert "nowhere" in line


def test_a_ray_address_where_nobody_listens(airmix: Airmix, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray")
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    done = airmix(*ENERGIES, "--seeds", "1", "--engine", "ray")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("airmix: error: --engine ray: no cluster at RAY_ADDRESS = '127.0.0.1:1' (")
    assert done.stderr.count("\n") == 1, done.stderr


# --- Ctrl-C -----------------------------------------------------------------------------------------------------------

SEEDS = 4
# A script that runs the tests in the background lets its children ignore Ctrl-C.
LISTENING = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from airmixml.cli.main import main
main()
"""
INTERRUPTED = ("reproduce", "table2", "--dataset", "iris", "--as-printed", "--seeds", str(SEEDS))


@pytest.mark.long  # tests/cli/test_cli_interrupted has it of a run
@pytest.mark.parametrize("jobs", [1, 2])
def test_control_c_and_the_same_command_goes_on(
    airmix: Airmix, start_python: Callable[..., subprocess.Popen[str]], tmp_path: Path, jobs: int
) -> None:
    child = start_python("-c", LISTENING, *INTERRUPTED, "--jobs", str(jobs), "--out", "here")
    while not list((tmp_path / "here" / "batches").glob("*.json")):
        assert child.poll() is None, child.communicate()
        time.sleep(0.01)
    os.killpg(child.pid, signal.SIGINT)  # as a terminal does: all its processes get it
    out, err = child.communicate()
    assert (child.returncode, out) == (130, "")
    assert err == "airmix: interrupted; repeat the command to resume\n"
    folder = tmp_path / "here"
    assert [entry.name for entry in folder.iterdir()] == ["batches"]  # no report of half a sweep
    kept = len(list((folder / "batches").glob("*.json")))
    assert 1 <= kept < SEEDS

    done = airmix(*INTERRUPTED, "--jobs", "1", "--out", "here")  # the number of jobs is no part of the work
    assert (done.returncode, done.stderr) == (0, "")
    assert f"({kept} of {SEEDS} batches already finished)" in done.stdout
    assert not list(folder.rglob("*.tmp"))
    cells = json.loads((folder / "report.json").read_text(encoding="utf-8"))["cells"]
    assert len(cells) == 30
    assert all(cell["measured"]["seeds"] == list(range(SEEDS)) for cell in cells)
