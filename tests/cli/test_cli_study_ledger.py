"""``airmix sweep`` and ``airmix compare`` with a ledger, through real processes: full, locked, broken, killed."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from airmixml.budgets import LedgerFile
from airmixml.privacy.gaussian import gaussian_epsilon, gaussian_mu

Airmix = Callable[..., subprocess.CompletedProcess[str]]
DELTA = 1e-3
DEALT = ("--preset", "private-iris", "--set", "workers.holding=dealt", "--set", "workers.count=100")
DEALT += ("--set", "radio.scheduled=100", "--set", f"privacy.delta={DELTA}")
SWEEP = ("sweep", *DEALT, "--jobs", "1", "--out", "cells", "--ledger", "b.sqlite")
COMPARE = ("compare", *DEALT, "--set", "privacy.epsilon=0.5", "--out", "rows", "--ledger", "b.sqlite")


def create(airmix: Airmix, *more: str, epsilon: float = 1.0) -> None:
    made = airmix("ledger", "create", "b.sqlite", "--epsilon", str(epsilon), "--delta", str(DELTA), *more)
    assert made.returncode == 0, made.stderr


def fullest(folder: Path) -> float:
    (standing,) = LedgerFile(folder / "b.sqlite").standings()
    return float(standing.budget.epsilons(standing.spent).max())


def states(folder: Path) -> list[str]:
    return [each.state for each in LedgerFile(folder / "b.sqlite").entries()]


def together(*epsilons: float) -> float:
    """Return the epsilon of Gaussian mechanisms that compose: mu^2 add up."""
    return gaussian_epsilon(sum(gaussian_mu(each, DELTA) ** 2 for each in epsilons) ** 0.5, DELTA)


@pytest.mark.long
def test_cells_of_a_sweep_are_counted_together_and_once(
    airmix: Airmix, refused: Callable[..., str], tmp_path: Path
) -> None:
    create(airmix, "--simulation")
    # Each of them fits alone.
    line = refused(*SWEEP, "--grid", "privacy.epsilon=0.7,0.8")
    assert "would pass its budget against the server" in line
    assert f"together {together(0.7, 0.8):.6g} of 1" in line
    assert states(tmp_path) == []
    fits = (*SWEEP, "--grid", "privacy.epsilon=0.3,0.5")
    done = airmix(*fits)
    assert done.returncode == 0, done.stderr
    assert states(tmp_path) == ["spent", "spent"]
    assert fullest(tmp_path) == pytest.approx(together(0.3, 0.5), rel=1e-6)
    history = json.loads(airmix("ledger", "history", "b.sqlite", "--json").stdout)["entries"]
    assert history[1]["about"] == "airmix sweep private-iris, privacy.epsilon=0.5, seed 0"
    # The same again repeats its own noise: from the folder, and in another one.
    for out in ("cells", "elsewhere"):
        assert airmix(*fits, "--out", out).returncode == 0
        assert states(tmp_path) == ["spent", "spent"]
    # Another seed does not, and what is there counts.
    assert f"spent epsilon = {together(0.3, 0.5):.4g}" in refused(*fits, "--seeds", "4")
    assert states(tmp_path) == ["spent", "spent"]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((*SWEEP, "--grid", "privacy.epsilon=0.1"), "this is simulation; create one with --simulation"),
        ((*COMPARE, "--methods", "airmix"), "this is simulation; create one with --simulation"),
        ((*SWEEP, "--grid", "privacy.epsilon=0.1", "--command", "attack"), "--ledger: belongs to --command run"),
        ((*COMPARE, "--methods", "raw,local-dp"), "--ledger: counts runs of airmix and its variants"),
    ],
)
def test_what_a_ledger_cannot_count_costs_one_line(
    airmix: Airmix, refused: Callable[..., str], arguments: tuple[str, ...], why: str
) -> None:
    create(airmix)
    assert why in refused(*arguments)


def test_cells_on_other_people_are_refused(airmix: Airmix, refused: Callable[..., str]) -> None:
    create(airmix, "--simulation")
    line = refused(*SWEEP, "--grid", "workers.dataset=iris,wine", "--set", "workers.input_upper=[8]")
    assert "about 150 workers by number, rows of iris and about 178 workers by number, rows of wine" in line


@pytest.mark.long
def test_rows_of_a_comparison_that_are_ours_are_counted(
    airmix: Airmix, refused: Callable[..., str], tmp_path: Path
) -> None:
    create(airmix, "--simulation")
    done = airmix(*COMPARE, "--methods", "airmix,masked,local-dp", "--json")
    assert done.returncode == 0, done.stderr
    abouts = [each.about for each in LedgerFile(tmp_path / "b.sqlite").entries()]
    assert abouts == ["airmix compare private-iris, airmix, seed 0", "airmix compare private-iris, masked, seed 0"]
    assert states(tmp_path) == ["spent", "spent"]
    stated = {row["method"]: row["exposure"]["server"] for row in json.loads(done.stdout)["rows"]}
    assert fullest(tmp_path) == pytest.approx(together(stated["airmix"], stated["masked"]), rel=1e-6)
    before = fullest(tmp_path)
    assert airmix(*COMPARE, "--methods", "masked,airmix,raw").returncode == 0
    assert fullest(tmp_path) == before
    line = refused(*COMPARE, "--set", "privacy.epsilon=0.9", "--methods", "airmix", "--out", "other")
    assert "nothing was sent" in line


def test_a_budget_against_everyone_is_for_what_holds_against_everyone(
    airmix: Airmix, refused: Callable[..., str], tmp_path: Path
) -> None:
    create(airmix, "--simulation", "--adversary", "everyone")
    assert "adversary everyone: the ledger keeps a budget against it" in refused(*COMPARE, "--methods", "airmix,masked")
    assert airmix(*COMPARE, "--methods", "masked").returncode == 0
    assert fullest(tmp_path) == pytest.approx(0.5, rel=1e-6)


@pytest.mark.parametrize("command", [(*SWEEP, "--grid", "privacy.epsilon=0.1"), (*COMPARE, "--methods", "airmix")])
def test_a_broken_ledger_is_refused(
    airmix: Airmix, refused: Callable[..., str], tmp_path: Path, command: tuple[str, ...]
) -> None:
    create(airmix, "--simulation")
    path = tmp_path / "b.sqlite"
    content = path.read_bytes()
    path.write_bytes(content[:5000] + bytes(len(content) - 5000))
    assert "b.sqlite: broken or not a ledger" in refused(*command)
    path.unlink()
    assert "b.sqlite: there is no such ledger" in refused(*command)


@pytest.mark.long
def test_a_ledger_that_another_process_is_writing(
    airmix: Airmix, run_python: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    create(airmix, "--simulation")
    impatient = "import airmixml.budgets.file as file; file._SECONDS_TO_WAIT = 0.2\n"
    impatient += "import sys; from airmixml.cli.main import main; sys.argv[0] = 'airmix'; main()"
    command = (*SWEEP, "--grid", "privacy.epsilon=0.1")
    writer = sqlite3.connect(tmp_path / "b.sqlite", isolation_level=None)
    writer.execute("BEGIN EXCLUSIVE")
    done = run_python("-c", impatient, *command)
    assert done.returncode == 2, done.stderr
    assert "b.sqlite: another process has been writing it" in done.stderr
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith("b.sqlite")] == []
    writer.execute("ROLLBACK")
    writer.close()
    assert airmix(*command).returncode == 0
    assert states(tmp_path) == ["spent"]


def test_a_killed_sweep_spends_nothing_twice(
    airmix: Airmix, start_python: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    create(airmix, "--simulation", "--adjacency", "replace-one", epsilon=50.0)
    command = ["sweep", "--preset", "paper-iris", "--set", "workers.holding=dealt", "--set", "workers.count=100"]
    command += ["--set", "privacy.adversary=server", "--set", "privacy.accountant=gdp", "--set", "learner.epochs=60"]
    command += ["--set", f"privacy.delta={DELTA}", "--set", "radio.slots=200", "--jobs", "1", "--out", "cells"]
    command += ["--grid", "privacy.epsilon=1,2,3,4", "--ledger", "b.sqlite"]
    child = start_python("-m", "airmixml", *command)
    try:
        until = time.monotonic() + 120
        while "spent" not in states(tmp_path):
            assert child.poll() is None, child.communicate()
            assert time.monotonic() < until
            time.sleep(0.02)
    finally:
        child.kill()
        child.wait()
    assert len(states(tmp_path)) == 4
    assert "reserved" in states(tmp_path)
    reserved = fullest(tmp_path)  # reservations count in full
    done = airmix(*command)
    assert done.returncode == 0, done.stderr
    assert states(tmp_path) == ["spent"] * 4
    assert fullest(tmp_path) == pytest.approx(reserved, rel=1e-12)
