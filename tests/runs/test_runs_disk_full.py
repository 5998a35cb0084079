"""A disk that fills up: one line, no folder that looks whole, and the run can be given again."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest
import torch

import airmixml
from airmixml import RunFolderError, Scenario
from airmixml.runs.model_files import FileCheckpoint

run = partial(airmixml.run, pictures=False, checkpoint_seconds=0.0)  # a small run takes a fraction of a second

Limited = Callable[[int], AbstractContextManager[None]]
Airmix = Callable[..., subprocess.CompletedProcess[str]]
COMMAND = ("run", "--preset", "paper-iris", "--set", "radio.slots=100", "--set", "learner.epochs=2", "--out", "here")


@pytest.mark.parametrize("largest_file", [2_500, 60_000], ids=["model", "picture"])
def test_files_that_do_not_fit(airmix: Airmix, files_up_to: Limited, tmp_path: Path, largest_file: int) -> None:
    with files_up_to(largest_file):
        done = airmix(*COMMAND)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("airmix: error: ")
    assert "cannot be written (File too large)" in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert not (tmp_path / "here").exists()


@pytest.mark.parametrize("writes_before", range(6))
def test_a_disk_that_fills_up_at_any_time(
    small: Scenario, tmp_path: Path, disk_full_after: Callable[[int], AbstractContextManager[None]], writes_before: int
) -> None:
    with disk_full_after(writes_before):
        try:
            run(small, out=tmp_path / "here")
        except RunFolderError as problem:
            message = str(problem)
        else:
            message = ""
    # Identity, scenario and curve, at the least, are made sure of before the run is whole.
    assert message or writes_before >= 3
    if message:
        assert "cannot be written (No space left on device)" in message
        assert not (tmp_path / "here").exists()
        run(small, out=tmp_path / "here")  # there is room again: the same call goes through
    files = {"scenario.toml", "metrics.json", "learning_curve.csv", "ledger.npz", "model.npz"}
    assert {entry.name for entry in (tmp_path / "here").iterdir()} == files


def test_a_checkpoint_that_does_not_fit_is_an_error_of_the_system_and_the_last_one_stays(
    files_up_to: Limited, tmp_path: Path
) -> None:
    checkpoint = FileCheckpoint(tmp_path, every_seconds=0)
    state = {"epoch": 1, "epochs": 2, "epoch_steps": 1, "model": {"w": torch.zeros(10)}, "moments": [], "loss": [[1.0]]}
    state["test_accuracy"] = [[0.5]]
    checkpoint.save(state)
    with files_up_to(3_000), pytest.raises(OSError, match="File too large"):
        checkpoint.save({**state, "epoch": 2, "model": {"w": torch.zeros(10_000)}})
    kept = FileCheckpoint(tmp_path).load(state)
    assert kept is not None
    assert kept["epoch"] == 1
