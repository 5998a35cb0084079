"""How rounds go, from the server's side, of masked integers and of frames that an air adds up."""

from hashlib import sha256
from typing import ClassVar, Final

from airmixml.deploy.air import Opening, SumOnAir
from airmixml.deploy.attempts import Attempt, Letter, Phase, Sum
from airmixml.deploy.baseband import AnalogKind
from airmixml.deploy.frames import FrameKind
from airmixml.deploy.wire import AIR, Message, Type, pack_list, unpack_parts
from airmixml.deploy.worker import ANNOUNCEMENT_BYTES, REVEAL_BYTES, absent_list, announcement_of, delivery, reveal_of
from airmixml.errors import ProtocolError
from airmixml.masks.keys import is_signed
from airmixml.masks.recovery import Answer, RecoveryServer
from airmixml.masks.rounds import Round, round_name

_BYTES: Final = {Phase.ANNOUNCING: ANNOUNCEMENT_BYTES, Phase.REVEALING: REVEAL_BYTES, Phase.SIGNING: 64}


class MaskedAttempt(Attempt):
    """An attempt at a round of masked integers: workers agree on masks, send, and hand out what removes them.

    The sum is exact over those whose frames are in: they have signed the list of the others, whose masks are rebuilt.
    """

    kind: FrameKind
    round: Round  # once it is drawn
    recovery: RecoveryServer  # once frames are in
    absent: tuple[int, ...] = ()
    before_frames: ClassVar = (Phase.ANNOUNCING, Phase.REVEALING, Phase.SHARING)

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
            self._announced().check_reveal(reveal_of(message.sender, message.body), message.sender)
        if self.phase in (Phase.SHARING, Phase.ANSWERING):
            parts, neighbours = unpack_parts(message.body), set(self.round.graph[message.sender])
            if not parts.keys() <= neighbours or (self.phase is Phase.SHARING and parts.keys() != neighbours):
                raise ProtocolError(f"{what} is not for its neighbours")

    def without(self, worker: int) -> None:
        if self.phase in self.before_frames:
            self.run.silent.add(worker)

    def took(self, message: Message) -> None:
        super().took(message)
        if self.phase is Phase.ANSWERING:
            try:
                self.recovery.take(Answer(message.sender, unpack_parts(message.body)))
            except ProtocolError as problem:
                self.run.note(str(problem))

    def advance(self, *, patient: bool) -> None:
        if self.phase is Phase.ANNOUNCING:
            self._announce(patient=patient)
        elif self.phase in self.before_frames and (self.silent or self._are_fewer()):
            self.run.silent |= self.silent
            self.run.again(self)
        elif self.phase is Phase.REVEALING:
            self._draw()
        elif self.phase is Phase.SHARING:
            self._deliver()
        elif self.phase is Phase.SENDING:
            self.frames = self.got
            self._name_absent()
        elif self.phase is Phase.SIGNING:
            self._with_signatures()
        else:
            self._with_answers(patient=patient and bool(self.silent))

    def _announce(self, *, patient: bool) -> None:
        contract, here = self.run.contract, len(self.got)
        rules = contract.rules_for(here, self.place)
        if rules is not None:
            chosen = sorted(self.got)[: rules.workers]
            self.ask(Phase.REVEALING, chosen, Type.ANNOUNCED, pack_list({each: self.got[each] for each in chosen}))
        elif self.refused and not self.silent:  # the name was used: a log was lost, or a worker was started again
            self.run.silent.clear()
            self.run.again(self)
        elif not patient:
            self.run.end(f"only {here} workers take part, and {contract.fewest} are needed")

    def _are_fewer(self) -> bool:
        """Whether a worker of the round has refused since it was announced."""
        announced = self._announced() if self.phase is Phase.REVEALING else self.round
        return len(self.got) < len(announced.announcements)

    def _announced(self) -> Round:
        found: Round = self.run.transcripts.announced(self.name, self.asked[0].message.body)
        return found

    def _draw(self) -> None:
        body = pack_list(self.got)
        self.round = self.run.transcripts.revealed(self.name, self.asked[0].message.body, body)
        try:
            self.round.check()
        except ProtocolError as problem:  # a graph that chance made too weak
            self.run.note(f"{self.title}: {problem}")
            self.run.again(self)
            return
        self.ask(Phase.SHARING, self.round.graph, Type.REVEALED, body)

    def _deliver(self) -> None:
        boxes: dict[int, list[tuple[int, bytes]]] = {each: [] for each in self.round.graph}
        for sender in sorted(self.got):
            for to, parcel in unpack_parts(self.got[sender]).items():
                boxes[to].append((sender, parcel))
        self.enter(Phase.SENDING, self.round.graph)
        self.post([self.letter(Type.DELIVERY, delivery(to, parcels), to) for to, parcels in boxes.items()])

    def _name_absent(self) -> None:
        """Have those whose frames are in sign the list of the others."""
        self.absent = tuple(sorted(self.round.graph.keys() - self.frames.keys()))
        try:
            self.round.check_absent(self.absent)
        except ProtocolError as problem:
            self.run.give_up(self, str(problem))
            return
        self.recovery = RecoveryServer(self.round, self.absent)
        present = self.round.graph.keys() - set(self.absent)
        self.ask(Phase.SIGNING, present, Type.ABSENT, absent_list(self.absent))

    def _with_signatures(self) -> None:
        if self.round.signers(self.absent, self.got) < self.round.rules.quorum:
            self.run.give_up(self, "too few workers signed the list of absent ones")
            return
        self.ask(Phase.ANSWERING, list(self.got), Type.SIGNATURES, pack_list(self.got))

    def _with_answers(self, *, patient: bool) -> None:
        if self.recovery.missing:
            if not patient:
                self.run.give_up(self, f"{len(self.recovery.missing)} secrets cannot be rebuilt")
            return
        try:
            correction = self.recovery.correction(self.number, 0, self.kind.numbers)
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
    first_phase: ClassVar = Phase.SENDING
    seats: frozenset[int] = frozenset()  # workers that the air was told of first
    ordered: Letter  # what has them send to it

    @property
    def is_answered(self) -> bool:
        """Frames alone end no phase: the air has the sum."""
        return False

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
        self.post([self.letter(Type.SAMPLES, opening.packed(), AIR), *ordered])

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
        found, fewest = SumOnAir.of(message.body), self.run.contract.fewest
        for worker in found.present:
            self.count(worker)
        if len(found.present) < fewest:
            few = f"only {len(found.present)} workers are in the sum, and {fewest} are needed"
            self.run.give_up(self, few)
        else:
            present = tuple(sorted(found.present))
            self.run.done(self, Sum(self.number, self.place, present, *self.kind.mean(found), found))

    def without(self, worker: int) -> None:
        """The air need not wait for a worker that refuses."""
        fewest = self.run.contract.fewest
        if len(self.expected) >= fewest:
            self._open(*self.asked[1:])
        elif self.frames:
            self.run.give_up(self, f"only {len(self.expected)} workers go on, and {fewest} are needed")
        else:  # the name was used: a log was lost, or workers were started again
            self.run.again(self)

    def air_started(self) -> None:
        """All send again to an air that was started again."""
        if self.order:
            self.got = {}
            self._open(self.ordered)

    def advance(self, *, patient: bool) -> None:
        """A deadline has passed: wait only for those who have sent; at the last one take what the air has."""
        fewest = self.run.contract.fewest
        enough = len(self.got) >= fewest
        if enough and patient:  # an air that is away or slow must not find a closed slot
            self.expected = set(self.got)
            self._open(self.ordered)
        elif enough and self.asked[1:]:
            self._open()
        elif not patient and self.frames:
            self.run.give_up(self, f"{len(self.frames)} workers have sent, and the air gives no sum of enough")
        elif not patient:
            self.run.end(f"no worker takes part, and {fewest} are needed")
