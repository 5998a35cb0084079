"""One endpoint of a deployment, as its folder describes it: its name, its keys, and where the broker is.

``airmix deploy init`` writes these folders (``credentials``). Workers are numbered from 0; without gateways each has a
connection of its own, else gateways stand for equal shares of them, in order.
"""

import json
import re
import sys
import time
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from airmixml.deploy.contract import Contract
from airmixml.deploy.wire import LARGEST_MESSAGE, Clock
from airmixml.files import from_plain, read_regular
from airmixml.masks.keys import verifying_key
from airmixml.messages import AirMixError, reason, shown

HOST: Final = "127.0.0.1"
SERVER_NAME: Final = "server"
AIR_NAME: Final = "air"
DESCRIPTION: Final = "endpoint.json"
CONTRACT: Final = "contract.json"
SIGNING_KEYS: Final = "signing.key"
OWN_KEY: Final = ".key"  # after the name of a worker, beside the folder of its endpoint
MOST_WORKERS: Final = 1_000_000
_LONGEST_FILE: Final = 1 << 28
_MOST_LINES: Final = 200
_LINES_SECONDS: Final = 60.0
ENDPOINTS: Final = ("devices", "gateways")
# Topics of the broker: airmix/RUN/up/NAME from an endpoint, airmix/RUN/down/NAME to it, airmix/RUN/all to each.
UP: Final = "up"
DOWN: Final = "down"
ALL: Final = "all"
LARGEST_PAYLOAD: Final = 4 + LARGEST_MESSAGE  # a batch of one
LEDGER: Final = "ledger"
COPY_AGAIN: Final = (
    f"copy that file again from what `airmix deploy init` wrote, and keep the file `{LEDGER}` that is there"
)


def run_topic(run: bytes) -> str:
    """Return what all topics of a run begin with."""
    return f"airmix/{run.hex()[:32]}"


class DeployError(AirMixError):
    """A part of a deployment is missing, cannot be reached or cannot be started."""


@dataclass(frozen=True)
class Endpoint:
    """What an endpoint knows about itself and its deployment."""

    name: str
    host: str
    port: int
    workers: int
    gateways: int = 0
    frames: str = ""  # where an emulated air listens for frames, and the server for sums of it
    sums: str = ""

    @property
    def worker_names(self) -> list[str]:
        return _numbered("worker", self.workers)

    @cached_property
    def names(self) -> list[str]:
        """Names of the endpoints that workers are behind, in order."""
        return _numbered("gateway", self.gateways) if self.gateways else self.worker_names

    def numbers(self, name: str) -> range:
        """Return which workers an endpoint stands for; refuse a name that none of the deployment has."""
        place, count = self._places.get(name), self.gateways or self.workers
        if place is None:
            raise DeployError(
                f"{shown(name)} is not part of the deployment, in which workers are behind {self.names[0]} to "
                f"{self.names[-1]}"
            )
        return range(self.workers * place // count, self.workers * (place + 1) // count)

    def standing_for(self, worker: int) -> str:
        """Return the name of the endpoint that a worker is behind."""
        return self.names[((worker + 1) * (self.gateways or self.workers) - 1) // self.workers]

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self.names)}

    def write(self, folder: Path) -> None:
        (folder / DESCRIPTION).write_text(json.dumps(asdict(self)) + "\n", encoding="utf-8")

    @staticmethod
    def read(folder: Path) -> "Endpoint":
        """Return what the folder of an endpoint says; refuse one that is incomplete."""
        path = folder / DESCRIPTION
        content = read_file(path)
        try:
            found: Endpoint = from_plain(Endpoint, json.loads(content))
            counts = 0 < found.port < 1 << 16, 0 < found.workers <= MOST_WORKERS, 0 <= found.gateways <= found.workers
            if not all(counts) or found.name not in {SERVER_NAME, AIR_NAME, *found.names}:
                raise ValueError(content)
        except ValueError:
            raise DeployError(f"{path}: is not the description of an endpoint; {COPY_AGAIN}") from None
        return found


def _numbered(kind: str, count: int) -> list[str]:
    width = len(str(count - 1))
    return [f"{kind}-{number:0{width}}" for number in range(count)]


def find_folder(place: Path, name: str) -> Path:
    """Return the folder of an endpoint: the place itself, or the one below it that has its name."""
    for folder in (place, *(place / kind / name for kind in ENDPOINTS)):
        if (folder / DESCRIPTION).is_file() and Endpoint.read(folder).name == name:
            return folder
    raise DeployError(
        f"--id {shown(name)}: {place} holds no endpoint of that name; give the folder that `airmix deploy init` wrote, "
        "or a copy of the endpoint's own, with --folder"
    )


def read_file(path: Path, advice: str = COPY_AGAIN) -> bytes:
    """Return the content of a file of an endpoint's folder, or say in one line which one is missing."""
    try:
        return read_regular(path, _LONGEST_FILE)
    except OSError as problem:
        raise DeployError(f"{path}: cannot be read ({reason(problem)}); {advice}") from None


def load_contract(folder: Path) -> Contract:
    """Return the contract of an endpoint's folder; refuse one of another deployment."""
    path, endpoint = folder / CONTRACT, Endpoint.read(folder)
    found = Contract.from_json(read_file(path), str(path))
    if len(found.members) != endpoint.workers:
        raise DeployError(
            f"{path}: has {len(found.members)} workers, and {DESCRIPTION} says {endpoint.workers}; {COPY_AGAIN}"
        )
    for key, name in ((found.server_key, SERVER_NAME), (found.air_key, AIR_NAME)):
        found.check_key(key, f"{path}: {name}")
    return found


def read_keys(path: Path, count: int, advice: str = COPY_AGAIN) -> list[bytes]:
    """Return so many keys of a file, each a line of 64 hexadecimal digits."""
    lines = read_file(path, advice).split()
    if len(lines) != count or not all(re.fullmatch(rb"[0-9a-f]{64}", line) for line in lines):
        raise DeployError(f"{path}: must hold {count} lines of 64 hexadecimal digits; {advice}")
    return [bytes.fromhex(line.decode()) for line in lines]


def signing_keys_of_workers(folder: Path, contract: Contract) -> dict[int, bytes]:
    """Return the key of each worker of an endpoint: those in its folder, or those that devices made, beside it."""
    endpoint = Endpoint.read(folder)
    numbers, names = endpoint.numbers(endpoint.name), endpoint.worker_names
    beside = folder.absolute().parent
    if (folder / SIGNING_KEYS).exists():
        keys = read_keys(folder / SIGNING_KEYS, len(numbers))
    else:
        advice = f"put the key that `airmix deploy key` made for this worker there, beside the folder {endpoint.name}"
        keys = [read_keys(beside / f"{names[each]}{OWN_KEY}", 1, advice)[0] for each in numbers]
    for number, key in zip(numbers, keys, strict=True):
        if verifying_key(key) != contract.directory[number]:
            raise DeployError(
                f"{names[number]}: its signing key is not the one of {folder / CONTRACT}; use the key whose public "
                "half was enrolled, or have the run set up again"
            )
    return dict(zip(numbers, keys, strict=True))


class Lines:
    """Writes what an endpoint notes to stderr: no more than 200 lines a minute, whatever strangers send."""

    def __init__(self, name: str, clock: Clock = time.monotonic) -> None:
        self._name, self._clock = name, clock
        self._since, self._written, self._left_out = clock(), 0, 0

    def __call__(self, line: str) -> None:
        """Write a line, or count it as left out."""
        if self._clock() - self._since > _LINES_SECONDS:
            if self._left_out:
                self._write(f"{self._left_out} more lines were left out")
            self._since, self._written, self._left_out = self._clock(), 0, 0
        if self._written < _MOST_LINES:
            self._written += 1
            self._write(line)
        else:
            self._left_out += 1

    def _write(self, line: str) -> None:
        sys.stderr.write(f"{self._name}: {' '.join(line.split())}\n")
        sys.stderr.flush()
