"""The server's side of every round: what it makes of messages and of deadlines. No socket, no clock, no torch.

Its state is a function of its journal: every message that it accepts, every deadline that passed and every order is
noted there before anything follows from it. A server that is started again reads the journal and asks again. A sum is
exact over a named set of workers, or the round fails; a frame that comes late never enters.

A round that stops before frames is tried again under the next attempt, without the workers that were silent. One that
stops after frames has another number if it is tried again: what workers have spent stays spent.
"""

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from hashlib import sha256
from typing import Final

from airmixml.arrays import Doubles
from airmixml.deploy.air import Opening, SumOnAir
from airmixml.deploy.contract import Contract
from airmixml.deploy.journal import EXPIRED, MESSAGE, ORDERED, Journal, Record
from airmixml.deploy.kinds import AnalogKind, FrameKind
from airmixml.deploy.wire import (
    AIR,
    LARGEST_REFUSAL,
    SERVER,
    Message,
    Type,
    pack_list,
    unpack_parts,
    unpack_refusal,
    unpacked,
)
from airmixml.deploy.worker import (
    ANNOUNCEMENT_BYTES,
    REVEAL_BYTES,
    Name,
    Order,
    Transcripts,
    absent_list,
    announcement_of,
    delivery,
    reveal_of,
)
from airmixml.errors import ProtocolError
from airmixml.masks.graph import MOST_ROUNDS
from airmixml.masks.keys import KeyPair, is_signed
from airmixml.masks.recovery import Answer
from airmixml.masks.recovery_server import RecoveryServer
from airmixml.masks.rounds import Round, round_name
from airmixml.workers.broadcasts import Broadcast

MOST_DEADLINES: Final = 8
"""Deadlines of one phase after which a server gives up."""

_ACCUSERS: Final = 2  # workers that must name another before it is left out
_SLOT_MILLISECONDS: Final = 3_600_000  # after which an air closes a slot whose server is gone


class Phase(IntEnum):
    """How far a round is; each waits for one type of message."""

    ANNOUNCING = Type.ANNOUNCE
    REVEALING = Type.REVEAL
    SHARING = Type.PARCELS
    SENDING = Type.FRAME
    SIGNING = Type.SIGNED
    ANSWERING = Type.ANSWER


@dataclass(frozen=True, kw_only=True, eq=False)
class Sum:
    """What a round gave: the mean over exactly these workers."""

    number: int
    kind: int
    present: tuple[int, ...]
    mean: Doubles  # numbers
    variance: float  # of noise and rounding, in a number of the mean


@dataclass(frozen=True)
class Letter:
    """A message, and the worker it goes to; None: all."""

    message: Message
    to: int | None = None


@dataclass(eq=False)
class _Attempt:
    """One attempt at a round."""

    number: int
    attempt: int
    kind: int
    phase: Phase
    expected: set[int]
    order: bytes = b""  # digest of the order's body
    got: dict[int, bytes] = field(default_factory=dict)
    deadlines: int = 0
    refused: bool = False  # by some worker
    round: Round | None = None
    frames: dict[int, bytes] = field(default_factory=dict)
    absent: tuple[int, ...] = ()
    recovery: RecoveryServer | None = None
    seats: frozenset[int] = frozenset()  # workers that an air was told of first
    ordered: list[Letter] = field(default_factory=list)  # what has them send to it
    asked: list[Letter] = field(default_factory=list)
    accused: dict[int, set[int]] = field(default_factory=dict)  # the workers that name a worker as the culprit

    @property
    def name(self) -> Name:
        """What its workers agree on."""
        return Name(self.number, self.attempt, self.kind, self.order)


Tell = Callable[[list[Sum]], Broadcast | None]
"""Gives the model to broadcast before the next round of gradients, from the sums so far."""


class Server:
    """The server of one run.

    Args:
        contract: what workers and server agreed on.
        signing_key: its private Ed25519 key.
        journal: its log; what is in it is taken up.
        tell: gives the models that are broadcast; None where no gradients are sent.
        note: told in one line what was refused or decided, and about which worker.
    """

    def __init__(
        self,
        contract: Contract,
        signing_key: bytes,
        journal: Journal,
        tell: Tell | None = None,
        note: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.contract, self._signing_key, self._journal = contract, signing_key, journal
        self._tell, self._note = tell, note
        self._transcripts = Transcripts(contract)
        self._keys = KeyPair.generate()  # to try others' keys with
        self.sums: list[Sum] = []
        self.spent: dict[int, int] = dict.fromkeys(contract.directory, 0)
        self.failure = ""
        self._left = list(contract.schedule)  # kinds of the rounds to come
        self._silent: set[int] = set()
        self._left_out: set[int] = set()  # for the rest of the run
        self._sent: Counter[tuple[int, int]] = Counter()  # frames that arrived, by worker and kind
        self._now: _Attempt | None = None
        self._replaying = True
        self._letters: list[Letter] = []
        self._farewell: list[Letter] = []
        self._begin(0, 0)
        self._replay(journal.records())

    # What a driver uses.

    @property
    def is_over(self) -> bool:
        """Whether all rounds are done, or no more can be."""
        return self._now is None

    @property
    def where(self) -> tuple[int, int, str]:
        """Round, attempt and phase, for people."""
        now = self._now
        return (len(self.sums), 0, "over") if now is None else (now.number, now.attempt, now.phase.name.lower())

    @property
    def missing(self) -> list[int]:
        """Workers that the phase waits for."""
        now = self._now
        if now is None:
            return []
        # Where all have sent and the air has no sum yet, a frame was lost on its way.
        return sorted(now.expected - now.got.keys() or (now.expected if self._on_air(now) else ()))

    def asking(self) -> list[Letter]:
        """Return what to send again: what those that are missing have to answer."""
        now = self._now
        if now is None:
            return self._farewell
        asked = {None, AIR, *self.missing}
        return [each for each in now.asked if each.to in asked]

    def handle(self, messages: Iterable[Message]) -> list[Letter]:
        """Take messages and return what follows from them; all that is accepted is on the disk by then."""
        accepted = []
        for message in messages:
            try:
                self._check(message)
                # From the HELLO of others nothing follows.
                if message.type is not Type.HELLO or message.sender in {AIR, *self._silent}:
                    accepted.append(message)
            except ProtocolError as problem:
                if not self._is_known(message):
                    self._note(str(problem))
        if accepted:
            self._journal.append((MESSAGE, each.packed()) for each in accepted)
        return self._collected(lambda: deque(map(self._take, accepted), maxlen=0))

    def close(self) -> None:
        """Let another process have its log."""
        self._journal.close()

    def expire(self) -> list[Letter]:
        """Take the deadline of the phase as passed and return what follows from it."""
        if self._now is None:
            return []
        self._journal.append([(EXPIRED, b"")])
        return self._collected(self._expired)

    def _collected(self, work: Callable[[], object]) -> list[Letter]:
        work()
        letters, self._letters = self._letters, []
        return letters

    def _replay(self, records: Iterable[Record]) -> None:
        """Go through what the journal holds; an order that was given stays as it was given."""
        for kind, body in records:
            if kind == MESSAGE:
                self._take(unpacked(body))
            elif kind == ORDERED:
                self._order(body)
            else:
                self._expired()
        self._replaying = False
        if self._now is not None and not self._now.order:
            self._order()
        self._letters = []  # ``asking`` has what is asked now

    # What a message is worth.

    def _check(self, message: Message) -> None:
        """Refuse a message that is not accepted."""
        now, key = self._now, self.contract.speakers.get(message.sender)
        what = f"{message.type.name} of worker {message.sender}"
        if message.run != self.contract.run or key is None:
            raise ProtocolError(f"{what} is of another run or worker")
        if not message.is_signed_by(key):
            raise ProtocolError(f"{what} is not signed by it")
        if message.type is Type.HELLO and not message.body:
            return
        if now is None or (message.round, message.attempt) != (now.number, now.attempt):
            raise ProtocolError(f"{what} comes late: it is of round {message.round}, attempt {message.attempt}")
        if message.sender == AIR:
            self._check_sum(now, message)
            return
        refuses = message.type is Type.REFUSAL and len(message.body) <= LARGEST_REFUSAL
        if not (refuses or message.type == int(now.phase)) or message.sender not in now.expected:
            raise ProtocolError(f"{what} is not expected while the round is {now.phase.name.lower()}")
        if refuses:
            return
        if message.sender in now.got:
            raise ProtocolError(f"{what} came before")
        self._check_body(now, message)

    def _check_body(self, now: _Attempt, message: Message) -> None:
        lengths = {Phase.ANNOUNCING: ANNOUNCEMENT_BYTES, Phase.REVEALING: REVEAL_BYTES, Phase.SIGNING: 64}
        if now.phase in lengths and len(message.body) != lengths[now.phase]:
            raise ProtocolError(
                f"{message.type.name} of worker {message.sender} has {len(message.body)} bytes and must have "
                f"{lengths[now.phase]}"
            )
        if now.phase is Phase.SENDING:
            self._kind(now).check(message.body)
        if now.phase is Phase.ANNOUNCING:
            said = announcement_of(message.sender, message.body)
            run = round_name(now.name.run(self.contract), now.name.slots, now.attempt)
            if not is_signed(said.statement(run), said.signed, self.contract.directory[message.sender]):
                raise ProtocolError(f"ANNOUNCE of worker {message.sender} has keys that it did not sign for this round")
            for key in (said.mask_key, said.channel_key):
                self._keys.shared_secret(key)  # which refuses a point of small order
        if now.phase is Phase.REVEALING:
            self._announced(now).check_reveal(reveal_of(message.sender, message.body), message.sender)
        if now.phase in (Phase.SHARING, Phase.ANSWERING):
            assert now.round is not None
            parts, neighbours = unpack_parts(message.body), set(now.round.graph[message.sender])
            if not parts.keys() <= neighbours or (now.phase is Phase.SHARING and parts.keys() != neighbours):
                raise ProtocolError(f"{message.type.name} of worker {message.sender} is not for its neighbours")

    def _take(self, message: Message) -> None:
        now = self._now
        if message.type is Type.HELLO or now is None:
            self._silent.discard(message.sender)
            if message.sender == AIR and now is not None and self._on_air(now):
                now.got = {}  # it was started again, and has no frame of this slot
                self._open(now, now.ordered)
            return
        if (message.round, message.attempt) != (now.number, now.attempt):
            return  # one of the same batch has ended the attempt
        if message.type is Type.REFUSAL:
            reason, culprit = unpack_refusal(message.body)
            self._note(f"worker {message.sender} refuses: {reason}")
            now.expected.discard(message.sender)
            if culprit is not None:
                now.accused.setdefault(culprit, set()).add(message.sender)
            now.refused = True
            if self._on_air(now):
                self._without(now)
            elif now.phase < Phase.SENDING:
                self._silent.add(message.sender)
        elif message.sender == AIR:
            self._take_sum(now, message)
            return
        elif message.type == int(now.phase) and message.sender in now.expected and message.sender not in now.got:
            now.got[message.sender] = message.body
            if now.phase is Phase.SENDING:
                self._count(now, message.sender)
            if now.phase is Phase.ANSWERING:
                self._take_shares(now, message)
        if len(now.expected) <= len(now.got) and now.expected <= now.got.keys() and not self._on_air(now):
            self._advance(now, patient=True)

    def _count(self, now: _Attempt, worker: int) -> None:
        """Note that a worker has sent its frame of the round."""
        if worker not in now.frames:
            now.frames[worker] = b""
            self.spent[worker] += self._kind(now).cost
            self._sent[worker, now.kind] += 1

    def _take_shares(self, now: _Attempt, message: Message) -> None:
        assert now.recovery is not None
        try:
            now.recovery.take(Answer(message.sender, unpack_parts(message.body)))
        except ProtocolError as problem:
            self._note(str(problem))

    # What follows.

    def _expired(self) -> None:
        now = self._now
        assert now is not None
        now.deadlines += 1
        silent = len(now.expected - now.got.keys())
        who = f"{silent} of {len(now.expected)} workers are" if silent or not self._on_air(now) else "the air is"
        self._note(f"round {now.number}, attempt {now.attempt}: {who} silent while {now.phase.name.lower()}")
        self._advance(now, patient=now.deadlines < MOST_DEADLINES)

    def _advance(self, now: _Attempt, *, patient: bool) -> None:
        """Go on to the next phase with those who answered, or end the attempt."""
        silent = now.expected - now.got.keys()
        if now.phase is Phase.ANNOUNCING:
            rules = self.contract.rules_for(len(now.got), now.kind)
            if rules is None:
                if now.refused and not silent:  # the name was used: a log was lost, or a worker was started again
                    self._silent.clear()
                    self._again(now)
                elif not patient:
                    self._end(f"only {len(now.got)} workers take part, and {self.contract.fewest} are needed")
                return
            chosen = sorted(now.got)[: rules.workers]
            self._ask(now, Phase.REVEALING, chosen, Type.ANNOUNCED, pack_list({each: now.got[each] for each in chosen}))
        elif now.phase in (Phase.REVEALING, Phase.SHARING) and (silent or self._fewer(now)):
            self._silent |= silent
            self._again(now)
        elif now.phase is Phase.REVEALING:
            self._draw(now)
        elif now.phase is Phase.SHARING:
            self._deliver(now)
        elif self._on_air(now):
            self._close(now, patient=patient)
        elif now.phase is Phase.SENDING:
            self._name_absent(now)
        elif now.phase is Phase.SIGNING:
            self._with_signatures(now)
        else:
            self._with_answers(now, patient=patient and bool(silent))

    def _fewer(self, now: _Attempt) -> bool:
        """Whether a worker of the round has refused since it was announced."""
        assert now.round is not None or now.phase is Phase.REVEALING
        announced = self._announced(now) if now.round is None else now.round
        return len(now.got) < len(announced.announcements)

    def _announced(self, now: _Attempt) -> Round:
        return self._transcripts.announced(now.name, now.asked[0].message.body)

    def _draw(self, now: _Attempt) -> None:
        body = pack_list(now.got)
        now.round = self._transcripts.revealed(now.name, now.asked[0].message.body, body)
        try:
            now.round.check(min(now.round.graph))
        except ProtocolError as problem:  # a graph that chance made too weak
            self._note(f"round {now.number}, attempt {now.attempt}: {problem}")
            self._again(now)
            return
        self._ask(now, Phase.SHARING, now.round.graph, Type.REVEALED, body)

    def _deliver(self, now: _Attempt) -> None:
        assert now.round is not None
        boxes: dict[int, list[tuple[int, bytes]]] = {each: [] for each in now.round.graph}
        for sender in sorted(now.got):
            for to, parcel in unpack_parts(now.got[sender]).items():
                boxes[to].append((sender, parcel))
        letters: dict[int | None, bytes] = {to: delivery(to, parcels) for to, parcels in boxes.items()}
        self._ask(now, Phase.SENDING, now.round.graph, Type.DELIVERY, letters)

    def _name_absent(self, now: _Attempt) -> None:
        assert now.round is not None
        now.frames = now.got
        now.absent = tuple(sorted(now.round.graph.keys() - now.frames.keys()))
        try:
            now.round.check_absent(now.absent)
        except ProtocolError as problem:
            self._give_up(now, str(problem))
            return
        present = now.round.graph.keys() - set(now.absent)
        now.recovery = RecoveryServer(now.round, now.absent)
        self._ask(now, Phase.SIGNING, present, Type.ABSENT, absent_list(now.absent))

    def _with_signatures(self, now: _Attempt) -> None:
        assert now.round is not None
        if now.round.signers(now.absent, now.got) < now.round.rules.quorum:
            self._give_up(now, "too few workers signed the list of absent ones")
            return
        self._ask(now, Phase.ANSWERING, list(now.got), Type.SIGNATURES, pack_list(now.got))

    def _with_answers(self, now: _Attempt, *, patient: bool) -> None:
        assert now.recovery is not None
        if now.recovery.missing:
            if not patient:
                self._give_up(now, f"{len(now.recovery.missing)} secrets cannot be rebuilt")
            return
        try:
            self.sums.append(self._sum(now))
        except ProtocolError as problem:  # wrong shares
            if problem.culprit is not None:
                self._note(f"left out from now on: worker {problem.culprit}, whose secrets nobody can rebuild")
                self._left_out.add(problem.culprit)
            self._give_up(now, str(problem))
            return
        self._done(now)

    def _done(self, now: _Attempt) -> None:
        self._left.pop(0)
        self._over(now)
        self._next(now.number + 1)

    def _sum(self, now: _Attempt) -> Sum:
        """Return the mean over the workers whose frames are in, without their masks."""
        kind = self._kind(now)
        assert now.recovery is not None
        assert isinstance(kind, FrameKind)
        correction = now.recovery.integer_correction(now.number, 0, kind.numbers)
        mean, variance = kind.mean(now.frames, correction)
        return Sum(number=now.number, kind=now.kind, present=tuple(sorted(now.frames)), mean=mean, variance=variance)

    # Frames that an air adds up: it is asked for the sum, and workers for what it lacks.

    def _on_air(self, now: _Attempt) -> bool:
        return self._kind(now).on_air

    def _open(self, now: _Attempt, ordered: list[Letter], milliseconds: int = _SLOT_MILLISECONDS) -> None:
        """Have the air wait for all that are expected, and workers send; with 0 milliseconds it closes the slot."""
        opening = Opening(self._kind(now).numbers, milliseconds, tuple(sorted(now.expected)))
        now.asked = [Letter(self._said(Type.SAMPLES, now, opening.packed()), AIR), *ordered]
        self._letters += now.asked

    def _without(self, now: _Attempt) -> None:
        """A worker refuses: the air need not wait for it."""
        if len(now.expected) >= self.contract.fewest:
            self._open(now, now.asked[1:])
        elif now.frames:
            self._give_up(now, f"only {len(now.expected)} workers go on, and {self.contract.fewest} are needed")
        else:  # the name was used: a log was lost, or workers were started again
            self._again(now)

    def _close(self, now: _Attempt, *, patient: bool) -> None:
        """A deadline has passed: wait only for those who have sent; at the last one take what the air has."""
        enough = len(now.got) >= self.contract.fewest
        if enough and patient:  # an air that is away or slow must not find a closed slot
            now.expected = set(now.got)
            self._open(now, now.ordered)
        elif enough and now.asked[1:]:
            self._open(now, [], 0)
        elif not patient and now.frames:
            self._give_up(now, f"{len(now.frames)} workers have sent, and the air gives no sum of enough")
        elif not patient:
            self._end(f"no worker takes part, and {self.contract.fewest} are needed")

    def _is_known(self, message: Message) -> bool:
        """Whether a worker says once more what it sent to the air, or was overtaken by the sum, which had it too."""
        last, now = self.sums[-1] if self.sums else None, self._now
        summed = last is not None and message.round == last.number and message.sender in last.present
        again = now is not None and message.round == now.number and now.got.get(message.sender) == message.body
        return (summed or again) and message.type is Type.FRAME and self.contract.on_air

    def _check_sum(self, now: _Attempt, message: Message) -> None:
        """Refuse a sum whose workers did not all sign for what is in it, whatever else they told the server."""
        if message.type is not Type.SAMPLES or not self._on_air(now):
            raise ProtocolError(f"{message.type.name} of the air is not expected")
        found, keys = SumOnAir.of(message.body), self.contract.directory
        if len(found.samples) != self._kind(now).numbers:
            raise ProtocolError(f"sum of {len(found.samples)} samples: must have {self._kind(now).numbers}")
        for worker, said in found.acknowledgements(message).items():
            signed = worker in now.seats and said.is_signed_by(keys[worker])
            if not signed:
                raise ProtocolError(f"sum of the air: worker {worker} did not send the frame that is in it")

    def _take_sum(self, now: _Attempt, message: Message) -> None:
        kind, found = self._kind(now), SumOnAir.of(message.body)
        assert isinstance(kind, AnalogKind)
        for worker in found.present:
            self._count(now, worker)
        if len(found.present) < self.contract.fewest:
            few = f"only {len(found.present)} workers are in the sum, and {self.contract.fewest} are needed"
            self._give_up(now, few)
            return
        mean, variance = kind.mean(found)
        self.sums.append(Sum(number=now.number, kind=now.kind, present=found.present, mean=mean, variance=variance))
        self._done(now)

    # Rounds.

    def _kind(self, now: _Attempt) -> FrameKind | AnalogKind:
        return self.contract.kinds[now.kind]

    def _next(self, number: int) -> None:
        """Begin the next round, if there is one."""
        if not self._left:
            self._now = None
        elif number >= self.contract.most_rounds:
            self._end(f"all {self.contract.most_rounds} rounds that were agreed on are used")
        else:
            self._begin(number, 0)

    def _again(self, now: _Attempt) -> None:
        """Try the round again; nothing was sent in it."""
        self._over(now)
        if now.attempt + 1 < MOST_ROUNDS:
            self._begin(now.number, now.attempt + 1)
        else:
            self._next(now.number + 1)

    def _give_up(self, now: _Attempt, why: str) -> None:
        """End a round in which frames were sent: it is sent again if workers' budgets have room, or left out."""
        self._note(f"round {now.number} fails: {why}")
        self._over(now)
        kind = self._kind(now)
        culprits = {each for each, accusers in now.accused.items() if len(accusers) >= _ACCUSERS}
        if culprits:
            self._note(f"left out from now on, since several workers name them: {sorted(culprits)}")
            self._left_out |= culprits
        sent = max((self._sent[each, now.kind] for each in now.frames), default=0)
        if sent >= kind.releases and kind.sends == "gradients":
            self._left.pop(0)  # a step less
        elif sent >= kind.releases:
            self._end(f"round {now.number} failed after workers had sent ({why}), and no spare round was agreed on")
            return
        self._next(now.number + 1)

    def _begin(self, number: int, attempt: int) -> None:
        everyone = set(self.contract.directory) - self._left_out
        if not attempt or len(everyone - self._silent) < self.contract.fewest:
            self._silent.clear()  # where too few are left without the silent ones, the network was, not they
        expected = everyone - self._silent
        self._now = _Attempt(number, attempt, self._left[0], Phase.ANNOUNCING, expected)
        if not self._replaying:
            self._order()

    def _order(self, body: bytes = b"") -> None:
        """Give the order of the attempt: the one in the journal where there is one."""
        now = self._now
        assert now is not None
        if not body:
            told = self._tell(self.sums) if self._kind(now).sends == "gradients" and self._tell else None
            power = self.contract.power_dbm if self._on_air(now) else self.contract.plan.link.power_dbm
            body = Order(now.kind, power, told).packed()
            self._journal.append([(ORDERED, body)])
        now.order = sha256(body).digest()
        if self._on_air(now):
            now.phase, now.seats = Phase.SENDING, frozenset(now.expected)
            now.ordered = [Letter(self._said(Type.ORDER, now, body))]
            self._open(now, now.ordered)
        else:
            self._ask(now, Phase.ANNOUNCING, now.expected, Type.ORDER, body)

    def _ask(
        self,
        now: _Attempt,
        phase: Phase,
        expected: Collection[int],
        kind: Type,
        body: bytes | Mapping[int | None, bytes],
    ) -> None:
        """Enter a phase: broadcast a body, or send each worker its own."""
        now.phase, now.expected, now.got, now.deadlines = phase, set(expected), {}, 0
        bodies: Mapping[int | None, bytes] = {None: body} if isinstance(body, bytes) else body
        now.asked = [Letter(self._said(kind, now, each), to) for to, each in bodies.items()]
        self._letters += now.asked

    def _over(self, now: _Attempt) -> None:
        self._farewell = [Letter(self._said(Type.OVER, now, b""))]
        self._letters += self._farewell

    def _end(self, why: str) -> None:
        self.failure = why
        self._note(why)
        self._now = None

    def _said(self, kind: Type, now: _Attempt, body: bytes) -> Message:
        said = Message(kind, SERVER, self.contract.run, now.number, now.attempt, body)
        return said.signed_with(self._signing_key)
