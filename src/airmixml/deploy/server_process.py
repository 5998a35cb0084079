"""What drives a server over a transport: deadlines, asking again, an end; what it learns, and shows meanwhile.

All times are relative and of this process; nothing that matters for privacy or for a sum rests on them. The server
alone asks again: a worker that has answered gives the same bytes again, so that a message that is lost costs a moment.
"""

import math
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from airmixml.data import DataSet
from airmixml.deploy.contract import Contract
from airmixml.deploy.endpoint import SERVER_NAME, SIGNING_KEYS, Endpoint, load_contract, read_keys
from airmixml.deploy.journal import Journal
from airmixml.deploy.mqtt import open_line
from airmixml.deploy.rounds import Sum
from airmixml.deploy.server import Server, Tell
from airmixml.deploy.wire import AIR, Clock, Letter, Log, Message, Transport, Type, read_messages, run_over
from airmixml.edge.learners import TrainedModel
from airmixml.edge.received import Received, learn_from
from airmixml.messages import ProtocolError
from airmixml.workers.payloads import Broadcast

JOURNAL: Final = "journal"
_LOOK_SECONDS: Final = 0.25
_LONGEST_WORK_SECONDS: Final = 60.0  # of learning from a sum, while no message is looked at
_LONGEST: Final = 10.0  # that a phase may take, in deadlines, however slowly workers answer
_TRIES: Final = 5  # times that those who are missing are asked before a deadline, while no answer comes

Watch = Callable[[Server, Sequence[Message]], None]
"""Called whenever the server may have moved, with the messages that have arrived."""

Score = Callable[[list[Sum]], float | None]
"""Gives the accuracy of the model that these sums give, on test rows; None where there are none."""


def drive_server(
    server: Server,
    transport: Transport,
    log: Log,
    deadline: float,
    watch: Watch = lambda server, messages: None,
    clock: Clock = time.monotonic,
) -> None:
    """Run all rounds of a server; one that was started again asks again.

    So many seconds after the last answer of a phase the others are taken as absent from it.
    """

    def send(letters: Iterable[Letter]) -> None:
        for letter in letters:
            transport.send(letter.message.packed(), letter.to)

    send(server.asking())
    messages: list[Message] = []
    begun = moved = asked = clock()  # the phase, its last answer, and its last question
    while not server.is_over:
        watch(server, messages)
        end = min(moved + deadline, begun + _LONGEST * deadline)
        # While answers flow, nothing is asked again: gateways have many to form.
        again = max(moved, asked) + deadline / _TRIES
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
        if now >= max(moved, asked) + deadline / _TRIES:
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
    (key,) = read_keys(own / SIGNING_KEYS, 1)
    return Server(contract, key, Journal(own / JOURNAL, contract.run), tell, log)


def run_server(
    folder: Path, server: Server, log: Log, deadline: float, watch: Watch = lambda server, messages: None
) -> None:
    """Run the rounds of a server over the broker of its deployment, and tell workers when they are over."""
    with closing(open_line(folder / SERVER_NAME, server.contract, log)) as transport:
        drive_server(server, transport, log, deadline, watch)
        transport.send(run_over(server.contract.run, server.signing_key).packed())


class Teacher:
    """Learns from the sums of a run; the same sums always give the same models. They are scored on test rows."""

    def __init__(self, contract: Contract, dataset: DataSet) -> None:
        self._contract, self._dataset = contract, dataset
        self._last: tuple[list[Sum], tuple[TrainedModel, Broadcast | None]] | None = None

    def tell(self, sums: list[Sum]) -> Broadcast | None:
        """Return what to broadcast before the next round of gradients."""
        return self._learn(sums)[1]

    def learned(self, sums: list[Sum]) -> TrainedModel:
        """Return the model that these sums give, with its scores."""
        return self._learn(sums)[0]

    def score(self, sums: list[Sum]) -> float | None:
        """Return the accuracy of that model on the test rows; None where there are no classes, or no rows."""
        scored = self.learned(sums).history
        return scored.final_accuracy if scored.test_accuracy else None

    def _learn(self, sums: list[Sum]) -> tuple[TrainedModel, Broadcast | None]:
        if self._last is None or self._last[0] != sums:  # told, scored and saved from the same sums
            scenario, parts = self._contract.plan, dict[str, list[Received]](moments=[], gradients=[])
            for each in sums:
                received = Received(mean=each.mean, noise_variance=each.variance, present=len(each.present))
                parts[self._contract.kinds[each.kind].sends].append(received)
            if not parts["moments"] and scenario.workers.sends != "gradients":  # which begin with a model of zeros
                raise ProtocolError("no slot of moments has been received, so that nothing is learned")
            self._last = list(sums), learn_from(scenario, self._dataset, parts["moments"], parts["gradients"])
        return self._last[1]


class Status:
    """Watches a server and keeps what it has seen for the status page, which is served from another thread.

    A worker is alive once its endpoint was heard, unless the server goes on without it, or waits for it while nothing
    has come for a deadline.
    """

    def __init__(
        self, endpoint: Endpoint, deadline: float, score: Score, log: Log, clock: Clock = time.monotonic
    ) -> None:
        self._endpoint, self._deadline, self._score, self._log, self._clock = endpoint, deadline, score, log, clock
        self._heard: dict[str, float] = {}  # by endpoint
        self._where = (-1, -1, "")
        self._looked = -math.inf
        self._begun = self._seen = clock()
        self._counts = dict.fromkeys(("messages_received_total", "bytes_received_total", "worker_refusals_total"), 0)
        self.released = False  # whether the model is written
        self.scores: list[float | None] = []
        self.plain: dict[str, Any] = {}  # what the page shows; empty before the server has begun

    def __call__(self, server: Server, messages: Sequence[Message]) -> None:
        """Take in where the server is, and what has arrived."""
        now = self._seen = self._clock()
        self._counts["messages_received_total"] += len(messages)
        self._counts["bytes_received_total"] += sum(each.size for each in messages)
        self._counts["worker_refusals_total"] += sum(each.type is Type.REFUSAL for each in messages)
        for sender in {each.sender for each in messages} & server.spent.keys():
            self._heard[self._endpoint.standing_for(sender)] = now
        if server.where == self._where and now - self._looked < _LOOK_SECONDS:
            return
        self._looked = now
        while len(self.scores) < len(server.sums):
            self.scores.append(self._score(server.sums[: len(self.scores) + 1]))
        if server.where != self._where:
            self._where = number, attempt, phase = server.where
            again = f", attempt {attempt}" if attempt else ""
            self._log("all rounds are over" if phase == "over" else f"round {number}{again}: {phase}")
        self.plain = self._told(server, now)

    def problem(self) -> str:
        """Return why the server is not well; empty: it is."""
        silent = self._clock() - self._seen
        return f"the run has stood still for {silent:.0f} s" if silent > self._deadline + _LONGEST_WORK_SECONDS else ""

    def numbers(self) -> dict[str, float]:
        """Return what is counted, of all workers together."""
        told = self.plain
        return {
            "workers_expected": self._endpoint.workers,
            "workers_present": told.get("alive", 0),
            "workers_dropped": told.get("dropped", 0),
            "round": told.get("round", 0),
            "rounds_done": told.get("rounds_done", 0),
            "rounds_planned": told.get("rounds_planned", 0),
            **self._counts,
            "messages_refused_total": told.get("refusals", 0),
            "warnings_total": told.get("warnings", 0),
            "budget_spent_ratio": told.get("spent", 0.0),
            "uptime_seconds": self._clock() - self._begun,
            "released": self.released,
        }

    def _told(self, server: Server, now: float) -> dict[str, Any]:
        contract, (number, attempt, phase) = server.contract, server.where
        missing, away, groups = set(server.missing), server.silent | server.left_out, list[dict[str, Any]]()
        for name in self._endpoint.names:
            numbers, heard = set(self._endpoint.numbers(name)), self._heard.get(name, -math.inf)
            gone = away | missing if now - heard >= self._deadline else away
            groups.append(
                {
                    "name": name,
                    "workers": len(numbers),
                    "alive": len(numbers - gone) if name in self._heard else 0,
                    "waited_for": len(numbers & missing),
                    "spent": contract.share(max(server.spent[each] for each in numbers)),
                    "heard_seconds": now - heard if name in self._heard else None,
                }
            )
        return {
            "name": contract.plan.name,
            "round": number,
            "attempt": attempt,
            "phase": phase,
            "rounds_done": len(server.sums),
            "rounds_planned": len(contract.schedule),
            "workers": len(contract.members),
            "alive": sum(each["alive"] for each in groups),
            "dropped": len(away),
            "refusals": server.refusals,
            "warnings": len(server.warnings),
            "fewest": contract.fewest,
            "spent": max(each["spent"] for each in groups),
            "epsilon": contract.epsilon,
            "delta": contract.delta,
            "accuracy": list(self.scores),
            "failure": server.failure,
            "endpoints": groups,
        }
