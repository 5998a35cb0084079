"""Rounds of frames that an air adds up, from the server's side: it asks the air for the sum, and workers for frames.

Workers tell the server the digest of what they sent; the sum names the workers in it, by the same signatures.
"""

from hashlib import sha256
from typing import TYPE_CHECKING, ClassVar

from airmixml.deploy.air import Opening, SumOnAir
from airmixml.deploy.attempts import Attempt, Letter, Phase, Sum
from airmixml.deploy.wire import AIR, Message, Type
from airmixml.errors import ProtocolError

if TYPE_CHECKING:
    from airmixml.deploy.baseband import AnalogKind


class AttemptOnAir(Attempt):
    """An attempt at a round of samples; each worker answers the order with its frame."""

    kind: "AnalogKind"
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

    @property
    def who_is_silent(self) -> str:
        """In words."""
        return super().who_is_silent if self.silent else "the air is"

    def start(self, order: bytes) -> None:
        """Open the slot, and give the order."""
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
        """Take an answer, or the sum."""
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
            mean = self.kind.mean(found)
            self.run.done(self, Sum.of(self.number, self.place, found.present, mean))

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
