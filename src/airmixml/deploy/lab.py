"""A scenario's workers and its server on this machine, with an emulated air between them: a lab before the antennas.

Slots, shares and powers are those that a simulation of the same seed draws, so that both can be put side by side;
every frame is formed by one worker, signed, sent over ZeroMQ and added up by the air. The data are public, as those of
any simulation: the hub hears every frame by itself, and one process holds the keys of all workers.
"""

import math
import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from airmixml.data import DataSet
from airmixml.deploy.air import AIR, Opening, SumOnAir, as_bytes, bind, connect, send
from airmixml.deploy.baseband import Baseband
from airmixml.deploy.children import end_child, start_child
from airmixml.deploy.contract import Contract, Member
from airmixml.deploy.wire import SERVER, Message, Type, unpacked
from airmixml.edge import Received, TrainedModel, learn, learn_from
from airmixml.errors import ProtocolError, ScenarioError
from airmixml.masks.keys import KEY_BYTES, verifying_key
from airmixml.masks.recovery import RecoveringWorker
from airmixml.masks.recovery_server import RecoveryServer
from airmixml.masks.rounds import EitherOr, Round, round_name
from airmixml.masks.rules import Rules, choose_rules
from airmixml.progress import Progress, silent
from airmixml.radio.draws import AirSetting, draw_slots, slots_of_rounds
from airmixml.radio.senders import make_sender
from airmixml.scenario import RunContext, Scenario
from airmixml.streams import Streams
from airmixml.units import dbm_to_watts
from airmixml.workers import Population, deploy, load_dataset
from airmixml.workers.broadcasts import Broadcast
from airmixml.workers.payloads import Payload

NOBODY_PROTECTED: Final = (
    "public data in a lab: nobody is protected; the hub of an emulated air hears every frame by itself"
)
_WAIT_SECONDS: Final = 60.0
_SILENT_SECONDS: Final = 0.05
_START_SECONDS: Final = 60.0


def check_emulated(scenario: Scenario, *, protects: bool) -> None:
    """Refuse what an emulated air does not carry, and protection that it does not give."""
    privacy, radio = scenario.privacy, scenario.radio
    for key, value, must, fits in (
        ("radio.link", radio.link, '"analog"', radio.link == "analog"),
        ("privacy.arithmetic", privacy.arithmetic, '"real"', privacy.arithmetic == "real"),
        ("air.preset", scenario.air.preset, '"ideal"', scenario.air.is_ideal),
        ("radio.schedule", radio.schedule, '"fixed"', radio.schedule == "fixed"),
        ("workers.bits", scenario.workers.bits, "0", not scenario.workers.bits),
    ):
        if not fits:
            raise ScenarioError(f"{key} = {value}: must be {must} for complex baseband on an emulated air")
    if protects and not (privacy.noise_kind.brought and privacy.adversary == "everyone"):
        raise ScenarioError(
            f'privacy.noise = "{privacy.noise}" against "{privacy.adversary}": protects nobody on an emulated air, '
            'whose hub hears every frame by itself; use privacy.noise = "masked" or "workers" with privacy.adversary = '
            '"everyone"'
        )


def baseband_of(setting: AirSetting, payload: Payload) -> Baseband:
    """Return how the workers of a setting send; what a contract fixes."""
    scenario, masking = setting.scenario, setting.masking
    policy, limit_watts = scenario.mixing.power_policy, dbm_to_watts(scenario.radio.max_power_dbm)
    most_watts = limit_watts  # of a channel without loss
    if not policy.follows_channels:
        most_watts = min(most_watts, policy.largest_received_watts(scenario, setting.private_received_watts))
    own_watts = 0.0 if masking is None else masking.own_watts
    rules = rules_of(setting)
    masks = 0.0 if rules is None else rules.degree * rules.mask_deviation**2 + rules.self_deviation**2
    return Baseband(
        numbers=setting.signal.symbols,
        norm=payload.largest_norm,
        most_watts=most_watts,
        limit_watts=limit_watts,
        workers=scenario.radio.scheduled,
        own_watts=own_watts,
        mask_watts=masks,
        receiver_watts=scenario.privacy.noise_kind.drawn_watts(scenario),
    )


def rules_of(setting: AirSetting) -> Rules | None:
    """Return the rules of a round of Gaussian masks; None without masks."""
    masking, privacy, seats = setting.masking, setting.scenario.privacy, setting.scenario.radio.scheduled
    if masking is None or masking.graph is None:
        return None
    return choose_rules(
        masking.graph,
        colluders=min(privacy.colluders, seats - 1),
        absent=math.ceil(privacy.most_absent * seats),
        mask_deviation=math.sqrt(masking.pair_watts),
        self_deviation=math.sqrt(masking.self_watts),
    )


class MaskedSlot:
    """The workers of one slot, who have agreed on masks, and what is recovered of them afterwards."""

    def __init__(self, keys: Mapping[int, bytes], run: bytes, slot: int, rules: Rules) -> None:
        slots, directory = range(slot, slot + 1), {each: verifying_key(key) for each, key in keys.items()}
        for attempt in range(4):  # a graph that chance made too weak is drawn again
            members = {
                each: RecoveringWorker(
                    each, key, run, slots, rules, directory=directory, memory=EitherOr(), restarts=attempt
                )
                for each, key in keys.items()
            }
            announced = {each: member.announce() for each, member in members.items()}
            joined = Round(round_name(run, slots, attempt), rules, announced, directory)
            joined = joined.drawn({each: member.reveal(joined) for each, member in members.items()})
            try:
                parcels = {each: member.join(joined) for each, member in members.items()}
                break
            except ProtocolError:
                if attempt == 3:
                    raise
        for each, member in members.items():
            member.receive({other: parcels[other][each] for other in set(joined.graph[each])})
        self.members, self._joined, self._slot = members, joined, slot

    def correction(self, present: set[int], count: int) -> Any:
        """Return what the masks leave in the sum of those present."""
        absent = self.members.keys() - present
        signed = {each: self.members[each].agree(absent) for each in sorted(present)}
        server = RecoveryServer(self._joined, absent)
        for each in sorted(present):
            server.take(self.members[each].answer(signed))
        return server.correction(self._slot, 0, count)


@dataclass
class Lab:
    """A source of sums: every slot goes over an emulated air.

    ``silent`` names workers that never send, as after a crash; ``seconds`` adds up what frames and the air take.
    """

    scenario: Scenario
    dataset: DataSet
    population: Population
    contract: Contract
    keys: Mapping[int, bytes]
    server_key: bytes
    air_key: bytes  # verifying
    frames: Any
    sums: Any
    silent: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        self._opened = 0
        self.seconds = {"frames": 0.0, "air": 0.0}
        where = self.dataset.input_dim, self.dataset.label_dim, self.population.distance_metres
        made = {"slots": AirSetting.of(self.scenario, *where)}
        if self.scenario.learner.rounds:
            made["rounds"] = AirSetting.of_rounds(self.scenario, *where)
        self._kinds = {name: (setting, self._payload(setting)) for name, setting in made.items()}
        if self.scenario.workers.sends == "gradients":
            self._kinds["rounds"] = self._kinds["slots"]

    def _payload(self, setting: AirSetting) -> Payload:
        cpu = torch.device("cpu")
        return make_sender(setting.scenario, self.dataset, cpu, holdings=self.population.holdings)

    def slot(self, number: int) -> Received:
        """Run one slot."""
        return self._sent("slots", number)

    def round(self, number: int, told: Broadcast) -> Received:
        """Broadcast a model and run one slot of gradients."""
        follow = self.scenario.workers.sends != "gradients"
        self._kinds["rounds"][1].broadcast(told)
        return self._sent("rounds", slots_of_rounds(self.scenario)[number] if follow else number)

    def _sent(self, kind: str, slot: int) -> Received:
        setting, payload = self._kinds[kind]
        drawn = draw_slots(setting, range(slot, slot + 1)).numpy()
        shares, workers = drawn.ratios[0], drawn.scheduled_workers[0]
        watts = {
            int(each): float(drawn.power_scale_watts[0] * share**2)
            for each, share in zip(workers, shares, strict=True)
            if share > 0.0
        }
        largest, code = max(watts.values()), baseband_of(setting, payload)
        started = time.perf_counter()
        rules = rules_of(setting)
        masked = None if rules is None else self._masked(sorted(watts), slot, rules)
        # Where some are silent it comes after all frames, which wait for it: so nobody else is late.
        waits = _SILENT_SECONDS if self.silent else _WAIT_SECONDS
        opening = Opening(code.numbers, int(1000 * waits), tuple(sorted(watts))).packed()
        if not self.silent:
            self._send(SERVER, self.server_key, opening)
        for each in sorted(watts.keys() - self.silent):
            vector = payload.vectors(np.array([self.population.sample_index[each]]))[0]
            masks = None if masked is None else _masks_of(masked.members[each], slot)
            seed = secrets.token_bytes(KEY_BYTES)
            frame = code.samples(vector, watts[each], largest_watts=largest, seed=seed, slot=slot, masks=masks)
            self._send(each, self.keys[each], as_bytes(frame))
        if self.silent:
            self._send(SERVER, self.server_key, opening)
        formed = time.perf_counter()
        total = self._heard(slot)
        came = time.perf_counter()
        self.seconds["frames"] += formed - started
        self.seconds["air"] += came - formed
        correction = None if masked is None else masked.correction(set(total.present), code.numbers)
        mean = code.mean(total.samples, np.array([watts[each] for each in total.present]), largest, correction)
        self._opened += 1
        return Received(mean.vector, mean.noise_variance, mean.present)

    def _masked(self, workers: list[int], slot: int, rules: Rules) -> MaskedSlot:
        return MaskedSlot({each: self.keys[each] for each in workers}, self.contract.run, slot, rules)

    def _send(self, sender: int, key: bytes, body: bytes) -> None:
        send(self.frames, Message(Type.SAMPLES, sender, self.contract.run, self._opened, 0, body).signed_with(key))

    def _heard(self, slot: int) -> SumOnAir:
        if not self.sums.poll(int(2000 * _WAIT_SECONDS)):
            raise ProtocolError(f"slot {slot}: the air gave no sum; start it again")
        message = unpacked(self.sums.recv())
        if message.sender != AIR or message.round != self._opened or not message.is_signed_by(self.air_key):
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
    dataset: DataSet | None = None,
    progress: Progress = silent,
) -> Trial:
    """Train a settled scenario's model through an emulated air in a process of its own, and in a simulation."""
    check_emulated(scenario, protects=False)
    started = time.perf_counter()
    streams = Streams(scenario.seed)
    dataset = dataset or load_dataset(scenario.workers, streams)
    population = deploy(scenario.workers, dataset, streams)
    with running_air(scenario, dataset, population, runtime) as lab:
        running = time.perf_counter()
        trained = learn_from(scenario, dataset, lab, progress=progress)
        seconds = {"start": running - started, "training": time.perf_counter() - running, **lab.seconds}
    context = RunContext(progress=progress)
    simulated = learn(scenario, dataset=dataset, population=population, context=context).trained
    return Trial(trained=trained, simulated=simulated, seconds=seconds)


@contextmanager
def running_air(scenario: Scenario, dataset: DataSet, population: Population, runtime: str) -> Iterator[Lab]:
    """Start an air for the workers of a scenario; it ends with the block."""
    keys = {each: secrets.token_bytes(KEY_BYTES) for each in range(scenario.workers.count)}
    server_key, air_key = (secrets.token_bytes(KEY_BYTES) for _ in range(2))
    contract = _contract(scenario, dataset, keys, server_key)
    with ExitStack() as held:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="airmix-lab-")))
        (folder / "contract.json").write_bytes(contract.to_json())
        key_file = folder / "air.key"
        key_file.touch(mode=0o600)
        key_file.write_bytes(air_key)
        sums, sums_at = bind("PULL", f"ipc://{folder}/sums")
        held.callback(sums.close)
        watts = scenario.privacy.noise_kind.drawn_watts(scenario)
        command: list[str | Path] = [sys.executable, "-m", "airmixml", "air", folder / "contract.json"]
        command += ["--key", key_file, "--sums", sums_at, "--listen", f"ipc://{folder}/frames", "--runtime", runtime]
        command += ["--inputs", str(scenario.radio.scheduled), "--noise-watts", repr(watts)]
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
