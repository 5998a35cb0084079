"""What goes over the wire: messages of fixed layout, each with its run, round, sender and signature.

    "AMX1" | type u8 | attempt u8 | zero u16 | sender u64 | run 32 bytes | round u32 | body length u32 | body | signed

Integers have the big end first; the signature is Ed25519 (64 bytes) over ``PREFIX`` and everything before it. The run
is the digest of the contract, so that no message of another contract is ever read as one of this. A message that is too
long, cut off or of another version is refused before anything of its body is looked at. firmware/ reads the same.
"""

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property
from typing import Any, Final, NamedTuple, Protocol

from airmixml.masks.keys import is_signed, signature
from airmixml.messages import ProtocolError

MAGIC: Final = b"AMX1"
PREFIX: Final = b"airmixml-deploy/1\0"
HEADER: Final = struct.Struct(">4sBBHQ32sII")
SIGNATURE_BYTES: Final = 64
LARGEST_BODY: Final = 32 << 20
LARGEST_MESSAGE: Final = HEADER.size + LARGEST_BODY + SIGNATURE_BYTES
SERVER: Final = (1 << 64) - 1
"""The sender that stands for the server."""
AIR: Final = SERVER - 1
"""The sender that stands for an emulated air."""

LARGEST_BATCH: Final = 1 << 20
MOST_IN_BATCH: Final = 100
RUN_OVER: Final = (1 << 32) - 1
"""The round of an OVER message that ends the run."""

Log = Callable[[str], None]
"""Takes one line about what was refused, lost or found again."""

Clock = Callable[[], float]
"""Seconds of this process, from any beginning."""

_COUNT: Final = struct.Struct(">I")
_IDENTITY: Final = struct.Struct(">Q")


class Type(IntEnum):
    """What a message is; the order is that of a round."""

    HELLO = 1  # worker: it is there
    ORDER = 2  # server: what is to be sent
    ANNOUNCE = 3  # worker: keys and commitments
    ANNOUNCED = 4
    REVEAL = 5  # worker: its nonce
    REVEALED = 6
    PARCELS = 7  # worker: sealed shares of its secrets
    DELIVERY = 8
    FRAME = 9  # worker: masked integers, or the digest of samples that it sends to an air
    ABSENT = 10
    SIGNED = 11  # worker: its signature under the list of absent workers
    SIGNATURES = 12
    ANSWER = 13  # worker: shares that belong to the list
    OVER = 14
    REFUSAL = 15  # worker: why it does not go on
    SAMPLES = 16  # worker: complex baseband, for an air


@dataclass(frozen=True)
class Message:
    """One message; ``signed`` is empty until it is signed."""

    type: Type
    sender: int
    run: bytes
    round: int = 0
    attempt: int = 0
    body: bytes = b""
    signed: bytes = b""

    @property
    def statement(self) -> bytes:
        """What is signed, but for ``PREFIX``."""
        header = HEADER.pack(MAGIC, self.type, self.attempt, 0, self.sender, self.run, self.round, len(self.body))
        return header + self.body

    def packed(self) -> bytes:
        return self.statement + self.signed

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return HEADER.size + len(self.body) + len(self.signed)

    def signed_with(self, signing_key: bytes) -> "Message":
        """Return the same with the signature of this private key."""
        return replace(self, signed=signature(signing_key, PREFIX + self.statement))

    def is_signed_by(self, verifying_key: bytes) -> bool:
        """Whether the owner of this key has signed it."""
        if verifying_key not in self._checked:
            self._checked[verifying_key] = is_signed(PREFIX + self.statement, self.signed, verifying_key)
        return self._checked[verifying_key]

    @cached_property
    def _checked(self) -> dict[bytes, bool]:  # all workers of a gateway check the same long messages
        return {}


class Letter(NamedTuple):
    """A message, and the worker it goes to; None: all."""

    message: Message
    to: int | None = None


def unpacked(content: bytes, largest_body: int = LARGEST_BODY) -> Message:
    """Return the message that these bytes are; refuse what is none."""
    if len(content) < HEADER.size + SIGNATURE_BYTES:
        raise ProtocolError(f"message of {len(content)} bytes is cut off; must have {HEADER.size + SIGNATURE_BYTES}")
    magic, kind, attempt, zero, sender, run, number, length = HEADER.unpack_from(content)
    if magic != MAGIC:
        raise ProtocolError(f"message begins with {magic!r} and must begin with {MAGIC!r}: another protocol or version")
    if zero or kind not in list(Type):
        raise ProtocolError(f"message of type {kind} is unknown; use the same version at both ends")
    if length > largest_body:
        raise ProtocolError(f"message of {length} bytes is too long; must have at most {largest_body}")
    if len(content) != HEADER.size + length + SIGNATURE_BYTES:
        raise ProtocolError(
            f"message has {len(content)} bytes and its header says {HEADER.size + length + SIGNATURE_BYTES}"
        )
    end = HEADER.size + length
    return Message(Type(kind), sender, run, number, attempt, content[HEADER.size : end], content[end:])


def batched(messages: Iterable[bytes]) -> bytes:
    """Return several messages as one string of bytes, each behind its length."""
    return b"".join(_COUNT.pack(len(each)) + each for each in messages)


def unbatched(content: bytes) -> list[bytes]:
    """Return the messages of a batch; refuse one that does not end where its lengths say."""
    found, reader = [], Reader(content)
    while reader.left:
        found.append(reader.take(*reader.numbers(_COUNT)))
    return found


class Reader:
    """Takes a body apart, and refuses one that is too short or too long."""

    def __init__(self, body: bytes) -> None:
        self._body, self._place = body, 0

    @property
    def left(self) -> int:
        return len(self._body) - self._place

    def take(self, count: int) -> bytes:
        if count > self.left:
            raise ProtocolError(f"body of {len(self._body)} bytes is cut off; send the whole message")
        self._place += count
        return self._body[self._place - count : self._place]

    def numbers(self, layout: struct.Struct) -> tuple[Any, ...]:
        return layout.unpack(self.take(layout.size))

    def entries(self, entry_bytes: int | None) -> dict[int, bytes]:
        """Return the next list by worker; of parts, each behind its length, where entries have no one length."""
        found: dict[int, bytes] = {}
        (count,), last = self.numbers(_COUNT), -1
        for _ in range(count):
            (identity,) = self.numbers(_IDENTITY)
            if identity <= last:
                raise ProtocolError(f"list names worker {identity} after {last}; must name each once, in rising order")
            found[identity] = self.take(self.numbers(_COUNT)[0] if entry_bytes is None else entry_bytes)
            last = identity
        return found

    def end(self) -> None:
        """Refuse what follows."""
        if self.left:
            raise ProtocolError(f"body has {self.left} bytes too many")


def pack_list(entries: Mapping[int, bytes]) -> bytes:
    """Return entries of one length by worker, in rising order: identity, then the entry."""
    each = (_IDENTITY.pack(identity) + entries[identity] for identity in sorted(entries))
    return _COUNT.pack(len(entries)) + b"".join(each)


def pack_names(workers: Iterable[int]) -> bytes:
    """Return a list of workers alone, which ``unpack_list`` reads as entries of no bytes."""
    return pack_list(dict.fromkeys(workers, b""))


def pack_parts(parts: Mapping[int, bytes]) -> bytes:
    """Return parts of any length by worker, in rising order: identity, length u32, the part."""
    return pack_list({identity: _COUNT.pack(len(part)) + part for identity, part in parts.items()})


def unpack_list(body: bytes, entry_bytes: int | None = None) -> dict[int, bytes]:
    """Return what ``pack_list`` was given, or ``pack_parts``; refuse workers that are out of order or named twice."""
    reader = Reader(body)
    found = reader.entries(entry_bytes)
    reader.end()
    return found


_LONGEST_REASON: Final = 240
_NAMES_CULPRIT: Final = b"\0"
LARGEST_REFUSAL: Final = 1 + _IDENTITY.size + _LONGEST_REASON


def pack_refusal(reason: str, culprit: int | None = None) -> bytes:
    """Return why a worker refuses, in words, behind the number of the worker whose message was wrong."""
    named = b"" if culprit is None else _NAMES_CULPRIT + _IDENTITY.pack(culprit)
    return named + reason.encode()[:_LONGEST_REASON]


def unpack_refusal(body: bytes) -> tuple[str, int | None]:
    """Return the words, and who is named."""
    culprit = None
    if body.startswith(_NAMES_CULPRIT) and len(body) > _IDENTITY.size:
        (culprit,) = _IDENTITY.unpack_from(body, 1)
        body = body[1 + _IDENTITY.size :]
    return body.decode(errors="replace"), culprit


class Transport(Protocol):
    """One end of a line that may lose, repeat and reorder messages, and never changes one unnoticed."""

    def send(self, message: bytes, to: int | None = None) -> None:
        """Take a message, by the next ``flush`` or ``receive``, to a worker, to all (``None``) or to the server."""

    def flush(self) -> None:
        """Send what waits."""

    def receive(self, timeout: float) -> list[bytes]:
        """Return what has arrived, after ``timeout`` seconds at the latest; empty where nothing was taken."""

    def close(self) -> None:
        """Send what waits, and end the connection."""


def batches(messages: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the messages in order, in batches that are neither long nor many at once; a long one is alone in its."""
    waiting: list[bytes] = []
    length = 0
    for each in messages:
        if waiting and (len(waiting) == MOST_IN_BATCH or length + len(each) > LARGEST_BATCH):
            yield batched(waiting)
            waiting, length = [], 0
        waiting.append(each)
        length += len(each)
    if waiting:
        yield batched(waiting)


def read_messages(contents: Iterable[bytes], log: Log) -> Iterator[Message]:
    """Yield what are messages; note what is none."""
    for content in contents:
        try:
            yield unpacked(content)
        except ProtocolError as problem:
            log(f"refused: {problem}")


def run_over(run: bytes, signing_key: bytes) -> Message:
    """Return what a server says when no round is left: workers may go."""
    return Message(Type.OVER, SERVER, run, RUN_OVER).signed_with(signing_key)
