"""A scenario's workers and its server in one process, with an emulated air in another: a lab before the antennas.

Workers and server are those of a deployment, and ``carry`` takes their messages from hand to hand; frames go over
ZeroMQ to the air. The data are public, as those of any simulation: the hub hears every frame by itself, and one process
holds the keys of all workers.
"""

import math
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from airmixml.data import DataSet
from airmixml.deploy.air import Opening, SumOnAir, bind, connect, send
from airmixml.deploy.analog import check_emulated
from airmixml.deploy.attempts import Sum
from airmixml.deploy.children import end_child, is_ready, start_child
from airmixml.deploy.endpoint import DeployError
from airmixml.deploy.journal import Journal
from airmixml.deploy.learning import Teacher
from airmixml.deploy.local import carry
from airmixml.deploy.planned import TrialContract, planned_contract
from airmixml.deploy.server import Server, Tell
from airmixml.deploy.sigmf_files import Recording, read_recording, write_recording
from airmixml.deploy.spending import Spending
from airmixml.deploy.wire import SERVER, Message, Type, unpacked
from airmixml.deploy.worker import Device, Transcripts, vector_of
from airmixml.edge import TrainedModel, learn
from airmixml.errors import ProtocolError, ScenarioError
from airmixml.masks.keys import KEY_BYTES, verifying_key
from airmixml.progress import Progress, silent
from airmixml.scenario import RunContext, Scenario
from airmixml.scenario.air import SYMBOLS_PER_SECOND
from airmixml.streams import Streams
from airmixml.workers import Population, deploy, load_dataset

_WAIT_SECONDS: Final = 60.0
_START_SECONDS: Final = 60.0
_LOOK_MILLISECONDS: Final = 200


@dataclass(kw_only=True)
class RemoteAir:
    """An air in a process of its own; it is waited for when all that its slot waits for have sent."""

    process: subprocess.Popen[bytes]
    frames: Any  # sockets
    sums: Any
    heard: list[SumOnAir] = field(default_factory=list)
    seconds: float = 0.0
    _name: tuple[int, int] = (-1, 0)
    _awaited: set[int] | None = None  # until the sum is there
    _sent: set[int] = field(default_factory=set)

    def handle(self, content: bytes) -> list[Message]:
        """Hand a message to the air; return the sum if it was the last that was missing."""
        started, message = time.perf_counter(), unpacked(content)
        self._check(message.round)
        try:
            send(self.frames, message)
        except ProtocolError as problem:  # which ``carry`` would take for a refusal of the air
            self._check(message.round)
            raise DeployError(str(problem)) from None
        if message.sender == SERVER:
            name = message.round, message.attempt
            self._sent = self._sent if name == self._name else set()
            self._name, self._awaited = name, set(Opening.of(message.body).workers)
        else:
            self._sent.add(message.sender)
        found = []
        if self._awaited is not None and self._awaited <= self._sent:
            found, self._awaited = [self._next()], None
        self.seconds += time.perf_counter() - started
        return found

    def _next(self) -> Message:
        until = time.monotonic() + _WAIT_SECONDS
        while True:
            if self.sums.poll(_LOOK_MILLISECONDS):
                message = unpacked(self.sums.recv())
                if (message.round, message.attempt) == self._name:  # else an earlier one, which was asked for again
                    self.heard.append(SumOnAir.of(message.body))
                    return message
            else:
                self._check(self._name[0], until)

    def _check(self, slot: int, until: float = math.inf) -> None:
        if self.process.poll() is not None or time.monotonic() > until:
            raise DeployError(f"slot {slot}: the air ended, or gave no sum in time; start it again")


@dataclass(kw_only=True)
class Lab:
    """Workers, a server and an air; ``absent`` names workers that agree to a round and then never send."""

    contract: TrialContract
    devices: Mapping[int, Device]
    server_key: bytes
    air: RemoteAir
    absent: frozenset[int] = frozenset()
    seconds: dict[str, float] = field(default_factory=dict)

    def run(self, tell: Tell | None = None, progress: Progress = silent) -> list[Sum]:
        """Run all rounds and return their sums."""
        started, notes = time.perf_counter(), list[str]()
        server = Server(self.contract, self.server_key, Journal(None, self.contract.run), tell, notes.append)

        def network(content: bytes) -> list[bytes]:
            progress("over the air", len(server.sums), len(self.contract.schedule))
            message = unpacked(content)
            lost = message.sender in self.absent and message.type in (Type.FRAME, Type.SAMPLES)
            return [] if lost else [content]

        carry(server, self.devices, network, self.air)
        if server.failure:
            refusals = [each for each in notes if " refuses: " in each]
            raise ProtocolError("; ".join([*refusals[:1], server.failure]))
        self.seconds = {"frames": time.perf_counter() - started - self.air.seconds, "air": self.air.seconds}
        return server.sums


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A model that was trained through an air, beside that of a simulation of the same scenario."""

    trained: TrainedModel
    simulated: TrainedModel
    seconds: Mapping[str, float]


def try_out(
    scenario: Scenario,
    *,
    runtime: str = "adder",
    channel: Sequence[str] = (),
    record: Path | None = None,
    replay: Path | None = None,
    progress: Progress = silent,
) -> Trial:
    """Train a settled scenario's model through an emulated air in a process of its own, and in a simulation.

    ``channel`` are options of ``airmix air``; ``record`` and ``replay`` are SigMF recordings, a replay starts no air.
    """
    check_emulated(scenario, protects=False)
    started, streams = time.perf_counter(), Streams(scenario.seed)
    dataset = load_dataset(scenario.workers, streams)
    population = deploy(scenario.workers, dataset, streams)
    recorded = None if replay is None else read_recording(replay).sums
    with ExitStack() as held:
        if recorded is None:
            lab = held.enter_context(running_air(scenario, dataset, population, runtime, channel))
            teacher, running = Teacher(lab.contract, dataset), time.perf_counter()
            sums = lab.run(teacher.tell, progress)
        else:
            contract = planned_contract(scenario, dataset, population, {}, b"", b"")
            teacher, running = Teacher(contract, dataset), time.perf_counter()
            sums = replayed(contract, recorded)
        trained = teacher.learned(sums)
        seconds = {"start": running - started, "training": time.perf_counter() - running}
    if recorded is None:
        seconds |= lab.seconds
        if record is not None:
            about = f"{scenario.title}, seed {scenario.seed}: sums of an emulated air"
            write_recording(record, Recording(sums=lab.air.heard, sample_rate=SYMBOLS_PER_SECOND, description=about))
    context = RunContext(progress=progress)
    simulated = learn(scenario, dataset=dataset, population=population, context=context).trained
    return Trial(trained=trained, simulated=simulated, seconds=seconds)


def replayed(contract: TrialContract, recorded: Sequence[SumOnAir]) -> list[Sum]:
    """Return the sums of a recording, in order; masks, whose keys are gone, are in none of them."""
    if contract.plan.privacy.noise_kind.masked:
        raise ScenarioError(
            'privacy.noise = "masked": cannot be replayed: what masks leave in a sum is recovered while it is sent'
        )
    if len(recorded) < len(contract.schedule):
        raise ProtocolError(f"recording: has no sum of slot {len(recorded)}; record all slots of the scenario")
    return [
        Sum.of(number, place, total.present, contract.kinds[place].mean(total, number))
        for number, (place, total) in enumerate(zip(contract.schedule, recorded, strict=False))
    ]


@contextmanager
def running_air(
    scenario: Scenario, dataset: DataSet, population: Population, runtime: str, channel: Sequence[str] = ()
) -> Iterator[Lab]:
    """Start an air for the workers of a scenario; it ends with the block."""
    keys = {each: secrets.token_bytes(KEY_BYTES) for each in range(scenario.workers.count)}
    server_key, air_key = (secrets.token_bytes(KEY_BYTES) for _ in range(2))
    public = {each: verifying_key(key) for each, key in keys.items()}
    others = verifying_key(server_key), verifying_key(air_key)
    contract = planned_contract(scenario, dataset, population, public, *others)
    with ExitStack() as held:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="airmix-lab-")))
        (folder / "contract.json").write_bytes(contract.to_json())
        key_file = folder / "air.key"
        key_file.touch(mode=0o600)
        key_file.write_text(air_key.hex())
        sums, sums_at = bind("PULL", f"ipc://{folder}/sums")
        held.callback(sums.close)
        watts = scenario.privacy.noise_kind.drawn_watts(scenario)
        command: list[str | Path] = [sys.executable, "-m", "airmixml", "air", folder / "contract.json"]
        command += ["--key", key_file, "--sums", sums_at, "--listen", f"ipc://{folder}/frames", "--runtime", runtime]
        command += ["--inputs", str(scenario.radio.scheduled), "--noise-watts", repr(watts), *channel]
        log = folder / "log"
        with log.open("wb") as lines:
            child = start_child(command, log=lines)
        held.callback(end_child, child)
        if not is_ready(child, lambda: b"listening" in log.read_bytes(), _START_SECONDS):
            raise ProtocolError(f"the air does not start: {log.read_text(errors='replace').strip()[-500:]}")
        frames = connect("PUSH", f"ipc://{folder}/frames")
        held.callback(frames.close)
        transcripts, spending = Transcripts(contract), Spending(contract)
        vectors = [vector_of([each.payload for each in contract.kinds], row) for row in population.sample_index]
        devices = {
            each: Device(each, contract, key, vectors[each], spending, transcripts) for each, key in keys.items()
        }
        air = RemoteAir(process=child, frames=frames, sums=sums)
        yield Lab(contract=contract, devices=devices, server_key=server_key, air=air)
