"""Rounds: slots whose payload follows from what the server has broadcast, one after the other.

They have the same workers, channel, power control, noise, masks and ledger. Only what is sent depends on the model that
all workers were told, which is public. Rounds follow the slots of a transmission, which gave moments; or all slots of a
run are rounds (``workers.sends = "gradients"``).
"""

import hashlib
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Final, Self

import numpy as np
import torch

from airmixml.arrays import as_tensor, using_threads
from airmixml.files import ResultStore
from airmixml.messages import ScenarioError
from airmixml.radio.draws import AirSetting, MixtureBlock, draw_slots, slots_of_rounds
from airmixml.radio.tally import AirReport
from airmixml.radio.transmission import Air, Round, Transmission, sent_over
from airmixml.scenario import RunContext
from airmixml.workers import Signal
from airmixml.workers.payloads import Broadcast

_DRAWN = ("first_slot", "drawn", "joules_per_watt")
_RECEIVED = [each.name for each in fields(MixtureBlock) if each.name not in _DRAWN]
_ALIKE: Final = 1e-6  # models that another number of threads rounds otherwise


def as_gradient(signal: Signal, symbols: torch.Tensor) -> torch.Tensor:
    """Return received symbols (last axis), one output after the other, as features x outputs in float64."""
    return symbols.double().reshape(*symbols.shape[:-1], signal.classes, signal.features).mT


class RoundsOnAir:
    """Runs rounds, has the report of the whole transmission count them, and keeps what was received.

    ``air`` has the setting of the rounds as its only one, ``slots`` are their numbers, and they may ``follow`` others.
    """

    def __init__(
        self,
        air: Air,
        report: AirReport,
        slots: Sequence[int],
        context: RunContext,
        kept: ResultStore | None,
        *,
        follow: bool = False,
    ) -> None:
        self.air, self.report, self._follow, self._progress = air, report, follow, context.progress
        (self.setting,) = air.settings
        self.payload = air.new_payload()
        self.slots, self.done = slots, 0
        self.examples: MixtureBlock | None = None
        self.rounds: list[Round] = []
        self.told: Broadcast
        self._kept = None if self.setting.signal.bits else kept  # rounding draws as it goes

    @classmethod
    def of(cls, sent: Transmission, context: RunContext, kept: ResultStore | None = None) -> Self:
        """Return the rounds that follow the slots of a transmission, or that are its slots.

        Those that were run already are not run again: what they received is given once more.
        """
        dataset, scenario, population = sent.dataset, sent.scenario, sent.population
        follow = scenario.workers.sends != "gradients"
        where = dataset.input_dim, dataset.label_dim, population.distance_metres
        settings = [replace(AirSetting.of(scenario, *where, in_rounds=follow), secret=sent.secret)]
        air = Air(settings=settings, dataset=dataset, population=population, speed=context.speed)
        slots = slots_of_rounds(scenario) if follow else range(air.slots)
        rounds = cls(air, sent.report, slots, context, kept, follow=follow)
        rounds.rounds = sent.rounds
        return rounds

    @classmethod
    def alone(cls, air: Air, context: RunContext, kept: ResultStore | None = None) -> Self:
        """Return rounds that are all slots of a run."""
        (report,) = air.new_reports()
        return cls(air, report, range(air.slots), context, kept)

    def __len__(self) -> int:
        return len(self.slots)

    def send(self, told: Broadcast) -> Round:
        """Broadcast the model, run one slot, and return what was received."""
        if self.done < len(self.rounds):  # under another model the noise of a round would be used twice
            found = self.rounds[self.done]
            alike = np.allclose(found.told.weights, told.weights, rtol=_ALIKE, atol=_ALIKE)
            if found.told.clip != told.clip or not alike:
                raise ScenarioError(
                    "the rounds of these slots were run under other models; simulate the scenario again"
                )
            self.done += 1
            return found
        self._progress("rounds", self.done, len(self))
        self.payload.broadcast(told)
        self.told = told
        block = self.receive(self.slots[self.done])
        self.last = block
        self.done += 1
        self._progress("rounds", self.done, len(self))
        gradient = as_gradient(self.setting.signal, block.inputs[0]) / self.payload.unit
        self.rounds.append(Round(told, gradient, float(block.noise_variance[0].sqrt()) / self.payload.unit))
        return self.rounds[-1]

    def receive(self, slot: int) -> MixtureBlock:
        """Run the slot of a round, or take what is kept of it under the same model, and have the report count it.

        What the seed decides is drawn again.
        """
        slots, told, air = range(slot, slot + 1), self.told, self.air
        numbers = told.weights.tobytes() + told.biases.tobytes()
        digest = hashlib.sha256(f"{told.clip} {told.link.name} ".encode() + numbers).hexdigest()
        name, values = f"block-{slot:06d}.npz", [slot, slot + 1, digest]
        kept = self._kept.load(name, lambda found, arrays: arrays if found == values else {}) if self._kept else {}
        if kept:
            block = MixtureBlock(
                first_slot=slot,
                drawn=draw_slots(self.setting, slots, air.device),
                joules_per_watt=self.setting.joules_per_watt,
                **{each: as_tensor(kept[each]).to(air.device) for each in _RECEIVED if each in kept},
            )
        else:
            with using_threads(air.speed.threads):
                block = air.receive(self.payload, slots)[0]
            if self._kept:
                found = {each: getattr(block, each) for each in _RECEIVED}
                arrays = {key: each.cpu().numpy() for key, each in found.items() if each is not None}
                self._kept.save(name, values, arrays)
        if self._follow:
            self.report.add_draws(block.drawn, of_rounds=True)
        else:
            self.report.add(block)
            self.examples = self.examples or block.head(1)
        return block

    def transmission(self) -> Transmission:
        """Return what was sent, of rounds that are all slots of a run."""
        assert self.examples is not None
        (sent,) = sent_over(self.air, [self.report], [self.examples])
        return replace(sent, rounds=self.rounds)
