"""What a scenario means for analog frames: samples, masks and powers of each slot, and means from received sums.

Slots, shares and powers are those that a simulation of the same seed draws, so that both can be put side by side.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import torch

from airmixml.arrays import dbm_to_watts
from airmixml.data import DataSet
from airmixml.deploy.air import SumOnAir
from airmixml.deploy.baseband import Baseband
from airmixml.deploy.contract import UNITS
from airmixml.deploy.kinds import AnalogKind
from airmixml.edge import Received
from airmixml.errors import ProtocolError, ScenarioError
from airmixml.masks.graph import MOST_ROUNDS
from airmixml.masks.keys import verifying_key
from airmixml.masks.recovery import RecoveringWorker
from airmixml.masks.recovery_server import RecoveryServer
from airmixml.masks.rounds import EitherOr, Round, round_name
from airmixml.masks.rules import Rules, choose_rules
from airmixml.radio.draws import AirSetting, draw_slots, slots_of_rounds
from airmixml.radio.senders import make_sender
from airmixml.radio.system import System
from airmixml.scenario import Scenario
from airmixml.streams import Streams
from airmixml.workers import Population, declared_bounds, deploy
from airmixml.workers.broadcasts import Broadcast
from airmixml.workers.payloads import Payload

_SOFTER: Final = 1e-9  # than the most that keeps the target, which rounding might exceed
_ROUNDING: Final = 1.0 + 1e-12
NOBODY_PROTECTED: Final = (
    "public data in a lab: nobody is protected; the hub of an emulated air hears every frame by itself"
)


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
            "whose hub hears every frame by itself; what a worker adds by itself would hold: use privacy.noise = "
            '"workers" (or "masked" in a trial) with privacy.adversary = "everyone"'
        )


def analog_kinds(scenario: Scenario, dataset: DataSet, releases: Sequence[int]) -> tuple[list[AnalogKind], list[float]]:
    """Return the kinds of frames of a scenario whose workers all send in every slot, and the gains of their channels.

    What a frame costs is what it tells a hub that hears it by itself: nothing but the worker's own noise is on it.
    """
    population = deploy(scenario.workers, dataset, Streams(scenario.seed))
    where = dataset.input_dim, dataset.label_dim, population.distance_metres
    settings = [(AirSetting.of(scenario, *where), range(1))]
    if scenario.learner.rounds:
        settings.append((AirSetting.of_rounds(scenario, *where), slots_of_rounds(scenario)[:1]))
    moves = System.of(scenario, dataset.input_dim, dataset.label_dim).sensitivity
    apart = moves.squared_move(scenario.privacy.adjacency, "none") / moves.removal
    kinds = []
    for (setting, slot), count in zip(settings, releases, strict=True):
        signal, workers = setting.signal, setting.scenario.workers
        norm = math.sqrt(signal.largest_squared_norm(declared_bounds(workers, dataset.input_dim)[0]))
        drawn = draw_slots(setting, slot).numpy()
        watts = float(drawn.power_scale_watts[0]) * float(drawn.ratios[0].min()) ** 2 * (1.0 - _SOFTER)
        own = 0.0 if setting.masking is None else setting.masking.own_watts
        kinds.append(
            AnalogKind(
                sends=workers.sends,
                numbers=signal.symbols,
                norm=norm,
                watts=watts,
                own_watts=own,
                receiver_watts=scenario.privacy.noise_kind.drawn_watts(setting.scenario),
                workers=scenario.radio.scheduled,
                cost=math.ceil(UNITS * apart * norm**2 * watts / own * _ROUNDING) if own else 0,
                releases=count,
            )
        )
    return kinds, [float(each) ** 2 for each in settings[0][0].worker_path_gain]


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
        for attempt in range(MOST_ROUNDS):  # a graph that chance made too weak is drawn again
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
                if attempt + 1 == MOST_ROUNDS:
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


class PlannedSlot(NamedTuple):
    """One slot before anything is sent."""

    number: int
    code: Baseband
    payload: Payload
    watts: Mapping[int, float]  # beta q^2 of each worker that sends
    rules: Rules | None  # of its masks

    @property
    def largest_watts(self) -> float:
        """That of the strongest."""
        return max(self.watts.values())


@dataclass
class PlannedSums:
    """A source of sums whose slots are planned as a simulation plans them; how they are sent is left to others."""

    scenario: Scenario
    dataset: DataSet
    population: Population

    def __post_init__(self) -> None:
        where = self.dataset.input_dim, self.dataset.label_dim, self.population.distance_metres
        made = {"slots": AirSetting.of(self.scenario, *where)}
        if self.scenario.learner.rounds:
            made["rounds"] = AirSetting.of_rounds(self.scenario, *where)
        self.kinds = {name: (setting, self._payload(setting)) for name, setting in made.items()}
        if self.scenario.workers.sends == "gradients":
            self.kinds["rounds"] = self.kinds["slots"]

    def _payload(self, setting: AirSetting) -> Payload:
        cpu = torch.device("cpu")
        return make_sender(setting.scenario, self.dataset, cpu, holdings=self.population.holdings)

    def slot(self, number: int) -> Received:
        """Run one slot."""
        return self._sent("slots", number)

    def round(self, number: int, told: Broadcast) -> Received:
        """Broadcast a model and run one slot of gradients."""
        follow = self.scenario.workers.sends != "gradients"
        self.kinds["rounds"][1].broadcast(told)
        return self._sent("rounds", slots_of_rounds(self.scenario)[number] if follow else number)

    def _sent(self, kind: str, number: int) -> Received:
        setting, payload = self.kinds[kind]
        drawn = draw_slots(setting, range(number, number + 1)).numpy()
        shares = zip(drawn.scheduled_workers[0], drawn.ratios[0], strict=True)
        beta = float(drawn.power_scale_watts[0])
        watts = {int(each): beta * float(share) ** 2 for each, share in shares if share > 0.0}
        slot = PlannedSlot(number, baseband_of(setting, payload), payload, watts, rules_of(setting))
        total, correction = self.receive(slot)
        strange = sorted(set(total.present) - watts.keys())
        if strange:
            raise ProtocolError(f"slot {number}: worker {strange[0]} is in the sum and was not asked")
        of_present = np.array([watts[each] for each in total.present])
        return Received(*slot.code.mean(total.samples, of_present, slot.largest_watts, correction))

    def receive(self, slot: PlannedSlot) -> tuple[SumOnAir, Any]:
        """Return the sum of a slot, and what masks have left in it; None without masks."""
        raise NotImplementedError


class ReplayedSums(PlannedSums):
    """Sums that were recorded, in order; masks, whose keys are gone, are in none of them."""

    def __init__(self, scenario: Scenario, dataset: DataSet, population: Population, sums: Sequence[SumOnAir]) -> None:
        super().__init__(scenario, dataset, population)
        if scenario.privacy.noise_kind.masked:
            raise ScenarioError(
                'privacy.noise = "masked": cannot be replayed: what masks leave in a sum is recovered while it is sent'
            )
        self._sums = iter(sums)

    def receive(self, slot: PlannedSlot) -> tuple[SumOnAir, Any]:
        """Return the next."""
        found = next(self._sums, None)
        if found is None:
            raise ProtocolError(f"recording: has no sum of slot {slot.number}; record all slots of the scenario")
        return found, None
