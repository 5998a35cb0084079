"""Processes that end with the one that started them, however that ends."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final

_PR_SET_PDEATHSIG: Final = 1
_TERMINATION_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 0.02


def start_child(
    command: Sequence[str | Path],
    *,
    log: IO[bytes] | int = subprocess.DEVNULL,
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a command that writes its lines to ``log``; Linux kills it when the thread that calls this ends."""
    return subprocess.Popen(
        [str(part) for part in command],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        env=None if environment is None else dict(environment),
        preexec_fn=_ending_with(os.getpid()) if sys.platform.startswith("linux") else None,  # noqa: PLW1509
    )


def is_ready(child: subprocess.Popen[bytes], sign: Callable[[], bool], seconds: float) -> bool:
    """Wait for the sign that a process has begun its work; return False where it ended, or took too long."""
    until = time.monotonic() + seconds
    while not sign():
        if child.poll() is not None or time.monotonic() > until:
            return False
        time.sleep(_LOOK_SECONDS)
    return True


def end_child(child: subprocess.Popen[bytes]) -> None:
    """End a process: politely, then with force."""
    with suppress(ProcessLookupError):
        child.terminate()
    try:
        child.wait(_TERMINATION_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def _ending_with(parent: int) -> Any:
    library = ctypes.CDLL(None)  # before the fork: nothing may be loaded after it

    def prepare() -> None:
        library.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it ended in between
            os._exit(1)

    return prepare
