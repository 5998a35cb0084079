"""What tests of several rooms share; ``airmix`` as a function call and as a process of its own."""

from __future__ import annotations

import errno
import io
import os
import pickle
import resource
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, chdir, contextmanager, redirect_stderr, redirect_stdout, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from airmixml import Scenario
from airmixml.cli.main import main
from airmixml.cli.terminal import console
from airmixml.engines import Engine
from airmixml.messages import AirMixWarning
from airmixml.progress import Progress

Finished = subprocess.CompletedProcess[str]
SMALL = ("radio.slots=100", "learner.epochs=6")
SLOW_TESTS = Path(__file__).parent / "slow.txt"  # names of test functions; ``make slow-list`` writes it
SLOW_SECONDS = 0.5
LAST_RESORT_SECONDS = 600  # ends a test that hangs; no test waits for it on a machine that is merely busy
NOT_SHOWN = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)  # by Python's own filters


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-slow", action="store_true", help=f"Write the names of slow tests to {SLOW_TESTS.name}.")


def pytest_configure(config: pytest.Config) -> None:
    # A shell has Ctrl-C ignored in what it starts in the background, and so in the processes that tests start.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.setdefault("AIRMIX_PROGRESS_SECONDS", "0")  # on a busy machine anything may take half a minute
    if config.getoption("--write-slow") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(SlowTests())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    slow = set(SLOW_TESTS.read_text(encoding="utf-8").splitlines())
    for item in items:
        if item.nodeid.partition("[")[0] in slow:
            item.add_marker("slow")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say loudly which tests a machine could not run."""
    skipped = [report.longrepr[-1] for report in terminalreporter.stats.get("skipped", ()) if report.longrepr]
    missing = [reason for reason in skipped if "is not installed" in str(reason)]
    for reason in sorted(set(missing)):
        line = f"NOT TESTED: {missing.count(reason)} tests, because {str(reason).removeprefix('Skipped: ')}"
        terminalreporter.write_line(line, red=True, bold=True)


class SlowTests:
    """Add up the seconds of each test function, over all its parameters; write the names of the slow ones."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.nodeid.partition("[")[0]
        self.seconds[name] = self.seconds.get(name, 0.0) + report.duration

    def pytest_sessionfinish(self) -> None:
        slow = sorted(name for name, seconds in self.seconds.items() if seconds > SLOW_SECONDS)
        SLOW_TESTS.write_text("".join(f"{name}\n" for name in slow), encoding="utf-8")


class Backwards(Engine):
    """Runs items in this process, the last one first; all that another process would be sent is copied as for it."""

    @property
    def here(self) -> bool:
        return False

    def run(
        self, prepare: Any, shared: Any, items: Sequence[Any], *, on_gpu: bool = False
    ) -> Generator[tuple[Any, Any], None, None]:
        prepare, shared = pickle.loads(pickle.dumps((prepare, shared)))
        work = prepare(shared)
        for item in reversed(items):
            yield item, pickle.loads(pickle.dumps(work(pickle.loads(pickle.dumps(item)), print)))


@pytest.fixture
def backwards() -> Engine:
    """An engine that is not this process, as far as the code can tell."""
    return Backwards()


@pytest.fixture
def everywhere(monkeypatch: pytest.MonkeyPatch, backwards: Engine) -> None:
    """Commands use that engine, whatever they are asked for."""
    monkeypatch.setattr(Engine, "of", lambda _name, _jobs=None: backwards)


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
def files_up_to() -> Callable[[int], AbstractContextManager[None]]:
    """Return a context in which no file of this process can grow beyond so many bytes."""

    @contextmanager
    def limited(largest: int) -> Iterator[None]:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    return limited


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
main()
"""


@pytest.fixture
def start_python(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start Python in a session of its own, in an empty folder; whatever still lives at the end is killed."""
    started: list[subprocess.Popen[str]] = []

    def start(
        *arguments: str | Path, environment: dict[str, str] | None = None, stdin: int | None = None
    ) -> subprocess.Popen[str]:
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}  # airmix sets it
        child = subprocess.Popen(
            [sys.executable, *map(str, arguments)],
            cwd=tmp_path,
            env={**inherited, "COLUMNS": "120", **(environment or {})},
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            start_new_session=True,
        )
        started.append(child)
        return child

    yield start
    for child in started:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.communicate()


@pytest.fixture
def run_python(start_python: Callable[..., subprocess.Popen[str]]) -> Callable[..., Finished]:
    """Run Python as ``start_python`` does, until it ends."""

    def run(*arguments: str | Path, **options: object) -> Finished:
        child = start_python(*arguments, **options)
        out, err = child.communicate(timeout=LAST_RESORT_SECONDS)
        return Finished(child.args, child.returncode, out, err)

    return run


def call_airmix(*arguments: str | Path, cwd: Path, columns: int = 120) -> Finished:
    """Call the entry point of ``airmix`` in this process; the seconds that a process takes to import torch are saved.

    What it prints is ``columns`` wide. A warning that Python would print to stderr is an error.
    """
    command, out, err = [str(argument) for argument in arguments], io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(), chdir(cwd):
        patch.setattr(sys, "argv", ["airmix", *command])
        patch.setenv("PYTHONSAFEPATH", "1")  # as it does itself; here it is undone
        console.width = columns  # which it reads from the environment once, when it is made
        warnings.simplefilter("error")
        for category in NOT_SHOWN:
            warnings.simplefilter("ignore", category)
        warnings.simplefilter("always", AirMixWarning)  # ours are lines of their own
        with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
            main()
    assert isinstance(ended.value.code, int)
    return Finished(["airmix", *command], ended.value.code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="session")
def airmix_in() -> Callable[..., Finished]:
    """Call ``airmix`` in the folder ``cwd``."""
    return call_airmix


@pytest.fixture
def airmix(tmp_path: Path) -> Callable[..., Finished]:
    """Call ``airmix`` in an empty folder."""
    return partial(call_airmix, cwd=tmp_path)


@pytest.fixture
def halted(start_python: Callable[..., subprocess.Popen[str]]) -> Callable[..., object]:
    """Start ``airmix`` and wait until it halts after the third epoch; it is killed at the end, if it still lives."""

    @contextmanager
    def start(*arguments: str, halt_in: str) -> Iterator[subprocess.Popen[str]]:
        child = start_python("-c", HALTING, *arguments, environment={"HALT_IN": halt_in})
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "halted\n", child.communicate()
            yield child
        finally:
            child.send_signal(signal.SIGKILL)
            child.communicate()

    return start
