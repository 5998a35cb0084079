"""Processes that are started again where they end before their work is done, so that any may be killed at any time.

Nothing rests on their memory: a worker finds in its ledger what it has sent, a server in its journal where it was, and
endpoints send again what a broker has lost.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from airmixml.deploy.endpoint import DeployError
from airmixml.deploy.processes import end_child, last_line
from airmixml.deploy.wire import Clock

ENDED, RESTARTED, STOPPED, AWAY = "killed", "started again", "is stopped", "stays away"
INTERRUPTED: Final = 130  # what a command of airmix ends with after Ctrl-C
_AGAIN_SECONDS: Final = 1.0  # after which it is started again
_SETTLED_SECONDS: Final = 30.0  # after which a process that was started again counts as sound
_MOST_STARTS: Final = 5  # in a row of which none has settled


@dataclass
class Part:
    """A process, how it is started, and where its last words are."""

    start: Callable[[], subprocess.Popen[bytes]]
    log: Path
    has_end: bool = True  # whether it ends by itself once its work is done
    must_be: bool = False  # whether nothing goes on without it
    child: subprocess.Popen[bytes] | None = None
    begun: float = 0.0  # when it was started last, or ended last
    stopped: float | None = None  # since when a signal has it stand still
    starts: int = 0

    @property
    def is_done(self) -> bool:
        """Whether it has done its work."""
        return self.has_end and self.child is not None and self.child.poll() == 0

    @property
    def last(self) -> str:
        """The last line that it wrote."""
        return last_line(self.log, f"no word in {self.log}").removeprefix("airmix: error: ")


class Supervisor:
    """Keeps parts alive; one that a signal stops is ended after ``patience`` seconds, and so started again."""

    def __init__(self, patience: float, clock: Clock = time.monotonic) -> None:
        self.parts: dict[str, Part] = {}
        self._patience, self._clock = patience, clock

    def add(self, name: str, part: Part) -> None:
        """Take a part, and start it where it does not run yet."""
        self.parts[name] = part
        self._start(part)

    def look(self) -> Iterator[tuple[str, str]]:
        """Start again what has ended; yield the name of each part that something happened to, and what.

        A refusal of a part that must be there is an error, and so is its end again and again.
        """
        for name, part in self.parts.items():
            if part.child is None:
                if part.starts <= _MOST_STARTS and self._clock() - part.begun >= _AGAIN_SECONDS:
                    yield from ((name, what) for what in self._again(name, part))
                continue
            code = part.child.poll()
            if code is None:
                yield from ((name, what) for what in self._stopped(part))
            elif code or not part.has_end:
                yield name, self._ended(name, part, code)
                if part.starts > _MOST_STARTS:
                    yield name, f"{AWAY}: {part.last}"

    def end(self, seconds: float) -> None:
        """Wait for parts that end by themselves, so many seconds; then end them all."""
        until = self._clock() + seconds
        ending = [part.child for part in self.parts.values() if part.has_end and part.child]
        while self._clock() < until and any(each.poll() is None and not is_stopped(each) for each in ending):
            time.sleep(0.02)
        end_child(*(part.child for part in self.parts.values() if part.child))

    def _start(self, part: Part) -> None:
        part.starts, part.begun, part.stopped = part.starts + 1, self._clock(), None
        part.child = part.child or part.start()

    def _again(self, name: str, part: Part) -> Iterator[str]:
        try:
            self._start(part)
            yield RESTARTED
        except DeployError as problem:
            if part.starts > _MOST_STARTS:
                if part.must_be:
                    raise DeployError(f"{name}: {problem}") from problem
                yield f"{AWAY}: {problem}"

    def _ended(self, name: str, part: Part, code: int) -> str:
        refuses = 0 < code != INTERRUPTED
        if self._clock() - part.begun >= _SETTLED_SECONDS:
            part.starts = 0
        if part.must_be and refuses:
            raise DeployError(f"{name}: {part.last}")
        if part.must_be and part.starts > _MOST_STARTS:
            raise DeployError(f"{name}: was killed {part.starts} times in a row; its last words: {part.last}")
        part.child, part.begun = None, self._clock()
        return f"ends: {part.last}" if refuses else f"{ENDED}{_by(code)}"

    def _stopped(self, part: Part) -> Iterator[str]:
        assert part.child is not None
        if not is_stopped(part.child):
            part.stopped = None
        elif part.stopped is None:
            part.stopped = self._clock()
            yield STOPPED
        elif self._clock() - part.stopped >= self._patience:
            part.child.kill()


def is_stopped(child: subprocess.Popen[bytes]) -> bool:
    """Whether a signal has a process stand still, where the system can tell."""
    if not hasattr(os, "waitid"):
        return False
    with suppress(ChildProcessError):  # it has ended
        return os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is not None
    return False


def _by(code: int) -> str:
    """Return by which signal a process ended, in words."""
    number = signal.SIGINT if code == INTERRUPTED else -code
    with suppress(ValueError):
        return f" by {signal.Signals(number).name}"
    return f" by signal {number}" if number > 0 else ""
