"""Ctrl-C: before the work begins it ends the process at once, afterwards it is an exception that cleans up.

While libraries are imported an exception is not enough: Python may drop it or a library may turn it into another one.
"""

import gc
import os
import signal
import sys
from contextlib import suppress
from types import FrameType

_RESUMABLE = ("run", "attack", "audit", "compare", "sweep", "reproduce")


def report_interruption() -> None:
    """Say in one line that the command was interrupted; a second Ctrl-C ends the process without a word."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    kept = len(sys.argv) > 1 and sys.argv[1] in _RESUMABLE and "--private" not in sys.argv
    with suppress(OSError):  # nobody reads
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
    os._exit(130)
