"""A line on which frames travel over an emulated air, and all other messages over the broker.

Workers push frames to the air, the server pushes openings of slots to it and pulls sums from it. What the air does not
take at once is dropped: the server asks again for what it misses.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any, Final

from airmixml.deploy.air import EmulatedAir, MakeRuntime, bind, connect
from airmixml.deploy.baseband import AnalogKind, loudest_samples
from airmixml.deploy.contract import Contract
from airmixml.deploy.endpoint import SERVER_NAME, Endpoint
from airmixml.deploy.wire import Log, Transport, Type

_TYPE_AT: Final = 4  # of a message, behind its first letters
_LOOK_SECONDS: Final = 0.02
_MOST_AT_ONCE: Final = 64  # sums of one call, which no process that pushes without end may hold


class AirLink:
    """An endpoint's transport to the broker, and sockets to the air; the server has one that sums arrive at."""

    def __init__(self, control: Transport, endpoint: Endpoint, log: Log) -> None:
        self._control, self._log, self._held = control, log, ExitStack()
        self._held.callback(control.close)
        try:
            is_server = endpoint.name == SERVER_NAME
            workers = 1 if is_server else len(endpoint.numbers(endpoint.name))
            self._air = self._hold(connect("PUSH", endpoint.frames, workers))
            self._sums = self._hold(bind("PULL", endpoint.sums)[0]) if is_server else None
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
        self._control.flush()

    def receive(self, timeout: float) -> list[bytes]:
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
        self._held.close()


@contextmanager
def running_air(contract: Contract, signing_key: bytes, make_runtime: MakeRuntime) -> Iterator[EmulatedAir]:
    """Yield the air of a contract; what adds up ends with the block."""
    kinds = [each for each in contract.kinds if isinstance(each, AnalogKind)]
    noise_watts, keys = max(each.receiver_watts for each in kinds), (bytes.fromhex(contract.server_key), signing_key)
    with closing(make_runtime(len(contract.members), noise_watts)) as runtime:
        yield EmulatedAir(contract.run, contract.directory, *keys, runtime, contract.gains, loudest_samples(kinds))
