"""A whole deployment on this machine, for a trial: its parts as processes, with a fault and an attack.

One worker is killed in the middle of a round and started again, and an old order is sent to it again.
"""

import io
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final

import numpy as np

from airmixml.arrays import Integers
from airmixml.data import DataSet
from airmixml.deploy.attacker import Attacker, admit_attacker
from airmixml.deploy.endpoint import AIR_NAME, SERVER_NAME, DeployError, Endpoint, find_folder, load_contract
from airmixml.deploy.processes import Broker, end_child, start_child
from airmixml.deploy.wire import RUN_OVER, Message, Type, unpack_refusal
from airmixml.files import write_bytes
from airmixml.progress import silent
from airmixml.scenario import Scenario
from airmixml.streams import Streams
from airmixml.workers.loading import load_raw, pool_and_test
from airmixml.workers.population import deploy

LOGS: Final = "logs"
ROWS: Final = "rows.npz"
_LOOK_SECONDS: Final = 0.03
_AGAIN_SECONDS: Final = 1.0  # after which a worker that was killed is started again
_GOODBYE_SECONDS: Final = 10.0
BEGINS, SENDS, REFUSES, KILLED, RESTARTED = "begins", "sends its frame", "refuses", "killed", "started again"
REPLAYED: Final = "is sent the order of round 0 again"

Times = dict[tuple[str, str], float]
"""Seconds since the first order, by who (a worker or a round) and what happened."""


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
        self._orders: dict[int, Message] = {}  # by round
        self._sending = -1  # the latest round in which a frame was sent
        self.times: Times = {}

    def run(self, *, kill: bool) -> str:
        """Start everything, wait for the end of the run, end everything, also when this is interrupted.

        Return which worker was killed while a round was under way, started again, and sent an old order again.
        """
        (self._folder / LOGS).mkdir()
        killed, names, last_round = "", self._server.names, len(self._contract.schedule) - 1
        admit_attacker(self._folder, self._contract.run)
        with ExitStack() as stack:
            stack.enter_context(Broker(self._folder))
            stack.callback(self._end_all)
            attacker = stack.enter_context(closing(Attacker(self._folder, self._server, self._contract.run)))
            self._start(SERVER_NAME, *self._words)
            if self._contract.on_air:
                self._start(AIR_NAME, AIR_NAME, self._folder)
            for name in names:
                self._start_worker(name)
            while self._children[SERVER_NAME].poll() is None:
                self._look(attacker)
                if kill and not killed and self._sending >= min(1, last_round):
                    killed = names[len(names) // 3]
                    self._note(killed, KILLED)
                    child = self._children.pop(killed)
                    child.kill()
                    child.wait()
                now = time.monotonic() - self._begun
                if killed and killed not in self._children and now > self.times[killed, KILLED] + _AGAIN_SECONDS:
                    self._note(killed, RESTARTED)
                    self._start_worker(killed)
                    self._note(killed, REPLAYED)
                    attacker.replay(self._orders[0], killed)
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

    def _look(self, attacker: Attacker) -> None:
        """Note what happened; end where a part has failed."""
        for name, child in self._children.items():
            if name != SERVER_NAME and child.poll():
                raise DeployError(f"{name}: {self._last_line(name)}")
        self._hear(attacker)

    def _hear(self, attacker: Attacker) -> None:
        for clock, message in attacker.heard():
            if message.type is Type.ORDER:
                self._begun = self._begun or clock
                self._orders.setdefault(message.round, message)
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

    def _end_all(self) -> None:
        for child in self._children.values():
            child.terminate()
        for child in self._children.values():
            end_child(child)

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
