"""A process that calls the entry point of ``airmix``, for one command or for many, and what watches over it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

ENDED, HUNG, KILLED, DIED = "ended", "hung", "killed", "died"
Entry = Callable[[Sequence[str]], int]
_ENVIRONMENT: Final = {"AIRMIX_PROGRESS_SECONDS": "0", "AIRMIX_CHECKPOINT_SECONDS": "0.05", "COLUMNS": "120"}
_IMPORTED: Final = (
    *("matplotlib.pyplot", "scipy.stats", "sklearn.datasets", "sklearn.discriminant_analysis", "torch"),
    *("airmixml.cli.run", "airmixml.runs.pictures", "airmixml.runs.run_page"),
)
_context: Final = multiprocessing.get_context("fork")  # what is imported is imported once


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a command ended."""

    how: str
    code: int = 0  #: exit code, or less than 0: the signal that ended it
    seconds: float = 0.0
    cpu_seconds: float = 0.0  #: without imports
    out: str = ""
    error: str = ""


def preload() -> None:
    """Import what every run needs; nothing is computed, since threads do not survive a fork."""
    for name in _IMPORTED:
        import_module(name)


def call_airmix(words: Sequence[str]) -> int:
    """Call ``airmix`` in this process and return its exit code."""
    sys.argv = ["airmix", *words]
    try:
        import_module("airmixml.cli.main").main()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(bool(ended.code))
    return 0


class Worker:
    """One process that serves commands until it is closed or killed."""

    def __init__(self, entry: Entry, folder: Path, device: str) -> None:
        self.out, self.error = folder / "stdout", folder / "stderr"
        folder.mkdir(parents=True, exist_ok=True)
        self.connection, theirs = _context.Pipe()
        self.process = _context.Process(
            target=_serve, args=(theirs, self.connection, entry, self.out, self.error, device)
        )
        self.process.start()
        theirs.close()
        try:
            self.connection.recv()  # it is ready
        except EOFError:
            raise SystemExit(f"soak: no process could be started on {device}: is it there?") from None
        self.started, self.cpu_before = 0.0, 0.0

    def start(self, words: Sequence[str]) -> None:
        """Begin a command."""
        self.started, self.cpu_before = time.monotonic(), self._cpu_seconds()
        self.connection.send(tuple(words))

    @property
    def seconds(self) -> float:
        """Since the command began."""
        return time.monotonic() - self.started

    @property
    def cpu_seconds(self) -> float:
        """That the command has used; where the system does not say, the time since it began."""
        return self._cpu_seconds() - self.cpu_before

    def outcome(self) -> Outcome:
        """Return how the command ended, once the connection has something to say."""
        try:
            code, cpu_seconds = self.connection.recv()
        except (EOFError, OSError):
            return self.kill(DIED)
        return self._told(ENDED, code, cpu_seconds)

    def kill(self, how: str) -> Outcome:
        """End the process with all that it started, and return how far it came."""
        used = self.cpu_seconds if self.started else 0.0
        for kill in (os.killpg, os.kill):
            with suppress(ProcessLookupError, PermissionError):
                kill(self.process.pid or 0, signal.SIGKILL)
        self.process.join()
        self.connection.close()
        return self._told(how, self.process.exitcode or 0, used)

    def close(self) -> None:
        """Let the process end; that its connection closes is not enough, since processes forked later have it too."""
        self.connection.send(None)
        self.process.join()
        self.connection.close()

    def _told(self, how: str, code: int, cpu_seconds: float) -> Outcome:
        out, error = (path.read_text(encoding="utf-8", errors="replace") for path in (self.out, self.error))
        return Outcome(how=how, code=code, seconds=self.seconds, cpu_seconds=cpu_seconds, out=out, error=error)

    def _cpu_seconds(self) -> float:
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return time.monotonic()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _serve(
    mine: Connection[Any, Any], theirs: Connection[Any, Any], entry: Entry, out: Path, error: Path, device: str
) -> None:
    theirs.close()
    os.setsid()  # Ctrl-C is for the soak; a signal to its group ends a command with all that it started
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.update(_ENVIRONMENT)
    for path, stream in ((out, sys.stdout), (error, sys.stderr)):
        stream.flush()
        path.touch()
    if device != "cpu":
        import_module("torch").zeros(1, device=device).cpu()  # a context takes seconds, once
    mine.send(None)
    while True:
        try:
            words = mine.recv()
        except EOFError:
            words = None
        if words is None:
            os._exit(0)  # nothing is left to write
        for path, number in ((out, 1), (error, 2)):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(descriptor, number)
            os.close(descriptor)
        used = time.process_time()
        try:
            code = entry(words)
        except BaseException:
            traceback.print_exc()
            code = 1
        for stream in (sys.stdout, sys.stderr):
            with suppress(ValueError, OSError):
                stream.flush()
        mine.send((code, time.process_time() - used))
