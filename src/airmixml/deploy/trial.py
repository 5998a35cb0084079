"""A whole deployment on this machine, for a trial: its parts as processes, with a fault and an attack.

One worker is killed (``kill -9``) while a round is under way and started again; an old order is sent to it again, under
its old name. What happened is read from the events that the processes log.
"""

import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np

from airmixml.arrays import Integers
from airmixml.data import DataSet
from airmixml.deploy.credentials import Authority, link, write_certificate
from airmixml.deploy.endpoint import (
    ALL,
    DOWN,
    SERVER_NAME,
    DeployError,
    Endpoint,
    find_folder,
    load_contract,
    run_topic,
)
from airmixml.deploy.events import STARTED, Event
from airmixml.deploy.mqtt import MqttTransport
from airmixml.deploy.processes import Broker, end_child, start_child
from airmixml.deploy.wire import Type, unpacked
from airmixml.progress import silent
from airmixml.scenario import Scenario
from airmixml.storage.files import write_bytes
from airmixml.streams import Streams
from airmixml.workers.loading import load_raw, pool_and_test
from airmixml.workers.population import deploy

LOGS: Final = "logs"
ROWS: Final = "rows.npz"
_LOOK_SECONDS: Final = 0.03
_AGAIN_SECONDS: Final = 0.3  # after which a worker that was killed is started again
_GOODBYE_SECONDS: Final = 10.0
ATTACKER: Final = "attacker"
_SENDING: Final = ("sending", "signing", "answering")


@dataclass(kw_only=True)
class Lane:
    """What one endpoint did; times are seconds since the trial began."""

    name: str
    alive: list[list[float]] = field(default_factory=list)  # from and to, of each of its processes
    events: list[Event] = field(default_factory=list)
    killed: list[float] = field(default_factory=list)

    @property
    def is_alive(self) -> bool:
        """Whether a process of it runs and has begun its work."""
        return bool(self.alive) and len(self.alive[-1]) == 1

    @property
    def refusals(self) -> list[Event]:
        """Orders that its ledger refused."""
        return [each for each in self.events if each["event"] == "refusal"]

    @property
    def spent(self) -> float:
        """Share of its budget, by its own ledger."""
        return max((float(each.get("spent", 0.0)) for each in self.events), default=0.0)


@dataclass(kw_only=True)
class History:
    """What has happened so far."""

    workers: int
    lanes: dict[str, Lane]
    phases: list[Event] = field(default_factory=list)
    sums: list[Event] = field(default_factory=list)
    replayed: list[tuple[float, str, int]] = field(default_factory=list)  # when, to which endpoint, which round
    seconds: float = 0.0

    @property
    def where(self) -> tuple[int, str]:
        """Round and phase of the server."""
        return (self.phases[-1]["round"], self.phases[-1]["phase"]) if self.phases else (0, "starting")


Watch = Callable[[History], None]


class EventReader:
    """Reads a file of events while it grows; gives seconds since ``origin``, a time of this machine's clock."""

    def __init__(self, path: Path, origin: float) -> None:
        self._path, self._origin = path, origin
        self._place, self._begun = 0, origin

    def new(self) -> Iterator[Event]:
        """Yield what has come since the last call; a line that is not finished yet comes later."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._place)
            lines = file.read().splitlines(keepends=True)
        for line in lines:
            if not line.endswith(b"\n"):
                return
            self._place += len(line)
            try:
                event: Event = json.loads(line)
            except ValueError:  # a process was killed while it wrote
                continue
            if event["event"] == STARTED:
                self._begun = event["clock"]
            yield {**event, "seconds": event["seconds"] + self._begun - self._origin}


class _ForgedLine(MqttTransport):
    """Publishes to workers as only the server does."""

    def _topic(self, to: int | None) -> str:
        assert to is not None
        return f"{DOWN}/{self._endpoint.standing_for(to)}"


class Attacker:
    """Has the broker of a trial: it hears every order, and sends an old one again.

    TLS does not stop it, and the order bears the server's signature. What stops it is the worker's own ledger.
    """

    def __init__(self, folder: Path, run: bytes) -> None:
        endpoint = replace(Endpoint.read(folder / SERVER_NAME), name=ATTACKER)
        self._line = _ForgedLine(endpoint, folder / ATTACKER, run, lambda line: None)
        self.orders: dict[tuple[int, int], bytes] = {}  # by round and attempt

    def listen(self) -> None:
        """Keep the orders that it hears."""
        for content in self._line.receive(0.0):
            message = unpacked(content)
            if message.type is Type.ORDER:
                self.orders.setdefault((message.round, message.attempt), content)

    def replay(self, order: tuple[int, int], worker: int) -> None:
        """Send an order that it has heard to a worker, as if it came from the server."""
        self._line.send(self.orders[order], worker)
        self._line.flush()

    def close(self) -> None:
        self._line.close()


def admit_attacker(folder: Path, run: bytes) -> None:
    """Give the attacker a certificate and rights on the broker of a trial, before the broker is started."""
    authority = Authority.read(folder)
    own, topics = folder / ATTACKER, run_topic(run)
    own.mkdir(mode=0o700)
    write_certificate(own, *authority.issue(ATTACKER))
    link(folder / "ca.crt", own / "ca.crt")
    with (folder / "broker" / "acl").open("a", encoding="ascii") as rules:
        rules.write(f"user {ATTACKER}\ntopic read {topics}/{ALL}\ntopic write {topics}/{DOWN}/+\n")


class Trial:
    """Runs the deployment of a folder to its end, with rows in the folders of endpoints.

    ``deadline`` is that of the server, in seconds; ``kill`` says whether one endpoint is killed.
    """

    def __init__(self, folder: Path, *, deadline: float, kill: bool, more: tuple[str | Path, ...] = ()) -> None:
        self._folder, self._deadline, self._more = folder, deadline, more
        self._server = Endpoint.read(folder / SERVER_NAME)
        contract = load_contract(folder / SERVER_NAME)
        self._run, self._on_air, rounds = contract.run, contract.on_air, len(contract.schedule)
        self._role = "gateway" if self._server.gateways else "worker"
        self._victim = self._server.names[len(self._server.names) // 3]
        self._last_round = rounds - 1
        self._kill, self._kill_round = kill, min(1, self._last_round)
        self._begun = time.monotonic()
        names = self._server.names
        self.history = History(workers=self._server.workers, lanes={name: Lane(name=name) for name in names})
        self._readers = {name: EventReader(self._events(name), self._begun) for name in (*names, SERVER_NAME)}
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def run(self, watch: Watch = lambda history: None) -> History:
        """Start everything, wait for the end of the run, end everything; also when this is interrupted."""
        (self._folder / LOGS).mkdir()
        with ExitStack() as stack:
            stack.enter_context(Broker(self._folder))
            stack.callback(self._end_all)
            attacker = stack.enter_context(closing(Attacker(self._folder, self._run)))
            words = (
                self._folder,
                "--deadline",
                str(self._deadline),
                "--events",
                self._events(SERVER_NAME),
                *self._more,
            )
            self._start(SERVER_NAME, (SERVER_NAME, *words), {})
            if self._on_air:
                self._start("air", ("air", self._folder), {})
            for name in self._server.names:
                self._start_worker(name)
            while self._children[SERVER_NAME].poll() is None:
                self._look(attacker)
                watch(self.history)
                time.sleep(_LOOK_SECONDS)
            self._say_goodbye(watch)
        self._read()
        if self._children[SERVER_NAME].returncode:
            raise DeployError(f"server: {self._last_line(SERVER_NAME)}")
        return self.history

    def _now(self) -> float:
        return time.monotonic() - self._begun

    def _events(self, name: str) -> Path:
        return self._folder / LOGS / f"{name}.jsonl"

    def _start(self, name: str, words: tuple[str | Path, ...], more: Mapping[str, str]) -> None:
        with (self._folder / LOGS / f"{name}.log").open("ab") as log:
            command = (sys.executable, "-m", "airmixml", *words)
            self._children[name] = start_child(command, log=log, environment={**os.environ, **more})

    def _start_worker(self, name: str) -> None:
        own = find_folder(self._folder, name)
        words = ("--data", own / ROWS, "--id", name, "--folder", own, "--events", self._events(name))
        self._start(name, (self._role, *words), {"OMP_NUM_THREADS": "1"})

    def _look(self, attacker: Attacker) -> None:
        self._read()
        attacker.listen()
        history, lane = self.history, self.history.lanes[self._victim]
        number, phase = history.where
        sends = phase in _SENDING  # or has sent, where this process was too slow to see it
        if self._kill and not lane.killed and number >= self._kill_round and sends:
            killed = self._children.pop(self._victim)
            killed.kill()
            killed.wait()
            lane.killed.append(self._now())
            lane.alive[-1].append(self._now())
        for name, child in self._children.items():
            if name != SERVER_NAME and child.poll():
                raise DeployError(f"{name}: {self._last_line(name)}")
        if self._victim not in self._children and self._now() - lane.killed[0] > _AGAIN_SECONDS:
            self._start_worker(self._victim)
        is_back = len(lane.alive) == 2 if self._kill else number > 0
        is_last = phase == "answering" and number == self._last_round > 0  # if it is not back by now, it is too late
        if (is_back or is_last) and not history.replayed and (0, 0) in attacker.orders:
            to = self._victim if is_back else self._server.names[-1]
            history.replayed.append((self._now(), to, 0))
            attacker.replay((0, 0), self._server.numbers(to)[0])

    def _read(self) -> None:
        for name, reader in self._readers.items():
            for event in reader.new():
                self._take(name, event)
        self.history.seconds = self._now()

    def _take(self, name: str, event: Event) -> None:
        if name == SERVER_NAME:
            found = {"phase": self.history.phases, "sum": self.history.sums}.get(event["event"])
            if found is not None:
                found.append(event)
            return
        lane = self.history.lanes[name]
        if event["event"] == STARTED:
            lane.alive.append([event["seconds"]])
        lane.events.append(event)

    def _say_goodbye(self, watch: Watch) -> None:
        """Wait until workers, which were told that the run is over, have ended."""
        end = time.monotonic() + _GOODBYE_SECONDS
        while time.monotonic() < end and any(child.poll() is None for child in self._children.values()):
            self._read()
            watch(self.history)
            time.sleep(_LOOK_SECONDS)

    def _end_all(self) -> None:
        for child in self._children.values():
            child.terminate()
        for child in self._children.values():
            end_child(child)
        self._read()
        for lane in self.history.lanes.values():
            if lane.is_alive:
                lane.alive[-1].append(self._now())

    def _last_line(self, name: str) -> str:
        lines = (self._folder / LOGS / f"{name}.log").read_text(errors="replace").splitlines()
        said = [line.removeprefix("airmix: error: ") for line in lines if line.startswith("airmix: error: ")]
        return (said or lines or [f"ended without a word; see {self._folder / LOGS}"])[-1]


def deal_rows(
    scenario: Scenario, dataset: DataSet, folder: Path, server: Endpoint, data_dir: Path | None = None
) -> list[int]:
    """Write the rows of each worker into the folder of its endpoint; return how many each worker has.

    They are those that a simulation of the scenario gives them, as the source has them: workers encode them themselves.
    """
    streams = Streams(scenario.seed)
    raw = load_raw(scenario.workers, data_dir, silent)
    pool, _ = pool_and_test(raw, scenario.workers, streams.generator("data"), True)
    population = deploy(scenario.workers, dataset, streams)
    held: list[Integers] = [np.array([each]) for each in population.sample_index]
    if (holdings := population.holdings) is not None:
        held = [holdings.rows[each][holdings.present[each]] for each in population.sample_index]
    for name in server.names:
        rows = pool[np.concatenate([held[number] for number in server.numbers(name)])]
        labels = raw.labels[rows]
        classes = np.issubdtype(labels.dtype, np.integer)
        content = io.BytesIO()
        np.savez_compressed(
            content,
            inputs=raw.inputs[rows],
            labels=np.array([raw.class_names[each] for each in labels]) if classes else labels.reshape(-1),
        )
        write_bytes(find_folder(folder, name) / ROWS, content.getvalue())
    return [len(each) for each in held]
