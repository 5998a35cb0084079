from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

Finished = subprocess.CompletedProcess[str]
SMALL = ("--set", "radio.slots=200", "--set", "learner.epochs=3")


@pytest.fixture
def refused(airmix: Callable[..., Finished], tmp_path: Path) -> Callable[..., str]:
    """Call ``airmix`` with a user's mistake; return its one line, after checking that no file came or went."""

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
def small_run(airmix_in: Callable[..., Finished], tmp_path_factory: pytest.TempPathFactory) -> tuple[Finished, Path]:
    """One small run of the paper's Iris experiment, with the table; what it printed, and its folder."""
    folder = tmp_path_factory.mktemp("small")
    return airmix_in("run", "--preset", "paper-iris", *SMALL, "--seed", "7", cwd=folder), folder


@pytest.fixture(autouse=True)
def undrawn(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave a dot in place of the overview of a run, which takes a second to draw, but where a module looks at it."""

    def draw(_mixtures: object, _history: object, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        Image.new("L", (1, 1)).save(folder / "overview.png")

    if not getattr(request.module, "DRAWN", False):
        monkeypatch.setattr("airmixml.runs.pictures.draw_run", draw)
