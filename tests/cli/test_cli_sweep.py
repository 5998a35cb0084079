"""``airmix sweep``: what it prints and writes, mistakes, failures, Ctrl-C and kill -9."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Airmix = Callable[..., subprocess.CompletedProcess[str]]
GRID = ("sweep", "--preset", "private-iris", "--grid", "privacy.epsilon=0.5,1,5", "--jobs", "1")


def test_a_table_a_picture_and_what_is_kept(airmix: Airmix, tmp_path: Path) -> None:
    done = airmix(*GRID, "--seeds", "2", columns=80)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "Simulation" in done.stdout
    assert "protects nobody" in done.stdout
    assert "…" not in done.stdout
    table = [line for line in done.stdout.splitlines() if line[:2] in ("0.", "1 ", "5 ") and "±" in line]
    assert len(table) == 3
    assert all(len(line) <= 80 for line in table)
    assert "runs/sweep-private-iris/sweep.md, picture in runs/sweep-private-iris/sweep.png" in done.stdout
    out = tmp_path / "runs" / "sweep-private-iris"
    files = {"csv", "md", "json", "png", "svg"}
    named = {"cells", "identity.json", "report.html", *(f"sweep.{each}" for each in files)}
    assert {path.name for path in out.iterdir()} == named
    content = (out / "sweep.csv").read_bytes()
    again = airmix(*GRID, "--seeds", "2", "--json")
    printed = json.loads(again.stdout)
    assert (printed["kept"], printed["mode"], printed["seeds"]) == (6, "simulation", [0, 1])
    assert (out / "sweep.csv").read_bytes() == content
    assert sorted(printed["files"]) == sorted(f"runs/sweep-private-iris/sweep.{each}" for each in files)


def test_narrow_terminals_drop_metrics_by_name(airmix: Airmix) -> None:
    done = airmix(*GRID, columns=45)
    told = " ".join(done.stdout.split())
    assert "too wide for 45 characters, not shown: " in told
    assert "energy_joules, snr_db; see a wider terminal, --json or the files" in told
    chosen = airmix(*GRID, "--metric", "snr_db", "--metric", "epsilon_release", columns=60)
    assert "accuracy.final" not in chosen.stdout
    assert "epsilon_release" in chosen.stdout


def test_a_failing_cell_is_told_and_costs_no_other(airmix: Airmix, tmp_path: Path) -> None:
    done = airmix(*GRID, "--grid", "privacy.accountant=gdp,paper-loose")
    assert done.returncode == 1
    assert done.stdout.count(" failed ") >= 3 * 2  # columns of metrics in two cells
    told = done.stderr.splitlines()
    assert told[0].startswith("airmix: failed: privacy.epsilon=0.5, privacy.accountant=paper-loose, seed 0: privacy.")
    assert len(told) == 3
    stored = json.loads((tmp_path / "runs" / "sweep-private-iris" / "sweep.json").read_text())
    assert len(stored["failures"]) == 2
    assert sum("accuracy.final" in cell["metrics"] for cell in stored["cells"]) == 4


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), ("--grid", "such as --grid privacy.epsilon=0.5,1,5")),
        (("--grid", "privacy.epsilom=1,2"), ("privacy.epsilom", "did you mean privacy.epsilon?")),
        (("--grid", "workers.bits=1,99"), ("workers.bits = 99", "at most 16")),
        (("--grid", "workers.bits=1", "--seeds", "0"), ("seeds = 0", "at least 1")),
        (("--grid", "workers.bits=1", "--jobs", "0"), ("--jobs = 0", "must be from 1")),
        (("--grid", "workers.bits=1", "--engine", "rai"), ("--engine = 'rai'", "did you mean ray?")),
        (("--grid", "workers.bits=1", "--command", "audits"), ("--command = 'audits'", "did you mean audit?")),
        (("--grid", "workers.bits=1", "--trials", "100"), ("--trials", "--command audit")),
        (("--grid", "workers.bits=1", "--attacks", "prior"), ("--attacks", "--command attack")),
        (("--grid", f"radio.slots={','.join(map(str, range(1, 1002)))}", "--seeds", "100"), ("100,100 runs",)),
    ],
)
def test_mistakes_cost_one_line(refused: Callable[..., str], arguments: tuple[str, ...], said: tuple[str, ...]) -> None:
    line = refused("sweep", "--preset", "private-iris", *arguments)
    for part in said:
        assert part in line


# The real command, halted when so many cells are on the disk.
HALTING = """
import os, signal, sys
from pathlib import Path
from airmixml.sweeps.grid_sweep import BatchedTask
from airmixml.cli.main import main
if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    save = BatchedTask.save
    def halting(task, part, finished):
        kept = save(task, part, finished)
        if len(list(task.folder.glob("*.json"))) == 2:
            print("halted", flush=True)
            signal.pause()
        return kept
    BatchedTask.save = halting
    main()
"""


@pytest.mark.long
@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_sweep_that_is_ended_half_way_resumes(
    how: signal.Signals, jobs: int, airmix: Airmix, start_python: Callable[..., Any], tmp_path: Path
) -> None:
    command = (*GRID[:-1], str(jobs), "--seeds", "2", "--out", "out")
    (tmp_path / "halting.py").write_text(HALTING)
    child = start_python("halting.py", *command)
    assert child.stdout.readline() == "halted\n", child.communicate()
    assert not (tmp_path / "out" / "sweep.csv").exists()
    child.send_signal(how)
    _, err = child.communicate()
    if how == signal.SIGINT:
        assert child.returncode == 130
        assert err.splitlines()[-1] == "airmix: interrupted; repeat the command to resume"
    else:
        assert child.returncode == -signal.SIGKILL
    resumed = airmix(*GRID, "--seeds", "2", "--out", "out", "--json")
    assert resumed.returncode == 0, resumed.stderr
    found = json.loads(resumed.stdout)
    assert found["kept"] >= 2
    whole = json.loads(airmix(*GRID, "--seeds", "2", "--out", "whole", "--json").stdout)
    for one, other in zip(found["cells"], whole["cells"], strict=True):
        for name in ("accuracy.final", "epsilon", "energy_joules"):
            assert one["metrics"][name] == other["metrics"][name]
    assert {path.name for path in (tmp_path / "out" / "cells").iterdir() if path.suffix != ".json"} <= {".lock"}


def test_a_sweep_of_which_every_cell_fails_has_its_report(airmix: Airmix, tmp_path: Path) -> None:
    wrong = ("--set", "workers.input_lower=[0, 0]", "--set", "workers.input_upper=[1, 1]")
    done = airmix("sweep", "--preset", "private-iris", *wrong, "--grid", "privacy.epsilon=1,2", "--jobs", "1")
    assert done.returncode == 1
    assert "report.html" not in done.stderr
    assert "2 runs failed" in (tmp_path / "runs" / "sweep-private-iris" / "report.html").read_text(encoding="utf-8")
