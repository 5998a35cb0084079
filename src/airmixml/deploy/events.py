"""What an endpoint notes: lines on stderr, and what it did when, as lines of JSON for a table or a picture.

Seconds count from the start of the process. Nothing rests on these files: no promise is kept with them.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any, Final

from airmixml.deploy.endpoint import DeployError
from airmixml.deploy.wire import Clock
from airmixml.wording import reason

STARTED: Final = "started"
_MOST_LINES: Final = 200
_LINES_SECONDS: Final = 60.0

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
