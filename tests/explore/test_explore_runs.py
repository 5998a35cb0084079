"""Runs that the explorer starts are those of the command line: cancelled, killed and resumed without a difference."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from airmixml import Scenario
from airmixml.explore.run_book import NOTES, RunBook, plain_curve
from airmixml.messages import RunFolderError, ScenarioError
from airmixml.runs import run

LONG = Scenario.preset("paper-iris").with_overrides("radio.slots=400", "learner.epochs=1000000")
RESUMED = LONG.with_overrides("learner.epochs=500")
SHORT = LONG.with_overrides("learner.epochs=40")


@pytest.fixture
def book(tmp_path: Path) -> Iterator[RunBook]:
    book = RunBook(tmp_path / "runs")
    yield book
    book.close()


def wait_for(book: RunBook, name: str, *states: str) -> dict[str, Any]:
    while (told := book.told(name))["state"] not in states:
        assert told["state"] in ("running", *states), told
        time.sleep(0.1)
    return told


def wait_for_epochs(book: RunBook, name: str, epochs: int) -> list[float]:
    """Wait until the curve that is shown while a network trains has so many epochs."""
    while len(curve := book.told(name)["curve"]["score"]) < epochs:
        assert book.told(name)["state"] == "running"
        time.sleep(0.05)
    return curve


@pytest.mark.long
def test_a_run_is_that_of_the_command_line(book: RunBook, tmp_path: Path) -> None:
    name = book.start(SHORT)
    assert name == "paper-iris-seed0"
    told = wait_for(book, name, "finished")
    alone = run(SHORT, out=tmp_path / "alone", pictures=False)
    assert told["facts"]["accuracy"] == alone.accuracy.final
    assert len(told["curve"]["score"]) == 40
    assert told["curve"]["score"][-1] == pytest.approx(alone.accuracy.final)
    assert told["facts"]["epsilon"] == alone.privacy[0].epsilon
    assert told["report"]


@pytest.fixture
def idle_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs that are processes, and compute nothing."""

    def launch(book: RunBook, name: str) -> None:
        idle = [sys.executable, "-c", "import time; time.sleep(600)"]
        book._processes[name] = subprocess.Popen(idle, stderr=subprocess.DEVNULL)

    monkeypatch.setattr(RunBook, "_launch", launch)


@pytest.mark.usefixtures("idle_runs")
def test_the_same_run_again_has_another_name(book: RunBook) -> None:
    assert [book.start(SHORT), book.start(SHORT)] == ["paper-iris-seed0", "paper-iris-seed0-2"]


@pytest.mark.long
def test_a_cancelled_run_is_resumed_where_it_was(book: RunBook, tmp_path: Path) -> None:
    name = book.start(RESUMED)
    seen = wait_for_epochs(book, name, 1)
    book.cancel(name)
    assert book.told(name)["state"] in ("running", "interrupted")
    told = wait_for(book, name, "interrupted")
    assert told["resumable"]
    assert told["curve"]["score"][: len(seen)] == seen
    other = RunBook(book.folder)  # an explorer that is started later
    assert [(each["name"], each["state"], each["resumable"]) for each in other.listed()] == [
        (name, "interrupted", True)
    ]
    other.resume(name)
    finished = wait_for(other, name, "finished")
    assert json.loads((book.folder / name / "metrics.json").read_text())["resumed_from_epoch"] >= len(seen)
    alone = run(RESUMED, out=tmp_path / "alone", pictures=False)
    assert finished["facts"]["accuracy"] == alone.accuracy.final


@pytest.mark.long
def test_a_run_of_another_process_is_left_alone_and_a_killed_one_can_be_resumed(
    book: RunBook, request: pytest.FixtureRequest
) -> None:
    name = book.start(LONG)
    wait_for_epochs(book, name, 1)
    other = RunBook(book.folder)
    assert other.told(name)["state"] == "running elsewhere"
    with pytest.raises(RunFolderError, match="is not running here"):
        other.cancel(name)
    with pytest.raises(RunFolderError, match=f"{name}: another process runs it; wait for that, or end it there"):
        other.resume(name)
    assert other._processes == {}
    assert other.close() == 0
    os.kill(book._processes[name].pid, signal.SIGKILL)
    assert wait_for(book, name, "interrupted")["resumable"]
    request.getfixturevalue("idle_runs")
    book.resume(name)
    assert book.told(name)["state"] == "running"
    assert book.close() == 1
    assert book.told(name)["state"] == "interrupted"


@pytest.mark.long
def test_a_run_that_fails_says_why(book: RunBook) -> None:
    name = book.start(Scenario.preset("paper-iris").with_overrides("privacy.accountant=gdp"))
    told = wait_for(book, name, "failed")
    assert told["line"]
    assert "\n" not in told["line"]
    assert told["resumable"]


@pytest.mark.usefixtures("idle_runs")
def test_no_more_runs_at_once_than_the_machine_bears(book: RunBook) -> None:
    def start_many() -> None:
        for _ in range(1000):
            book.start(LONG)

    with pytest.raises(RunFolderError, match="runs are running; wait for one of them, or cancel it"):
        start_many()
    assert len(book.listed()) >= 2


def test_damaged_folders_are_listed_with_what_is_odd(book: RunBook) -> None:
    folder = book.folder / "odd"
    folder.mkdir(parents=True)
    (folder / "metrics.json").write_text("{}")
    (folder / "scenario.toml").write_text("")
    (book.folder / "begun.partial").mkdir()
    (book.folder / "begun.partial" / "checkpoint.npz").write_bytes(b"no such thing")
    (book.folder / "somebody's own").mkdir()
    assert {each["name"]: each["state"] for each in book.listed()} == {"odd": "finished", "begun": "interrupted"}
    assert "does not hold what airmix wrote" in book.told("odd")["line"]
    assert book.told("begun")["curve"]["score"] == []
    with pytest.raises(RunFolderError, match="was not started here"):
        book.resume("begun")


def test_the_curve_so_far_is_that_of_the_checkpoint(book: RunBook) -> None:
    partial = book.folder / "x.partial"
    partial.mkdir(parents=True)
    np.savez(partial / "checkpoint.npz", loss=np.array([[0.9], [0.5]]), test_accuracy=np.array([[0.3], [0.7]]))
    assert book.told("x")["curve"] == plain_curve([0.9, 0.5], [0.3, 0.7])


def test_a_run_that_never_was_is_no_run(client: Any) -> None:
    for name in ("nope", "a" * 300):
        answer = client.get(f"/api/runs/{name}")
        assert answer.status_code == 400
        assert "run" in answer.text


def test_a_note_of_a_stranger_reaches_no_file_outside_the_runs_folder(book: RunBook, tmp_path: Path) -> None:
    notes = tmp_path / "runs" / NOTES
    notes.mkdir(parents=True)
    text = f'extends = "private-table"\n[workers]\ndataset = "{tmp_path}/people.csv"\n'
    (notes / "demo.toml").write_text(text)
    with pytest.raises(ScenarioError, match="the explorer reads files in"):
        book.resume("demo")
    assert not book._processes
