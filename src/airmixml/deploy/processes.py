"""Processes that end with the one that started them, however that ends: the broker, mosquitto, and GNU Radio."""

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Any, Final, Self

import numpy as np
import zmq

from airmixml.deploy.air import Samples, as_bytes
from airmixml.deploy.air_link import bind, connect
from airmixml.deploy.endpoint import HOST, DeployError, Endpoint, read_file
from airmixml.deploy.wire import Log
from airmixml.messages import ProtocolError

SYSTEM_PYTHON: Final = Path("/usr/bin/python3")
_PR_SET_PDEATHSIG: Final = 1
_TERMINATION_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 0.02
_START_SECONDS: Final = 20.0
_GNURADIO_SECONDS: Final = 60.0
_SILENT_SECONDS: Final = 30.0


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
    until = time.monotonic() + _TERMINATION_SECONDS
    for child in children:
        try:
            child.wait(max(0.0, until - time.monotonic()))
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
        """Start it, and wait until it listens; its ``log`` is ``broker/mosquitto.log``."""
        self._folder = folder / "broker"
        self._endpoint = Endpoint.read(folder / "server")
        self._command = (find_mosquitto(), "-c", self._folder / "mosquitto.conf")
        read_file(self._folder / "mosquitto.conf")
        self.start()

    @property
    def log(self) -> Path:
        return self._folder / "mosquitto.log"

    def restart(self) -> subprocess.Popen[bytes]:
        """Start it again after it was killed."""
        self.start()
        return self.process

    def kept(self, watch: Callable[..., None], log: Log) -> Callable[..., None]:
        """Return what first starts it again, where it was killed, and then does what ``watch`` does."""

        def look(*seen: Any) -> None:
            if self.process.poll() is not None:
                log("the broker has ended and is started again")
                self.start()
            watch(*seen)

        return look

    def start(self) -> None:
        """Start it, for the first time or again after it was killed."""
        if self._answers():
            raise DeployError(f"port {self._endpoint.port} of {HOST} is taken; end what listens there, or init again")
        with self.log.open("ab") as log:
            self.process: subprocess.Popen[bytes] = start_child(self._command, log=log)
        if not is_ready(self.process, self._answers, _START_SECONDS):
            end_child(self.process)
            last = last_line(self.log, "no reason given")
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


class GnuRadio:
    """GNU Radio as the runtime of an emulated air: a flowgraph with so many inputs, one for each worker.

    Inputs stay aligned because every slot takes as many samples of each, of silent workers zeros. ``python`` is the
    system's, which has GNU Radio's packages.
    """

    def __init__(self, inputs: int, python: Path = SYSTEM_PYTHON) -> None:
        with ExitStack() as held:
            self._held = held
            folder = Path(tempfile.mkdtemp(prefix="airmix-air-"))  # for this user alone
            self._held.callback(shutil.rmtree, folder, ignore_errors=True)
            self._inputs = [self._hold(bind("PUSH", f"ipc://{folder}/in-{number}")) for number in range(inputs)]
            self._log = folder / "log"
            if not python.exists():
                raise DeployError(f"{python}: there is no such file; GNU Radio runs under the system's Python")
            script = Path(__file__).with_name("flowgraph.py")
            with self._log.open("wb") as log:
                self._child = start_child((python, script, folder, str(inputs)), log=log)
            self._held.callback(end_child, self._child)
            if not is_ready(self._child, lambda: b"ready" in self._log.read_bytes(), _GNURADIO_SECONDS):
                last = last_line(self._log, f"no word within {_GNURADIO_SECONDS:g} s")
                raise DeployError(f"GNU Radio does not start: {last}; apt-get install gnuradio brings it")
            self._output = self._hold(connect("PULL", f"ipc://{folder}/out"))
            self._samples, self._sent = 0, set[int]()
            self._came = np.zeros(0, dtype=np.complex64)  # of a slot after those that are finished
            self._held = held.pop_all()

    def _hold(self, socket: Any) -> Any:
        for each in (zmq.SNDHWM, zmq.RCVHWM, zmq.LINGER):
            socket.setsockopt(each, 0)
        self._held.callback(socket.close)
        return socket

    def _is_dead(self) -> DeployError:
        last = last_line(self._log, "no word")
        return DeployError(f"GNU Radio gives no more samples: {last}; start the air again")

    def begin(self, samples: int, seats: int) -> None:
        """Start a slot; one that was not finished is, so that inputs stay aligned."""
        if seats > len(self._inputs):
            raise ProtocolError(f"slot of {seats} workers: this air has {len(self._inputs)} inputs; start it with more")
        if self._samples:
            self.finish()
        self._samples = samples

    def add(self, seat: int, frame: Samples) -> None:
        try:
            self._inputs[seat].send(as_bytes(frame))
        except zmq.Again:  # the connection of a flowgraph that died is gone already
            raise self._is_dead() from None
        self._sent.add(seat)

    def finish(self) -> Samples:
        samples = self._samples
        for seat in range(len(self._inputs)):
            if seat not in self._sent:
                self.add(seat, np.zeros(samples, dtype=np.complex64))
        self._samples, self._sent = 0, set()
        parts, until = [self._came], time.monotonic() + _SILENT_SECONDS
        while sum(map(len, parts)) < samples:
            if self._output.poll(100):
                parts.append(np.frombuffer(self._output.recv(), dtype="<c8"))
                until = time.monotonic() + _SILENT_SECONDS
            elif self._child.poll() is not None or time.monotonic() > until:
                raise self._is_dead()
        there = np.concatenate(parts)
        self._came = there[samples:]
        return there[:samples].astype(np.complex64)

    def close(self) -> None:
        self._held.close()
