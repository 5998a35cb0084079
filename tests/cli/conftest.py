from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Finished = subprocess.CompletedProcess[str]
SMALL = ("--set", "radio.slots=200", "--set", "learner.epochs=3")


def start(*arguments: str | Path, cwd: Path) -> Finished:
    return subprocess.run(
        [sys.executable, "-m", "airmixml", *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
        check=False,
        env={**os.environ, "COLUMNS": "120"},
    )


@pytest.fixture
def airmix(tmp_path: Path) -> Callable[..., Finished]:
    """Run ``airmix`` as a process of its own in an empty folder."""
    return lambda *arguments: start(*arguments, cwd=tmp_path)


@pytest.fixture(scope="module")
def airmix_in() -> Callable[..., Finished]:
    """Run ``airmix`` as a process of its own in the folder ``cwd``."""
    return start


@pytest.fixture
def refused(airmix: Callable[..., Finished], tmp_path: Path) -> Callable[..., str]:
    """Run ``airmix`` with a user's mistake; return its one line, after checking that no file came or went."""

    def call(*arguments: str | Path) -> str:
        before = sorted(tmp_path.rglob("*"))
        done = airmix(*arguments)
        assert done.returncode == 2, done
        assert done.stdout == ""
        assert done.stderr.startswith("airmix: error: ")
        assert done.stderr.endswith("\n")
        assert done.stderr.count("\n") == 1, done.stderr
        assert sorted(tmp_path.rglob("*")) == before
        return done.stderr

    return call


@pytest.fixture(scope="session")
def small_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Finished, Path]:
    """One small run of the paper's Iris experiment, with the table; the process and its folder."""
    folder = tmp_path_factory.mktemp("small")
    return start("run", "--preset", "paper-iris", *SMALL, "--seed", "7", cwd=folder), folder
