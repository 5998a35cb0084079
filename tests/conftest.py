from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from airmixml import Scenario
from airmixml.progress import Progress

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
import os, signal
from airmixml import runs
from airmixml.cli.main import main
run = runs.run
def halting(scenario, *, seeds, out, **options):
    def progress(stage, done, total):
        if stage == "seeds":
            progress.folder = f"seed-{scenario.seed + done}.partial"
        if (stage, done) == ("training", 3) and progress.folder == os.environ["HALT_IN"]:
            print("halted", flush=True)
            signal.pause()
    progress.folder = f"{out}.partial"
    return run(scenario, seeds=seeds, out=out, **{**options, "checkpoint_seconds": 0.0, "progress": progress})
runs.run = halting
signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever the caller's shell does with it
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
