"""A scenario's workers, its server and an emulated air in one process: a lab before the antennas.

All of them are those of a deployment, and ``carry`` takes their messages from hand to hand. The data are public, as
those of any simulation: the hub hears every frame by itself, and one process holds the keys of all workers.
"""

import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from airmixml.data import DataSet
from airmixml.deploy.air import EmulatedAir, MakeRuntime, SumOnAir, adder
from airmixml.deploy.analog import check_emulated
from airmixml.deploy.attempts import Sum
from airmixml.deploy.journal import Journal
from airmixml.deploy.learning import Teacher
from airmixml.deploy.local import Carry, carry
from airmixml.deploy.planned import TrialContract, planned_contract
from airmixml.deploy.server import Server, Tell
from airmixml.deploy.sigmf_files import Recording, read_recording, write_recording
from airmixml.deploy.spending import Spending
from airmixml.deploy.wire import AIR, unpacked
from airmixml.deploy.worker import Device, Transcripts, vector_of
from airmixml.edge import TrainedModel, learn
from airmixml.errors import ProtocolError, ScenarioError
from airmixml.masks.keys import KEY_BYTES, verifying_key
from airmixml.progress import Progress, silent
from airmixml.scenario import RunContext, Scenario
from airmixml.scenario.air import SYMBOLS_PER_SECOND
from airmixml.streams import Streams
from airmixml.workers import Population, deploy, load_dataset


class Lab:
    """Workers, a server and an air, with new keys."""

    def __init__(self, scenario: Scenario, dataset: DataSet, population: Population) -> None:
        keys = {each: secrets.token_bytes(KEY_BYTES) for each in range(scenario.workers.count)}
        self._server_key, self._air_key = (secrets.token_bytes(KEY_BYTES) for _ in range(2))
        public = {each: verifying_key(key) for each, key in keys.items()}
        own = verifying_key(self._server_key), verifying_key(self._air_key)
        self.contract = planned_contract(scenario, dataset, population, public, *own)
        transcripts, spending = Transcripts(self.contract), Spending(self.contract)
        vectors = [vector_of([each.payload for each in self.contract.kinds], row) for row in population.sample_index]
        self._devices = {
            each: Device(each, self.contract, key, vectors[each], spending, transcripts) for each, key in keys.items()
        }
        self.heard: dict[int, SumOnAir] = {}  # by round

    def run(
        self,
        tell: Tell | None = None,
        make_runtime: MakeRuntime = adder,
        network: Carry = lambda content: [content],
        progress: Progress = silent,
    ) -> list[Sum]:
        """Run all rounds and return their sums."""
        contract, notes, scenario = self.contract, list[str](), self.contract.plan
        server = Server(contract, self._server_key, Journal(None, contract.run), tell, notes.append)
        watts = scenario.privacy.noise_kind.drawn_watts(scenario)

        def carried(content: bytes) -> list[bytes]:
            progress("over the air", len(server.sums), len(contract.schedule))
            message = unpacked(content)
            if message.sender == AIR:
                self.heard[message.round] = SumOnAir.of(message.body)
            return network(content)

        with closing(make_runtime(scenario.radio.scheduled, watts)) as runtime:
            server_key = verifying_key(self._server_key)
            air = EmulatedAir(contract.run, contract.directory, server_key, self._air_key, runtime)
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


def try_out(
    scenario: Scenario,
    *,
    make_runtime: MakeRuntime = adder,
    record: Path | None = None,
    replay: Path | None = None,
    progress: Progress = silent,
) -> Trial:
    """Train a settled scenario's model through an emulated air, or from a SigMF recording of one; and simulate it."""
    check_emulated(scenario, protects=False)
    started, streams = time.perf_counter(), Streams(scenario.seed)
    dataset = load_dataset(scenario.workers, streams)
    population = deploy(scenario.workers, dataset, streams)
    recorded = None if replay is None else read_recording(replay).sums
    lab = Lab(scenario, dataset, population)
    teacher, running = Teacher(lab.contract, dataset), time.perf_counter()
    if recorded is None:
        sums = lab.run(teacher.tell, make_runtime, progress=progress)
    else:
        sums = replayed(lab.contract, recorded)
    trained = teacher.learned(sums)
    seconds = {"start": running - started, "training": time.perf_counter() - running}
    if record is not None and recorded is None:
        about = f"{scenario.title}, seed {scenario.seed}: sums of an emulated air"
        heard = [lab.heard[each] for each in sorted(lab.heard)]
        write_recording(record, Recording(sums=heard, sample_rate=SYMBOLS_PER_SECOND, description=about))
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
    sums = []
    for number, (place, total) in enumerate(zip(contract.schedule, recorded, strict=False)):
        kind = contract.kinds[place]
        if len(total.samples) != kind.numbers or not total.present:
            raise ProtocolError(
                f"recording: slot {number} has {len(total.samples)} samples of {len(total.present)} workers; must have "
                f"a worker and {kind.numbers} samples"
            )
        sums.append(Sum.of(number, place, total.present, kind.mean(total, number)))
    return sums
