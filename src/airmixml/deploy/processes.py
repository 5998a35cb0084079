"""What drives workers and server over a transport: deadlines, asking again, and an end.

All times are relative and of this process; nothing that matters for privacy or for a sum rests on them. The server
alone asks again: a worker that has answered gives the same bytes again, so that a message that is lost costs a moment.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from airmixml.deploy.endpoint import DeployError
from airmixml.deploy.server import Letter, Server
from airmixml.deploy.spending import Spending
from airmixml.deploy.transport import Log, Transport
from airmixml.deploy.wire import SERVER, Message, Type, unpacked
from airmixml.deploy.worker import Device
from airmixml.errors import ProtocolError

RUN_OVER: Final = (1 << 32) - 1
"""The round of an OVER message that ends the run."""

Clock = Callable[[], float]
_FIRST_HELLO_SECONDS: Final = 1.0
_QUIET_SECONDS: Final = 5.0
_LAST_HELLO_SECONDS: Final = 30.0


@dataclass(frozen=True)
class Timing:
    """How long a server waits, in seconds.

    Attributes:
        deadline: after the last worker that answered in a phase, before the others are taken as absent from it.
        longest: that a phase may take, in deadlines, however slowly workers answer.
        tries: times that it asks those that are missing before a deadline.
    """

    deadline: float = 10.0
    longest: float = 10.0
    tries: int = 5

    @property
    def again(self) -> float:
        """When those that are missing are asked again."""
        return self.deadline / self.tries


def read(contents: Iterable[bytes], log: Log) -> Iterator[Message]:
    """Yield what are messages; note what is none."""
    for content in contents:
        try:
            yield unpacked(content)
        except ProtocolError as problem:
            log(f"refused: {problem}")


def drive_server(
    server: Server,
    transport: Transport,
    log: Log,
    timing: Timing,
    watch: Callable[[Server], None] = lambda server: None,
    clock: Clock = time.monotonic,
) -> None:
    """Run all rounds of a server; one that was started again asks again. ``watch`` is called when it may have moved."""

    def send(letters: Iterable[Letter]) -> None:
        for letter in letters:
            transport.send(letter.message.packed(), letter.to)

    send(server.asking())
    begun = moved = asked = clock()  # the phase, its last answer, and its last question
    while not server.is_over:
        watch(server)
        end = min(moved + timing.deadline, begun + timing.longest * timing.deadline)
        messages = list(read(transport.receive(max(0.0, min(end, asked + timing.again) - clock())), log))
        where, missing = server.where, len(server.missing)
        letters = server.handle(messages)
        now = clock()
        if server.where != where:
            begun = moved = asked = now
        elif len(server.missing) < missing:
            moved = now
        elif now >= end:
            letters = server.expire()
            begun = moved = asked = now
        elif now >= asked + timing.again * (0.1 if any(each.type is Type.HELLO for each in messages) else 1.0):
            letters, asked = server.asking(), now
        send(letters)
    watch(server)


def run_over(run: bytes, signing_key: bytes) -> Message:
    """Return what a server says when no round is left: workers may go."""
    return Message(Type.OVER, SERVER, run, RUN_OVER).signed_with(signing_key)


class Workers:
    """The workers behind one connection, one or many, and the ledger that they share."""

    def __init__(self, devices: Sequence[Device], spending: Spending, log: Log) -> None:
        self._devices = {device.identity: device for device in devices}
        self._spending, self._log = spending, log
        self.are_done = False

    def hello(self) -> Message:
        """Return what one of them says when they start or hear nothing: the server then asks again, and so all."""
        return next(iter(self._devices.values())).hello()

    def answers(self, messages: Iterable[Message]) -> list[Message]:
        """Return what all of them answer; what they spend is on the disk by then, in one write for all."""
        found: list[Message] = []

        def handled() -> Iterator[None]:
            for message in messages:
                try:
                    for device in self._addressed(message):
                        found.extend(device.handle(message))
                        yield
                except ProtocolError as problem:  # not of the server: so for all of them
                    self._log(f"refused: {problem}")

        self._spending.together(handled())
        return found

    def _addressed(self, message: Message) -> Iterable[Device]:
        first, *_ = self._devices.values()
        if message.type is Type.OVER and message.round == RUN_OVER:
            first.handle(message)  # which refuses what the server did not sign
            self.are_done = True
            return ()
        if message.type is Type.DELIVERY:
            named = self._devices.get(int.from_bytes(message.body[:8], "big"))
            return () if named is None else (named,)
        return self._devices.values()


def drive_workers(
    workers: Workers, transport: Transport, log: Log, patience: float, clock: Clock = time.monotonic
) -> None:
    """Answer the server until the run is over; give up where it is silent for ``patience`` seconds."""
    heard = greet = clock()
    wait = _FIRST_HELLO_SECONDS
    while not workers.are_done:
        now = clock()
        if now - heard > patience:
            raise DeployError(f"server: silent for {patience:g} s; start it, then this again, or raise --patience")
        if now >= greet:
            transport.send(workers.hello().packed())
            greet, wait = now + wait, min(2.0 * wait, _LAST_HELLO_SECONDS)
        contents = transport.receive(min(greet, heard + patience) - now)
        if contents:
            for each in workers.answers(read(contents, log)):
                transport.send(each.packed())
            heard, wait = clock(), _QUIET_SECONDS
            greet = heard + wait
