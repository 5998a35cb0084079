"""One attempt at a round, as the server sees it: what all kinds of frames have in common; ``rounds`` has the rest."""

from collections.abc import Collection
from dataclasses import dataclass
from enum import IntEnum
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ClassVar, Final

from airmixml.arrays import Doubles
from airmixml.deploy.wire import LARGEST_REFUSAL, Message, Type, unpack_refusal
from airmixml.deploy.worker import Name
from airmixml.errors import ProtocolError

if TYPE_CHECKING:
    from airmixml.deploy.air import SumOnAir
    from airmixml.deploy.baseband import AnalogKind
    from airmixml.deploy.frames import FrameKind

MOST_DEADLINES: Final = 8
"""Deadlines of one phase after which a server gives up."""


class Phase(IntEnum):
    """How far a round is; each waits for one type of message."""

    ANNOUNCING = Type.ANNOUNCE
    REVEALING = Type.REVEAL
    SHARING = Type.PARCELS
    SENDING = Type.FRAME
    SIGNING = Type.SIGNED
    ANSWERING = Type.ANSWER


@dataclass(frozen=True, eq=False)
class Sum:
    """What a round gave: the mean over exactly these workers."""

    number: int
    kind: int
    present: tuple[int, ...]
    mean: Doubles  # numbers
    variance: float  # of noise and rounding, in a number of the mean
    on_air: "SumOnAir | None" = None  # what an air added up, for recordings


@dataclass(frozen=True)
class Letter:
    """A message, and the worker it goes to; None: all."""

    message: Message
    to: int | None = None


class Attempt:
    """One attempt at a round of a ``Server``, of frames of the kind in this place of the contract."""

    first_phase: ClassVar = Phase.ANNOUNCING

    def __init__(
        self, kind: "FrameKind | AnalogKind", run: Any, number: int, attempt: int, place: int, expected: set[int]
    ) -> None:
        self.kind, self.run, self.number, self.attempt, self.place = kind, run, number, attempt, place
        self.phase: Phase = self.first_phase
        self.expected = expected
        self.order = b""  # digest of the order's body
        self.got: dict[int, bytes] = {}
        self.deadlines = 0
        self.refused = False  # by some worker
        self.frames: dict[int, bytes] = {}  # of the workers that have sent
        self.asked: list[Letter] = []
        self.accused: dict[int, set[int]] = {}  # the workers that name a worker as the culprit

    @property
    def name(self) -> Name:
        """What its workers agree on."""
        return Name(self.number, self.attempt, self.place, self.order)

    @property
    def title(self) -> str:
        """Its name in notes."""
        return f"round {self.number}, attempt {self.attempt}"

    @property
    def silent(self) -> set[int]:
        """Workers that have not answered."""
        return self.expected - self.got.keys()

    @property
    def missing(self) -> set[int]:
        """Workers that are asked again."""
        return self.silent

    def is_mine(self, message: Message) -> bool:
        """Whether a message is of this attempt."""
        return (message.round, message.attempt) == (self.number, self.attempt)

    # What a message is worth.

    def check(self, message: Message) -> None:
        """Refuse what this attempt does not wait for."""
        what = f"{message.type.name} of worker {message.sender}"
        refuses = message.type is Type.REFUSAL and len(message.body) <= LARGEST_REFUSAL
        if not (refuses or message.type == int(self.phase)) or message.sender not in self.expected:
            raise ProtocolError(f"{what} is not expected while the round is {self.phase.name.lower()}")
        if refuses:
            return
        if message.sender in self.got:
            raise ProtocolError(f"{what} came before")
        if self.phase is Phase.SENDING:
            self.kind.check(message.body)
        else:
            self.check_body(message)

    def check_body(self, message: Message) -> None:
        """Refuse what is no answer of the phase."""

    def take(self, message: Message) -> None:
        """Take what was checked, and go on where nobody is missing."""
        if message.type is Type.REFUSAL:
            reason, culprit = unpack_refusal(message.body)
            self.run.note(f"worker {message.sender} refuses: {reason}")
            self.expected.discard(message.sender)
            if culprit is not None:
                self.accused.setdefault(culprit, set()).add(message.sender)
            self.refused = True
            self.without(message.sender)
        elif message.type == int(self.phase) and message.sender in self.expected and message.sender not in self.got:
            self.got[message.sender] = message.body
            self.took(message)
        if self.is_answered:
            self.advance(patient=True)

    @property
    def is_answered(self) -> bool:
        """Whether all have answered, and the phase is over."""
        return len(self.expected) <= len(self.got) and not self.silent

    def took(self, message: Message) -> None:
        """Make use of an answer at once."""
        if self.phase is Phase.SENDING:
            self.count(message.sender)

    def without(self, worker: int) -> None:
        """Go on without a worker that refuses."""

    def count(self, worker: int) -> None:
        """Note that a worker has sent its frame of the round."""
        if worker not in self.frames:
            self.frames[worker] = b""
            self.run.count(worker, self.place)

    def air_started(self) -> None:
        """An air was started; where it has a part in the round, it has no frame of it."""

    # What follows.

    def start(self, order: bytes) -> None:
        """Give the order."""
        self.order = sha256(order).digest()
        self.ask(self.phase, self.expected, Type.ORDER, order)

    def expire(self) -> None:
        """Take the deadline of the phase as passed."""
        self.deadlines += 1
        who = f"{len(self.silent)} of {len(self.expected)} workers are" if self.silent else "the air is"
        self.run.note(f"{self.title}: {who} silent while {self.phase.name.lower()}")
        self.advance(patient=self.deadlines < MOST_DEADLINES)

    def advance(self, *, patient: bool) -> None:
        """Go on to the next phase with those who answered, or end the attempt."""
        raise NotImplementedError

    def enter(self, phase: Phase, expected: Collection[int]) -> None:
        """Begin to wait for these workers."""
        self.phase, self.expected, self.got, self.deadlines = phase, set(expected), {}, 0

    def ask(self, phase: Phase, expected: Collection[int], kind: Type, body: bytes) -> None:
        """Enter a phase with a question to all."""
        self.enter(phase, expected)
        self.post([self.letter(kind, body)])

    def letter(self, kind: Type, body: bytes, to: int | None = None) -> Letter:
        """Return a signed message of this attempt."""
        return Letter(self.run.said(kind, self, body), to)

    def post(self, letters: list[Letter]) -> None:
        """Ask this, and again until it is answered."""
        self.asked = letters
        self.run.post(letters)
