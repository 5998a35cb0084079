"""A scenario's workers, its server and an emulated air in one process: a lab before the antennas.

All of them are those of a deployment, and ``carry`` takes their messages from hand to hand. The data are public, as
those of any simulation: the hub hears every frame by itself, and one process holds the keys of all workers.
"""

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import torch

from airmixml.data import DataSet
from airmixml.deploy.air import Adder, MakeRuntime, SumOnAir
from airmixml.deploy.air_link import running_air
from airmixml.deploy.attempts import Sum
from airmixml.deploy.baseband import AnalogKind
from airmixml.deploy.compiling import Owner, make_contract
from airmixml.deploy.contract import Contract
from airmixml.deploy.journal import Journal
from airmixml.deploy.learning import Teacher
from airmixml.deploy.server import Carry, Server, Tell, carry
from airmixml.deploy.sigmf_files import read_recording, write_recording
from airmixml.deploy.spending import Spending
from airmixml.deploy.wire import AIR, unpacked
from airmixml.deploy.worker import Device, Transcripts, vector_of
from airmixml.edge import TrainedModel, learn
from airmixml.errors import ProtocolError, ScenarioError
from airmixml.masks.keys import KEY_BYTES, verifying_key
from airmixml.progress import Progress, silent
from airmixml.radio.mixtures import make_sender
from airmixml.scenario import RunContext, Scenario
from airmixml.streams import Streams
from airmixml.workers import Population, deploy, load_dataset

_CPU: Final = torch.device("cpu")


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
