"""A scenario's workers and its server on this machine, with an emulated air between them: a lab before the antennas.

Every frame is formed by one worker, signed, sent over ZeroMQ to an air in a process of its own, and added up there. The
data are public, as those of any simulation: the hub hears every frame by itself, and one process holds the keys of all
workers.
"""

import math
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from airmixml.data import DataSet
from airmixml.deploy.air import Opening, SumOnAir, as_bytes, bind, connect, frame_messages, send
from airmixml.deploy.analog import MaskedSlot, PlannedSlot, PlannedSums, ReplayedSums, check_emulated
from airmixml.deploy.children import end_child, start_child
from airmixml.deploy.contract import Contract, Member
from airmixml.deploy.sigmf_files import Recording, read_recording, write_recording
from airmixml.deploy.wire import AIR, SERVER, Message, Type, unpacked
from airmixml.edge import TrainedModel, learn, learn_from
from airmixml.errors import ProtocolError
from airmixml.masks.keys import KEY_BYTES, verifying_key
from airmixml.masks.recovery import RecoveringWorker
from airmixml.progress import Progress, silent
from airmixml.scenario import RunContext, Scenario
from airmixml.scenario.air import SYMBOLS_PER_SECOND
from airmixml.streams import Streams
from airmixml.workers import Population, deploy, load_dataset

_WAIT_SECONDS: Final = 60.0
_SILENT_SECONDS: Final = 0.05
_START_SECONDS: Final = 60.0
_LOOK_MILLISECONDS: Final = 200


@dataclass
class Lab(PlannedSums):
    """A source of sums: every slot goes over an emulated air.

    ``silent`` names workers that never send, as after a crash; ``heard`` keeps the sums, and ``seconds`` adds up what
    frames and the air take.
    """

    contract: Contract
    keys: Mapping[int, bytes]
    server_key: bytes
    air_key: bytes  # verifying
    process: subprocess.Popen[bytes]  # of the air
    frames: Any
    sums: Any
    silent: frozenset[int] = frozenset()
    heard: list[SumOnAir] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=lambda: {"frames": 0.0, "air": 0.0})

    def receive(self, slot: PlannedSlot) -> tuple[SumOnAir, Any]:
        """Have all workers send, and return what the air gives."""
        started, code, workers = time.perf_counter(), slot.code, sorted(slot.watts)
        masked = None
        if slot.rules is not None:
            keys = {each: self.keys[each] for each in workers}
            masked = MaskedSlot(keys, self.contract.run, slot.number, slot.rules)
        waits = _SILENT_SECONDS if self.silent else _WAIT_SECONDS
        opening = Opening(code.numbers, int(1000 * waits), tuple(workers)).packed()
        if not self.silent:
            self._send(slot.number, self._said(SERVER, self.server_key, Type.SAMPLES, opening))
        for each in sorted(slot.watts.keys() - self.silent):
            frame = code.samples(
                slot.payload.vectors(np.array([self.population.sample_index[each]]))[0],
                slot.watts[each],
                largest_watts=slot.largest_watts,
                seed=secrets.token_bytes(KEY_BYTES),
                slot=slot.number,
                masks=None if masked is None else _masks_of(masked.members[each], slot.number),
            )
            self._send(slot.number, frame_messages(as_bytes(frame), partial(self._said, each, self.keys[each]))[-1])
        if self.silent:  # after all frames, which wait for it: so nobody else is late
            self._send(slot.number, self._said(SERVER, self.server_key, Type.SAMPLES, opening))
        formed = time.perf_counter()
        total = self._next(slot.number)
        self.seconds["frames"] += formed - started
        self.seconds["air"] += time.perf_counter() - formed
        self.heard.append(total)
        return total, None if masked is None else masked.correction(set(total.present), code.numbers)

    def _said(self, sender: int, key: bytes, kind: Type, body: bytes) -> Message:
        return Message(kind, sender, self.contract.run, len(self.heard), 0, body).signed_with(key)

    def _send(self, slot: int, message: Message) -> None:
        try:
            send(self.frames, message)
        except ProtocolError:
            self._check_air(slot)
            raise

    def _check_air(self, slot: int, until: float = math.inf) -> None:
        if self.process.poll() is not None or time.monotonic() > until:
            raise ProtocolError(f"slot {slot}: the air ended, or gave no sum in time; start it again")

    def _next(self, slot: int) -> SumOnAir:
        until = time.monotonic() + 2.0 * _WAIT_SECONDS
        while not self.sums.poll(_LOOK_MILLISECONDS):
            self._check_air(slot, until)
        message = unpacked(self.sums.recv())
        if message.sender != AIR or message.round != len(self.heard) or not message.is_signed_by(self.air_key):
            raise ProtocolError(f"slot {slot}: what came is no sum of the air; start both again")
        return SumOnAir.of(message.body)


def _masks_of(worker: RecoveringWorker, slot: int) -> Callable[[int, int], Any]:
    return lambda first, count: worker.masks(slot, first, count)


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

    Args:
        scenario: what to send.
        runtime: what adds up.
        channel: options of ``airmix air`` besides.
        record: SigMF recording to write received sums to.
        replay: recording to take sums from; no air is started.
        progress: told how many slots are done.
    """
    check_emulated(scenario, protects=False)
    started, streams = time.perf_counter(), Streams(scenario.seed)
    dataset = load_dataset(scenario.workers, streams)
    population = deploy(scenario.workers, dataset, streams)
    recorded = None if replay is None else read_recording(replay).sums
    with ExitStack() as held:
        source: PlannedSums
        if recorded is None:
            source = held.enter_context(running_air(scenario, dataset, population, runtime, channel))
        else:
            source = ReplayedSums(scenario, dataset, population, recorded)
        running = time.perf_counter()
        trained = learn_from(scenario, dataset, source, progress=progress)
        seconds = {"start": running - started, "training": time.perf_counter() - running}
    if isinstance(source, Lab):
        seconds |= source.seconds
        if record is not None:
            about = f"{scenario.title}, seed {scenario.seed}: sums of an emulated air"
            write_recording(record, Recording(sums=source.heard, sample_rate=SYMBOLS_PER_SECOND, description=about))
    context = RunContext(progress=progress)
    simulated = learn(scenario, dataset=dataset, population=population, context=context).trained
    return Trial(trained=trained, simulated=simulated, seconds=seconds)


@contextmanager
def running_air(
    scenario: Scenario, dataset: DataSet, population: Population, runtime: str, channel: Sequence[str] = ()
) -> Iterator[Lab]:
    """Start an air for the workers of a scenario; it ends with the block."""
    keys = {each: secrets.token_bytes(KEY_BYTES) for each in range(scenario.workers.count)}
    server_key, air_key = (secrets.token_bytes(KEY_BYTES) for _ in range(2))
    contract = _contract(scenario, dataset, keys, server_key)
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
        until = time.monotonic() + _START_SECONDS
        while b"listening" not in log.read_bytes():
            if child.poll() is not None or time.monotonic() > until:
                raise ProtocolError(f"the air does not start: {log.read_text(errors='replace').strip()[-500:]}")
            time.sleep(0.02)
        frames = connect("PUSH", f"ipc://{folder}/frames")
        held.callback(frames.close)
        yield Lab(
            scenario=scenario,
            dataset=dataset,
            population=population,
            contract=contract,
            keys=keys,
            server_key=server_key,
            air_key=verifying_key(air_key),
            process=child,
            frames=frames,
            sums=sums,
        )


def _contract(scenario: Scenario, dataset: DataSet, keys: Mapping[int, bytes], server_key: bytes) -> Contract:
    """Return what names the run and its members; integers have no part in it."""
    return Contract(
        scenario=scenario.to_toml(),
        rows={},
        outputs=dataset.class_names,
        targets=None,
        kinds=(),
        rules=(),
        budget=0,
        epsilon=0.0,
        delta=0.0,
        carriers=0,
        most_rounds=scenario.slots_on_air,
        power_dbm=scenario.radio.max_power_dbm,
        server_key=verifying_key(server_key).hex(),
        members=tuple(Member(name=str(each), verifying_key=verifying_key(key).hex()) for each, key in keys.items()),
    )


def for_workers(scenario: Scenario, workers: int) -> Scenario:
    """Return the scenario with so many workers, all of whom send in every slot."""
    return replace(
        scenario,
        workers=replace(scenario.workers, count=workers),
        radio=replace(scenario.radio, scheduled=workers),
    )
