"""A worker's side of every round: ``Device.handle(message)`` returns what it answers. No socket, no clock, no torch.

The same object runs in a simulation, behind a gateway and in a process of its own. Secrets of a round live in memory
alone, so that a crash means absent: a worker that is started again finds in its ledger that it began the round, and has
nothing to go on with. What was answered once is answered again with the same bytes; another message in its place, such
as a second list of absent workers, is refused. Nothing is sent before the ledger has it on the disk.
"""

import secrets
import struct
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from hashlib import sha256
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from airmixml.deploy.contract import Contract
from airmixml.deploy.frames import Sender
from airmixml.deploy.spending import Spending
from airmixml.deploy.wire import (
    SERVER,
    Message,
    Reader,
    Type,
    pack_parts,
    pack_refusal,
    unpack_list,
)
from airmixml.masks.keys import KEY_BYTES
from airmixml.masks.recovery import RecoveringWorker
from airmixml.masks.rounds import Announcement, Reveal, Round, round_name
from airmixml.messages import AirMixError, ProtocolError
from airmixml.workers.payloads import Broadcast
from airmixml.workers.signal import Payload

ANNOUNCEMENT_BYTES: Final = 4 * KEY_BYTES + 64
REVEAL_BYTES: Final = KEY_BYTES + 64
_ORDER: Final = struct.Struct(">Bd")
_MODEL: Final = struct.Struct(">dII")
_TO: Final = struct.Struct(">Q")
_LARGEST_WEIGHT: Final = 1e9

Vector = Callable[[int, Broadcast | None], NDArray[np.floating]]
"""Gives a worker's vector of a kind of frame, under the model that was broadcast; shape numbers."""


def vector_of(payloads: Sequence[Payload], place: int) -> Vector:
    """Return what gives the vectors of the worker in this place of the payloads, one for each kind of frame."""

    def vector(kind: int, told: Broadcast | None) -> NDArray[np.floating]:
        if told is not None:
            payloads[kind].broadcast(told)
        return np.asarray(payloads[kind].vectors(np.array([place]))[0])

    return vector


@dataclass(frozen=True, eq=False)
class Order:
    """What the server asks for: a kind of frame, the power to send it with, and for gradients the model."""

    kind: int
    power_dbm: float
    told: Broadcast | None = None

    def packed(self) -> bytes:
        head = _ORDER.pack(self.kind, self.power_dbm)
        if self.told is None:
            return head
        parts = (self.told.weights.astype(">f8").tobytes(), self.told.biases.astype(">f8").tobytes())
        return head + _MODEL.pack(self.told.clip, *self.told.weights.shape) + b"".join(parts)

    @classmethod
    def of(cls, body: bytes, contract: Contract) -> "Order":
        """Return the order of a body; refuse what is not agreed on."""
        reader = Reader(body)
        kind, power_dbm = reader.numbers(_ORDER)
        if kind >= len(contract.kinds):
            raise ProtocolError(f"order: asks for frames of kind {kind}, and the contract has {len(contract.kinds)}")
        if not power_dbm <= contract.power_dbm:
            raise ProtocolError(
                f"order: asks for {power_dbm:g} dBm, and the contract allows {contract.power_dbm:g} dBm at most"
            )
        told = None
        if contract.kinds[kind].sends == "gradients":
            clip, features, outputs = reader.numbers(_MODEL)
            if features * outputs != contract.kinds[kind].numbers or outputs != len(contract.outputs):
                raise ProtocolError(f"order: has a model of {features} x {outputs}, which is not that of the contract")
            weights, biases = (np.frombuffer(reader.take(8 * n), dtype=">f8") for n in (features * outputs, outputs))
            numbers = np.concatenate([weights, biases, [clip]]).astype(np.float64)
            # No score of a bounded row overflows: whether one does would tell of the row, without noise.
            if not (np.abs(numbers) <= _LARGEST_WEIGHT).all() or clip < 1.0 / _LARGEST_WEIGHT:
                raise ProtocolError(
                    f"order: has a model or clip beyond {_LARGEST_WEIGHT:g}, or a clip below {1.0 / _LARGEST_WEIGHT:g}"
                )
            told = Broadcast(
                weights=numbers[: features * outputs].reshape(features, outputs),
                biases=numbers[features * outputs : -1],
                clip=clip,
                link=contract.score_link,
            )
        reader.end()
        return cls(kind, power_dbm, told)


class Name(NamedTuple):
    """An attempt at a round, by all that its workers must agree on before they share masks."""

    number: int
    attempt: int
    kind: int
    order: bytes  # digest of the order's body

    @classmethod
    def of(cls, message: Message, kind: int) -> "Name":
        return cls(message.round, message.attempt, kind, sha256(message.body).digest())

    @property
    def slots(self) -> range:
        return range(self.number, self.number + 1)

    def run(self, contract: Contract) -> bytes:
        """Return what masks call the run: workers with other orders have other keys, and share no sum."""
        return sha256(contract.run + self.number.to_bytes(4, "big") + self.order).digest()


def announcement_of(identity: int, entry: bytes) -> Announcement:
    """Return what a worker announced, from the body of its message."""
    mask, channel, seed, nonce = (entry[KEY_BYTES * part :][:KEY_BYTES] for part in range(4))
    return Announcement(identity, mask, channel, seed, nonce, entry[4 * KEY_BYTES :])


def reveal_of(identity: int, entry: bytes) -> Reveal:
    """Return what a worker revealed, from the body of its message."""
    return Reveal(identity, entry[:KEY_BYTES], entry[KEY_BYTES:])


class Transcripts:
    """Rounds as broadcast messages tell them, read once for all workers of a process."""

    def __init__(self, contract: Contract) -> None:
        self.contract = contract
        self.announced = lru_cache(maxsize=2)(self._announced)
        self.revealed = lru_cache(maxsize=2)(self._revealed)
        self.signatures = lru_cache(maxsize=2)(lambda body: unpack_list(body, 64))

    def _announced(self, name: Name, body: bytes) -> Round:
        said = {each: announcement_of(each, entry) for each, entry in unpack_list(body, ANNOUNCEMENT_BYTES).items()}
        rules = self.contract.rules_for(len(said), name.kind)
        if rules is None or rules.workers != len(said):
            raise ProtocolError(f"round of {len(said)} workers: the contract has no rules for so many")
        directory = self.contract.directory
        if not said.keys() <= directory.keys():
            raise ProtocolError("round has workers that are none of the contract")
        return Round(
            run=round_name(name.run(self.contract), name.slots, name.attempt),
            rules=rules,
            announcements=said,
            verifying_keys=directory if len(said) == len(directory) else {each: directory[each] for each in said},
        )

    def _revealed(self, name: Name, announcements: bytes, body: bytes) -> Round:
        announced = self.announced(name, announcements)
        found = unpack_list(body, REVEAL_BYTES)
        if found.keys() != announced.announcements.keys():
            raise ProtocolError("reveals must be those of the workers that were announced; start the round again")
        return announced.drawn({each: reveal_of(each, entry) for each, entry in found.items()})


@dataclass(eq=False)
class _InRound:
    """What a worker knows of the round that it is in."""

    name: Name
    order: Order
    say: Callable[[Type, bytes], Message]  # signs a message of it
    agreeing: RecoveringWorker | None  # on masks; None where frames have none
    answered: dict[Type, tuple[bytes, list[Message]]] = field(default_factory=dict)
    announcements: bytes = b""

    @property
    def masks(self) -> RecoveringWorker:
        """Its side of the agreement on masks."""
        if self.agreeing is None:
            raise ProtocolError("this round has no masks to agree on; its frames go to an air")
        return self.agreeing


class Device:
    """One worker of a run, with its private Ed25519 key; ``vector`` is what it sends before noise and masks.

    Devices of one gateway share ledger and transcripts. ``entropy`` gives so many random bytes.
    """

    def __init__(
        self,
        identity: int,
        contract: Contract,
        signing_key: bytes,
        vector: Vector,
        spending: Spending,
        transcripts: Transcripts | None = None,
        entropy: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        self.identity, self.contract, self.spending = identity, contract, spending
        self._signing_key, self._vector, self._entropy = signing_key, vector, entropy
        self._transcripts = transcripts or Transcripts(contract)
        contract.check_key(contract.server_key, "server")
        self._server_key = bytes.fromhex(contract.server_key)
        self._now: _InRound | None = None

    def hello(self) -> Message:
        """Return what it says when it starts: that it is there."""
        return self._said(0, 0, Type.HELLO, b"")

    def check(self, message: Message) -> None:
        """Refuse a message that is not the server's."""
        if message.run != self.contract.run or message.sender != SERVER:
            raise ProtocolError(f"{message.type.name} of another run or sender is dropped")
        if not message.is_signed_by(self._server_key):
            raise ProtocolError(f"{message.type.name} is not signed by the server and is dropped")

    def handle(self, message: Message) -> list[Message]:
        """Return the answers to a message of the server; refuse one that is not the server's."""
        self.check(message)
        try:
            return self._answers(message)
        except AirMixError as problem:
            body = pack_refusal(str(problem), getattr(problem, "culprit", None))
            return [self._said(message.round, message.attempt, Type.REFUSAL, body)]

    def _answers(self, message: Message) -> list[Message]:
        if message.type is Type.DELIVERY and message.body[: _TO.size] != _TO.pack(self.identity):
            return []
        now = self._now
        if message.type is Type.ORDER and (now is None or now.name[:2] != (message.round, message.attempt)):
            now = self._begun(message)
        if now is None or now.name[:2] != (message.round, message.attempt):
            return []  # of a round that it is not in: late, or begun before it was started
        if message.type in now.answered:
            body, answers = now.answered[message.type]
            if body != message.body:
                raise ProtocolError(
                    f"{message.type.name} differs from the one that this worker answered; it keeps to it"
                )
            return answers
        answers = self._step(now, message)
        now.answered[message.type] = message.body, answers
        return answers

    def _begun(self, message: Message) -> _InRound:
        order = Order.of(message.body, self.contract)
        name, kind = Name.of(message, order.kind), self.contract.kinds[order.kind]
        self.spending.begin(self.identity, name.number, name.attempt, name.kind)
        masks, rules = None, kind.rules(self.contract.rules)
        if rules:
            masks = RecoveringWorker(
                self.identity,
                self._signing_key,
                name.run(self.contract),
                name.slots,
                rules,
                directory=self.contract.directory,
                restarts=name.attempt,
                entropy=self._entropy,
            )
        self._now = _InRound(name, order, partial(self._said, message.round, message.attempt), masks)
        return self._now

    def _step(self, now: _InRound, message: Message) -> list[Message]:
        """Return the answers to the first message of its type in a round."""
        match message.type:
            case Type.ORDER if now.agreeing is not None:
                said = now.masks.announce()
                body = said.mask_key + said.channel_key + said.commitment + said.nonce_commitment + said.signed
                answer = Type.ANNOUNCE, body
            case Type.ORDER:
                return self._sent(now)
            case Type.ANNOUNCED:
                announced = self._transcripts.announced(now.name, message.body)
                if self.identity not in announced.announcements:
                    self._now = None  # the round goes on without it
                    return []
                if revoked := self.contract.revoked_workers & announced.announcements.keys():
                    raise ProtocolError(
                        f"round has worker {min(revoked)}, whose key was revoked; leave that worker out"
                    )
                revealed = now.masks.reveal(announced)
                now.announcements = message.body
                answer = Type.REVEAL, revealed.nonce + revealed.signed
            case Type.REVEALED:
                parcels = now.masks.join(self._transcripts.revealed(now.name, now.announcements, message.body))
                answer = Type.PARCELS, pack_parts(parcels)
            case Type.DELIVERY:
                now.masks.receive(unpack_list(message.body[_TO.size :]))
                return self._sent(now)
            case Type.ABSENT:
                answer = Type.SIGNED, now.masks.agree(unpack_list(message.body, 0))
            case Type.SIGNATURES:
                shares = now.masks.answer(self._transcripts.signatures(message.body)).shares
                answer = Type.ANSWER, pack_parts(shares)
            case _:
                if message.type is Type.OVER:
                    self._now = None
                return []
        return [now.say(*answer)]

    def _sent(self, now: _InRound) -> list[Message]:
        kind, slot = self.contract.kinds[now.name.kind], now.name.number
        vector = self._formed(now, kind.numbers)
        self.spending.reserve(self.identity, slot, now.name.attempt, now.name.kind)
        return kind.messages(vector, Sender(slot, self._entropy(KEY_BYTES), now.agreeing, now.say))

    def _formed(self, now: _InRound, numbers: int) -> NDArray[np.floating]:
        """Return the vector of the frame, zeros where none can be formed: a refusal here would tell of the rows."""
        with np.errstate(all="ignore"), suppress(ArithmeticError, ValueError):
            vector = self._vector(now.name.kind, now.order.told)
            if vector.shape == (numbers,) and np.isfinite(vector).all():
                return vector
        return np.zeros(numbers)

    def _said(self, number: int, attempt: int, kind: Type, body: bytes) -> Message:
        said = Message(kind, self.identity, self.contract.run, number, attempt, body)
        return said.signed_with(self._signing_key)


def delivery(to: int, parcels: Mapping[int, bytes]) -> bytes:
    """Return the body that brings a worker the parcels of its neighbours, by who sent them."""
    return _TO.pack(to) + pack_parts(parcels)
