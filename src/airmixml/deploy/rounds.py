"""How rounds go, from the server's side, of masked integers and of frames that an air adds up."""

from collections.abc import Collection
from dataclasses import dataclass
from enum import IntEnum
from hashlib import sha256
from typing import Any, ClassVar, Final

from airmixml.arrays import Doubles
from airmixml.deploy.air import AnalogKind, Opening, SumOnAir
from airmixml.deploy.frames import FrameKind
from airmixml.deploy.wire import (
    AIR,
    LARGEST_REFUSAL,
    SERVER,
    Letter,
    Message,
    Type,
    pack_list,
    pack_names,
    unpack_list,
    unpack_refusal,
)
from airmixml.deploy.worker import ANNOUNCEMENT_BYTES, REVEAL_BYTES, Name, announcement_of, delivery, reveal_of
from airmixml.masks.keys import is_signed
from airmixml.masks.recovery import Answer, RecoveryServer
from airmixml.masks.rounds import Round, round_name
from airmixml.messages import ProtocolError

MOST_DEADLINES: Final = 8  # of one phase, after which a server gives up


class Phase(IntEnum):
    """How far a round is; each waits for one type of message."""

    ANNOUNCING = Type.ANNOUNCE
    REVEALING = Type.REVEAL
    SHARING = Type.PARCELS
    SENDING = Type.FRAME
    SIGNING = Type.SIGNED
    ANSWERING = Type.ANSWER


_BYTES: Final = {Phase.ANNOUNCING: ANNOUNCEMENT_BYTES, Phase.REVEALING: REVEAL_BYTES, Phase.SIGNING: 64}


@dataclass(frozen=True, eq=False)
class Sum:
    """What a round gave: the mean over exactly these workers."""

    number: int
    kind: int
    present: tuple[int, ...]
    mean: Doubles  # numbers
    variance: float  # of noise and rounding, in a number of the mean
    on_air: SumOnAir | None = None  # what an air added up, for recordings


class Attempt:
    """One attempt at a round of a ``Server``, of frames of the kind in this place of the contract."""

    kind: Any
    phase = Phase.ANNOUNCING
    ends_with_answers: ClassVar = True  # whether a phase is over once all workers have answered

    def __init__(self, run: Any, number: int, attempt: int, place: int, expected: set[int]) -> None:
        self.kind, self.fewest = run.contract.kinds[place], run.contract.fewest
        self.run, self.number, self.attempt, self.place, self.expected = run, number, attempt, place, expected
        self.order = b""  # digest of the order's body
        self.got: dict[int, bytes] = {}
        self.deadlines = self.size = 0  # that passed in the phase, and workers that it began with
        self.refused = False  # by some worker
        self.frames: dict[int, bytes] = {}  # of the workers that have sent
        self.asked: list[Letter] = []
        self.accused: dict[int, set[int]] = {}  # the workers that name a worker as the culprit

    @property
    def name(self) -> Name:
        """What its workers agree on."""
        return Name(self.number, self.attempt, self.place, self.order)

    @property
    def silent(self) -> set[int]:
        """Workers that have not answered."""
        return self.expected - self.got.keys()

    @property
    def missing(self) -> set[int]:
        """Workers that are asked again."""
        return self.silent

    def is_mine(self, message: Message) -> bool:
        return (message.round, message.attempt) == (self.number, self.attempt)

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
            if self.phase is Phase.SENDING:
                self.count(message.sender)
        self._go_on()

    def _go_on(self) -> None:
        # Numbers first: there may be many workers.
        if self.ends_with_answers and self.order and len(self.expected) <= len(self.got) and not self.silent:
            self.advance(patient=True)

    def leave(self, worker: int) -> None:
        """Go on without a worker whose key was revoked; a frame that it has sent stays in the sum."""
        if worker in self.expected:
            self.expected.discard(worker)
            if self.phase < Phase.SENDING:
                self.got.pop(worker, None)
            if self.order:
                self.refused = True
                self.without(worker)
            self._go_on()

    def without(self, worker: int) -> None:
        """Go on without a worker that refuses."""

    def count(self, worker: int) -> None:
        """Note that a worker has sent its frame of the round."""
        if worker not in self.frames:
            self.frames[worker] = b""
            self.run.spent[worker] += self.kind.cost
            self.run.sent[worker, self.place] += 1

    def air_started(self) -> None:
        """An air was started; where it has a part in the round, it has no frame of it."""

    def start(self, order: bytes) -> None:
        self.order = sha256(order).digest()
        self.ask(self.phase, self.expected, self.letter(Type.ORDER, order))

    def expire(self) -> None:
        """Take the deadline of the phase as passed."""
        self.deadlines += 1
        who = f"{len(self.silent)} of {len(self.expected)} workers are" if self.silent else "the air is"
        self.run.note(f"round {self.number}, attempt {self.attempt}: {who} silent while {self.phase.name.lower()}")
        self.advance(patient=self.deadlines < MOST_DEADLINES)

    def advance(self, *, patient: bool) -> None:
        """Go on to the next phase with those who answered, or end the attempt."""
        raise NotImplementedError

    def ask(self, phase: Phase, expected: Collection[int], *letters: Letter) -> None:
        """Enter a phase, in which these workers answer."""
        self.phase, self.expected, self.size = phase, set(expected), len(expected)
        self.got, self.deadlines = {}, 0
        self.post(*letters)

    def letter(self, kind: Type, body: bytes, to: int | None = None) -> Letter:
        """Return a signed message of this attempt."""
        said = Message(kind, SERVER, self.run.contract.run, self.number, self.attempt, body)
        return Letter(said.signed_with(self.run.signing_key), to)

    def post(self, *letters: Letter) -> None:
        """Ask this, and again until it is answered."""
        self.asked = list(letters)
        self.run.letters += letters


class MaskedAttempt(Attempt):
    """An attempt at a round of masked integers: workers agree on masks, send, and hand out what removes them.

    The sum is exact over those whose frames are in: they have signed the list of the others, whose masks are rebuilt.
    """

    kind: FrameKind
    round: Round  # once it is drawn
    absent: tuple[int, ...] = ()

    def check_body(self, message: Message) -> None:
        what, contract = f"{message.type.name} of worker {message.sender}", self.run.contract
        length = _BYTES.get(self.phase, len(message.body))
        if len(message.body) != length:
            raise ProtocolError(f"{what} has {len(message.body)} bytes and must have {length}")
        if self.phase is Phase.ANNOUNCING:
            said = announcement_of(message.sender, message.body)
            run = round_name(self.name.run(contract), self.name.slots, self.attempt)
            if not is_signed(said.statement(run), said.signed, contract.directory[message.sender]):
                raise ProtocolError(f"{what} has keys that it did not sign for this round")
            for key in (said.mask_key, said.channel_key):
                self.run.keys.shared_secret(key)  # which refuses a point of small order
        if self.phase is Phase.REVEALING:
            announced = self.run.transcripts.announced(self.name, self.asked[0].message.body)
            announced.check_reveal(reveal_of(message.sender, message.body), message.sender)
        if self.phase in (Phase.SHARING, Phase.ANSWERING):
            parts, neighbours = unpack_list(message.body), set(self.round.graph[message.sender])
            if not parts.keys() <= neighbours or (self.phase is Phase.SHARING and parts.keys() != neighbours):
                raise ProtocolError(f"{what} is not for its neighbours")

    def without(self, worker: int) -> None:
        if self.phase < Phase.SENDING:
            self.run.silent.add(worker)

    def advance(self, *, patient: bool) -> None:
        if self.phase is Phase.ANNOUNCING:
            self._announce(patient=patient)
        elif self.phase < Phase.SENDING and (self.silent or len(self.got) < self.size):
            self.run.silent |= self.silent
            self.run.again(self)
        elif self.phase is Phase.REVEALING:
            self._draw()
        elif self.phase is Phase.SHARING:
            self._deliver()
        elif self.phase is Phase.SENDING:
            self.frames = self.got
            self._name_absent()
        elif self.phase is Phase.ANSWERING:
            self._with_answers(patient=patient and bool(self.silent))
        elif self.round.signers(self.absent, self.got) < self.round.rules.quorum:
            self.run.give_up(self, "too few workers signed the list of absent ones")
        else:
            self.ask(Phase.ANSWERING, self.got, self.letter(Type.SIGNATURES, pack_list(self.got)))

    def _announce(self, *, patient: bool) -> None:
        rules = self.run.contract.rules_for(len(self.got), self.place)
        if rules is not None:
            chosen = sorted(self.got)[: rules.workers]
            body = pack_list({each: self.got[each] for each in chosen})
            self.ask(Phase.REVEALING, chosen, self.letter(Type.ANNOUNCED, body))
        elif self.refused and not self.silent:  # the name was used: a log was lost, or a worker was started again
            self.run.silent.clear()
            self.run.again(self)
        elif not patient:
            self.run.end(f"only {len(self.got)} workers take part, and {self.fewest} are needed")

    def _draw(self) -> None:
        body = pack_list(self.got)
        self.round = self.run.transcripts.revealed(self.name, self.asked[0].message.body, body)
        try:
            self.round.check()
        except ProtocolError as problem:  # a graph that chance made too weak
            self.run.note(f"round {self.number}, attempt {self.attempt}: {problem}")
            self.run.again(self)
            return
        self.ask(Phase.SHARING, self.round.graph, self.letter(Type.REVEALED, body))

    def _deliver(self) -> None:
        boxes: dict[int, dict[int, bytes]] = {each: {} for each in self.round.graph}
        for sender, body in self.got.items():
            for to, parcel in unpack_list(body).items():
                boxes[to][sender] = parcel
        letters = (self.letter(Type.DELIVERY, delivery(to, parcels), to) for to, parcels in boxes.items())
        self.ask(Phase.SENDING, self.round.graph, *letters)

    def _name_absent(self) -> None:
        """Have those whose frames are in sign the list of the others."""
        self.absent = tuple(sorted(self.round.graph.keys() - self.frames.keys()))
        try:
            self.round.check_absent(self.absent)
        except ProtocolError as problem:
            self.run.give_up(self, str(problem))
            return
        self.ask(Phase.SIGNING, self.frames, self.letter(Type.ABSENT, pack_names(self.absent)))

    def _with_answers(self, *, patient: bool) -> None:
        recovery = RecoveryServer(self.round, self.absent)
        for sender, body in self.got.items():
            try:
                recovery.take(Answer(sender, unpack_list(body)))
            except ProtocolError as problem:
                self.run.note(str(problem))
        if recovery.missing:
            if not patient:
                self.run.give_up(self, f"{len(recovery.missing)} secrets cannot be rebuilt")
            return
        try:
            correction = recovery.correction(self.number, 0, self.kind.numbers)
        except ProtocolError as problem:  # wrong shares
            if problem.culprit is not None:
                self.run.note(f"left out from now on: worker {problem.culprit}, whose secrets nobody can rebuild")
                self.run.left_out.add(problem.culprit)
            self.run.give_up(self, str(problem))
            return
        mean = self.kind.mean(self.frames, correction)
        self.run.done(self, Sum(self.number, self.place, tuple(sorted(self.frames)), *mean))


class AttemptOnAir(Attempt):
    """An attempt at a round of samples: the server asks the air for their sum, and workers for frames.

    Workers tell the server the digest of what they sent; the sum names the workers in it, by the same signatures.
    """

    kind: AnalogKind
    phase = Phase.SENDING
    ends_with_answers: ClassVar = False  # the air has the sum
    seats: frozenset[int] = frozenset()  # workers that the air was told of first
    ordered: Letter  # what has them send to it

    @property
    def missing(self) -> set[int]:
        """Where all have sent and the air has no sum yet, a frame was lost on its way: all are asked again."""
        return self.silent or self.expected

    def start(self, order: bytes) -> None:
        self.order = sha256(order).digest()
        self.seats, self.ordered = frozenset(self.expected), self.letter(Type.ORDER, order)
        self._open(self.ordered)

    def _open(self, *ordered: Letter) -> None:
        """Have the air wait for all that are expected, and workers send; where nothing is ordered, close the slot."""
        opening = Opening(self.kind.numbers, int(bool(ordered)), tuple(sorted(self.expected)))
        self.post(self.letter(Type.SAMPLES, opening.packed(), AIR), *ordered)

    def check(self, message: Message) -> None:
        """Refuse a sum whose workers did not all sign for what is in it, whatever else they told the server."""
        if message.sender != AIR:
            super().check(message)
            return
        if message.type is not Type.SAMPLES:
            raise ProtocolError(f"{message.type.name} of the air is not expected")
        found, keys = SumOnAir.of(message.body), self.run.contract.directory
        if len(found.samples) != self.kind.numbers:
            raise ProtocolError(f"sum of {len(found.samples)} samples: must have {self.kind.numbers}")
        for worker, said in found.acknowledgements(message).items():
            if worker not in self.seats or not said.is_signed_by(keys[worker]):
                raise ProtocolError(f"sum of the air: worker {worker} did not send the frame that is in it")

    def take(self, message: Message) -> None:
        if message.sender != AIR:
            super().take(message)
            return
        found = SumOnAir.of(message.body)
        for worker in found.present:
            self.count(worker)
        if len(found.present) < self.fewest:
            self.run.give_up(self, f"only {len(found.present)} workers are in the sum, and {self.fewest} are needed")
        else:
            self.run.done(self, Sum(self.number, self.place, found.present, *self.kind.mean(found), found))

    def without(self, worker: int) -> None:
        """The air need not wait for a worker that refuses."""
        if len(self.expected) >= self.fewest:
            self._open(*self.asked[1:])
        elif self.frames:
            self.run.give_up(self, f"only {len(self.expected)} workers go on, and {self.fewest} are needed")
        else:  # the name was used: a log was lost, or workers were started again
            self.run.again(self)

    def air_started(self) -> None:
        """All send again to an air that was started again."""
        if self.order:
            self.got = {}
            self._open(self.ordered)

    def advance(self, *, patient: bool) -> None:
        """A deadline has passed: wait only for those who have sent; at the last one take what the air has."""
        enough = len(self.got) >= self.fewest
        if enough and patient:  # an air that is away or slow must not find a closed slot
            self.expected = set(self.got)
            self._open(self.ordered)
        elif enough and self.asked[1:]:
            self._open()
        elif not patient and self.frames:
            self.run.give_up(self, f"{len(self.frames)} workers have sent, and the air gives no sum of enough")
        elif not patient:
            self.run.end(f"no worker takes part, and {self.fewest} are needed")
