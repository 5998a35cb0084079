"""Runs as processes that are interrupted, killed, or started twice."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

import airmixml
from airmixml import RunFolderError, Scenario, load_metrics, load_network

run = partial(airmixml.run, pictures=False, checkpoint_seconds=0.0)  # a small run takes a fraction of a second

Airmix = Callable[..., subprocess.CompletedProcess[str]]
COMMAND = ("run", "--preset", "paper-iris", "--set", "radio.slots=100", "--set", "learner.epochs=6", "--out", "here")


def state_of(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.stat().st_ino, path.stat().st_mtime_ns) for path in folder.rglob("*")}


def test_kill_9_half_way(halted: Any, airmix: Airmix, small: Scenario, tmp_path: Path) -> None:
    with halted(*COMMAND, halt_in="here.partial") as child:
        assert [entry.name for entry in tmp_path.iterdir()] == ["here.partial"]
        # The same command, while the first still runs: it keeps its hands off.
        second = airmix(*COMMAND)
        assert (second.returncode, second.stdout) == (2, "")
        assert "here.partial: another process is writing it" in second.stderr
        assert second.stderr.count("\n") == 1
        child.send_signal(signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL
    assert [entry.name for entry in tmp_path.iterdir()] == ["here.partial"]
    with pytest.raises(RunFolderError, match="an interrupted run"):
        load_metrics(tmp_path / "here.partial")

    # The same command again finishes it.
    done = airmix(*COMMAND, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["resumed_from_epoch"] == 3
    assert [entry.name for entry in tmp_path.iterdir()] == ["here"]
    files = {"scenario.toml", "metrics.json", "learning_curve.csv", "ledger.npz", "model.npz", "figures"}
    files |= {"report.html", "finished.json"}
    assert {entry.name for entry in (tmp_path / "here").iterdir()} == files

    # The result is that of a run that nobody killed.
    run(small, out=tmp_path / "whole")
    for name in ("learning_curve.csv", "scenario.toml"):
        assert (tmp_path / "here" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    killed, whole = (load_network(tmp_path / name).state_dict() for name in ("here", "whole"))
    assert all(torch.equal(killed[name], whole[name]) for name in whole)


@pytest.mark.long
def test_control_c(halted: Any, tmp_path: Path) -> None:
    with halted(*COMMAND, halt_in="here.partial") as child:
        child.send_signal(signal.SIGINT)
        out, err = child.communicate()
    assert (child.returncode, out) == (130, "")
    assert err == "airmix: interrupted; repeat the command to resume\n"
    assert [entry.name for entry in tmp_path.iterdir()] == ["here.partial"]
    assert not (tmp_path / "here.partial" / "metrics.json").exists()


@pytest.mark.long
def test_kill_9_after_the_first_of_two_seeds(halted: Any, airmix: Airmix, small: Scenario, tmp_path: Path) -> None:
    with halted(*COMMAND, "--seeds", "2", halt_in="seed-1.partial") as child:
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert [entry.name for entry in tmp_path.iterdir()] == ["here.partial"]
    first = state_of(tmp_path / "here.partial" / "seed-0")
    assert len(first) > 4

    done = airmix(*COMMAND, "--seeds", "2", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    kept = state_of(tmp_path / "here" / "seed-0")
    assert {name.replace("here.partial", "here"): state for name, state in first.items()} == kept
    runs = json.loads(done.stdout)["runs"]
    assert [each["resumed_from_epoch"] for each in runs] == [0, 3]
    assert [each["run_dir"] for each in runs] == ["here/seed-0", "here/seed-1"]
    for seed in (0, 1):
        run(small.with_seed(seed), out=tmp_path / f"single-{seed}")
        curve = (tmp_path / "here" / f"seed-{seed}" / "learning_curve.csv").read_bytes()
        assert curve == (tmp_path / f"single-{seed}" / "learning_curve.csv").read_bytes()
