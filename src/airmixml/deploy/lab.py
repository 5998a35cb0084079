"""A scenario's workers, its server and an emulated air in one process: a lab before the antennas.

All of them are those of a deployment, and ``carry`` takes their messages from hand to hand. The data are public, as
those of any simulation: the hub hears every frame by itself, and one process holds the keys of all workers.

Received sums are recorded as SigMF, which GNU Radio, inspectrum and other radio tools read. A recording is two files:
NAME.sigmf-data has the samples, little-endian complex64 (cf32_le), NAME.sigmf-meta says in JSON what they are. Each
slot is one annotation that names the workers in its sum.
"""

import hashlib
import json
import secrets
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import torch

from airmixml.data import DataSet
from airmixml.deploy.air import Adder, EmulatedAir, MakeRuntime, SumOnAir, as_samples
from airmixml.deploy.air_link import running_air
from airmixml.deploy.attempts import Letter, Sum
from airmixml.deploy.baseband import AnalogKind
from airmixml.deploy.compiling import Owner, make_contract
from airmixml.deploy.contract import Contract
from airmixml.deploy.journal import Journal
from airmixml.deploy.learning import Teacher
from airmixml.deploy.server import Server, Tell
from airmixml.deploy.spending import Spending
from airmixml.deploy.wire import AIR, Message, Type, unpacked
from airmixml.deploy.worker import Device, Transcripts, vector_of
from airmixml.edge import TrainedModel, learn
from airmixml.errors import DataError, ProtocolError, ScenarioError
from airmixml.masks.keys import KEY_BYTES, verifying_key
from airmixml.progress import Progress, silent
from airmixml.radio.mixtures import make_sender
from airmixml.reading import read_regular
from airmixml.scenario import RunContext, Scenario
from airmixml.scenario.air import SYMBOLS_PER_SECOND
from airmixml.storage.files import write_bytes, write_text
from airmixml.streams import Streams
from airmixml.version import __version__
from airmixml.workers import Population, deploy, load_dataset

_CPU: Final = torch.device("cpu")
_DATATYPE: Final = "cf32_le"
_VERSION: Final = "1.2.0"
_PRESENT: Final = "airmixml:present"
_LARGEST_META: Final = 64 << 20

Carry = Callable[[bytes], list[bytes]]
"""What the network makes of a message: nothing, the same, several, others."""


def carry(
    server: Server,
    devices: Mapping[int, Device],
    network: Carry = lambda content: [content],
    air: EmulatedAir | None = None,
) -> int:
    """Carry letters until the run is over; return how many deadlines had to pass.

    A deadline passes when nothing is on its way. Before it passes once, everything is asked again.
    """
    letters, deadlines = deque(server.asking()), 0
    while not server.is_over:
        asked_again = False
        while True:
            while letters:
                answers = _answers(letters.popleft(), devices, network, air)
                letters.extend(server.handle(answers))
            if server.is_over or asked_again:
                break
            asked_again = True
            letters.extend(server.asking())
        if not server.is_over:
            deadlines += 1
            letters.extend(server.expire())
    for letter in letters:
        _answers(letter, devices, network, air)
    return deadlines


def _answers(letter: Letter, devices: Mapping[int, Device], network: Carry, air: EmulatedAir | None) -> list[Message]:
    found, on_air = list[Message](), list[bytes]()
    if letter.to == AIR:
        on_air = network(letter.message.packed())
    for identity in devices if letter.to is None else {letter.to}.intersection(devices):
        for arrived in network(letter.message.packed()):
            for answer in devices[identity].handle(unpacked(arrived)):
                sent = network(answer.packed())
                if answer.type is Type.SAMPLES:
                    on_air += sent
                else:
                    found += map(unpacked, sent)
    for each in on_air:
        with suppress(ProtocolError):  # what it refuses changes nothing
            assert air is not None
            found += [unpacked(heard) for total in air.handle(each) for heard in network(total.packed())]
    return found


class Lab:
    """Workers, a server and an air of a settled scenario, with new keys."""

    def __init__(self, scenario: Scenario, dataset: DataSet, population: Population) -> None:
        keys = {each: secrets.token_bytes(KEY_BYTES) for each in range(scenario.workers.count)}
        self._server_key, self._air_key = (secrets.token_bytes(KEY_BYTES) for _ in range(2))
        public = {str(each): verifying_key(key) for each, key in keys.items()}
        made = make_contract(scenario, dataset, public, verifying_key(self._server_key), Owner(public=True))
        if not made.on_air:
            raise ScenarioError('radio.link = "digital": needs no air; try it out with `airmix deploy up`')
        self.contract = contract = replace(made, air_key=verifying_key(self._air_key).hex())
        sent = [replace(scenario, workers=replace(scenario.workers, sends=each.sends)) for each in contract.kinds]
        self.payloads = [make_sender(each, dataset, _CPU, holdings=population.holdings) for each in sent]
        transcripts, spending = Transcripts(contract), Spending(contract)
        vectors = [vector_of(self.payloads, row) for row in population.sample_index]
        self._devices = {
            each: Device(each, contract, key, vectors[each], spending, transcripts) for each, key in keys.items()
        }
        self.heard: dict[int, SumOnAir] = {}  # by round

    def run(
        self,
        tell: Tell | None = None,
        make_runtime: MakeRuntime = Adder,
        network: Carry = lambda content: [content],
        progress: Progress = silent,
    ) -> list[Sum]:
        """Run all rounds and return their sums."""
        contract, notes = self.contract, list[str]()
        server = Server(contract, self._server_key, Journal(None, contract.run), tell, notes.append)

        def carried(content: bytes) -> list[bytes]:
            progress("over the air", len(server.sums), len(contract.schedule))
            message = unpacked(content)
            if message.sender == AIR:
                self.heard[message.round] = SumOnAir.of(message.body)
            return network(content)

        with running_air(contract, self._air_key, make_runtime) as air:
            carry(server, self._devices, carried, air)
        if server.failure:
            refusals = [each for each in notes if " refuses: " in each]
            raise ProtocolError("; ".join([*refusals[:1], server.failure]))
        return server.sums


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A model that was trained through an air, beside that of a simulation of the same scenario."""

    trained: TrainedModel
    simulated: TrainedModel
    seconds: Mapping[str, float]


def replayed(contract: Contract, recorded: Sequence[SumOnAir]) -> list[Sum]:
    """Return the sums of a recording, in order; refuse one of another scenario."""
    if len(recorded) < len(contract.schedule):
        raise ProtocolError(f"recording: has no sum of slot {len(recorded)}; record all slots of the scenario")
    sums = []
    for number, (place, total) in enumerate(zip(contract.schedule, recorded, strict=False)):
        kind, known = contract.kinds[place], contract.directory.keys() & set(total.present)
        of_members = known and len(known) == len(total.present)
        if not isinstance(kind, AnalogKind) or len(total.samples) != kind.numbers or not of_members:
            raise ProtocolError(
                f"recording: slot {number} has {len(total.samples)} samples of {len(total.present)} workers: must have "
                f"{kind.numbers}, of workers of the scenario; replay it with the scenario that was recorded"
            )
        sums.append(Sum(number, place, tuple(sorted(total.present)), *kind.mean(total)))
    return sums


def try_out(
    scenario: Scenario,
    *,
    make_runtime: MakeRuntime = Adder,
    record: Path | None = None,
    replay: Path | None = None,
    progress: Progress = silent,
) -> Trial:
    """Train a scenario's model through an emulated air, and simulate it.

    ``scenario`` is one of ``planned_for`` with public data; ``record`` is where to write a SigMF recording, and
    ``replay`` one to learn from instead of an air.
    """
    started, streams = time.perf_counter(), Streams(scenario.seed)
    dataset = load_dataset(scenario.workers, streams)
    population = deploy(scenario.workers, dataset, streams)
    lab = Lab(scenario, dataset, population)
    teacher, running = Teacher(lab.contract, dataset), time.perf_counter()
    if replay is None:
        sums = lab.run(teacher.tell, make_runtime, progress=progress)
    else:
        sums = replayed(lab.contract, read_recording(replay))
    trained = teacher.learned(sums)
    seconds = {"start": running - started, "training": time.perf_counter() - running}
    if record is not None:
        about = f"{scenario.title}, seed {scenario.seed}: sums of an emulated air"
        heard = [lab.heard[each] for each in sorted(lab.heard)]
        write_recording(record, heard, about)
    context = RunContext(progress=progress)
    simulated = learn(scenario, dataset=dataset, population=population, context=context).trained
    return Trial(trained=trained, simulated=simulated, seconds=seconds)


def paths_of(name: Path) -> tuple[Path, Path]:
    """Return the files of a recording, samples and metadata, whichever of the two or of neither is named."""
    base = name.with_suffix("") if name.suffix in (".sigmf-data", ".sigmf-meta", ".sigmf") else name
    return base.with_name(f"{base.name}.sigmf-data"), base.with_name(f"{base.name}.sigmf-meta")


def write_recording(name: Path, sums: Sequence[SumOnAir], description: str) -> tuple[Path, Path]:
    """Write both files and return their places; the metadata last, with a digest of the samples."""
    data_path, meta_path = paths_of(name)
    parts = [each.samples.astype("<c8") for each in sums]
    content = np.concatenate([np.zeros(0, dtype="<c8"), *parts]).tobytes()
    starts = np.cumsum([0, *map(len, parts)]).tolist()
    meta = {
        "global": {
            "core:datatype": _DATATYPE,
            "core:version": _VERSION,
            "core:sample_rate": SYMBOLS_PER_SECOND,
            "core:recorder": f"airmixml {__version__}",
            "core:description": description,
            "core:sha512": hashlib.sha512(content).hexdigest(),
            "core:extensions": [{"name": "airmixml", "version": "1.0.0", "optional": True}],
        },
        "captures": [{"core:sample_start": 0}],
        "annotations": [
            {
                "core:sample_start": start,
                "core:sample_count": len(each.samples),
                "core:label": f"slot {number}",
                _PRESENT: list(each.present),
            }
            for number, (start, each) in enumerate(zip(starts, sums, strict=False))
        ],
    }
    try:
        data_path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(data_path, content)
        write_text(meta_path, json.dumps(meta, indent=1) + "\n")
    except OSError as problem:
        raise DataError(f"{data_path}: cannot be written ({problem.strerror}); choose another place") from None
    return data_path, meta_path


def read_recording(name: Path) -> list[SumOnAir]:
    """Return the sums of consecutive slots; refuse a recording that is broken, or not of complex64, in one line."""
    data_path, meta_path = paths_of(name)
    try:
        told, content = read_regular(meta_path, _LARGEST_META), read_regular(data_path)
    except OSError as problem:
        raise DataError(f"{problem.filename}: cannot be read ({problem.strerror}); a recording has two files") from None
    try:
        meta = json.loads(told)
        about, _, annotations = meta["global"], meta["captures"], meta["annotations"]
        datatype, stated = about["core:datatype"], about.get("core:sha512")
        spans = [(int(each["core:sample_start"]), int(each["core:sample_count"])) for each in annotations]
        present = [tuple(int(one) for one in each.get(_PRESENT, ())) for each in annotations]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise DataError(f"{meta_path}: is no SigMF metadata (JSON with global, captures, annotations)") from None
    if datatype != _DATATYPE:
        raise DataError(f"{meta_path}: core:datatype = {datatype!r} must be {_DATATYPE!r}; convert the recording")
    try:
        samples = as_samples(content)
    except ProtocolError as problem:
        raise DataError(f"{data_path}: {problem}; record it again") from None
    if stated not in (None, hashlib.sha512(content).hexdigest()):
        raise DataError(f"{data_path}: is not what {meta_path.name} describes (core:sha512); record it again")
    for start, count in spans:
        if not 0 <= start <= start + count <= len(samples):
            raise DataError(
                f"{meta_path}: an annotation spans samples {start} to {start + count}, and there are {len(samples):,}"
            )
    return [SumOnAir(who, samples[start : start + count]) for who, (start, count) in zip(present, spans, strict=True)]
