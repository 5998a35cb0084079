"""Processes that end with the one that started them, however that ends; one of them is the broker, mosquitto."""

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final, Self

from airmixml.deploy.endpoint import HOST, DeployError, Endpoint, read_file

_PR_SET_PDEATHSIG: Final = 1
_TERMINATION_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 0.02
_START_SECONDS: Final = 20.0


def start_child(command: Sequence[str | Path], *, log: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start a command that writes its lines to ``log``; Linux kills it when the thread that calls this ends."""
    return subprocess.Popen(
        [str(part) for part in command],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
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


def end_child(*children: subprocess.Popen[bytes]) -> None:
    """End processes: politely, then with force."""
    for child in children:
        with suppress(ProcessLookupError):
            child.terminate()
    for child in children:
        try:
            child.wait(_TERMINATION_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def last_line(log: Path, otherwise: str) -> str:
    """Return the last line of the log of a process."""
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else otherwise


def _ending_with(parent: int) -> Any:
    library = ctypes.CDLL(None)  # before the fork: nothing may be loaded after it

    def prepare() -> None:
        library.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it ended in between
            os._exit(1)

    return prepare


def find_mosquitto(places: str | None = None) -> str:
    """Return the path of mosquitto, or say in one line which package has it."""
    found = shutil.which("mosquitto", path=places or f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if found is None:
        raise DeployError("mosquitto, the MQTT broker, is not installed; on Debian: apt-get install mosquitto")
    return found


class Broker:
    """Mosquitto with the configuration of a deployment's folder; ``with`` ends it."""

    def __init__(self, folder: Path) -> None:
        """Start it, and wait until it listens; its log is ``broker/mosquitto.log``."""
        self._folder = folder / "broker"
        self._endpoint = Endpoint.read(folder / "server")
        self._command = (find_mosquitto(), "-c", self._folder / "mosquitto.conf")
        read_file(self._folder / "mosquitto.conf")
        self.start()

    def start(self) -> None:
        """Start it, for the first time or again after it was killed."""
        if self._answers():
            raise DeployError(f"port {self._endpoint.port} of {HOST} is taken; end what listens there, or init again")
        with (self._folder / "mosquitto.log").open("ab") as log:
            self.process: subprocess.Popen[bytes] = start_child(self._command, log=log)
        if not is_ready(self.process, self._answers, _START_SECONDS):
            end_child(self.process)
            last = last_line(self._folder / "mosquitto.log", "no reason given")
            raise DeployError(f"mosquitto did not start: {last}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_problem: object) -> None:
        end_child(self.process)

    def _answers(self) -> bool:
        try:
            with socket.create_connection((self._endpoint.host, self._endpoint.port), timeout=1.0):
                return True
        except OSError:
            return False
