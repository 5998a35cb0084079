"""Ctrl-C: before the work begins it ends the process at once, afterwards it is an exception that cleans up.

While libraries are imported an exception is not enough: Python may drop it or a library may turn it into another one.
"""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

_RESUMABLE = ("run", "attack", "audit", "compare", "reproduce")


def report_interruption() -> None:
    """Say in one line that the command was interrupted; a second Ctrl-C ends the process without a word."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    resumable = len(sys.argv) > 1 and sys.argv[1] in _RESUMABLE
    with suppress(OSError):  # nobody reads
        os.write(2, f"airmix: interrupted{'; repeat the command to resume' if resumable else ''}\n".encode())


@contextmanager
def ending_at_once() -> Iterator[None]:
    """End the process at once on Ctrl-C, until ``work_begins`` is called; a caller that ignores it is left alone."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)
    try:
        yield
    finally:
        if before is signal.default_int_handler:
            signal.signal(signal.SIGINT, before)


def work_begins() -> None:
    """From now on files may be half written: let Ctrl-C raise KeyboardInterrupt."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(_signal: int, _frame: FrameType | None) -> None:
    report_interruption()
    os._exit(130)
