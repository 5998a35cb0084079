"""Runs with rounds: each model that is broadcast follows from all that was received before (adaptive composition).

In a trial the slots of moments are received in noise of their own, the server solves its first model from them, and
steps from round to round by the code of every run (``edge.rounds``). The canary is in all slots or in none. The
adversary knows the models, hence what the canary would send in each round and what all others sent, and adds up the
log-likelihood ratios of all slots. All others hold the canary's input with a label that contradicts its own (for
replace-one, half of them with each of both labels): so the canary's gradient is clipped in every round.

The noise in the rounds of a real run is measured as that in its other slots is (``noise_check``).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch

from airmixml.arrays import Doubles
from airmixml.audit.canaries import faulty_sender, has_rounds, worst_samples
from airmixml.audit.faults import Fault
from airmixml.audit.noise_check import NoiseCheck, NoiseMeter, heard, runs_needed, seeds_of, stated_noise_watts
from airmixml.audit.trials import Bench, SlotKind, Trials, noise_source, seats_of_worker
from airmixml.data import DataSet
from airmixml.edge.closed_form import ReceivedMoments, solve
from airmixml.edge.rounds import Solution, run_rounds
from airmixml.edge.training import CollectedMoments, collector_for, solve_collected
from airmixml.output.numbers import plural
from airmixml.progress import silent
from airmixml.radio.draws import AirSetting, SlotTensors
from airmixml.radio.mixtures import AirReport, MixtureBlock, as_block
from airmixml.radio.reception import Reception, receive_mixtures
from airmixml.radio.rounds import RoundsOnAir
from airmixml.radio.shards import Air
from airmixml.radio.transmission import gather_family, open_air
from airmixml.scenario import RunContext, Scenario, Speed
from airmixml.workers import Population
from airmixml.workers.payloads import Payload

ONE_MODEL: Final = "; one model is broadcast in all rounds"
"""How trials were made in which models do not follow from what was received."""
_CHAPTER: Final = 1 << 36  # behind those of all other attacks
_RUNS_PER_BLOCK: Final = 128
# A run of more numbers than that takes too long: its rounds are received under one model.
_MOST_NUMBERS_PER_RUN: Final = 1 << 14
_NOISE: Final = "the noise of rounds"
_BOTH: Final = torch.arange(2)[None]
_NOT_ASKED: Final = torch.zeros((2, 1), dtype=torch.float64)


def runs_adapt(bench: Bench) -> bool:
    """Whether trials are runs in which each model follows from what was received: on the ideal air, unless large.

    Integers of many workers are not rounded in every trial.
    """
    scenario = bench.air.scenario
    if bench.air.integers is not None:
        return False
    numbers = sum(len(kind.slots) * kind.air.signal.symbols for kind in bench.kinds)
    return has_rounds(scenario) and scenario.air.is_ideal and numbers <= _MOST_NUMBERS_PER_RUN


def adaptive_trials(bench: Bench, worker: int, shift: float) -> Trials:
    """Return scores of runs with the canary and without, each with noise of its own."""
    scenario = bench.air.scenario
    *moments, rounds = (_Slots.of(bench, kind, worker) for kind in bench.kinds)
    scored = _Runs(scenario=scenario, classes=bench.classes, fault=bench.fault, moments=moments, rounds=rounds)
    followed = "each model that is broadcast follows from what was received before"
    how = f"{plural(sum(len(kind.slots) for kind in bench.kinds), 'slot')}, all received in every trial; {followed}"
    per_block = min(_RUNS_PER_BLOCK, bench.trials)
    return bench.run("rounds, schedule known", per_block, scored, how=how, normal=True, shift=shift)


def follow_rounds(scenario: Scenario) -> bool:
    """Whether rounds follow other slots."""
    return scenario.workers.sends != "gradients" and has_rounds(scenario)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Slots:
    """Slots of one kind, as the worker and all others together send in them.

    Sample 0 is the canary, sample 1 has its input and another label.
    """

    air: AirSetting
    drawn: list[SlotTensors]
    power_scale_watts: torch.Tensor  # shape slots
    shares: torch.Tensor  # with which each sample arrives in each world; worlds x slots x samples

    @classmethod
    def of(cls, bench: Bench, kind: SlotKind, worker: int) -> "_Slots":
        """Draw them as a run of the scenario's seed does."""
        removed, drawn, shares, beta = bench.adjacency == "remove-one", [], list[Doubles](), list[Doubles]()
        for block, draws, slot, seat in seats_of_worker(kind, worker, block_slots=1):
            own = np.zeros(len(draws))
            own[slot] = draws.ratios[slot, seat]
            others = draws.ratios.sum(axis=1) - own
            crowd = np.outer(others, (0.0, 1.0) if removed else (0.5, 0.5))
            without = np.outer(own, (0.0, 0.0 if removed else 1.0))
            shares.append(np.stack([crowd + np.outer(own, (1.0, 0.0)), crowd + without]))
            drawn.append(block)
            beta.append(draws.power_scale_watts)
        return cls(
            air=kind.air,
            drawn=drawn,
            power_scale_watts=torch.from_numpy(np.concatenate(beta)),
            shares=torch.from_numpy(np.concatenate(shares, axis=1)),
        )

    def sent(self, sender: Payload, world: int, some: slice = slice(None)) -> torch.Tensor:
        """Return what arrives in some slots in one of both worlds, before noise; slots x symbols."""
        shares = self.shares[world, some]
        return sender.weighted_sum(_BOTH.expand(len(shares), -1), shares).double()

    def expected(self, sender: Payload, some: slice = slice(None)) -> torch.Tensor:
        """Return what the adversary expects in both worlds; worlds x slots x symbols.

        It follows from what each worker sends. The code of every run forms the sums in another way.
        """
        return self.shares[:, some] @ torch.from_numpy(sender.vectors(_BOTH.numpy()[0])).double()


@dataclass(frozen=True, kw_only=True, eq=False)
class _Runs:
    """Scores runs of the schedule of the scenario's seed."""

    scenario: Scenario
    classes: int
    fault: Fault
    moments: list[_Slots]  # one, or none where all slots are rounds
    rounds: _Slots

    def __call__(self, block: int, size: int) -> Doubles:
        """Return the scores of a block of runs, with the canary and without; 2 x size."""
        on_air = _ScoredRounds(self, noise_source(self.scenario.seed, _CHAPTER + block))
        return np.array([[on_air.run(world) for _ in range(size)] for world in range(2)])


class _ScoredRounds(RoundsOnAir):
    """Runs trials, one after the other, and adds up the score of each."""

    def __init__(self, runs: _Runs, source: torch.Generator) -> None:
        scenario, rounds = runs.scenario, runs.rounds
        samples = worst_samples(scenario, rounds.air.signal.features, runs.classes)
        everywhere = np.zeros(scenario.workers.count)
        population = Population(distance_metres=everywhere + 1.0, sample_index=everywhere.astype(np.int64))
        air = Air(settings=[rounds.air], dataset=samples, population=population, speed=Speed())
        report = AirReport(scenario, samples, received_watts=rounds.air.private_received_watts)
        super().__init__(air, report, range(len(rounds.power_scale_watts)), follow=True, progress=silent)
        self.payload = faulty_sender(rounds.air.scenario, samples, runs.fault)
        self._runs, self._source, self._noise_watts = runs, source, stated_noise_watts(scenario)
        self._world, self._score, self._first_noise = 0, 0.0, torch.zeros(())
        senders = [faulty_sender(each.air.scenario, samples, runs.fault) for each in runs.moments]
        self._moments_sent = [
            ([slots.sent(sender, world) for world in range(2)], slots.expected(sender))
            for sender, slots in zip(senders, runs.moments, strict=True)
        ]

    def run(self, world: int) -> float:
        """Return the score of a run in one of both worlds."""
        self._world, self._score, self.done, self.kept = world, 0.0, 0, []
        first, moments = None, None
        for slots, (sent, expected) in zip(self._runs.moments, self._moments_sent, strict=True):
            moments = self._moments(slots, self._received(sent[world], expected, slots.power_scale_watts))
            first = solve(self._runs.scenario.learner, moments)
        for _ in run_rounds(self, first, moments):
            pass
        return self._score

    def _moments(self, slots: _Slots, received: torch.Tensor) -> ReceivedMoments:
        """Return what the server knows after the slots of moments."""
        scenario, inputs = self._runs.scenario, slots.air.signal.input_symbols
        collector = collector_for(scenario, self.air.dataset)
        collector.add(received[:, :inputs], received[:, inputs:] / slots.air.signal.label_weight)
        half_watts = scenario.privacy.noise_kind.in_sum_watts(scenario) / 2.0
        return collector.moments(float((half_watts / slots.power_scale_watts).mean()), 1.0)

    def receive(self, slot: int) -> MixtureBlock:
        """Receive a round in the noise of this trial, and add its score."""
        rounds, some = self._runs.rounds, slice(slot, slot + 1)
        clean, expected = rounds.sent(self.payload, self._world, some), rounds.expected(self.payload, some)
        received = self._received(clean, expected, rounds.power_scale_watts[some], of_rounds=True)
        reception = Reception(clean=clean, received=received, snr=_NOT_ASKED)
        return as_block(self.setting, reception, rounds.drawn[slot], slot)

    def _received(
        self, clean: torch.Tensor, expected: torch.Tensor, beta: torch.Tensor, *, of_rounds: bool = False
    ) -> torch.Tensor:
        """Put noise on slots, slots x symbols, and add their log-likelihood ratio to the score."""
        fault, (first, second) = self._runs.fault, expected
        noise = torch.randn(clean.shape, generator=self._source, dtype=clean.dtype)
        if of_rounds and fault.reused_rounds:
            noise = self._first_noise = self._first_noise if self.done else noise
        received = receive_mixtures(clean, noise, beta, fault.heard(self._noise_watts))
        ratios = ((received - (first + second) / 2.0) * (first - second)).sum(dim=1)
        self._score += float(ratios @ beta) / (self._noise_watts / 2.0)
        return received


@dataclass(frozen=True)
class _MeteredMoments(CollectedMoments):
    """The slots before: their noise is measured with that of rounds, which must not repeat it."""

    air: AirSetting
    meter: NoiseMeter
    fault: Fault

    def add(self, block: MixtureBlock) -> None:
        """Take a block into account."""
        super().add(block)
        stated_watts = stated_noise_watts(self.air.scenario, self.air.integers)
        heard(self.air.scenario, block, self.fault, self.meter, stated_watts)


class _MeteredRounds(RoundsOnAir):
    """Real rounds whose noise is measured."""

    meter: NoiseMeter
    fault: Fault

    def metered(self, meter: NoiseMeter, fault: Fault) -> "_MeteredRounds":
        """Tell this meter; a fault may give all rounds the number of the first."""
        self.meter, self.fault = meter, fault
        self.slots = [self.slots[0]] * len(self) if fault.reused_rounds else self.slots
        return self

    def receive(self, slot: int) -> MixtureBlock:
        """Run the slot of a round, and tell the meter of its noise."""
        block = super().receive(slot)
        heard(self.report.scenario, block, self.fault, self.meter)
        return block


def check_rounds_noise(
    kinds: Sequence[SlotKind], dataset: DataSet, fault: Fault, context: RunContext, failure: float
) -> NoiseCheck:
    """Run a scenario with its rounds on its own data, and return what the noise of the rounds is like.

    Runs with the seeds that follow are added as for other slots. As many symbols of the slots before are measured too.
    """

    def gather(scenario: Scenario, sent: DataSet, _slots: range) -> _MeteredMoments:
        return _MeteredMoments(collector_for(scenario, sent), kinds[0].air, meter, fault)

    scenario, rounds = kinds[0].air.scenario, kinds[-1]
    symbols = rounds.air.signal.symbols
    meter = NoiseMeter(symbols, stated_noise_watts(scenario, rounds.air.integers))
    runs = runs_needed(len(rounds.slots), symbols)
    alone = RunContext(speed=context.speed)
    for seeded in seeds_of(scenario, runs, _NOISE.removeprefix("the "), context.progress):
        where: dict[str, Any] = {"dataset": dataset, "population": None, "context": alone}
        first: tuple[Solution, ReceivedMoments] | tuple[()] = ()
        if seeded.workers.sends == "gradients":
            on_air = _MeteredRounds.alone(open_air([seeded], **where), alone)
        else:
            (sent,), (collected,) = gather_family([seeded], gather, **where)
            on_air, first = _MeteredRounds.after(sent, alone), solve_collected(sent, collected.collector)
        for _ in run_rounds(on_air.metered(meter, fault), *first):
            pass
    return meter.finish(failure, runs, of=_NOISE)
