"""The contract of a trial: frames whose schedule, shares and powers are those that a simulation of the seed draws.

Workers, server and air are those of a deployment (``Device``, ``Server``, ``EmulatedAir``); a deployment, whose frames
are all of one power and without masks on an air, has no such contract.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any, Final

import numpy as np
import torch

from airmixml.arrays import Doubles
from airmixml.data import Bounded, DataSet
from airmixml.deploy.air import SumOnAir
from airmixml.deploy.air_rounds import AttemptOnAir
from airmixml.deploy.analog import agreed_values, settings_of
from airmixml.deploy.attempts import Attempt, Letter, Phase
from airmixml.deploy.baseband import AnalogKind
from airmixml.deploy.contract import Contract, Member
from airmixml.deploy.frames import Mean
from airmixml.deploy.masked_rounds import MaskedAttempt
from airmixml.errors import ProtocolError
from airmixml.masks.rules import Rules, choose_rules
from airmixml.radio.draws import AirSetting, draw_slots
from airmixml.radio.senders import make_sender
from airmixml.scenario import Scenario
from airmixml.scenario.automatic import ScoreLink
from airmixml.workers import Population
from airmixml.workers.payloads import Payload

_CPU: Final = torch.device("cpu")


@dataclass(frozen=True, kw_only=True, eq=False)
class PlannedKind(AnalogKind):
    """Samples of a trial, whose powers differ by slot and worker."""

    setting: AirSetting
    payload: Payload  # what all workers send, before noise and masks
    first: int  # number of its first round
    slots: range  # its rounds as a simulation numbers them
    own_rules: Rules | None  # what workers insist on where frames have Gaussian masks

    def rules(self, agreed: Sequence[Rules]) -> list[Rules]:
        """Return the rules of its masks, of which a round has one size."""
        return [] if self.own_rules is None else [self.own_rules]

    @cached_property
    def _planned(self) -> dict[int, dict[int, float]]:
        return {}

    def planned(self, number: int) -> Mapping[int, float]:
        """Return beta q^2 of each worker that sends in a round."""
        if number not in self._planned:
            slot = self.slots[(number - self.first) % len(self.slots)]
            drawn = draw_slots(self.setting, range(slot, slot + 1)).numpy()
            shares = zip(drawn.scheduled_workers[0], drawn.ratios[0], strict=True)
            beta = float(drawn.power_scale_watts[0])
            self._planned[number] = {int(each): beta * float(share) ** 2 for each, share in shares if share > 0.0}
        return self._planned[number]

    def received_watts(self, slot: int, workers: Sequence[int]) -> Doubles:
        """Return what these workers are received with in a round."""
        planned = self.planned(slot)
        strange = sorted(set(workers) - planned.keys())
        if strange:
            raise ProtocolError(f"slot {slot}: worker {strange[0]} is in the sum and was not asked")
        return np.array([planned[each] for each in workers])

    def largest_watts(self, slot: int) -> float:
        """Return what the strongest worker of a round is received with."""
        return max(self.planned(slot).values())

    def check_power(self, power_dbm: float, gain: float) -> None:
        """Refuse nothing yet: powers differ, and ``Baseband.samples`` checks that of the frame."""

    @property
    def rounds(self) -> str:  # type: ignore[override]
        """The server's side of a round."""
        return f"{__name__}:{'PlannedOnAir' if self.own_rules is None else 'MaskedOnAir'}"


class PlannedOnAir(AttemptOnAir):
    """An attempt at a round of those who are scheduled."""

    kind: PlannedKind

    def __init__(self, kind: PlannedKind, run: Any, number: int, attempt: int, place: int, expected: set[int]) -> None:
        super().__init__(kind, run, number, attempt, place, expected & kind.planned(number).keys())


class MaskedOnAir(PlannedOnAir, MaskedAttempt):
    """The same with masks: agreed on and removed as those of integers, while an air adds up."""

    kind: PlannedKind  # type: ignore[assignment]
    first_phase = Phase.ANNOUNCING
    total: SumOnAir

    def start(self, order: bytes) -> None:
        """Give the order, which has workers agree on masks first."""
        Attempt.start(self, order)

    def send(self, letters: list[Letter]) -> None:
        """Open the slot, and have workers send."""
        self.expected = set(self.round.graph)
        self.begin_slot(letters)

    def summed(self, total: SumOnAir) -> None:
        """Have those who are in the sum sign who is not."""
        self.total, self.frames = total, dict.fromkeys(total.present, b"")
        self.name_absent()

    def mean(self) -> Mean:
        """Return the mean over those in the sum, without their masks."""
        return self.kind.mean(self.total, self.number, self.recovery.correction(self.number, 0, self.kind.numbers))


class TrialContract(Contract):
    """What names a trial's run and its members; it is never sent or stored."""

    kinds: tuple[PlannedKind, ...]

    @property
    def fewest(self) -> int:
        """A trial takes any sum."""
        return 1

    @property
    def score_link(self) -> ScoreLink:
        """What scores of a model stand for."""
        return self.plan.score_link

    @cached_property
    def run(self) -> bytes:
        """The name of the run: keys are those of one trial alone."""
        return sha256(self.server_key.encode()).digest()


def planned_contract(
    scenario: Scenario,
    dataset: DataSet,
    population: Population,
    keys: Mapping[int, bytes],
    server_key: bytes,
    air_key: bytes,
) -> TrialContract:
    """Return the contract of a trial of workers, a server and an air with these verifying keys."""
    code = dataset.label_code
    return TrialContract(
        scenario=scenario.to_toml(),
        rows={},
        outputs=dataset.class_names,
        targets=(code.lower, code.upper) if isinstance(code, Bounded) else None,
        kinds=tuple(_kinds(scenario, dataset, population)),
        rules=(),
        budget=0,
        epsilon=0.0,
        delta=0.0,
        carriers=0,
        most_rounds=scenario.slots_on_air,
        power_dbm=scenario.radio.max_power_dbm,
        members=tuple(Member(name=str(each), verifying_key=key.hex()) for each, key in keys.items()),
        server_key=server_key.hex(),
        air_key=air_key.hex(),
    )


def _kinds(scenario: Scenario, dataset: DataSet, population: Population) -> Iterator[PlannedKind]:
    policy, first = scenario.mixing.power_policy, 0
    for setting, slots in settings_of(scenario, dataset, population):
        payload = make_sender(setting.scenario, dataset, _CPU, holdings=population.holdings)
        values, rules = agreed_values(setting), _rules(setting)
        watts = values["limit_watts"]  # of a channel without loss
        if not policy.follows_channels:
            watts = min(watts, policy.largest_received_watts(setting.scenario, setting.private_received_watts))
        masks = 0.0 if rules is None else rules.degree * rules.mask_deviation**2 + rules.self_deviation**2
        yield PlannedKind(
            norm=payload.largest_norm,
            watts=watts,
            mask_watts=masks,
            cost=0,
            releases=len(slots),
            setting=setting,
            payload=payload,
            first=first,
            slots=slots,
            own_rules=rules,
            **values,
        )
        first += len(slots)


def _rules(setting: AirSetting) -> Rules | None:
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
