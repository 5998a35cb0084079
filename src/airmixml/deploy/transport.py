"""What carries messages between endpoints: in process, over MQTT, over an air. Worker and server know none of it."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol

from airmixml.deploy.wire import batched

LARGEST_BATCH: Final = 1 << 20
MOST_IN_BATCH: Final = 100

Log = Callable[[str], None]
"""Takes one line about what was refused, lost or found again."""


class Transport(Protocol):
    """One end of a line that may lose, repeat and reorder messages, and never changes one unnoticed."""

    def send(self, message: bytes, to: int | None = None) -> None:
        """Take a message to a worker, from a server, or to all (``None``); from a worker it goes to the server.

        It may wait in a batch until the next ``receive``.
        """

    def receive(self, timeout: float) -> list[bytes]:
        """Return what has arrived, after ``timeout`` seconds at the latest; empty where nothing has, or nothing that may."""

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
