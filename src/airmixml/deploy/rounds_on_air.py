"""How rounds go, from the server's side, of frames that an air adds up."""

from hashlib import sha256
from typing import ClassVar

from airmixml.deploy.air import AnalogKind, Opening, SumOnAir
from airmixml.deploy.rounds import Attempt, Phase, Sum
from airmixml.deploy.wire import AIR, Letter, Message, Type
from airmixml.errors import ProtocolError


class AttemptOnAir(Attempt):
    """An attempt at a round of samples: the server asks the air for their sum, and workers for frames.

    Workers tell the server the digest of what they sent; the sum names the workers in it, by the same signatures.
    """

    kind: AnalogKind
    first_phase: ClassVar = Phase.SENDING
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
