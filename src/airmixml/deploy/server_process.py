"""What drives a server over a transport: deadlines, asking again, and an end.

All times are relative and of this process; nothing that matters for privacy or for a sum rests on them. The server
alone asks again: a worker that has answered gives the same bytes again, so that a message that is lost costs a moment.
"""

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from airmixml.deploy.attempts import Letter
from airmixml.deploy.endpoint import SERVER_NAME, load_contract, read_signing_keys
from airmixml.deploy.journal import Journal
from airmixml.deploy.mqtt import open_line
from airmixml.deploy.server import Server, Tell
from airmixml.deploy.transport import Clock, Log, Transport, read_messages, run_over
from airmixml.deploy.wire import AIR, Message, Type

JOURNAL: Final = "journal"

Watch = Callable[[Server, Sequence[Message]], None]
"""Called whenever the server may have moved, with the messages that have arrived."""


@dataclass(frozen=True)
class Timing:
    """How long a server waits."""

    deadline: float = 10.0  # seconds after the last answer of a phase, before the others are taken as absent from it
    longest: float = 10.0  # that a phase may take, in deadlines, however slowly workers answer
    tries: int = 5  # times that those who are missing are asked before a deadline, while no answer comes

    @property
    def again(self) -> float:
        """When those that are missing are asked again."""
        return self.deadline / self.tries


def drive_server(
    server: Server,
    transport: Transport,
    log: Log,
    timing: Timing,
    watch: Watch = lambda server, messages: None,
    clock: Clock = time.monotonic,
) -> None:
    """Run all rounds of a server; one that was started again asks again."""

    def send(letters: Iterable[Letter]) -> None:
        for letter in letters:
            transport.send(letter.message.packed(), letter.to)

    send(server.asking())
    messages: list[Message] = []
    begun = moved = asked = clock()  # the phase, its last answer, and its last question
    while not server.is_over:
        watch(server, messages)
        end = min(moved + timing.deadline, begun + timing.longest * timing.deadline)
        # While answers flow, nothing is asked again: gateways have many to form.
        again = max(moved, asked) + timing.again
        contents = transport.receive(max(0.0, min(end, again) - clock()))
        messages = list(read_messages(contents, log))
        where, missing = server.where, len(server.missing)
        letters = server.handle(messages)
        now = clock()
        if server.where != where or now >= end:
            send(letters if server.where != where else server.expire())
            begun = moved = asked = now
            continue
        if len(server.missing) < missing:
            moved = now
        if now >= max(moved, asked) + timing.again:
            _ask_again(server, transport, server.missing)
            asked = now
        elif letters:  # an air that was started again, or need not wait for a worker
            send(letters)
        elif started := {each.sender for each in messages if each.type is Type.HELLO}.intersection(server.missing):
            _ask_again(server, transport, started)
    watch(server, messages)


def _ask_again(server: Server, transport: Transport, workers: Collection[int]) -> None:
    """Ask these workers alone: all others would answer again too."""
    for letter in server.asking():
        content = letter.message.packed()
        for worker in workers if letter.to is None else {letter.to}.intersection({*workers, AIR}):
            transport.send(content, worker)


def open_server(folder: Path, log: Log, tell: Tell | None = None) -> Server:
    """Return the server of a deployment's folder, as far as its log says that it was."""
    own = folder / SERVER_NAME
    contract = load_contract(own)
    (key,) = read_signing_keys(own, 1)
    return Server(contract, key, Journal(own / JOURNAL, contract.run), tell, log)


def run_server(
    folder: Path, server: Server, log: Log, timing: Timing, watch: Watch = lambda server, messages: None
) -> None:
    """Run the rounds of a server over the broker of its deployment, and tell workers when they are over."""
    own = folder / SERVER_NAME
    (key,) = read_signing_keys(own, 1)
    with closing(open_line(own, server.contract, log)) as transport:
        drive_server(server, transport, log, timing, watch)
        transport.send(run_over(server.contract.run, key).packed())
