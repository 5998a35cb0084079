"""An emulated air: takes complex baseband of the workers of a slot, adds it up, and names who is in the sum.

The server opens a slot with the workers that may send, and closes it. Each sends one signed SAMPLES message: its
signature under the FRAME message that tells the server the digest of its samples, then these, as little-endian
complex64. When all have come or the server closes the slot, the sum goes to the server with what proves who is in it;
absent workers are silent. A frame that comes later never enters, nor does a second one of the same worker. The hub
hears every frame by itself, which no antenna does: the receiver's noise hides nobody here.

``EmulatedAir`` does no I/O. Around it are ZeroMQ sockets of this machine: workers push frames to the air, the server
pushes openings of slots to it and pulls sums from it. What the air does not take at once is dropped: the server asks
again for what it misses.
"""

import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import zmq

from airmixml.deploy.air import MOST_WORKERS, AnalogKind, Opening, Samples, SumOnAir, as_samples
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
from airmixml.deploy.wire import (
    AIR,
    LARGEST_MESSAGE,
    RUN_OVER,
    SERVER,
    SIGNATURE_BYTES,
    Log,
    Message,
    Transport,
    Type,
    unpacked,
)
from airmixml.messages import ProtocolError

_FRAMES_QUEUED: Final = 4  # of each worker
_LINGER_MILLISECONDS: Final = 2000
_SEND_MILLISECONDS: Final = 10_000
_TYPE_AT: Final = 4  # of a message, behind its first letters
_LOOK_SECONDS: Final = 0.02
_MOST_AT_ONCE: Final = 64  # sums of one call, which no process that pushes without end may hold


class Runtime(Protocol):
    """What adds up the frames of one slot after the other."""

    def begin(self, samples: int, seats: int) -> None:
        """Start a slot of so many samples and so many workers; frames of the last one are forgotten."""

    def add(self, seat: int, frame: Samples) -> None:
        """Take the frame of the worker on a seat, each at most once."""

    def finish(self) -> Samples:
        """Return the sum, in which seats without a frame are silent."""

    def close(self) -> None:
        """End what it has started."""


class Adder:
    """Adds up in NumPy."""

    def __init__(self, inputs: int = MOST_WORKERS) -> None:
        self._total = np.zeros(0, dtype=np.complex128)

    def begin(self, samples: int, seats: int) -> None:
        self._total = np.zeros(samples, dtype=np.complex128)

    def add(self, seat: int, frame: Samples) -> None:
        self._total += frame

    def finish(self) -> Samples:
        return self._total.astype(np.complex64)

    def close(self) -> None:
        """Nothing was started."""


MakeRuntime = Callable[[int], Runtime]
"""Starts what adds up the frames of so many workers."""


class EmulatedAir:
    """The hub of one run, with the air's own private key; ``runtime`` adds up."""

    def __init__(self, contract: Contract, signing_key: bytes, runtime: Runtime) -> None:
        self._run, self._signing_key, self._runtime = contract.run, signing_key, runtime
        kinds = [each for each in contract.kinds if isinstance(each, AnalogKind)]
        # The largest sample of a frame of so many; others are none of the run.
        self._loudest = {each.numbers: each.loudest for each in sorted(kinds, key=lambda each: each.loudest)}
        self._noise_watts = max((each.receiver_watts for each in kinds), default=0.0)  # behind it nobody hides
        self._random = np.random.default_rng()
        self.is_over = False
        admitted = {each: key for each, key in contract.directory.items() if each not in contract.revoked_workers}
        self._keys = {**admitted, SERVER: bytes.fromhex(contract.server_key)}
        self._name = (-1, 0)  # of the last slot that was opened: round, attempt
        self._opening = Opening(0, 0, ())  # of that slot
        self._is_open = False
        self._awaited: set[int] = set()  # workers without whom the slot is not full
        self._present: dict[int, bytes] = {}  # the proof of each frame in the sum
        self._said = Message(Type.SAMPLES, AIR, self._run)  # the last sum

    def handle(self, content: bytes) -> list[Message]:
        """Take a message; return the sum if it was the last that was missing. Refused messages change nothing."""
        message = unpacked(content)
        ends = message.type is Type.OVER and message.sender == SERVER
        if not (ends or message.type is Type.SAMPLES) or message.run != self._run:
            raise ProtocolError(f"{message.type.name} of another run or kind is dropped")
        key = self._keys.get(message.sender)
        if key is None or not message.is_signed_by(key):
            raise ProtocolError(f"SAMPLES of worker {message.sender}: not signed by a member of the run; dropped")
        if ends:
            self.is_over |= message.round == RUN_OVER
            return []
        if message.sender != SERVER:
            self._add(message)
        elif self._opens(message) and not self._is_open:  # asked again
            return [self._said]
        return self.expire() if self._awaited <= self._present.keys() else []

    def hello(self) -> Message:
        """Return what it says when it starts: that it knows of no slot, so that all that is open is sent again."""
        return Message(Type.HELLO, AIR, self._run).signed_with(self._signing_key)

    def expire(self) -> list[Message]:
        """Close the slot that is open, and return the sum of those that have sent."""
        if not self._is_open:
            return []
        self._is_open = False
        present = tuple(sorted(self._present))
        samples = self._runtime.finish()
        if self._noise_watts:
            parts = self._random.standard_normal((2, len(samples)))
            noise = np.sqrt(self._noise_watts / 2.0) * (parts[0] + 1j * parts[1])
            samples = (samples.astype(np.complex128) + noise).astype(np.complex64)
        total = SumOnAir(present, samples, tuple(self._present[each] for each in present))
        said = Message(Type.SAMPLES, AIR, self._run, *self._name, total.packed())
        self._said = said.signed_with(self._signing_key)
        return [self._said]

    def _opens(self, message: Message) -> bool:
        """Open a slot; return whether it was opened before, and may wait for fewer workers now."""
        name, opening, first = (message.round, message.attempt), Opening.of(message.body), self._opening
        if name == self._name and opening.samples == first.samples and set(opening.workers) <= set(first.workers):
            self._awaited = set(opening.workers) if opening.waits else set()
            return True
        if name <= self._name:
            raise ProtocolError(f"slot {name[0]}, attempt {name[1]}: was opened before; use another name")
        if not opening.waits:  # it waited for an air that was started again, and has no frame
            raise ProtocolError(f"slot {name[0]}, attempt {name[1]}: is not open and cannot be closed; open it first")
        unknown = [each for each in opening.workers if each not in self._keys or each == SERVER]
        if unknown or opening.samples not in self._loudest:
            raise ProtocolError("opening names a worker or a number of samples that is none of the run")
        self._runtime.begin(opening.samples, len(opening.workers))
        self._name, self._opening, self._is_open, self._present = name, opening, True, {}
        self._awaited = set(opening.workers)
        return False

    def _add(self, message: Message) -> None:
        name, opening, sender = (message.round, message.attempt), self._opening, message.sender
        what = f"frame of worker {sender} for slot {name[0]}, attempt {name[1]}:"
        if name > self._name:  # it is asked for again
            raise ProtocolError(f"{what} overtook its opening")
        signed, frame = message.body[:SIGNATURE_BYTES], message.body[SIGNATURE_BYTES:]
        proof = sha256(frame).digest() + signed
        if name == self._name and self._present.get(sender) == proof:
            return  # sent again
        if name < self._name or not self._is_open:
            raise ProtocolError(f"{what} is late and stays out")
        if sender in self._present:
            raise ProtocolError(f"{what} another one is in the sum; it stays out")
        if sender not in opening.workers:
            raise ProtocolError(f"{what} the slot was opened without it")
        samples = as_samples(frame)
        if len(samples) != opening.samples:
            raise ProtocolError(f"{what} has {len(samples)} samples and must have {opening.samples}")
        (said,) = SumOnAir((sender,), samples, (proof,)).acknowledgements(message).values()
        if not said.is_signed_by(self._keys[sender]):
            raise ProtocolError(f"{what} is not signed for the server, which would not take the sum")
        loudest, most = float(np.abs(samples).max()), self._loudest[opening.samples]
        if loudest > most:  # it would swallow the others
            raise ProtocolError(f"{what} has a sample of {loudest:.6g}, and may have {most:.6g} at most; it stays out")
        self._runtime.add(opening.workers.index(sender), samples)
        self._present[sender] = proof


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


def run_air(folder: Path, make_runtime: MakeRuntime, announce: Log) -> None:
    """Serve the workers of a deployment until the server says that their run is over; announce where it listens."""
    own = folder / AIR_NAME
    if not own.is_dir():
        raise DeployError(f"{folder}: is no deployment with an air; set one up with a scenario of analog frames")
    where, contract, (key,) = Endpoint.read(own), load_contract(own), read_keys(own / SIGNING_KEYS, 1)
    with closing(make_runtime(len(contract.members))) as runtime:
        air = EmulatedAir(contract, key, runtime)
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
    try:
        socket.send(message.packed())
    except zmq.Again:
        address = socket.getsockopt_string(zmq.LAST_ENDPOINT)
        raise ProtocolError(
            f"{address}: nobody took a message within {_SEND_MILLISECONDS // 1000} s; start what should listen there"
        ) from None


def _socket(kind: str, address: str, use: Callable[[Any], object], workers: int = 1) -> Any:
    if not address.startswith(("tcp://127.0.0.1:", "ipc://")):
        raise ProtocolError(
            f"{address}: must be tcp://127.0.0.1:PORT or ipc://PATH; an emulated air stays on its machine"
        )
    socket: Any = zmq.Context.instance().socket(getattr(zmq, kind))
    socket.setsockopt(zmq.MAXMSGSIZE, LARGEST_MESSAGE)
    socket.setsockopt(zmq.SNDTIMEO, _SEND_MILLISECONDS)
    socket.setsockopt(zmq.LINGER, _LINGER_MILLISECONDS)
    socket.setsockopt(zmq.RCVHWM if kind == "PULL" else zmq.SNDHWM, _FRAMES_QUEUED * workers)
    try:
        use(socket)
    except zmq.ZMQError as problem:
        socket.close()
        raise ProtocolError(f"{address}: cannot be used ({problem.strerror}); give another address") from None
    return socket
