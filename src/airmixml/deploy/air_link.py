"""Frames over ZeroMQ on this machine: the sockets of an emulated air, and an endpoint's line to it and to the broker.

Workers push frames to the air, the server pushes openings of slots to it and pulls sums from it. What the air does not
take at once is dropped: the server asks again for what it misses.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Final

from airmixml.deploy.air import EmulatedAir, MakeRuntime
from airmixml.deploy.baseband import AnalogKind, loudest_samples
from airmixml.deploy.contract import Contract
from airmixml.deploy.endpoint import (
    AIR_NAME,
    SERVER_NAME,
    SIGNING_KEYS,
    DeployError,
    Endpoint,
    Lines,
    load_contract,
    read_keys,
)
from airmixml.deploy.wire import HEADER, LARGEST_BODY, SIGNATURE_BYTES, Log, Message, Transport, Type
from airmixml.errors import ProtocolError

_FRAMES_QUEUED: Final = 4  # of each worker
_LINGER_MILLISECONDS: Final = 2000
_SEND_MILLISECONDS: Final = 10_000
_TYPE_AT: Final = 4  # of a message, behind its first letters
_LOOK_SECONDS: Final = 0.02
_MOST_AT_ONCE: Final = 64  # sums of one call, which no process that pushes without end may hold


class AirLink:
    """An endpoint's transport to the broker, and sockets to the air; the server has one that sums arrive at."""

    def __init__(self, control: Transport, endpoint: Endpoint, log: Log) -> None:
        is_server = endpoint.name == SERVER_NAME
        workers = 1 if is_server else len(endpoint.numbers(endpoint.name))
        self._control, self._log = control, log
        with ExitStack() as held:
            held.callback(control.close)
            self._air = held.enter_context(closing(connect("PUSH", endpoint.frames, workers)))
            self._sums = held.enter_context(closing(bind("PULL", endpoint.sums))) if is_server else None
            self._held = held.pop_all()

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
            while len(found) < _MOST_AT_ONCE and self._sums.poll(0):
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
    with closing(make_runtime(len(contract.members))) as runtime:
        yield EmulatedAir(contract.run, contract.directory, *keys, runtime, loudest_samples(kinds), noise_watts)


def run_air(folder: Path, make_runtime: MakeRuntime, announce: Log) -> None:
    """Serve the workers of a deployment until the server says that their run is over; announce where it listens."""
    own = folder / AIR_NAME
    if not own.is_dir():
        raise DeployError(f"{folder}: is no deployment with an air; set one up with a scenario of analog frames")
    where, contract, (key,) = Endpoint.read(own), load_contract(own), read_keys(own / SIGNING_KEYS, 1)
    with running_air(contract, key, make_runtime) as air:
        frames, sums = bind("PULL", where.frames), connect("PUSH", where.sums)
        announce(f"listening at {where.frames}")
        send(sums, air.hello())
        serve(air, frames, sums, log=Lines(AIR_NAME))


def serve(air: EmulatedAir, frames: Any, sums: Any, *, log: Callable[[str], None]) -> None:
    """Run an air on two ZeroMQ sockets, PULL for frames and PUSH for sums; one line in the log for what is refused.

    It ends when the server says that the run is over.
    """
    while not air.is_over:
        try:
            for message in air.handle(frames.recv()):
                send(sums, message)  # a server that is away asks again
        except ProtocolError as problem:
            log(str(problem))


def bind(kind: str, address: str) -> Any:
    """Return a ZeroMQ socket, PUSH or PULL, bound to an address of this machine."""
    return _socket(kind, address, lambda made: made.bind(address))


def connect(kind: str, address: str, workers: int = 1) -> Any:
    """Return a ZeroMQ socket, PUSH or PULL, that connects to an address of this machine; it waits for who listens.

    Frames of so many workers may wait in it.
    """
    return _socket(kind, address, lambda made: made.connect(address), workers)


def send(socket: Any, message: Message) -> None:
    """Send a message; refuse to wait forever for who should listen."""
    import zmq

    try:
        socket.send(message.packed())
    except zmq.Again:
        address = socket.getsockopt_string(zmq.LAST_ENDPOINT)
        raise ProtocolError(
            f"{address}: nobody took a message within {_SEND_MILLISECONDS // 1000} s; start what should listen there"
        ) from None


def _socket(kind: str, address: str, use: Callable[[Any], object], workers: int = 1) -> Any:
    try:
        import zmq
    except ImportError:
        raise ProtocolError("an emulated air needs pyzmq: pip install 'airmixml[deploy]'") from None
    if not address.startswith(("tcp://127.0.0.1:", "ipc://")):
        raise ProtocolError(
            f"{address}: must be tcp://127.0.0.1:PORT or ipc://PATH; an emulated air stays on its machine"
        )
    socket: Any = zmq.Context.instance().socket(getattr(zmq, kind))
    socket.setsockopt(zmq.MAXMSGSIZE, HEADER.size + LARGEST_BODY + SIGNATURE_BYTES)
    socket.setsockopt(zmq.SNDTIMEO, _SEND_MILLISECONDS)
    socket.setsockopt(zmq.LINGER, _LINGER_MILLISECONDS)
    socket.setsockopt(zmq.RCVHWM if kind == "PULL" else zmq.SNDHWM, _FRAMES_QUEUED * workers)
    try:
        use(socket)
    except zmq.ZMQError as problem:
        socket.close()
        raise ProtocolError(f"{address}: cannot be used ({problem.strerror}); give another address") from None
    return socket
