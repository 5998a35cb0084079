from __future__ import annotations

import errno
import importlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest

from airmixml import Scenario
from airmixml.progress import Progress
from airmixml.runs.checkpoint import FileCheckpoint

SMALL = ("radio.slots=100", "learner.epochs=6")


class Stopped(Exception):
    """Stands for whatever ends a run half-way."""


@pytest.fixture
def small() -> Scenario:
    """A run of six epochs that takes a fraction of a second."""
    return Scenario.preset("paper-iris").with_overrides(*SMALL)


@pytest.fixture
def disk_full_after() -> Callable[[int], AbstractContextManager[None]]:
    """Return a context in which the disk is full after so many files."""

    @contextmanager
    def full_after(writes: int) -> Iterator[None]:
        left = iter(range(writes))

        def fsync(_descriptor: int) -> None:
            if next(left, None) is None:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "fsync", fsync)
            yield

    return full_after


@pytest.fixture
def run_module() -> ModuleType:
    """The module that holds the function run."""
    return importlib.import_module("airmixml.runs.experiment")


@pytest.fixture
def no_pictures(run_module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the pictures, which take most of the time of a small run."""
    monkeypatch.setattr(run_module, "draw_run", lambda _mixtures, _history, folder: folder.mkdir(exist_ok=True))
    monkeypatch.setattr(run_module, "draw_ledger", lambda *_arguments: None)


@pytest.fixture
def every_epoch(run_module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep a checkpoint of every epoch instead of one every five seconds."""
    monkeypatch.setattr(run_module, "FileCheckpoint", partial(FileCheckpoint, every_seconds=0))


@pytest.fixture
def stop_at() -> Callable[[int], Progress]:
    """Return a progress callable that raises Stopped after so many epochs."""

    def make(epoch: int) -> Progress:
        def progress(stage: str, done: int, _total: int) -> None:
            if (stage, done) == ("training", epoch):
                raise Stopped

        return progress

    return make


@pytest.fixture
def stopped() -> type[Exception]:
    return Stopped


# The real command, but for a checkpoint after each epoch, and a halt after the third of the folder in $HALT_IN.
HALTING = """
import importlib, os, signal
from airmixml.cli.main import main
module = importlib.import_module("airmixml.runs.experiment")
class Halting(module.FileCheckpoint):
    def __init__(self, folder, **options):
        super().__init__(folder, **options, every_seconds=0)
        self.folder = folder
    def save(self, state):
        super().save(state)
        if state["epoch"] == 3 and self.folder.name == os.environ["HALT_IN"]:
            print("halted", flush=True)
            signal.pause()
module.FileCheckpoint = Halting
main()
"""


@pytest.fixture
def halted(tmp_path: Path) -> Callable[..., object]:
    """Start ``airmix`` and wait until it halts after the third epoch; it is killed at the end, if it still lives."""

    @contextmanager
    def start(*arguments: str, halt_in: str) -> Iterator[subprocess.Popen[str]]:
        child = subprocess.Popen(
            [sys.executable, "-c", HALTING, *arguments],
            cwd=tmp_path,
            env={**os.environ, "HALT_IN": halt_in},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "halted\n", child.communicate()
            yield child
        finally:
            child.send_signal(signal.SIGKILL)
            child.communicate()

    return start


@pytest.fixture
def airmix(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run ``airmix`` as a process of its own; ``preexec`` is called in it first."""

    def call(*arguments: str, preexec: Callable[[], None] | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "airmixml", *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            preexec_fn=preexec,
        )

    return call
