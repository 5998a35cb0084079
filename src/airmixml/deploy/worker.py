"""A worker's side of every round: ``Device.handle(message)`` returns what it answers. No socket, no clock, no torch.

The same object runs in a simulation, behind a gateway and in a process of its own. Secrets of a round live in memory
alone, so that a crash means absent: a worker that is started again finds in its ledger that it began the round, and has
nothing to go on with. What was answered once is answered again with the same bytes; another message in its place, such
as a second list of absent workers, is refused. Nothing is sent before the ledger has it on the disk.
"""

import secrets
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from typing import Final

import numpy as np
from numpy.typing import NDArray

from airmixml.deploy.contract import Contract
from airmixml.deploy.spending import Spending
from airmixml.deploy.wire import SERVER, Message, Reader, Type, pack_list, pack_parts, unpack_list, unpack_parts
from airmixml.errors import AirMixError, ProtocolError
from airmixml.masks.keys import KEY_BYTES
from airmixml.masks.recovery import RecoveringWorker
from airmixml.masks.rounds import Announcement, EitherOr, Reveal, Round, round_name
from airmixml.workers.broadcasts import Broadcast

ANNOUNCEMENT_BYTES: Final = 4 * KEY_BYTES + 64
REVEAL_BYTES: Final = KEY_BYTES + 64
_ORDER: Final = struct.Struct(">Bd")
_MODEL: Final = struct.Struct(">dII")
_TO: Final = struct.Struct(">Q")
_LONGEST_REASON: Final = 240

Vector = Callable[[int, Broadcast | None], NDArray[np.floating]]
"""Gives a worker's vector of a kind of frame, under the model that was broadcast; shape numbers."""


@dataclass(frozen=True, eq=False)
class Order:
    """What the server asks for: a kind of frame, the power to send it with, and for gradients the model."""

    kind: int
    power_dbm: float
    told: Broadcast | None = None

    def packed(self) -> bytes:
        """Return the body of the message."""
        head = _ORDER.pack(self.kind, self.power_dbm)
        if self.told is None:
            return head
        parts = (self.told.weights.astype(">f8").tobytes(), self.told.biases.astype(">f8").tobytes())
        return head + _MODEL.pack(self.told.clip, *self.told.weights.shape) + b"".join(parts)

    @classmethod
    def of(cls, body: bytes, contract: Contract) -> "Order":
        """Return the order of a body; refuse what is not agreed on."""
        reader = Reader(body)
        kind, power_dbm = _ORDER.unpack(reader.take(_ORDER.size))
        if kind >= len(contract.kinds):
            raise ProtocolError(f"order: asks for frames of kind {kind}, and the contract has {len(contract.kinds)}")
        if not power_dbm <= contract.power_dbm:
            raise ProtocolError(
                f"order: asks for {power_dbm:g} dBm, and the contract allows {contract.power_dbm:g} dBm at most"
            )
        told = None
        if contract.kinds[kind].sends == "gradients":
            clip, features, outputs = _MODEL.unpack(reader.take(_MODEL.size))
            if features * outputs != contract.kinds[kind].numbers or outputs != len(contract.outputs):
                raise ProtocolError(f"order: has a model of {features} x {outputs}, which is not that of the contract")
            weights, biases = (np.frombuffer(reader.take(8 * n), dtype=">f8") for n in (features * outputs, outputs))
            numbers = np.concatenate([weights, biases, [clip]]).astype(np.float64)
            if not np.isfinite(numbers).all() or clip <= 0.0:
                raise ProtocolError("order: has a model or clip that is not finite, or a clip of 0")
            told = Broadcast(
                weights=numbers[: features * outputs].reshape(features, outputs),
                biases=numbers[features * outputs : -1],
                clip=clip,
                link=contract.score_link,
            )
        reader.end()
        return cls(kind, power_dbm, told)


def name_of(contract: Contract, number: int) -> bytes:
    """Return what masks of a round call its run: every round has keys and agreements of its own."""
    return sha256(contract.run + number.to_bytes(4, "big")).digest()


def slots_of(number: int) -> range:
    """Return the slot of a round."""
    return range(number, number + 1)


class Transcripts:
    """Rounds as broadcast messages tell them, read once for all workers of a process."""

    def __init__(self, contract: Contract) -> None:
        self.contract = contract
        self.announced = lru_cache(maxsize=2)(self._announced)
        self.revealed = lru_cache(maxsize=2)(self._revealed)
        self.signatures = lru_cache(maxsize=2)(lambda body: unpack_list(body, 64))

    def _announced(self, number: int, attempt: int, kind: int, body: bytes) -> Round:
        said = {}
        for identity, entry in unpack_list(body, ANNOUNCEMENT_BYTES).items():
            parts = [entry[place : place + KEY_BYTES] for place in range(0, 4 * KEY_BYTES, KEY_BYTES)]
            said[identity] = Announcement(identity, *parts, entry[4 * KEY_BYTES :])
        rules = self.contract.rules_for(len(said), kind)
        if rules is None or rules.workers != len(said):
            raise ProtocolError(f"round of {len(said)} workers: the contract has no rules for so many")
        directory = self.contract.directory
        if not said.keys() <= directory.keys():
            raise ProtocolError("round has workers that are none of the contract")
        return Round(
            run=round_name(name_of(self.contract, number), slots_of(number), attempt),
            rules=rules,
            announcements=said,
            verifying_keys=directory if len(said) == len(directory) else {each: directory[each] for each in said},
        )

    def _revealed(self, number: int, attempt: int, kind: int, announcements: bytes, body: bytes) -> Round:
        announced = self.announced(number, attempt, kind, announcements)
        found = unpack_list(body, REVEAL_BYTES)
        if found.keys() != announced.announcements.keys():
            raise ProtocolError("reveals must be those of the workers that were announced; start the round again")
        said = {each: Reveal(each, entry[:KEY_BYTES], entry[KEY_BYTES:]) for each, entry in found.items()}
        return announced.drawn(said)


@dataclass(eq=False)
class _InRound:
    """What a worker knows of the round that it is in."""

    number: int
    attempt: int
    order: Order
    masks: RecoveringWorker
    answered: dict[Type, tuple[bytes, list[Message]]] = field(default_factory=dict)
    announcements: bytes = b""


class Device:
    """One worker of a run.

    Args:
        identity: its number in the contract.
        contract: what its owner agreed to.
        signing_key: its private Ed25519 key.
        vector: what it sends before noise and masks.
        spending: its ledger; devices of one gateway share one.
        transcripts: shared by devices of one gateway.
        entropy: gives so many random bytes.
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
        self._server_key = bytes.fromhex(contract.server_key)
        self._now: _InRound | None = None

    def hello(self) -> Message:
        """Return what it says when it starts: that it is there."""
        return self._said(Type.HELLO, 0, 0)

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
            return [self._said(Type.REFUSAL, message.round, message.attempt, str(problem).encode()[:_LONGEST_REASON])]

    def _answers(self, message: Message) -> list[Message]:
        if message.type is Type.DELIVERY and message.body[: _TO.size] != _TO.pack(self.identity):
            return []
        now = self._now
        if message.type is Type.ORDER and (
            now is None or (now.number, now.attempt) != (message.round, message.attempt)
        ):
            now = self._begun(message)
        if now is None or (now.number, now.attempt) != (message.round, message.attempt):
            return []  # of a round that it is not in: late, or begun before it was started
        if message.type in now.answered:
            body, answers = now.answered[message.type]
            if body != message.body:
                raise ProtocolError(
                    f"{message.type.name} differs from the one that this worker answered; it keeps to it"
                )
            return answers
        step = _STEPS.get(message.type)
        if step is None:
            return []
        answers = step(self, now, message)
        now.answered[message.type] = message.body, answers
        return answers

    def _begun(self, message: Message) -> _InRound:
        order = Order.of(message.body, self.contract)
        self.spending.begin(self.identity, message.round, message.attempt)
        bits = self.contract.kinds[order.kind].bits
        masks = RecoveringWorker(
            self.identity,
            self._signing_key,
            name_of(self.contract, message.round),
            slots_of(message.round),
            [rules.with_bits(bits) for rules in self.contract.rules],
            directory=self.contract.directory,
            memory=EitherOr(),
            restarts=message.attempt,
            entropy=self._entropy,
        )
        self._now = _InRound(message.round, message.attempt, order, masks)
        return self._now

    def _announce(self, now: _InRound, message: Message) -> list[Message]:
        said = now.masks.announce()
        body = said.mask_key + said.channel_key + said.commitment + said.nonce_commitment + said.signed
        return [self._said(Type.ANNOUNCE, now.number, now.attempt, body)]

    def _reveal(self, now: _InRound, message: Message) -> list[Message]:
        announced = self._transcripts.announced(now.number, now.attempt, now.order.kind, message.body)
        if self.identity not in announced.announcements:
            self._now = None  # the round goes on without it
            return []
        said = now.masks.reveal(announced)
        now.announcements = message.body
        return [self._said(Type.REVEAL, now.number, now.attempt, said.nonce + said.signed)]

    def _join(self, now: _InRound, message: Message) -> list[Message]:
        known = now.number, now.attempt, now.order.kind, now.announcements
        parcels = now.masks.join(self._transcripts.revealed(*known, message.body))
        return [self._said(Type.PARCELS, now.number, now.attempt, pack_parts(parcels))]

    def _send(self, now: _InRound, message: Message) -> list[Message]:
        now.masks.receive(unpack_parts(message.body[_TO.size :]))
        kind = self.contract.kinds[now.order.kind]
        vector = self._vector(now.order.kind, now.order.told)
        if len(vector) != kind.numbers:
            raise ProtocolError(f"vector of {len(vector)} numbers must have {kind.numbers}, as agreed")
        self.spending.reserve(self.identity, now.number, now.attempt, now.order.kind)

        def masks(first: int, count: int) -> NDArray[np.uint64]:
            return now.masks.integer_masks(now.number, first, count)

        residues = kind.code.residues(vector, self._entropy(KEY_BYTES), now.number, masks)
        return [self._said(Type.FRAME, now.number, now.attempt, kind.code.packed(residues))]

    def _agree(self, now: _InRound, message: Message) -> list[Message]:
        return [self._said(Type.SIGNED, now.number, now.attempt, now.masks.agree(unpack_list(message.body, 0)))]

    def _answer(self, now: _InRound, message: Message) -> list[Message]:
        answer = now.masks.answer(self._transcripts.signatures(message.body))
        return [self._said(Type.ANSWER, now.number, now.attempt, pack_parts(answer.shares))]

    def _over(self, now: _InRound, message: Message) -> list[Message]:
        self._now = None
        return []

    def _said(self, kind: Type, number: int, attempt: int, body: bytes = b"") -> Message:
        said = Message(kind, self.identity, self.contract.run, number, attempt, body)
        return said.signed_with(self._signing_key)


_STEPS: Final = {
    Type.ORDER: Device._announce,
    Type.ANNOUNCED: Device._reveal,
    Type.REVEALED: Device._join,
    Type.DELIVERY: Device._send,
    Type.ABSENT: Device._agree,
    Type.SIGNATURES: Device._answer,
    Type.OVER: Device._over,
}


def delivery(to: int, parcels: Sequence[tuple[int, bytes]]) -> bytes:
    """Return the body that brings a worker the parcels of its neighbours, by who sent them."""
    return _TO.pack(to) + pack_parts(dict(parcels))


def absent_list(absent: Sequence[int]) -> bytes:
    """Return the body that names absent workers."""
    return pack_list(dict.fromkeys(absent, b""))
