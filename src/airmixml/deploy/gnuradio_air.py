"""GNU Radio as the runtime of an emulated air: a flowgraph in a process of its own, under the system's Python.

Each worker has an input of its own. A frame is sent with zeros on both sides, since the channel model holds back a few
samples and moves the others; by how many, an impulse tells before the first slot. Inputs stay aligned because every
slot takes as many samples of each, of silent workers zeros.
"""

import secrets
import shutil
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import numpy as np

from airmixml.deploy.air import Samples, as_bytes, bind, connect
from airmixml.deploy.endpoint import DeployError
from airmixml.deploy.processes import end_child, is_ready, start_child
from airmixml.errors import ProtocolError

SYSTEM_PYTHON: Final = Path("/usr/bin/python3")
_START_SECONDS: Final = 60.0
_SILENT_SECONDS: Final = 30.0
_PADDING: Final = 64  # the channel model holds back 8 to 16 samples
_IMPULSE_SAMPLES: Final = 256
_IMPULSE_OVER_NOISE: Final = 1e4


class GnuRadio:
    """A flowgraph with so many inputs.

    Args:
        inputs: workers of a slot at most.
        noise_watts: of the receiver, per complex sample.
        frequency_offset: in cycles per sample.
        taps: of the channel, the same for all workers.
        python: the interpreter that has GNU Radio's packages.
    """

    def __init__(
        self,
        inputs: int,
        *,
        noise_watts: float = 0.0,
        frequency_offset: float = 0.0,
        taps: Sequence[complex] = (1.0,),
        python: Path = SYSTEM_PYTHON,
    ) -> None:
        self._padding = np.zeros(_PADDING + len(taps), dtype=np.complex64)
        self._held = ExitStack()
        folder = Path(tempfile.mkdtemp(prefix="airmix-air-"))  # for this user alone
        self._held.callback(shutil.rmtree, folder, ignore_errors=True)
        try:
            self._inputs = [self._hold(bind("PUSH", f"ipc://{folder}/in-{number}")[0]) for number in range(inputs)]
            self._log = folder / "log"
            command: list[str | Path] = [python, Path(__file__).with_name("flowgraph.py"), folder, f"--inputs={inputs}"]
            command += [f"--noise-volts={noise_watts**0.5!r}", f"--frequency-offset={frequency_offset!r}"]
            command += [f"--seed={1 + secrets.randbelow(2**31 - 2)}", "--taps", *(str(complex(each)) for each in taps)]
            if not python.exists():
                raise DeployError(f"{python}: there is no such file; GNU Radio runs under the system's Python")
            with self._log.open("wb") as log:
                self._child = start_child(command, log=log)
            self._held.callback(end_child, self._child)
            if not is_ready(self._child, lambda: b"ready" in self._log.read_bytes(), _START_SECONDS):
                raise DeployError(f"GNU Radio does not start: {self._last_line}; apt-get install gnuradio brings it")
            self._output = self._hold(connect("PULL", f"ipc://{folder}/out"))
            self._samples, self._sent = 0, set[int]()
            self._base = self._came = self._moved = 0  # samples of each input, of the output, and how it is moved
            self._output_parts: list[Samples] = []
            self._moved = self._measure_delay(_IMPULSE_OVER_NOISE * max(noise_watts**0.5, 1.0))
        except BaseException:
            self.close()
            raise

    def _hold(self, socket: Any) -> Any:
        import zmq

        for each in (zmq.SNDHWM, zmq.RCVHWM, zmq.LINGER):
            socket.setsockopt(each, 0)
        self._held.callback(socket.close)
        return socket

    @property
    def _last_line(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"no word within {_START_SECONDS:g} s"

    def _is_dead(self) -> DeployError:
        return DeployError(f"GNU Radio gives no more samples: {self._last_line}; start the air again")

    def _measure_delay(self, amplitude: float) -> int:
        """Return by how many samples the strongest path moves a frame."""
        impulse = np.zeros(_IMPULSE_SAMPLES, dtype=np.complex64)
        impulse[_IMPULSE_SAMPLES // 2] = amplitude
        self.begin(_IMPULSE_SAMPLES, 1)
        self.add(0, impulse)
        return int(np.abs(self.finish()).argmax()) - _IMPULSE_SAMPLES // 2

    def begin(self, samples: int, seats: int) -> None:
        """Start a slot; one that was not finished is, so that inputs stay aligned."""
        if seats > len(self._inputs):
            raise ProtocolError(f"slot of {seats} workers: this air has {len(self._inputs)} inputs; start it with more")
        if self._samples:
            self.finish()
        self._samples = samples

    def add(self, seat: int, frame: Samples) -> None:
        import zmq

        try:
            self._inputs[seat].send(as_bytes(np.concatenate([self._padding, frame, self._padding])))
        except zmq.Again:  # the connection of a flowgraph that died is gone already
            raise self._is_dead() from None
        self._sent.add(seat)

    def finish(self) -> Samples:
        samples, padding = self._samples, len(self._padding)
        for seat in range(len(self._inputs)):
            if seat not in self._sent:
                self.add(seat, np.zeros(samples, dtype=np.complex64))
        self._samples, self._sent = 0, set()
        first = self._base + padding + self._moved
        self._base += samples + 2 * padding
        return self._received(first, samples)

    def _received(self, first: int, count: int) -> Samples:
        """Return samples of the output, counted from the start of the flowgraph; those before are dropped."""
        until = time.monotonic() + _SILENT_SECONDS
        while self._came + sum(map(len, self._output_parts)) < first + count:
            if self._output.poll(100):
                self._output_parts.append(np.frombuffer(self._output.recv(), dtype="<c8"))
                until = time.monotonic() + _SILENT_SECONDS
            elif self._child.poll() is not None or time.monotonic() > until:
                raise self._is_dead()
        there = np.concatenate(self._output_parts)
        start, end = first - self._came, first - self._came + count
        self._output_parts, self._came = [there[end:]], first + count
        return there[start:end].astype(np.complex64)

    def close(self) -> None:
        self._held.close()
