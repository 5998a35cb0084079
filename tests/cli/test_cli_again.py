"""A command that is finished and given again: its result is shown again, and nothing is computed or written."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Airmix = Callable[..., subprocess.CompletedProcess[str]]
FEW = ("--preset", "private-iris", "--set", "workers.count=40", "--set", "radio.scheduled=40")
RUN = ("run", *FEW)
ATTACK = ("attack", *FEW, "--attacks", "prior,informed-server")
AUDIT = ("audit", *FEW, "--trials", "200", "--adversary", "server")
OTHER = ("--set", "privacy.delta=0.001")


def tree(folder: Path) -> dict[str, tuple[int, int]]:
    """Return every file below a folder, with what changes where it is written again."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): (path.stat().st_ino, path.stat().st_mtime_ns) for path in files}


def without_time(text: str) -> list[str]:
    """Return what is printed, less how long it took and that it was finished before."""
    return [line for line in text.splitlines() if "everything in" not in line and "finished before" not in line]


@pytest.mark.parametrize(("command", "out"), [(ATTACK, ()), (AUDIT, ("--out", "here"))])
def test_the_same_is_shown_again(
    command: tuple[str, ...], out: tuple[str, ...], airmix: Airmix, tmp_path: Path
) -> None:
    first = airmix(*command, *out)
    assert first.returncode == 0, first.stderr
    before = tree(tmp_path)
    again = airmix(*command, *out)
    assert again.returncode == 0, again.stderr
    assert without_time(again.stdout) == without_time(first.stdout)
    assert "finished before" not in again.stdout + first.stderr
    told = [
        line.partition(": finished before and shown again; to compute it again, give another --out")
        for line in again.stderr.splitlines()
    ]
    assert [folder.startswith("airmix: ") for folder, found, _ in told if found] == [True]
    assert tree(tmp_path) == before
    if out:
        other = airmix(*command, *OTHER, *out)
        assert (other.returncode, other.stdout) == (2, "")
        assert other.stderr.splitlines()[-1].startswith("airmix: error: here: ")
        assert tree(tmp_path) == before


def test_a_run_is_shown_again_as_it_was(airmix: Airmix, tmp_path: Path) -> None:
    first = airmix(*RUN, "--json")
    assert (first.returncode, first.stderr) == (0, "")
    before = tree(tmp_path)
    again = airmix(*RUN, "--json")
    assert (again.returncode, again.stdout) == (0, first.stdout)
    assert again.stderr == (
        "airmix: runs/private-iris-seed0: finished before and shown again; to compute it again, give another --out\n"
    )
    table = airmix(*RUN)
    assert (table.returncode, table.stderr) == (0, again.stderr)
    assert "of it for the run" not in table.stdout  # nothing ran
    assert tree(tmp_path) == before
    # Other settings have a folder of their own, and so has what a ledger counts.
    other = airmix(*RUN, *OTHER, "--json")
    assert json.loads(other.stdout)["run_dir"] == "runs/private-iris-seed0-2"
    second = airmix(*RUN, *OTHER, "--json")
    assert second.stdout == other.stdout


def test_other_data_in_the_same_file_are_other_settings(airmix: Airmix, tmp_path: Path) -> None:
    rows = [f"{number % 7},{number % 5},{number % 2}" for number in range(60)]
    (tmp_path / "rows.csv").write_text("\n".join(["a,b,label", *rows]))
    data = ("--set", "workers.dataset=rows.csv", "--set", "workers.label_column=label")
    bounds = ("--set", "workers.input_lower=[0,0]", "--set", "workers.input_upper=[7,7]")
    counts = ("--set", "workers.count=0", "--set", "workers.train_samples=0", "--set", "radio.scheduled=0")
    command = ("run", "--preset", "private-table", *data, *bounds, *counts, "--out", "here")
    first = airmix(*command)
    assert first.returncode == 0, first.stderr
    (tmp_path / "rows.csv").write_text("\n".join(["a,b,label", *reversed(rows)]))
    again = airmix(*command)
    assert (again.returncode, again.stdout) == (2, "")
    assert "here: exists already" in again.stderr


def test_a_private_run_is_released_once(airmix: Airmix, tmp_path: Path) -> None:
    first = airmix(*RUN, "--private", "--json")
    assert first.returncode == 0, first.stderr
    before = tree(tmp_path)
    again = airmix(*RUN, "--private", "--json")
    assert (again.returncode, again.stdout) == (0, first.stdout)
    assert "compute it again, which spends epsilon once more, give another --out" in again.stderr
    assert tree(tmp_path) == before
    text = (tmp_path / json.loads(first.stdout)["run_dir"] / "finished.json").read_text()
    assert {"data", "encoder"}.isdisjoint(json.loads(text))  # a digest of the data would tell of them


def test_what_a_ledger_counts_is_another_run(airmix: Airmix, tmp_path: Path) -> None:
    assert airmix(*RUN, "--out", "here").returncode == 0
    counted = airmix(*RUN, "--out", "here", "--ledger", "budgets")
    assert (counted.returncode, counted.stdout) == (2, "")


def test_a_finished_fault_that_was_not_caught_keeps_its_exit_code(airmix: Airmix) -> None:
    # So few trials say nothing of a schedule that is revealed, and the noise is sound.
    few = ("--trials", "100", "--adversary", "release", "--fault", "schedule-revealed")
    command = ("audit", "--preset", "paper-iris", "--set", "radio.slots=60", *few, "--json")
    first, again = airmix(*command), airmix(*command)
    assert first.returncode == again.returncode == 1
    assert again.stdout == first.stdout
