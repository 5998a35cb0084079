"""A transmission: all slots of a run, with blocks handed on as they come, or all mixtures gathered for training.

Rounds are slots whose payload follows from what the server has broadcast, one after the other: the same workers,
channel, power control, noise, masks, ledger. Only what is sent depends on the model that all workers were told, which
is public. Rounds follow the slots of a transmission, which gave moments; or all slots of a run are rounds
(``workers.sends = "gradients"``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Final, NamedTuple, Self

import numpy as np
import torch

from airmixml.arrays import as_tensor
from airmixml.data import DataSet
from airmixml.devices import find_device, physical_memory_bytes, using_threads
from airmixml.errors import ScenarioError
from airmixml.files import ResultStore
from airmixml.radio.air import air_of
from airmixml.radio.draws import AirSetting, check_family, draw_slots, slots_of_rounds
from airmixml.radio.mixtures import Air, AirReport, MixtureBlock, check_finite
from airmixml.radio.privacy_target import check_privacy_target
from airmixml.registries import PAYLOADS
from airmixml.scenario import RunContext, Scenario
from airmixml.streams import Secret, Streams
from airmixml.workers import Population, Signal, deploy, load_dataset
from airmixml.workers.loading import too_many_numbers
from airmixml.workers.payloads import Broadcast

if TYPE_CHECKING:
    from torch.utils.data import TensorDataset

_EXAMPLE_SLOTS = 8
_BYTES_PER_WORKER = 64
_DRAWN = ("first_slot", "drawn", "joules_per_watt")
_RECEIVED = [each.name for each in fields(MixtureBlock) if each.name not in _DRAWN]


class Round(NamedTuple):
    """What the server broadcast before a slot, and what it received: the mean clipped gradient in noise."""

    told: Broadcast
    gradient: torch.Tensor  # features x outputs
    deviation: float  # of the noise on each number


@dataclass(frozen=True, kw_only=True)
class Transmission:
    """What was sent over the air and what it cost."""

    scenario: Scenario
    dataset: DataSet  #: what the workers hold, as they send it
    population: Population  #: who holds which sample, and where
    report: AirReport  #: energy, power, SNR and privacy
    examples: MixtureBlock  #: the first few slots with all that went into them
    #: What noise and schedule were drawn from where data are protected, for the rounds that may follow.
    secret: Secret | None = field(default=None, repr=False, compare=False)
    #: What was broadcast and received in each round of gradients, once they are run.
    rounds: list[Round] = field(default_factory=list, repr=False, compare=False)


@dataclass(frozen=True, kw_only=True)
class Mixtures(Transmission):
    """What the edge server holds after the last slot, and what it cost."""

    inputs: torch.Tensor  #: received mixtures; slots x input symbols
    labels: torch.Tensor  #: received label mixtures; slots x label symbols

    def __len__(self) -> int:
        return len(self.inputs)

    def as_dataset(self) -> TensorDataset:
        """Return what was received, as pairs (input mixture, label mixture), for a training loop of your own.

        Labels are noisy shares, partly negative; it holds no sample of any worker.
        """
        from torch.utils.data import TensorDataset

        sends = self.scenario.workers.sends
        if PAYLOADS.load(sends).products:
            raise ScenarioError(
                f'workers.sends = "{sends}": must be "samples" for a training loop of your own, which needs pairs of '
                "an input and a label mixture; from moments a learner in closed form learns, such as ridge or lda"
            )
        return TensorDataset(self.inputs, self.labels)


def simulate_family(
    scenarios: Sequence[Scenario],
    *,
    dataset: DataSet | None = None,
    population: Population | None = None,
    context: RunContext | None = None,
) -> list[Mixtures]:
    """Simulate scenarios that differ only in power, privacy target and learner; all else is drawn once.

    Each gets the mixtures that it would get alone.
    """
    context = context or RunContext()
    air = open_air(scenarios, dataset, population, context)
    first, signal = scenarios[0], air.settings[0].signal
    _check_memory(first, signal, air.device, len(scenarios))
    widths = signal.input_symbols, signal.label_symbols
    kept = [[torch.empty((first.radio.slots, width), device=air.device) for width in widths] for _ in scenarios]

    def keep(number: int, block: MixtureBlock) -> None:
        here = slice(block.first_slot, block.first_slot + block.slots)
        for whole, part in zip(kept[number], (block.inputs, block.labels), strict=True):
            whole[here] = part

    sent = run_here(air, keep, context)
    return [
        Mixtures(**vars(each), inputs=inputs, labels=labels) for each, (inputs, labels) in zip(sent, kept, strict=True)
    ]


def open_air(
    scenarios: Sequence[Scenario], dataset: DataSet | None, population: Population | None, context: RunContext
) -> Air:
    """Return all that the slots of scenarios with equal draws need; refuse what cannot be run."""
    first, progress = scenarios[0], context.progress
    find_device(context.speed.device)
    for scenario in scenarios:
        check_privacy_target(scenario)
        if context.secret is not None:
            scenario.privacy.noise_kind.check_secret(scenario, context.secret)
    check_family(scenarios)
    streams = Streams(first.seed, context.secret)
    if dataset is None:
        dataset = load_dataset(
            first.workers, streams, data_dir=context.data_dir, progress=progress, device=context.speed.device
        )
    count, physical = first.workers.count, physical_memory_bytes()
    if count * _BYTES_PER_WORKER > physical:  # rather than be killed half-way
        raise ScenarioError(
            f"workers.count = {count}: needs more memory than the {physical / 1e9:.0f} GB of this machine; deploy "
            "fewer workers"
        )
    if population is None:
        population = deploy(first.workers, dataset, streams)
    elif population.count != count:
        raise ScenarioError(f"workers.count = {count}: must be the population's {population.count}")
    if first.workers.centre_on_air:
        from airmixml.radio.centring import centre_privately

        dataset = centre_privately(scenarios, dataset, population, streams)
    distance_metres = population.distance_metres
    settings = [AirSetting.of(each, dataset.input_dim, dataset.label_dim, distance_metres) for each in scenarios]
    settings = [replace(each, secret=context.secret) for each in settings]
    return Air(settings=settings, dataset=dataset, population=population, speed=context.speed)


def sent_over(air: Air, reports: Sequence[AirReport], examples: Sequence[MixtureBlock]) -> list[Transmission]:
    """Return what was sent, after the last slot."""
    if not reports[0].largest_power_watts:
        raise ScenarioError(air_of(reports[0].scenario).nobody_sent)
    reports[0].check_limit()
    return [
        Transmission(
            scenario=report.system.given,
            dataset=air.dataset,
            population=air.population,
            report=report,
            examples=example,
            secret=air.settings[0].secret,
        )
        for example, report in zip(examples, reports, strict=True)
    ]


def run_here(
    air: Air,
    receive: Callable[[int, MixtureBlock], None],
    context: RunContext,
) -> list[Transmission]:
    """Run all slots, and hand each block to ``receive`` with the number of its scenario, in order."""
    reports, examples = air.new_reports(), list[MixtureBlock]()
    progress = context.progress
    progress("over the air", 0, air.slots)
    for blocks in air.blocks():
        # More blocks are being made on other threads meanwhile.
        with using_threads(1 if blocks[0].slots < air.slots else air.speed.threads):
            for number, (block, report) in enumerate(zip(blocks, reports, strict=True)):
                receive(number, block)
                report.add(block)
                check_finite(report.scenario, block)
            examples = examples or [block.head(_EXAMPLE_SLOTS) for block in blocks]
        progress("over the air", blocks[0].first_slot + blocks[0].slots, air.slots)
    return sent_over(air, reports, examples)


def _check_memory(scenario: Scenario, signal: Signal, device: torch.device, members: int) -> None:
    """Refuse more mixtures than fit rather than be killed half-way."""
    # Twice: training shuffles a copy.
    needed = 2 * 4 * members * scenario.radio.slots * signal.symbols
    available = torch.cuda.mem_get_info(device)[1] if device.type == "cuda" else physical_memory_bytes()
    if needed / scenario.radio.slots > available:  # not even one slot fits
        raise too_many_numbers(scenario.workers, signal, needed, available)
    if needed > available:
        raise ScenarioError(
            f"radio.slots = {scenario.radio.slots}: the mixtures need {needed / 1e9:.0f} GB of memory and {device} has "
            f"{available / 1e9:.0f} GB; run fewer slots, or consume airmixml.simulate_blocks as a stream"
        )


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
        self._told: Broadcast
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
        self._told = told
        block = self.receive(self.slots[self.done])
        check_finite(self.report.scenario, block)
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
        slots, told, air = range(slot, slot + 1), self._told, self.air
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
