"""An emulated air: takes complex baseband of the workers of a slot, adds it up, and names who is in the sum.

The server opens a slot with the workers that may send, and closes it. Each sends one signed SAMPLES message: its
signature under the FRAME message that tells the server the digest of its samples, then these, as little-endian
complex64. When all have come or the server closes the slot, the sum goes to the server with what proves who is in it;
absent workers are silent. A frame that comes later never enters, nor does a second one of the same worker.
``EmulatedAir`` does no I/O; ``air_link`` runs one on ZeroMQ sockets. The hub hears every frame by itself, which no
antenna does: the receiver's noise hides nobody here.
"""

import struct
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from airmixml.deploy.wire import (
    AIR,
    LARGEST_BODY,
    RUN_OVER,
    SERVER,
    SIGNATURE_BYTES,
    Message,
    Type,
    pack_list,
    unpack_list,
    unpacked,
)
from airmixml.errors import ProtocolError

Samples = NDArray[np.complex64]

MOST_WORKERS: Final = 4096
"""Of a slot: float32 adds up so many frames on a grid of 12 bits without rounding."""

_SAMPLE_BYTES: Final = 8
_OPENING: Final = struct.Struct(">II")
_COUNT: Final = struct.Struct(">I")
_IDENTITY_BYTES: Final = 8
_DIGEST_BYTES: Final = 32
_PROOF_BYTES: Final = _DIGEST_BYTES + SIGNATURE_BYTES


class Opening(NamedTuple):
    """What the server says of a slot: how many samples a frame has, whether to wait, and for whom, who alone may send.

    The same again with fewer workers waits for these alone; without waiting it closes the slot.
    """

    samples: int
    waits: int  # 1, or 0
    workers: tuple[int, ...]

    def packed(self) -> bytes:
        """Return the body of the message."""
        return _OPENING.pack(self.samples, self.waits) + pack_list(dict.fromkeys(self.workers, b""))

    @classmethod
    def of(cls, body: bytes) -> "Opening":
        """Return the opening of a body; refuse one that is none."""
        if len(body) < _OPENING.size:
            raise ProtocolError(f"opening of {len(body)} bytes is cut off; must have {_OPENING.size} and a list")
        samples, waits = _OPENING.unpack_from(body)
        workers = tuple(unpack_list(body[_OPENING.size :], 0))
        if not workers or waits > 1 or not 0 < samples * _SAMPLE_BYTES <= LARGEST_BODY:
            raise ProtocolError(
                f"opening of {len(workers)} workers with {samples} samples: must name at least one worker and 1 to "
                f"{LARGEST_BODY // _SAMPLE_BYTES} samples"
            )
        return cls(samples, waits, workers)


class SumOnAir(NamedTuple):
    """What the air hands the server: who is in the sum, the sum, and what proves who is in it."""

    present: tuple[int, ...]
    samples: Samples
    proofs: tuple[bytes, ...] = ()  # of each: the digest of its samples, and its signature under that

    def packed(self) -> bytes:
        """Return the body of the message."""
        return pack_list(dict(zip(self.present, self.proofs, strict=True))) + as_bytes(self.samples)

    @classmethod
    def of(cls, body: bytes) -> "SumOnAir":
        """Return the sum of a body; refuse what is none."""
        count = int(_COUNT.unpack_from(body)[0]) if len(body) >= _COUNT.size else 0
        end = _COUNT.size + count * (_IDENTITY_BYTES + _PROOF_BYTES)
        proofs = unpack_list(body[:end], _PROOF_BYTES)
        return cls(tuple(proofs), as_samples(body[end:]), tuple(proofs.values()))

    def acknowledgements(self, of: Message) -> dict[int, Message]:
        """Return the FRAME message that each worker in the sum signed; whether it did is left to the caller."""
        return {
            each: Message(Type.FRAME, each, of.run, of.round, of.attempt, proof[:_DIGEST_BYTES], proof[_DIGEST_BYTES:])
            for each, proof in zip(self.present, self.proofs, strict=True)
        }


def frame_messages(frame: bytes, say: Callable[[Type, bytes], Message]) -> list[Message]:
    """Return what a worker says when it sends samples: their digest to the server, and to the air the samples."""
    acknowledged = say(Type.FRAME, sha256(frame).digest())
    return [acknowledged, say(Type.SAMPLES, acknowledged.signed + frame)]


def as_bytes(samples: NDArray[np.complexfloating]) -> bytes:
    """Return samples in GNU Radio's format."""
    return samples.astype("<c8").tobytes()


def as_samples(content: bytes) -> Samples:
    """Return the samples of such bytes; refuse a broken sample, or one that is not finite."""
    if len(content) % _SAMPLE_BYTES:
        raise ProtocolError(f"frame of {len(content)} bytes ends within a sample; must be a multiple of 8")
    found = np.frombuffer(content, dtype="<c8").astype(np.complex64, copy=False)
    if not np.isfinite(found).all():
        raise ProtocolError("frame has samples that are not finite, which would spoil the sum")
    return found


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
    """The hub of one run.

    Args:
        run: its name, 32 bytes.
        directory: the verifying key of each worker.
        server_key: that of the server.
        signing_key: the air's own.
        runtime: what adds up.
        loudest: sample that a frame of so many samples may have, see ``baseband.loudest_samples``; others are none of
            the run.
        noise_watts: power of the receiver's noise per complex sample, behind which nobody hides.
    """

    def __init__(
        self,
        run: bytes,
        directory: Mapping[int, bytes],
        server_key: bytes,
        signing_key: bytes,
        runtime: Runtime,
        loudest: Mapping[int, float],
        noise_watts: float = 0.0,
    ) -> None:
        self._run, self._signing_key, self._runtime = run, signing_key, runtime
        self._loudest, self._noise_watts, self._random = loudest, noise_watts, np.random.default_rng()
        self.is_over = False
        self._keys = {**directory, SERVER: server_key}
        self._name = (-1, 0)  # of the last slot that was opened: round, attempt
        self._opening: Opening | None = None  # of the slot that is open
        self._awaited: set[int] = set()  # workers without whom the slot is not full
        self._present: dict[int, bytes] = {}  # the proof of each frame in the sum
        self._said = Opening(0, 0, ()), Message(Type.SAMPLES, AIR, run)  # the last opening, and the sum that followed

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
        if message.sender == SERVER:
            return self._opened(message)
        self._add(message)
        return self._sum_of_all()

    def hello(self) -> Message:
        """Return what it says when it starts: that it knows of no slot, so that all that is open is sent again."""
        return Message(Type.HELLO, AIR, self._run).signed_with(self._signing_key)

    def expire(self) -> list[Message]:
        """Close the slot that is open, and return the sum of those that have sent."""
        if self._opening is None:
            return []
        self._opening = None
        present = tuple(sorted(self._present))
        samples = self._runtime.finish()
        if self._noise_watts:
            parts = self._random.standard_normal((2, len(samples)))
            noise = np.sqrt(self._noise_watts / 2.0) * (parts[0] + 1j * parts[1])
            samples = (samples.astype(np.complex128) + noise).astype(np.complex64)
        total = SumOnAir(present, samples, tuple(self._present[each] for each in present))
        said = Message(Type.SAMPLES, AIR, self._run, *self._name, total.packed()).signed_with(self._signing_key)
        self._said = self._said[0], said
        return [said]

    def _opened(self, message: Message) -> list[Message]:
        name, opening = (message.round, message.attempt), Opening.of(message.body)
        first, said = self._said
        if name == self._name and opening.samples == first.samples and set(opening.workers) <= set(first.workers):
            if self._opening is None:  # asked again
                return [said]
            self._awaited = set(opening.workers) if opening.waits else set()
            return self._sum_of_all()
        if name <= self._name:
            raise ProtocolError(f"slot {name[0]}, attempt {name[1]}: was opened before; use another name")
        if not opening.waits:  # it waited for an air that was started again, and has no frame
            raise ProtocolError(f"slot {name[0]}, attempt {name[1]}: is not open and cannot be closed; open it first")
        unknown = [each for each in opening.workers if each not in self._keys or each == SERVER]
        if unknown or opening.samples not in self._loudest:
            raise ProtocolError("opening names a worker or a number of samples that is none of the run")
        self._runtime.begin(opening.samples, len(opening.workers))
        self._name, self._opening, self._present, self._said = name, opening, {}, (opening, said)
        self._awaited = set(opening.workers)
        return []

    def _sum_of_all(self) -> list[Message]:
        """Return the sum if nobody is missing."""
        return self.expire() if self._awaited <= self._present.keys() else []

    def _add(self, message: Message) -> None:
        name, opening, sender = (message.round, message.attempt), self._opening, message.sender
        if name > self._name:  # it is asked for again
            raise ProtocolError(f"frame of worker {sender} for slot {name[0]}, attempt {name[1]}: overtook its opening")
        signed, frame = message.body[:SIGNATURE_BYTES], message.body[SIGNATURE_BYTES:]
        proof = sha256(frame).digest() + signed
        if name == self._name and self._present.get(sender) == proof:
            return  # sent again
        if name < self._name or opening is None:
            raise ProtocolError(
                f"frame of worker {sender} for slot {name[0]}, attempt {name[1]}: is late and stays out"
            )
        if sender in self._present:
            raise ProtocolError(f"frame of worker {sender} for slot {name[0]}: another one is in the sum; it stays out")
        if sender not in opening.workers:
            raise ProtocolError(f"frame of worker {sender} for slot {name[0]}: the slot was opened without it")
        samples = as_samples(frame)
        if len(samples) != opening.samples:
            raise ProtocolError(f"frame of worker {sender} has {len(samples)} samples and must have {opening.samples}")
        (said,) = SumOnAir((sender,), samples, (proof,)).acknowledgements(message).values()
        if not said.is_signed_by(self._keys[sender]):
            raise ProtocolError(f"frame of worker {sender} is not signed for the server, which would not take the sum")
        loudest, most = float(np.abs(samples).max()), self._loudest[opening.samples]
        if loudest > most:  # it would swallow the others
            raise ProtocolError(
                f"frame of worker {sender} for slot {name[0]}: has a sample of {loudest:.6g}, and may have {most:.6g} "
                "at most; it stays out"
            )
        self._runtime.add(opening.workers.index(sender), samples)
        self._present[sender] = proof
