"""What an endpoint did and when, as lines of JSON: for a table, a status page, a picture.

Seconds count from the start of the process. Nothing rests on these files: no promise is kept with them.
"""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from airmixml.deploy.endpoint import DeployError
from airmixml.deploy.transport import Clock
from airmixml.wording import reason

STARTED: Final = "started"

Event = dict[str, Any]
"""``event``, its ``seconds``, and what else it is about."""


class Events:
    """Appends events to a file; without one it keeps nothing."""

    def __init__(self, path: Path | None, clock: Clock = time.monotonic) -> None:
        self._clock, self._begun = clock, clock()
        try:
            self._file = None if path is None else path.open("a", encoding="utf-8")
        except OSError as problem:
            raise DeployError(f"--events {path}: cannot be written ({reason(problem)}); choose another file") from None
        if self._file is not None:
            self._file.write("\n")  # after what a process that was killed has left
        self.note(STARTED, clock=self._begun)  # of this machine, whose processes share it

    def note(self, event: str, **about: Any) -> None:
        """Write one line."""
        if self._file is not None:
            seconds = round(self._clock() - self._begun, 4)
            self._file.write(json.dumps({"seconds": seconds, "event": event, **about}) + "\n")
            self._file.flush()


class Reader:
    """Reads a file of events while it grows; gives seconds since ``origin``, a time of this machine's clock."""

    def __init__(self, path: Path, origin: float) -> None:
        self._path, self._origin = path, origin
        self._place, self._begun = 0, origin

    def new(self) -> Iterator[Event]:
        """Yield what has come since the last call; a line that is not finished yet comes later."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._place)
            lines = file.read().splitlines(keepends=True)
        for line in lines:
            if not line.endswith(b"\n"):
                return
            self._place += len(line)
            try:
                event: Event = json.loads(line)
            except ValueError:  # a process was killed while it wrote
                continue
            if event["event"] == STARTED:
                self._begun = event["clock"]
            yield {**event, "seconds": event["seconds"] + self._begun - self._origin}
