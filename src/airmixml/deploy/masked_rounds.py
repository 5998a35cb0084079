"""Rounds of masked frames, from the server's side: workers agree on masks, send, and hand out what removes them.

A sum is exact over those whose frames are in: they have signed the list of the others, whose masks are rebuilt.
"""

from typing import ClassVar, Final

from airmixml.deploy.attempts import Attempt, Phase, Sum
from airmixml.deploy.frames import FrameKind
from airmixml.deploy.wire import Message, Type, pack_list, unpack_parts
from airmixml.deploy.worker import ANNOUNCEMENT_BYTES, REVEAL_BYTES, absent_list, announcement_of, delivery, reveal_of
from airmixml.errors import ProtocolError
from airmixml.masks.keys import is_signed
from airmixml.masks.recovery import Answer
from airmixml.masks.recovery_server import RecoveryServer
from airmixml.masks.rounds import Round, round_name

_BYTES: Final = {Phase.ANNOUNCING: ANNOUNCEMENT_BYTES, Phase.REVEALING: REVEAL_BYTES, Phase.SIGNING: 64}


class MaskedAttempt(Attempt):
    """An attempt at a round of masked integers, which the server adds up."""

    kind: FrameKind
    round: Round  # once it is drawn
    recovery: RecoveryServer  # once frames are in
    absent: tuple[int, ...] = ()
    before_frames: ClassVar = (Phase.ANNOUNCING, Phase.REVEALING, Phase.SHARING)

    def check_body(self, message: Message) -> None:
        """Refuse an answer of a wrong length, of keys or a nonce that nobody vouches for, or for strangers."""
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
        """Leave it out of the next attempt too, where nothing was sent."""
        if self.phase in self.before_frames:
            self.run.silent.add(worker)

    def took(self, message: Message) -> None:
        """Keep shares as they come: those of some may do."""
        super().took(message)
        if self.phase is Phase.ANSWERING:
            try:
                self.recovery.take(Answer(message.sender, unpack_parts(message.body)))
            except ProtocolError as problem:
                self.run.note(str(problem))

    def advance(self, *, patient: bool) -> None:
        """Go on to the next phase with those who answered, or end the attempt."""
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
        self.run.done(self, Sum.of(self.number, self.place, self.frames, mean))
