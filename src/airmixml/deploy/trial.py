"""A whole deployment on this machine, for a trial: its parts as processes, one of which is killed and started again."""

import io
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import numpy as np

from airmixml.arrays import Integers
from airmixml.data import DataSet
from airmixml.deploy.endpoint import AIR_NAME, SERVER_NAME, DeployError, Endpoint, find_folder, load_contract
from airmixml.deploy.processes import Broker, end_child, start_child
from airmixml.files import write_bytes
from airmixml.progress import silent
from airmixml.scenario import Scenario
from airmixml.streams import Streams
from airmixml.workers.loading import load_raw, pool_and_test
from airmixml.workers.population import deploy

LOGS: Final = "logs"
ROWS: Final = "rows.npz"
_LOOK_SECONDS: Final = 0.03
_AGAIN_SECONDS: Final = 0.3  # after which a worker that was killed is started again
_GOODBYE_SECONDS: Final = 10.0


class Trial:
    """Runs the deployment of a folder to its end, with rows in the folders of its workers.

    ``deadline`` is that of the server, in seconds; ``say`` is told what happens, a line each.
    """

    def __init__(
        self, folder: Path, say: Callable[[str], None], *, deadline: float, more: tuple[str | Path, ...] = ()
    ) -> None:
        self._folder, self._say = folder, say
        self._words = (SERVER_NAME, folder, "--deadline", str(deadline), *more)
        self._names = Endpoint.read(folder / SERVER_NAME).names
        self._contract = load_contract(folder / SERVER_NAME)
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._round = -1

    def run(self, *, kill: bool) -> str:
        """Start everything, wait for the end of the run, end everything, also when this is interrupted.

        Return which worker was killed while a round was under way, and started again.
        """
        (self._folder / LOGS).mkdir()
        killed, when = "", 0.0
        with ExitStack() as stack:
            stack.enter_context(Broker(self._folder))
            stack.callback(self._end_all)
            self._start(SERVER_NAME, *self._words)
            if self._contract.on_air:
                self._start(AIR_NAME, AIR_NAME, self._folder)
            for name in self._names:
                self._start_worker(name)
            while self._children[SERVER_NAME].poll() is None:
                is_sending = self._look()
                if kill and not killed and is_sending and self._round >= min(1, len(self._contract.schedule) - 1):
                    killed, when = self._names[len(self._names) // 3], time.monotonic()
                    self._say(f"{killed}: killed")
                    child = self._children.pop(killed)
                    child.kill()
                    child.wait()
                if killed and killed not in self._children and time.monotonic() - when > _AGAIN_SECONDS:
                    self._say(f"{killed}: started again")
                    self._start_worker(killed)
                time.sleep(_LOOK_SECONDS)
            end = time.monotonic() + _GOODBYE_SECONDS  # workers were told that the run is over
            while time.monotonic() < end and any(child.poll() is None for child in self._children.values()):
                time.sleep(_LOOK_SECONDS)
        if self._children[SERVER_NAME].returncode:
            raise DeployError(f"server: {self._last_line(SERVER_NAME)}")
        return killed

    def _start(self, name: str, *words: str | Path) -> None:
        with (self._folder / LOGS / f"{name}.log").open("ab") as log:
            self._children[name] = start_child((sys.executable, "-m", "airmixml", *words), log=log)

    def _start_worker(self, name: str) -> None:
        own = find_folder(self._folder, name)
        self._start(name, "worker", "--data", own / ROWS, "--id", name, "--folder", own)

    def _look(self) -> bool:
        """Say which round has begun, and return whether its frames are sent; end where a part has failed."""
        for name, child in self._children.items():
            if name != SERVER_NAME and child.poll():
                raise DeployError(f"{name}: {self._last_line(name)}")
        log = (self._folder / LOGS / f"{SERVER_NAME}.log").read_text(errors="replace")
        told = [line for line in log.splitlines() if line.startswith("server: round ")]
        number = int(told[-1].split()[2].strip(",:")) if told else -1
        if number != self._round:
            self._round = number
            self._say(f"round {number}: begins")
        return bool(told) and told[-1].endswith((": sending", ": signing", ": answering"))

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
