"""What carries messages between endpoints: in process, over MQTT, over an air. Worker and server know none of it."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol

from airmixml.deploy.wire import SERVER, Message, Type, batched, unpacked
from airmixml.errors import ProtocolError

LARGEST_BATCH: Final = 1 << 20
MOST_IN_BATCH: Final = 100
RUN_OVER: Final = (1 << 32) - 1
"""The round of an OVER message that ends the run."""

Log = Callable[[str], None]
"""Takes one line about what was refused, lost or found again."""

Clock = Callable[[], float]
"""Seconds of this process, from any beginning."""

_MOST_LINES: Final = 200
_LINES_SECONDS: Final = 60.0


class Transport(Protocol):
    """One end of a line that may lose, repeat and reorder messages, and never changes one unnoticed."""

    def send(self, message: bytes, to: int | None = None) -> None:
        """Take a message to a worker, from a server, or to all (``None``); from a worker it goes to the server.

        It may wait in a batch until the next ``flush`` or ``receive``.
        """

    def flush(self) -> None:
        """Send what waits."""

    def receive(self, timeout: float) -> list[bytes]:
        """Return what has arrived, after ``timeout`` seconds at the latest; empty where nothing was taken."""

    def close(self) -> None:
        """Send what waits, and end the connection."""


def batches(messages: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the messages in order, in batches that are neither long nor many at once; a long one is alone in its."""
    waiting: list[bytes] = []
    length = 0
    for each in messages:
        if waiting and (len(waiting) == MOST_IN_BATCH or length + len(each) > LARGEST_BATCH):
            yield batched(waiting)
            waiting, length = [], 0
        waiting.append(each)
        length += len(each)
    if waiting:
        yield batched(waiting)


def read_messages(contents: Iterable[bytes], log: Log) -> Iterator[Message]:
    """Yield what are messages; note what is none."""
    for content in contents:
        try:
            yield unpacked(content)
        except ProtocolError as problem:
            log(f"refused: {problem}")


def run_over(run: bytes, signing_key: bytes) -> Message:
    """Return what a server says when no round is left: workers may go."""
    return Message(Type.OVER, SERVER, run, RUN_OVER).signed_with(signing_key)


class Lines:
    """Writes what an endpoint notes to stderr: no more than 200 lines a minute, whatever strangers send."""

    def __init__(self, name: str, clock: Clock = time.monotonic) -> None:
        self._name, self._clock = name, clock
        self._since, self._written, self._left_out = clock(), 0, 0

    def __call__(self, line: str) -> None:
        """Write a line, or count it as left out."""
        if self._clock() - self._since > _LINES_SECONDS:
            if self._left_out:
                self._write(f"{self._left_out} more lines were left out")
            self._since, self._written, self._left_out = self._clock(), 0, 0
        if self._written < _MOST_LINES:
            self._written += 1
            self._write(line)
        else:
            self._left_out += 1

    def _write(self, line: str) -> None:
        sys.stderr.write(f"{self._name}: {' '.join(line.split())}\n")
        sys.stderr.flush()
