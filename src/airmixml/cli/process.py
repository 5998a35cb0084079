"""The process of ``airmix``: its streams as the caller left them, and what Ctrl-C does to it.

Before the work begins Ctrl-C ends the process at once; afterwards it is an exception that cleans up. While libraries
are imported an exception is not enough: Python may drop it, or a library may turn it into another one.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import time

TYPE_CHECKING = False  # typing takes a while to import
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

INTERRUPTED = 130
_RESUMABLE = ("run", "attack", "audit", "compare", "sweep", "reproduce")
STARTED = time.monotonic()  # of the command, before anything else is imported


def take_streams() -> None:
    """Lead streams that the caller closed to nowhere, and make writing to stderr something that cannot fail.

    Otherwise the next file that is opened would get the number of a closed stream, and whatever a library prints.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest number that is free, which is this
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115  (until the process ends)
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if not isinstance(sys.stderr, _Unfailing):
        sys.stderr = _Unfailing(sys.stderr)


def discard(stream: Any) -> None:
    """Lead a stream to nowhere, with what could not be written, so that Python does not try again when it exits."""
    with contextlib.suppress(OSError, ValueError):  # it is no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class _Unfailing:
    """A stream for remarks: where its disk is full or its reader went away, they are lost, and nothing else is."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write the text, or lose it and all that follows."""
        try:
            self._stream.write(text)
        except OSError:
            discard(self._stream)
        return len(text)

    def flush(self) -> None:
        """Write what is buffered, or lose it."""
        try:
            self._stream.flush()
        except OSError:
            discard(self._stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def report_interruption() -> None:
    """Say in one line that the command was interrupted; a second Ctrl-C ends the process without a word."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    kept = len(sys.argv) > 1 and sys.argv[1] in _RESUMABLE and "--private" not in sys.argv
    with contextlib.suppress(OSError):  # nobody reads
        os.write(2, f"airmix: interrupted{'; repeat the command to resume' if kept else ''}\n".encode())


def end_when_interrupted() -> None:
    """End the process at once on Ctrl-C, until ``raise_when_interrupted``; a caller that ignores it is left alone.

    Until then no garbage is collected either: imports leave none, and looking for it takes a tenth of their time.
    """
    gc.disable()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def raise_when_interrupted() -> None:
    """Let Ctrl-C raise KeyboardInterrupt: from now on files may be half written, and garbage is collected."""
    if not gc.get_freeze_count():
        gc.freeze()  # nobody looks through what was imported again; once: what is frozen is never collected
    gc.enable()
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(_signal: int, _frame: FrameType | None) -> None:
    report_interruption()
    os._exit(INTERRUPTED)
