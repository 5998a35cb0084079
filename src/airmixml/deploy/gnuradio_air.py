"""GNU Radio as the runtime of an emulated air: a flowgraph in a process of its own, under the system's Python.

Each worker has an input of its own. Inputs stay aligned because every slot takes as many samples of each, of silent
workers zeros.
"""

import shutil
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import numpy as np
import zmq

from airmixml.deploy.air import Samples, as_bytes
from airmixml.deploy.air_link import bind, connect
from airmixml.deploy.endpoint import DeployError
from airmixml.deploy.processes import end_child, is_ready, last_line, start_child
from airmixml.errors import ProtocolError

SYSTEM_PYTHON: Final = Path("/usr/bin/python3")
_START_SECONDS: Final = 60.0
_SILENT_SECONDS: Final = 30.0


class GnuRadio:
    """A flowgraph with so many inputs; ``python`` is the interpreter that has GNU Radio's packages."""

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
            if not is_ready(self._child, lambda: b"ready" in self._log.read_bytes(), _START_SECONDS):
                last = last_line(self._log, f"no word within {_START_SECONDS:g} s")
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
