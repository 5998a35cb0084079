"""What drives a server over a transport: deadlines, asking again, an end, and what it shows meanwhile.

All times are relative and of this process; nothing that matters for privacy or for a sum rests on them. The server
alone asks again: a worker that has answered gives the same bytes again, so that a message that is lost costs a moment.
"""

import math
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Final

from airmixml.deploy.attempts import Letter, Sum
from airmixml.deploy.endpoint import SERVER_NAME, Endpoint, load_contract, read_signing_keys
from airmixml.deploy.events import Events
from airmixml.deploy.journal import Journal
from airmixml.deploy.mqtt import open_line
from airmixml.deploy.server import Server, Tell
from airmixml.deploy.wire import AIR, Clock, Log, Message, Transport, Type, read_messages, run_over

JOURNAL: Final = "journal"
_LOOK_SECONDS: Final = 0.25

Watch = Callable[[Server, Sequence[Message]], None]
"""Called whenever the server may have moved, with the messages that have arrived."""

Score = Callable[[list[Sum]], float | None]
"""Gives the accuracy of the model that these sums give, on test rows; None where there are none."""


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


class Status:
    """Watches a server and tells another thread what it has seen: for events, the status page, and the end.

    A worker is silent when a deadline has passed in which it was asked and said nothing, until it is heard again.
    """

    def __init__(
        self, endpoint: Endpoint, deadline: float, score: Score, log: Log, events: Events, clock: Clock = time.monotonic
    ) -> None:
        self._endpoint, self._deadline, self._score = endpoint, deadline, score
        self._log, self._events, self._clock = log, events, clock
        self._begun = clock()
        self._heard: dict[str, float] = {}  # by endpoint
        self._asked: dict[int, float] = {}  # since when a worker is missing
        self._silent: set[int] = set()
        self._scores: list[float | None] = []
        self._where = (-1, -1, "")
        self._senders: set[int] = set()  # heard since the last look
        self._looked = -math.inf
        self._lock, self._plain = Lock(), dict[str, Any]()

    def __call__(self, server: Server, messages: Sequence[Message]) -> None:
        """Take in where the server is, and what has arrived."""
        now = self._clock()
        self._senders |= {each.sender for each in messages} & server.spent.keys()
        if server.where == self._where and now - self._looked < _LOOK_SECONDS:
            return
        self._looked = now
        self._hear(now, self._senders, server.missing)
        self._senders = set()
        for found in server.sums[len(self._scores) :]:
            self._scores.append(self._score(server.sums[: len(self._scores) + 1]))
            self._events.note("sum", round=found.number, workers=list(found.present), accuracy=self._scores[-1])
        if server.where != self._where:
            self._where = number, attempt, phase = server.where
            self._events.note("phase", round=number, attempt=attempt, phase=phase, failure=server.failure)
            again = f", attempt {attempt}" if attempt else ""
            self._log("all rounds are over" if phase == "over" else f"round {number}{again}: {phase}")
        plain = self._told(server, now)
        with self._lock:
            self._plain = plain

    def plain(self) -> dict[str, Any]:
        """Return what the page shows; empty before the server has begun."""
        with self._lock:
            return self._plain

    def _hear(self, now: float, senders: set[int], missing: list[int]) -> None:
        for name in {self._endpoint.standing_for(each) for each in senders}:
            self._heard[name] = now
        self._silent -= senders
        late = {each for each, first in self._asked.items() if now - first >= self._deadline}
        self._silent |= late - senders  # also where the server goes on without them
        self._asked = {each: now if each in senders else self._asked.get(each, now) for each in missing}

    def _told(self, server: Server, now: float) -> dict[str, Any]:
        contract, (number, attempt, phase) = server.contract, server.where
        missing, endpoint = set(server.missing), self._endpoint
        groups: list[dict[str, Any]] = []
        for name in endpoint.names:
            numbers, heard = endpoint.numbers(name), self._heard.get(name)
            groups.append(
                {
                    "name": name,
                    "workers": len(numbers),
                    "alive": 0 if heard is None else sum(each not in self._silent for each in numbers),
                    "waited_for": sum(each in missing for each in numbers),
                    "spent": contract.share(max(server.spent[each] for each in numbers)),
                    "heard_seconds": None if heard is None else now - heard,
                }
            )
        return {
            "name": contract.plan.name,
            "run": contract.run.hex()[:16],
            "seconds": now - self._begun,
            "round": number,
            "attempt": attempt,
            "phase": phase,
            "rounds_done": len(server.sums),
            "rounds_planned": len(contract.schedule),
            "workers": len(contract.members),
            "alive": sum(each["alive"] for each in groups),
            "fewest": contract.fewest,
            "spent": max(each["spent"] for each in groups),
            "epsilon": contract.epsilon,
            "delta": contract.delta,
            "accuracy": list(self._scores),
            "present": [len(each.present) for each in server.sums],
            "failure": server.failure,
            "endpoints": groups,
        }
