"""stdin, stdout and stderr as the caller left them: what can no longer be said must not change what is done."""

import contextlib
import os
import sys
from typing import Any


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
