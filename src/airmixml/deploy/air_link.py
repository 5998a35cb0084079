"""A line on which frames travel over an emulated air, and all other messages over the broker.

Workers push frames to the air, the server pushes openings of slots to it and pulls sums from it. What the air does not
take at once is dropped: the server asks again for what it misses.
"""

import json
import socket
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Self

from airmixml.deploy.air import bind, connect
from airmixml.deploy.endpoint import COPY_AGAIN, DeployError, read_file
from airmixml.deploy.transport import Log, Transport
from airmixml.deploy.wire import Type

ADDRESSES: Final = "air.json"
_TYPE_AT: Final = 4  # of a message, behind its first letters
_LOOK_SECONDS: Final = 0.02
_MOST_AT_ONCE: Final = 64  # sums of one call, which no process that pushes without end may hold


@dataclass(frozen=True, kw_only=True)
class Addresses:
    """Where an air listens for frames, and the server for sums; both on their machine, or at the end of a tunnel."""

    frames: str
    sums: str

    @classmethod
    def free(cls, host: str) -> Self:
        """Return addresses that nobody listens at."""
        with socket.create_server((host, 0)) as frames, socket.create_server((host, 0)) as sums:
            return cls(**{n: f"tcp://{host}:{s.getsockname()[1]}" for n, s in (("frames", frames), ("sums", sums))})

    def text(self) -> str:
        """Return what the file in the folder of each endpoint says."""
        return json.dumps(asdict(self)) + "\n"

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Return what the folder of an endpoint says."""
        path = folder / ADDRESSES
        content = read_file(path)
        try:
            return cls(**json.loads(content))
        except (ValueError, TypeError):
            raise DeployError(f"{path}: does not say where the air listens; {COPY_AGAIN}") from None


class AirLink:
    """A transport to the broker, and sockets to the air; the server has one that sums arrive at."""

    def __init__(
        self, control: Transport, folder: Path, log: Log, *, workers: int = 1, takes_sums: bool = False
    ) -> None:
        self._control, self._log, self._held = control, log, ExitStack()
        self._held.callback(control.close)
        try:
            where = Addresses.read(folder)
            self._air = self._hold(connect("PUSH", where.frames, workers))
            self._sums = self._hold(bind("PULL", where.sums)[0]) if takes_sums else None
        except BaseException:
            self._held.close()
            raise

    def _hold(self, made: Any) -> Any:
        self._held.callback(made.close)
        return made

    def send(self, message: bytes, to: int | None = None) -> None:
        """Take a message; see ``Transport``. Samples go to the air alone, and to it goes too that the run is over."""
        import zmq

        kind = message[_TYPE_AT]
        if kind != Type.SAMPLES:
            self._control.send(message, to)
        if kind in (Type.SAMPLES, Type.OVER):
            try:
                self._air.send(message, zmq.NOBLOCK)
            except zmq.Again:
                self._log("the air takes nothing; start it (`airmix air FOLDER`), and what it misses is sent again")

    def flush(self) -> None:
        """Send what waits."""
        self._control.flush()

    def receive(self, timeout: float) -> list[bytes]:
        """Return what has arrived; see ``Transport``."""
        if self._sums is None:
            return self._control.receive(timeout)
        end = time.monotonic() + timeout
        while True:
            left = end - time.monotonic()
            found = self._control.receive(max(0.0, min(left, _LOOK_SECONDS)))
            for _ in range(_MOST_AT_ONCE):
                if not self._sums.poll(0):
                    break
                found.append(self._sums.recv())
            if found or left <= 0.0:
                return found

    def close(self) -> None:
        """Send what waits, and end all connections."""
        self._held.close()
