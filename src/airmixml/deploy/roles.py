"""A worker, a gateway and a server from their folders: what the commands start."""

import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from airmixml.deploy.contract import Contract
from airmixml.deploy.endpoint import (
    CONTRACT,
    SERVER_NAME,
    DeployError,
    Endpoint,
    find_folder,
    read_file,
    read_signing_keys,
)
from airmixml.deploy.mqtt import MqttTransport
from airmixml.deploy.processes import Timing, Workers, drive_server, drive_workers, run_over
from airmixml.deploy.server import Server, Tell
from airmixml.deploy.spending import Spending
from airmixml.deploy.transport import Log
from airmixml.deploy.worker import Device, Transcripts, Vector
from airmixml.hiding import hide_values
from airmixml.workers.broadcasts import Broadcast

LEDGER: Final = "ledger"
JOURNAL: Final = "journal"
_MOST_LINES: Final = 200
_LINES_SECONDS: Final = 60.0


class Lines:
    """Writes what an endpoint notes to stderr: no more than 200 lines a minute, whatever strangers send."""

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._name, self._clock = name, clock
        self._since, self._written, self._left_out = clock(), 0, 0

    def __call__(self, line: str) -> None:
        """Write a line, or count it as left out."""
        if self._clock() - self._since > _LINES_SECONDS:
            if self._left_out:
                sys.stderr.write(f"{self._name}: {self._left_out} more lines were left out\n")
            self._since, self._written, self._left_out = self._clock(), 0, 0
        if self._written < _MOST_LINES:
            self._written += 1
            sys.stderr.write(f"{self._name}: {' '.join(line.split())}\n")
            sys.stderr.flush()
        else:
            self._left_out += 1


def load_contract(folder: Path) -> Contract:
    """Return the contract of an endpoint's folder."""
    return Contract.from_json(read_file(folder / CONTRACT), str(folder / CONTRACT))


def vectors(contract: Contract, data: Path, workers: int) -> Callable[[int], Vector]:
    """Return what gives the vectors of each of so many workers that hold the rows of a file; they are read at once."""
    payloads = [contract.payload(kind, data, workers) for kind in range(len(contract.kinds))]

    def of(place: int) -> Vector:
        def vector(kind: int, told: Broadcast | None) -> NDArray[np.floating]:
            if told is not None:
                payloads[kind].broadcast(told)
            return payloads[kind].vectors(np.array([place]))[0]

        return vector

    return of


def open_workers(folder: Path, data: Path, log: Log, *, show_values: bool = False) -> Workers:
    """Return the workers of an endpoint's folder with the rows of a file, and their ledger in that folder."""
    endpoint, contract = Endpoint.read(folder), load_contract(folder)
    numbers = endpoint.numbers(endpoint.name)
    if len(contract.members) != endpoint.workers:
        raise DeployError(f"{folder / CONTRACT}: has {len(contract.members)} workers, the endpoint {endpoint.workers}")
    keys = read_signing_keys(folder, len(numbers))
    vector = hide_values(
        lambda: vectors(contract, data, len(numbers)), "the owner sees them with --show-values", hide=not show_values
    )
    spending, transcripts = Spending(contract, folder / LEDGER), Transcripts(contract)
    devices = [
        Device(number, contract, key, vector(place), spending, transcripts)
        for place, (number, key) in enumerate(zip(numbers, keys, strict=True))
    ]
    return Workers(devices, spending, log)


def run_workers(place: Path, name: str, data: Path, patience: float, *, show_values: bool = False) -> None:
    """Be a worker, or a gateway with its workers, until the run is over."""
    if not patience > 0.0:
        raise DeployError(f"--patience = {patience:g}: must be above 0 seconds")
    folder, log = find_folder(place, name), Lines(name)
    workers = open_workers(folder, data, log, show_values=show_values)
    with closing(MqttTransport(Endpoint.read(folder), folder, load_contract(folder).run, log)) as transport:
        drive_workers(workers, transport, log, patience)


def open_server(folder: Path, log: Log, tell: Tell | None = None) -> Server:
    """Return the server of a deployment's folder, as far as its log says that it was."""
    from airmixml.deploy.journal import Journal

    own = folder / SERVER_NAME
    contract = load_contract(own)
    (key,) = read_signing_keys(own, 1)
    return Server(contract, key, Journal(own / JOURNAL, contract.run), tell, log)


def run_server(
    folder: Path,
    server: Server,
    log: Log,
    timing: Timing,
    watch: Callable[[Server], None] = lambda server: None,
) -> None:
    """Run the rounds of a server over the broker of its deployment, and tell workers when they are over."""
    own = folder / SERVER_NAME
    (key,) = read_signing_keys(own, 1)
    with closing(MqttTransport(Endpoint.read(own), own, server.contract.run, log)) as transport:
        drive_server(server, transport, log, timing, watch)
        transport.send(run_over(server.contract.run, key).packed())
