"""What a server shows of its run while it goes on: in events, on the status page, and at the end.

A worker counts as silent when a deadline has passed in which it was asked and said nothing, until it is heard again.
"""

import math
import time
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, Final

from airmixml.deploy.attempts import Sum
from airmixml.deploy.endpoint import Endpoint
from airmixml.deploy.events import Events
from airmixml.deploy.server import Server
from airmixml.deploy.transport import Clock, Log
from airmixml.deploy.wire import Message

_LOOK_SECONDS: Final = 0.25

Score = Callable[[list[Sum]], float | None]
"""Gives the accuracy of the model that these sums give, on test rows; None where there are none."""


class Status:
    """Watches a server (``server_process.Watch``), and tells another thread what it has seen."""

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
