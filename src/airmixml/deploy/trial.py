"""A whole deployment on this machine, for a trial: its parts as processes, with a fault and an attack, and its picture.

One worker is killed in the middle of a round and started again, and an old order is sent to it again. Whatever else
is killed meanwhile is started again too (``supervision``).
"""

import shutil
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Final, NamedTuple

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
    Endpoint,
    find_folder,
    load_contract,
    run_topic,
)
from airmixml.deploy.mqtt import tls_context
from airmixml.deploy.processes import Broker, start_child
from airmixml.deploy.supervision import ENDED, RESTARTED, Part, Supervisor
from airmixml.deploy.wire import RUN_OVER, SERVER, Message, Type, batched, unbatched, unpack_refusal, unpacked
from airmixml.files import write_arrays
from airmixml.output.figures import BLUE, GREEN, GREY, ORANGE, RED, finish_axis, new_figure, save_figure
from airmixml.progress import silent
from airmixml.scenario import Scenario
from airmixml.streams import Streams
from airmixml.workers.loading import load_raw, pool_and_test
from airmixml.workers.population import deploy

LOGS: Final = "logs"
BROKER_NAME: Final = "broker"
ROWS: Final = "rows.npz"
_ATTACKER: Final = "attacker"
_LOOK_SECONDS: Final = 0.03
_GOODBYE_SECONDS: Final = 10.0
_RECONNECT_SECONDS: Final = 0.1
BEGINS, SENDS, REFUSES = "begins", "sends its frame", "refuses"
REPLAYED: Final = "is sent the order of round 0 again"
_MOST_NAMES: Final = 32
_GONE: Final = (ENDED, "ends")
_MARKS: Final[Mapping[str, Mapping[str, Any]]] = {
    SENDS: {"label": "frame sent", "marker": "|", "color": BLUE, "s": 60},
    ENDED: {"label": "killed", "marker": "X", "color": RED, "s": 90},
    RESTARTED: {"label": "started again", "marker": ">", "color": GREEN, "s": 60},
    REFUSES: {"label": "old order refused by its ledger", "marker": "D", "color": ORANGE, "s": 50},
}


class Event(NamedTuple):
    """Who (a part, or a round) did or met what, and when."""

    seconds: float  # since the first order
    who: str
    what: str


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
        self._client.reconnect_delay_set(_RECONNECT_SECONDS, 2)  # type: ignore[arg-type]
        self._client.connect_async(server.host, server.port)  # again and again, for a broker may be killed
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

    Any of its processes may be killed meanwhile: it is started again. ``deadline`` is that of the server, in seconds;
    ``say`` is told when what happens, a line each.
    """

    def __init__(
        self, folder: Path, say: Callable[[float, str], None], *, deadline: float, more: tuple[str | Path, ...] = ()
    ) -> None:
        self._folder, self._say = folder, say
        self._words = (SERVER_NAME, folder, "--deadline", str(deadline), *more)
        self._server = Endpoint.read(folder / SERVER_NAME)
        self._contract = load_contract(folder / SERVER_NAME)
        self._kept = Supervisor(deadline)
        self._begun: float | None = None  # when the first order came, by this machine's clock
        self._first: Message | None = None  # the order of round 0
        self._sending = -1  # the latest round in which a frame was sent
        self._noted: list[Event] = []  # by the clock

    @property
    def events(self) -> list[Event]:
        """What has happened, in seconds since the first order."""
        return [each._replace(seconds=each.seconds - (self._begun or 0.0)) for each in self._noted]

    def run(self, *, kill: bool) -> str:
        """Start everything, wait for the end of the run, end everything, also when this is interrupted.

        Return which worker was killed while a round was under way, started again, and sent an old order again.
        """
        (self._folder / LOGS).mkdir()
        killed, names, last_round = "", self._server.names, len(self._contract.schedule) - 1
        Attacker.admit(self._folder, self._contract.run)
        with ExitStack() as stack:
            broker = stack.enter_context(Broker(self._folder))
            stack.callback(lambda: self._kept.end(0.0))
            attacker = stack.enter_context(closing(Attacker(self._folder, self._server, self._contract.run)))
            self._kept.add(BROKER_NAME, Part(broker.restart, broker.log, has_end=False, child=broker.process))
            self._keep(SERVER_NAME, *self._words, must_be=True)
            if self._contract.on_air:
                self._keep(AIR_NAME, AIR_NAME, self._folder)
            for name in names:
                own = find_folder(self._folder, name)
                self._keep(name, "worker", "--data", own / ROWS, "--id", name, "--folder", own)
            while not self._kept.parts[SERVER_NAME].is_done:
                for name, what in self._kept.look():
                    self._note(name, what)
                    if what == RESTARTED and name == killed and self._first:
                        self._note(killed, REPLAYED)
                        attacker.replay(self._first, killed)
                self._hear(attacker)
                if kill and not killed and self._sending >= min(1, last_round):
                    killed = names[len(names) // 3]
                    if child := self._kept.parts[killed].child:
                        child.kill()
                time.sleep(_LOOK_SECONDS)
            self._kept.end(_GOODBYE_SECONDS)  # workers were told that the run is over
            self._hear(attacker)
        return killed

    def _keep(self, name: str, *words: str | Path, must_be: bool = False) -> None:
        path = self._folder / LOGS / f"{name}.log"

        def start() -> subprocess.Popen[bytes]:
            with path.open("ab") as log:
                return start_child((sys.executable, "-m", "airmixml", *words), log=log)

        self._kept.add(name, Part(start, path, must_be=must_be))

    def _hear(self, attacker: Attacker) -> None:
        for clock, message in attacker.heard():
            if (
                message.sender == SERVER and message.round != RUN_OVER
            ):  # an order may be missed while the broker is away
                self._begun = self._begun or clock
                self._first = message if (message.type, message.round) == (Type.ORDER, 0) else self._first
                self._note_once(f"round {message.round}", BEGINS, clock)
            elif message.type is Type.FRAME:
                self._sending = message.round
                self._note_once(self._server.standing_for(message.sender), f"{SENDS} of round {message.round}", clock)
            elif message.type is Type.REFUSAL:
                reason, _ = unpack_refusal(message.body)
                self._note_once(self._server.standing_for(message.sender), f"{REFUSES}: {reason}", clock)
            elif message.type is Type.OVER and message.round == RUN_OVER:
                self._note_once("run", "is over", clock)

    def _note_once(self, who: str, what: str, clock: float) -> None:
        if not any((each.who, each.what) == (who, what) for each in self._noted):  # else a message was sent again
            self._note(who, what, clock)

    def _note(self, who: str, what: str, clock: float | None = None) -> None:
        clock = time.monotonic() if clock is None else clock
        self._noted.append(Event(clock, who, what))
        self._say(clock - (self._begun or clock), f"{who}: {what}")


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


def draw_lanes(
    events: Sequence[Event], names: Sequence[str], rounds: Sequence[Mapping[str, Any]], title: str, path: Path
) -> None:
    """Write the picture of what happened to the workers of these names, and to other parts that were killed.

    ``rounds`` are those of the server's result.
    """
    begun = {each.who: each.seconds for each in events if each.what == BEGINS}
    first, end = min(begun.values(), default=0.0), max((each.seconds for each in events), default=0.0)
    others = dict.fromkeys(each.who for each in events if each.what.startswith(ENDED) and each.who not in names)
    names = [*names, *others]
    height = min(2.6 + 0.26 * len(names), 16.0)
    figure = new_figure(10.5, height + 1.9, title)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(height, 1.9))
    for row, name in enumerate(names):
        own = [each for each in events if each.who == name]
        starts = [first, *(each.seconds for each in own if each.what == RESTARTED)]
        stops = [*(each.seconds for each in own if each.what.startswith(_GONE)), end]
        for start, stop in zip(starts, stops, strict=False):
            upper.hlines(row, max(start, first), max(stop, first), color=BLUE, linewidth=3, alpha=0.35)
    for mark, style in _MARKS.items():
        points = [(each.seconds, names.index(each.who)) for each in events if each.what.startswith(mark)]
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
            since = begun.get(f"round {each['round']}", end)
            done = min((at for at in begun.values() if at > since), default=end)
            lower.plot(done, percent, "o", color=GREEN)
            told = f"{percent:.0f}" + (f"\n({absent} absent)" if absent else "")
            lower.annotate(
                told, (done, percent), (0, -6), textcoords="offset points", fontsize=8, ha="center", va="top"
            )
    lower.set(ylim=(0.0, 105.0), ylabel="accuracy (%)", xlabel="seconds since round 0 began")
    finish_axis(lower)
    save_figure(figure, path)
