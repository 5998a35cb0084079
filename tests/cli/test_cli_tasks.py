"""Regressions, several labels and several rows on the command line."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

Airmix = Callable[..., subprocess.CompletedProcess[str]]
Refused = Callable[..., str]
BASE = ("--preset", "private-table", "--set", "workers.dataset=rows.npz", "--set", "workers.input_lower=0")
BASE = (*BASE, "--set", "workers.input_upper=1", "--set", "privacy.epsilon=20")
REGRESSION = ("--set", "workers.task=regression", "--set", "workers.target_lower=0", "--set", "workers.target_upper=1")


@pytest.fixture(autouse=True)
def rows(tmp_path: Path) -> None:
    inputs = np.random.default_rng(0).random((120, 3))
    np.savez(tmp_path / "rows.npz", inputs=inputs, labels=inputs[:, 0], who=np.arange(120) // 2)
    np.savez(tmp_path / "signs.npz", inputs=inputs, labels=inputs > 0.5)
    np.savez(tmp_path / "classes.npz", inputs=inputs, labels=inputs[:, 0] > 0.5, who=np.arange(120) // 2)


def test_the_summary_of_a_regression(airmix: Airmix) -> None:
    printed = airmix("run", *BASE, *REGRESSION).stdout
    for words in ("inputs, 1 target", "R^2", "root mean square error", "in the target's own unit"):
        assert words in printed
    assert "accuracy" not in printed
    private = airmix("run", *BASE, *REGRESSION, "--private").stdout
    assert "not stated" in private
    assert "R^2" not in private


@pytest.mark.long
def test_the_summary_of_several_labels_and_seeds(airmix: Airmix) -> None:
    more = ("--set", "workers.task=multi-label", "--set", "workers.dataset=signs.npz", "--seeds", "2")
    printed = airmix("run", *BASE, *more).stdout
    for words in ("3 labels", "labels right", "all labels right", "F1, mean over labels", "±"):
        assert words in printed


@pytest.mark.long
def test_the_summary_of_several_rows(airmix: Airmix) -> None:
    printed = airmix("run", *BASE, *REGRESSION, "--set", "workers.worker_column=who").stdout
    for words in (
        "40, 40 at a time",
        "one sum of all, shortened to",
        "one of its rows",
    ):
        assert words in printed


@pytest.mark.parametrize("command", ["compare"])
def test_commands_for_classes_refuse_in_one_line(refused: Refused, command: str) -> None:
    assert 'workers.task = "regression": must be "classification"' in refused(command, *BASE, *REGRESSION)
    several = ("--set", "workers.dataset=classes.npz", "--set", "workers.worker_column=who")
    if command == "attack":  # informed adversaries attack people; what others would look for, a sample, nobody sends
        assert "--attacks: none fits private-table: release (workers hold several rows each" in refused(
            command, *BASE, *several, "--attacks", "release"
        )
        return
    assert "workers.worker_column = 'who': must be empty" in refused(command, *BASE, *several)


def test_plan_and_account_take_targets_and_rows(airmix: Airmix, refused: Refused) -> None:
    planned = airmix("plan", *BASE, *REGRESSION, "--no-picture").stdout
    assert "1 target" in planned
    rows = ("--set", "workers.worker_column=who", "--set", "workers.rows_per_worker=2")
    assert "rows_bound" in airmix("plan", *BASE, *REGRESSION, *rows, "--no-picture").stdout
    assert "gdp" in airmix("account", *BASE, *REGRESSION, *rows, "--no-picture").stdout
    said = refused("audit", *BASE, *REGRESSION, *rows)
    assert "workers.worker_column = 'who': must be empty for an audit" in said
