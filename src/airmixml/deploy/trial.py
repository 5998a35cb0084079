"""A whole deployment on this machine, for a trial: its parts as processes, with a fault and an attack, and its picture.

One worker is killed in the middle of a round and started again, and an old order is sent to it again.
"""

import shutil
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Final

import numpy as np
from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from airmixml.arrays import Integers
from airmixml.data import DataSet
from airmixml.deploy.credentials import Authority
from airmixml.deploy.endpoint import (
    AIR_NAME,
    DOWN,
    SERVER_NAME,
    DeployError,
    Endpoint,
    find_folder,
    load_contract,
    run_topic,
)
from airmixml.deploy.mqtt import tls_context
from airmixml.deploy.processes import Broker, end_child, last_line, start_child
from airmixml.deploy.wire import RUN_OVER, Message, Type, batched, unbatched, unpack_refusal, unpacked
from airmixml.files import write_arrays
from airmixml.output.figures import BLUE, GREEN, GREY, ORANGE, RED, finish_axis, new_figure, save_figure
from airmixml.progress import silent
from airmixml.scenario import Scenario
from airmixml.streams import Streams
from airmixml.workers.loading import load_raw, pool_and_test
from airmixml.workers.population import deploy

LOGS: Final = "logs"
ROWS: Final = "rows.npz"
_ATTACKER: Final = "attacker"
_LOOK_SECONDS: Final = 0.03
_AGAIN_SECONDS: Final = 1.0  # after which a worker that was killed is started again
_GOODBYE_SECONDS: Final = 10.0
BEGINS, SENDS, REFUSES, KILLED, RESTARTED = "begins", "sends its frame", "refuses", "killed", "started again"
REPLAYED: Final = "is sent the order of round 0 again"
_MOST_NAMES: Final = 32
_MARKS: Final[Mapping[str, Mapping[str, Any]]] = {
    SENDS: {"label": "frame sent", "marker": "|", "color": BLUE, "s": 60},
    KILLED: {"label": "killed (kill -9)", "marker": "X", "color": RED, "s": 90},
    RESTARTED: {"label": "started again", "marker": ">", "color": GREEN, "s": 60},
    REFUSES: {"label": "old order refused by its ledger", "marker": "D", "color": ORANGE, "s": 50},
}

Times = dict[tuple[str, str], float]
"""Seconds since the first order, by who (a worker or a round) and what happened."""


class Attacker:
    """An attacker that controls the broker: it hears all messages, and sends a worker an old order again.

    TLS does not stop it, and the order bears the server's signature. What stops it is the worker's own ledger.
    """

    def __init__(self, folder: Path, server: Endpoint, run: bytes) -> None:
        self._topics, self._arrived = run_topic(run), deque[tuple[float, MQTTMessage]]()
        self._client = Client(CallbackAPIVersion.VERSION2, _ATTACKER, protocol=MQTTProtocolVersion.MQTTv5)
        self._client.tls_set_context(tls_context(folder / _ATTACKER))
        self._client.on_connect = lambda client, *_: client.subscribe(f"{self._topics}/#", qos=1)
        self._client.on_message = lambda _client, _data, each: self._arrived.append((time.monotonic(), each))
        self._client.connect(server.host, server.port)
        self._client.loop_start()

    @staticmethod
    def admit(folder: Path, run: bytes) -> None:
        """Give it a certificate and all rights on the broker of a deployment, before the broker is started."""
        Authority.read(folder).write(folder / _ATTACKER, _ATTACKER)
        shutil.copyfile(folder / "ca.crt", folder / _ATTACKER / "ca.crt")
        with (folder / "broker" / "acl").open("a", encoding="ascii") as rules:
            rules.write(f"user {_ATTACKER}\ntopic readwrite {run_topic(run)}/#\n")

    def heard(self) -> Iterator[tuple[float, Message]]:
        """Yield the messages that have come since the last call, each with the clock's time of its arrival."""
        while self._arrived:
            clock, batch = self._arrived.popleft()
            yield from ((clock, unpacked(each)) for each in unbatched(bytes(batch.payload)))

    def replay(self, order: Message, name: str) -> None:
        """Send a worker an order that was heard; the broker keeps it until the worker is there."""
        self._client.publish(f"{self._topics}/{DOWN}/{name}", batched([order.packed()]), qos=1)

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


class Trial:
    """Runs the deployment of a folder to its end, with rows in the folders of its workers.

    ``deadline`` is that of the server, in seconds; ``say`` is told when what happens, a line each.
    """

    def __init__(
        self, folder: Path, say: Callable[[float, str], None], *, deadline: float, more: tuple[str | Path, ...] = ()
    ) -> None:
        self._folder, self._say = folder, say
        self._words = (SERVER_NAME, folder, "--deadline", str(deadline), *more)
        self._server = Endpoint.read(folder / SERVER_NAME)
        self._contract = load_contract(folder / SERVER_NAME)
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._begun = 0.0  # when the first order came, by this machine's clock
        self._first: Message | None = None  # the order of round 0
        self._sending = -1  # the latest round in which a frame was sent
        self.times: Times = {}

    def run(self, *, kill: bool) -> str:
        """Start everything, wait for the end of the run, end everything, also when this is interrupted.

        Return which worker was killed while a round was under way, started again, and sent an old order again.
        """
        (self._folder / LOGS).mkdir()
        killed, names, last_round = "", self._server.names, len(self._contract.schedule) - 1
        Attacker.admit(self._folder, self._contract.run)
        with ExitStack() as stack:
            stack.enter_context(Broker(self._folder))
            stack.callback(lambda: end_child(*self._children.values()))
            attacker = stack.enter_context(closing(Attacker(self._folder, self._server, self._contract.run)))
            self._start(SERVER_NAME, *self._words)
            if self._contract.on_air:
                self._start(AIR_NAME, AIR_NAME, self._folder)
            for name in names:
                self._start_worker(name)
            while self._children[SERVER_NAME].poll() is None:
                for name, child in self._children.items():
                    if name != SERVER_NAME and child.poll():
                        raise DeployError(f"{name}: {self._last_line(name)}")
                self._hear(attacker)
                if kill and not killed and self._sending >= min(1, last_round):
                    killed = names[len(names) // 3]
                    self._note(killed, KILLED)
                    child = self._children.pop(killed)
                    child.kill()
                    child.wait()
                now = time.monotonic() - self._begun
                is_away = killed and killed not in self._children
                if is_away and self._first and now > self.times[killed, KILLED] + _AGAIN_SECONDS:
                    self._note(killed, RESTARTED)
                    self._start_worker(killed)
                    self._note(killed, REPLAYED)
                    attacker.replay(self._first, killed)
                time.sleep(_LOOK_SECONDS)
            end = time.monotonic() + _GOODBYE_SECONDS  # workers were told that the run is over
            while time.monotonic() < end and any(child.poll() is None for child in self._children.values()):
                time.sleep(_LOOK_SECONDS)
            self._hear(attacker)
        if self._children[SERVER_NAME].returncode:
            raise DeployError(f"server: {self._last_line(SERVER_NAME)}")
        return killed

    def _start(self, name: str, *words: str | Path) -> None:
        with (self._folder / LOGS / f"{name}.log").open("ab") as log:
            self._children[name] = start_child((sys.executable, "-m", "airmixml", *words), log=log)

    def _start_worker(self, name: str) -> None:
        own = find_folder(self._folder, name)
        self._start(name, "worker", "--data", own / ROWS, "--id", name, "--folder", own)

    def _hear(self, attacker: Attacker) -> None:
        for clock, message in attacker.heard():
            if message.type is Type.ORDER:
                self._begun, self._first = self._begun or clock, self._first or message
                self._note(f"round {message.round}", BEGINS, clock)
            elif message.type is Type.FRAME:
                self._sending = message.round
                self._note(self._server.standing_for(message.sender), f"{SENDS} of round {message.round}", clock)
            elif message.type is Type.REFUSAL:
                reason, _ = unpack_refusal(message.body)
                self._note(self._server.standing_for(message.sender), f"{REFUSES}: {reason}", clock)
            elif message.type is Type.OVER and message.round == RUN_OVER:
                self._note("run", "is over", clock)

    def _note(self, who: str, what: str, clock: float | None = None) -> None:
        if (who, what) not in self.times:  # else a message was sent again
            self.times[who, what] = (clock or time.monotonic()) - self._begun
            self._say(self.times[who, what], f"{who}: {what}")

    def _last_line(self, name: str) -> str:
        last = last_line(self._folder / LOGS / f"{name}.log", f"ended without a word; see {self._folder / LOGS}")
        return last.removeprefix("airmix: error: ")


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
        told = np.array([raw.class_names[each] for each in labels]) if classes else labels.reshape(-1)
        write_arrays(find_folder(folder, name) / ROWS, {"inputs": raw.inputs[rows], "labels": told})
    return [len(each) for each in held]


def draw_lanes(times: Times, names: Sequence[str], rounds: Sequence[Mapping[str, Any]], title: str, path: Path) -> None:
    """Write the picture of what happened to the workers of these names; ``rounds`` are those of the server's result."""
    begun = {who: seconds for (who, what), seconds in times.items() if what == BEGINS}
    first, end = min(begun.values()), max(times.values())
    height = min(2.6 + 0.26 * len(names), 16.0)
    figure = new_figure(10.5, height + 1.9, title)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(height, 1.9))
    for row, name in enumerate(names):
        starts, stops = (first, times.get((name, RESTARTED), end)), (times.get((name, KILLED), end), end)
        upper.hlines((row, row), starts, stops, color=BLUE, linewidth=3, alpha=0.35)
    for mark, style in _MARKS.items():
        points = [(at, names.index(who)) for (who, what), at in times.items() if what.startswith(mark)]
        if points:
            upper.scatter(*zip(*points, strict=True), zorder=4, **style)
    for who, seconds in begun.items():
        upper.axvline(seconds, color=GREY, linewidth=0.8)
        upper.text(seconds, -0.7, f" {who if seconds == first else who.split()[1]}", fontsize=8, va="bottom")
    step = -(-len(names) // _MOST_NAMES)
    upper.set_yticks(range(0, len(names), step), names[::step], fontsize=8)
    upper.set_ylim(len(names) - 0.4, -1.6)
    finish_axis(upper, legend=8.0, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4, frameon=False)
    for each in rounds:
        if each["accuracy"] is not None:
            percent, absent = 100.0 * each["accuracy"], len(names) - len(each["workers"])
            done = min((at for at in begun.values() if at > begun[f"round {each['round']}"]), default=end)
            lower.plot(done, percent, "o", color=GREEN)
            told = f"{percent:.0f}" + (f"\n({absent} absent)" if absent else "")
            lower.annotate(
                told, (done, percent), (0, -6), textcoords="offset points", fontsize=8, ha="center", va="top"
            )
    lower.set(ylim=(0.0, 105.0), ylabel="accuracy (%)", xlabel="seconds since round 0 began")
    finish_axis(lower)
    save_figure(figure, path)
