"""Whole runs over a real broker: with the broker killed on the way, behind gateways, and as commands."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from brokers_for_tests import LAST_RESORT, NEEDS_BROKER, folder_of, high_water, ledger_of
from runs_for_tests import WORKERS, check_sum, deploy, write_rows

from airmixml.deploy.endpoint import Endpoint, load_contract
from airmixml.deploy.mqtt import MqttTransport
from airmixml.deploy.processes import Broker
from airmixml.deploy.server import Server
from airmixml.deploy.server_process import open_server, run_server
from airmixml.deploy.worker_process import drive_workers, open_workers

pytestmark = NEEDS_BROKER

DEADLINE = 20.0


class Running:
    """Endpoints of a deployment as threads of this process, each with a connection of its own."""

    def __init__(self, folder: Path, rows: Path, broker: Broker) -> None:
        self.folder, self.broker, self.lines = folder, broker, list[str]()
        self._rows, self._threads = rows, list[threading.Thread]()
        self.problems: list[BaseException] = []

    def start(self, name: str) -> None:
        folder = folder_of(self.folder, name)
        endpoint = Endpoint.read(folder)
        data = write_rows(self._rows / f"{name}.npz", endpoint.numbers(name))
        workers = open_workers(folder, data, self.lines.append)
        transport = MqttTransport(endpoint, folder, load_contract(folder).run, self.lines.append)

        def drive() -> None:
            try:
                with closing(transport):
                    drive_workers(workers, transport, self.lines.append, LAST_RESORT)
            except BaseException as problem:
                self.problems.append(problem)

        self._threads.append(threading.Thread(target=drive))
        self._threads[-1].start()

    def serve(self, watch: Callable[[Server], None] = lambda server: None) -> Server:
        server = open_server(self.folder, self.lines.append)
        run_server(self.folder, server, self.lines.append, DEADLINE, lambda server, _messages: watch(server))
        for thread in self._threads:
            thread.join(LAST_RESORT)
        assert not self.problems
        return server


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    with ExitStack() as stack:

        def start(gateways: int = 0) -> Running:
            endpoint = deploy(tmp_path / "deployment", gateways=gateways)
            broker = stack.enter_context(Broker(tmp_path / "deployment"))
            found = Running(tmp_path / "deployment", tmp_path, broker)
            for name in endpoint.names:
                found.start(name)
            return found

        yield start


@pytest.mark.parametrize("gateways", [0, 2])
def test_a_sum_over_the_broker_is_that_of_the_rows(
    running: Callable[..., Running], tmp_path: Path, gateways: int
) -> None:
    run = running(gateways)
    (found,) = run.serve().sums
    assert found.present == tuple(range(WORKERS))
    check_sum(found, run.folder, tmp_path)


@pytest.mark.parametrize("phase", ["announcing", "revealing", "sharing", "sending", "signing", "answering"])
def test_a_broker_that_is_killed_loses_and_doubles_nothing(
    running: Callable[..., Running], tmp_path: Path, phase: str
) -> None:
    run = running()
    killed: list[str] = []

    def watch(server: Server) -> None:
        if server.where[2] == phase and not killed:
            killed.append(phase)
            run.broker.process.kill()
            run.broker.process.wait()
            run.broker.start()

    server = run.serve(watch)
    assert killed
    (found,) = server.sums
    assert found.present == tuple(range(WORKERS))
    check_sum(found, run.folder, tmp_path)
    for number in range(WORKERS):
        ledger = ledger_of(folder_of(run.folder, f"worker-{number}") / "ledger")
        assert [line[0] for line in ledger] == ["began", "spent"], ledger


def test_the_commands_run_a_scenario_as_processes(
    tmp_path: Path, start_python: Callable[..., subprocess.Popen[str]]
) -> None:
    folder = tmp_path / "deployment"
    deploy(folder)
    airmix = ("-c", "from airmixml.cli.main import main; main()")
    server = start_python(*airmix, "server", folder, "--with-broker", "--deadline", "60", "--json")
    assert server.stderr is not None
    assert "holds the signing keys of 8 workers" in server.stderr.readline()
    assert "announcing" in server.stderr.readline()
    workers: list[Any] = []
    for number, name in enumerate(Endpoint.read(folder / "server").names):
        data = write_rows(tmp_path / f"{name}.npz", range(number, number + 1))
        workers.append(start_python(*airmix, "worker", "--folder", folder, "--id", name, "--data", data))
    largest = 0
    for line in server.stderr:
        if "answering" in line:
            largest = max(high_water(each.pid) for each in workers)
    out, _ = server.communicate(timeout=LAST_RESORT)
    assert server.returncode == 0
    told = json.loads(out)
    assert [each["workers"] for each in told["rounds"]] == [list(range(WORKERS))]
    assert told["budget_spent"] == pytest.approx(1.0, abs=0.01)
    assert (folder / "server" / "model.npz").is_file()
    for each in workers:
        out, err = each.communicate(timeout=LAST_RESORT)
        assert (each.returncode, out, err) == (0, "", "")
    assert 0 < largest < 60e6
    assert sys.platform.startswith("linux")
