"""The server's side of every round: what it makes of messages and of deadlines. No socket, no clock, no torch.

Its state is a function of its journal: every message that it accepts, every deadline that passed and every order is
noted there before anything follows from it. A server that is started again reads the journal and asks again. A sum is
exact over a named set of workers, or the round fails; a frame that comes late never enters.

A round that stops before frames is tried again under the next attempt, without the workers that were silent. One that
stops after frames has another number if it is tried again: what workers have spent stays spent.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from airmixml.deploy.contract import Contract
from airmixml.deploy.expectations import outside
from airmixml.deploy.journal import Journal, Record
from airmixml.deploy.rounds import Attempt, AttemptOnAir, MaskedAttempt, Sum
from airmixml.deploy.wire import AIR, Letter, Message, Type, pack_names, unpack_list, unpacked
from airmixml.deploy.worker import Order, Transcripts
from airmixml.masks.graph import MOST_ROUNDS
from airmixml.masks.keys import KeyPair
from airmixml.messages import ProtocolError
from airmixml.workers.payloads import Broadcast

_ACCUSERS: Final = 2  # workers that must name another before it is left out
# Records of the journal: a message that was accepted, a deadline that passed, an order as it was given, and workers
# whose keys were revoked.
MESSAGE, EXPIRED, ORDERED, REVOKED = b"M", b"E", b"O", b"V"

Tell = Callable[[list[Sum]], Broadcast | None]
"""Gives the model to broadcast before the next round of gradients, from the sums so far."""


class Server:
    """The server of one run, with its private Ed25519 key; how a round goes is for the kind of its frames to say.

    What is in the ``journal`` is taken up. ``note`` is told in one line what was refused or decided.
    """

    def __init__(
        self,
        contract: Contract,
        signing_key: bytes,
        journal: Journal,
        tell: Tell | None = None,
        note: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.contract, self.signing_key, self._journal = contract, signing_key, journal
        self._tell, self.note = tell, note
        self._keys = contract.directory | ({AIR: bytes.fromhex(contract.air_key)} if contract.air_key else {})
        self.transcripts = Transcripts(contract)
        self.keys = KeyPair.generate()  # to try others' keys with
        self.sums: list[Sum] = []
        self.spent: dict[int, int] = dict.fromkeys(contract.directory, 0)
        self.failure = ""
        self.silent: set[int] = set()  # workers that the next attempt goes without
        self.left_out: set[int] = set()  # for the rest of the run
        self._turned_away: set[int] = set()  # since their keys were revoked; a line in the log is enough
        self.refusals = 0  # messages that were not accepted
        self.warnings: list[str] = []  # of sums that workers who keep to the contract do not have
        self._left = list(contract.schedule)  # kinds of the rounds to come
        self.sent: Counter[tuple[int, int]] = Counter()  # frames that arrived, by worker and kind
        self._now: Attempt | None = None
        self._replaying = True
        self.letters: list[Letter] = []  # to send when the work is done
        self._farewell: list[Letter] = []
        self._begin(0, 0)
        for record in journal.records():  # an order that was given stays as it was given
            self._follow(*record)
        self._replaying = False
        if self._now is not None and (revoked := contract.revoked_workers - self.left_out):
            self._keep([(REVOKED, pack_names(revoked))])
        if self._now is not None and not self._now.order:
            self._order(self._now)
        self.letters = []  # ``asking`` has what is asked now

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
        return [] if self._now is None else sorted(self._now.missing)

    def asking(self) -> list[Letter]:
        """Return what to send again: what those that are missing have to answer."""
        if self._now is None:
            return self._farewell
        asked = {None, AIR, *self.missing}
        return [each for each in self._now.asked if each.to in asked]

    def handle(self, messages: Iterable[Message]) -> list[Letter]:
        """Take messages and return what follows from them; all that is accepted is on the disk by then."""
        accepted = []
        for message in messages:
            try:
                self._check(message)
                # From the HELLO of others nothing follows.
                if message.type is not Type.HELLO or message.sender in {AIR, *self.silent}:
                    accepted.append(message)
            except ProtocolError as problem:
                self.refusals += 1
                if message.sender not in self._turned_away:
                    self.note(str(problem))
                self._turned_away |= {message.sender} & self.contract.revoked_workers
        if accepted:
            self._keep([(MESSAGE, each.packed()) for each in accepted])
        return self._collected()

    def expire(self) -> list[Letter]:
        """Take the deadline of the phase as passed and return what follows from it."""
        if self._now is not None:
            self._keep([(EXPIRED, b"")])
        return self._collected()

    def close(self) -> None:
        """Let another process have its log."""
        self._journal.close()

    def _collected(self) -> list[Letter]:
        letters, self.letters = self.letters, []
        return letters

    def _keep(self, records: Sequence[Record]) -> None:
        """Write records to the journal, and do what follows from them."""
        self._journal.append(records)
        for record in records:
            self._follow(*record)

    def _follow(self, kind: bytes, body: bytes) -> None:
        if kind == MESSAGE:
            self._take(unpacked(body))
        elif self._now is not None and kind == REVOKED:
            self._revoke(set(unpack_list(body, 0)))
        elif self._now is not None and kind == ORDERED:
            self._now.start(body)
        elif self._now is not None:
            self._now.expire()

    def _revoke(self, workers: set[int]) -> None:
        """Go on without these for the rest of the run."""
        self.left_out |= workers
        self.note(f"left out from now on, since their keys were revoked: {sorted(workers)}")
        for each in workers:
            if self._now is not None:
                self._now.leave(each)

    def _check(self, message: Message) -> None:
        """Refuse a message that is not accepted."""
        now, key = self._now, self._keys.get(message.sender)
        what = f"{message.type.name} of worker {message.sender}"
        if message.run != self.contract.run or key is None:
            raise ProtocolError(f"{what} is of another run or worker")
        if message.sender in self.contract.revoked_workers:
            raise ProtocolError(f"worker {message.sender} is turned away: its key was revoked")
        if not message.is_signed_by(key):
            raise ProtocolError(f"{what} is not signed by it")
        if message.type is Type.HELLO and not message.body:
            return
        if now is None or not now.is_mine(message):
            raise ProtocolError(f"{what} comes late: it is of round {message.round}, attempt {message.attempt}")
        now.check(message)

    def _take(self, message: Message) -> None:
        now = self._now
        if message.type is Type.HELLO or now is None:
            self.silent.discard(message.sender)
            if message.sender == AIR and now is not None:
                now.air_started()
        elif now.is_mine(message):  # none of the same batch has ended the attempt
            now.take(message)

    def done(self, now: Attempt, found: Sum) -> None:
        """Keep the sum of a round, and begin the next."""
        self.sums.append(found)
        if problem := outside(self.contract, found):
            self.warnings.append(problem)
            self.note(f"WARNING: {problem}")
        self._left.pop(0)
        self._over(now)
        self._next(now.number + 1)

    def again(self, now: Attempt) -> None:
        """Try the round again; nothing was sent in it."""
        self._over(now)
        if now.attempt + 1 < MOST_ROUNDS:
            self._begin(now.number, now.attempt + 1)
        else:
            self._next(now.number + 1)

    def give_up(self, now: Attempt, why: str) -> None:
        """End a round in which frames were sent: it is sent again if workers' budgets have room, or left out."""
        self.note(f"round {now.number} fails: {why}")
        self._over(now)
        culprits = {each for each, accusers in now.accused.items() if len(accusers) >= _ACCUSERS}
        if culprits:
            self.note(f"left out from now on, since several workers name them: {sorted(culprits)}")
            self.left_out |= culprits
        sent = max((self.sent[each, now.place] for each in now.frames), default=0)
        if sent >= now.kind.releases and now.kind.sends == "gradients":
            self._left.pop(0)  # a step less
        elif sent >= now.kind.releases:
            self.end(f"round {now.number} failed after workers had sent ({why}), and no spare round was agreed on")
            return
        self._next(now.number + 1)

    def end(self, why: str) -> None:
        self.failure = why
        self.note(why)
        self._now = None

    def _next(self, number: int) -> None:
        if not self._left:
            self._now = None
        elif number >= self.contract.most_rounds:
            self.end(f"all {self.contract.most_rounds} rounds that were agreed on are used")
        else:
            self._begin(number, 0)

    def _begin(self, number: int, attempt: int) -> None:
        everyone = set(self.contract.directory) - self.left_out
        if not attempt or len(everyone - self.silent) < self.contract.fewest:
            self.silent.clear()  # where too few are left without the silent ones, the network was, not they
        place, expected = self._left[0], everyone - self.silent
        attempts = AttemptOnAir if self.contract.kinds[place].on_air else MaskedAttempt
        self._now = attempts(self, number, attempt, place, expected)
        if not self._replaying:
            self._order(self._now)

    def _order(self, now: Attempt) -> None:
        told = self._tell(self.sums) if now.kind.sends == "gradients" and self._tell else None
        body = Order(now.place, min(self.contract.plan.link.power_dbm, self.contract.power_dbm), told).packed()
        self._keep([(ORDERED, body)])

    def _over(self, now: Attempt) -> None:
        self._farewell = [now.letter(Type.OVER, b"")]
        self.letters += self._farewell
