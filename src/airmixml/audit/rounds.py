"""Runs with rounds: each model that is broadcast follows from all that was received before (adaptive composition).

In a trial the slots of moments are received in noise of their own, the server solves its first model from them, and
steps from round to round by the code of every run (``edge.rounds``). The canary is in all slots or in none. The
adversary knows the models, hence what the canary would send in each round and what all others sent, and adds up the
log-likelihood ratios of all slots. All others hold the canary's input with a label that contradicts its own (for
replace-one, half of them with each of both labels): so the canary's gradient is clipped in every round.

The noise in the rounds of a real run is measured as that in its other slots is (``noise_check``).
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch

from airmixml.arrays import Doubles
from airmixml.audit.canaries import faulty_sender, has_rounds, worst_samples
from airmixml.audit.faults import Fault
from airmixml.audit.noise_check import NoiseCheck, NoiseMeter, heard, runs_needed, seeds_of, stated_noise_watts
from airmixml.audit.trials import Bench, Trials, noise_source, seats_of_worker
from airmixml.data import DataSet
from airmixml.edge.closed_form import ReceivedMoments, solve
from airmixml.edge.rounds import Solution, run_rounds
from airmixml.edge.training import collector_for, gather_moments, received_moments, zero_model
from airmixml.output.numbers import plural
from airmixml.progress import silent
from airmixml.radio.air import receive_mixtures
from airmixml.radio.draws import AirSetting, SlotTensors
from airmixml.radio.masking import noise_in_sum_watts
from airmixml.radio.mixtures import AirReport, MixtureBlock, as_block
from airmixml.radio.reception import Reception
from airmixml.radio.rounds import RoundsOnAir
from airmixml.radio.shards import Air
from airmixml.radio.transmission import gather_family, open_air
from airmixml.scenario import RunContext, Scenario, Speed
from airmixml.workers import Population
from airmixml.workers.payloads import Payload

_CHAPTER: Final = 1 << 36  # behind those of all other attacks
_RUNS_PER_BLOCK: Final = 128
# A run of more numbers than that takes too long: its rounds are received under one model.
_MOST_NUMBERS_PER_RUN: Final = 1 << 14
_NOISE: Final = "the noise of rounds"


def runs_adapt(bench: Bench) -> bool:
    """Whether trials are runs in which each model follows from what was received: on the ideal air, unless large."""
    scenario = bench.air.scenario
    numbers = sum(slots * air.signal.symbols for slots, air in zip(_counts(scenario), bench.kinds, strict=True))
    return has_rounds(scenario) and scenario.air.is_ideal and numbers <= _MOST_NUMBERS_PER_RUN


def adaptive_trials(bench: Bench, worker: int, shift: float) -> Trials:
    """Return scores of runs with the canary and without, each with noise of its own."""
    scenario = bench.air.scenario
    *moments, rounds = (_Slots.of(bench, air, worker) for air in bench.kinds)
    scored = _Runs(scenario=scenario, classes=bench.classes, fault=bench.fault, moments=moments, rounds=rounds)
    followed = "each model that is broadcast follows from what was received before"
    how = f"{plural(sum(_counts(scenario)), 'slot')}, all received in every trial; {followed}"
    per_block = min(_RUNS_PER_BLOCK, bench.trials)
    return bench.run("rounds, schedule known", per_block, scored, how=how, normal=True, shift=shift)


def follow_rounds(scenario: Scenario) -> bool:
    """Whether rounds follow other slots."""
    return scenario.workers.sends != "gradients" and has_rounds(scenario)


def _counts(scenario: Scenario) -> list[int]:
    """Return how many slots there are of each kind."""
    return [scenario.radio.slots, scenario.learner.rounds] if follow_rounds(scenario) else [scenario.radio.slots]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Slots:
    """Slots of one kind, as the worker and all others together send in them; the arrays have the shape slots."""

    air: AirSetting
    drawn: list[SlotTensors]
    share: torch.Tensor  # of the worker, 0 where it does not send
    others: torch.Tensor  # share of all others
    power_scale_watts: torch.Tensor
    removed: bool  # whether the worker falls silent in the world without the canary

    @classmethod
    def of(cls, bench: Bench, air: AirSetting, worker: int) -> "_Slots":
        """Draw them as a run of the scenario's seed does."""
        every = list(seats_of_worker(bench.drawn(air), worker))
        shares, total, beta = list[Doubles](), list[Doubles](), list[Doubles]()
        for _, draws, slot, seat in every:
            own = np.zeros(len(draws))
            own[slot] = draws.ratios[slot, seat]
            shares, total, beta = [*shares, own], [*total, draws.ratios.sum(axis=1)], [*beta, draws.power_scale_watts]
        share = torch.from_numpy(np.concatenate(shares))
        return cls(
            air=air,
            drawn=[drawn for drawn, *_ in every],
            share=share,
            others=torch.from_numpy(np.concatenate(total)) - share,
            power_scale_watts=torch.from_numpy(np.concatenate(beta)),
            removed=bench.adjacency == "remove-one",
        )

    def worlds(self, sender: Payload, some: slice = slice(None)) -> tuple[torch.Tensor, torch.Tensor]:
        """Return what arrives in some slots with the canary and without, before noise; slots x symbols each.

        The samples are the canary, then its input with another label.
        """
        share, others = self.share[some], self.others[some]
        crowd = (1,) if self.removed else (0, 1)

        def arriving(row: int, own: torch.Tensor) -> torch.Tensor:
            weights = torch.stack([own, *(others / len(crowd) for _ in crowd)], dim=1)
            return sender.weighted_sum(torch.tensor([[row, *crowd]]).expand(len(own), -1), weights).double()

        return arriving(0, share), arriving(1, share * (not self.removed))


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
        super().__init__(air, report, range(len(rounds.share)), follow=True, progress=silent)
        self.payload = faulty_sender(rounds.air.scenario, samples, runs.fault)
        self._runs, self._source, self._noise_watts = runs, source, stated_noise_watts(scenario)
        self._world, self._score, self._first_noise = 0, 0.0, torch.zeros(())
        self._clean_moments = [
            each.worlds(faulty_sender(each.air.scenario, samples, runs.fault)) for each in runs.moments
        ]

    def run(self, world: int) -> float:
        """Return the score of a run in one of both worlds."""
        self._world, self._score, self.done = world, 0.0, 0
        first, moments = zero_model(self.air.dataset), None
        for slots, worlds in zip(self._runs.moments, self._clean_moments, strict=True):
            moments = self._moments(slots, self._received(worlds, slots.power_scale_watts))
            first = solve(self._runs.scenario.learner, moments)
        for _ in run_rounds(self, first, moments):
            pass
        return self._score

    def _moments(self, slots: _Slots, received: torch.Tensor) -> ReceivedMoments:
        """Return what the server knows after the slots of moments."""
        scenario, inputs = self._runs.scenario, slots.air.signal.input_symbols
        collector = collector_for(scenario, self.air.dataset)
        collector.add(received[:, :inputs], received[:, inputs:] / slots.air.signal.label_weight)
        half_watts = noise_in_sum_watts(scenario) / 2.0
        return collector.moments(float((half_watts / slots.power_scale_watts).mean()), 1.0)

    def receive(self, slot: int) -> MixtureBlock:
        """Receive a round in the noise of this trial, and add its score."""
        rounds = self._runs.rounds
        worlds = rounds.worlds(self.payload, slice(slot, slot + 1))
        received = self._received(worlds, rounds.power_scale_watts[slot : slot + 1], of_rounds=True)
        return as_block(self.setting, Reception(clean=worlds[0], received=received), rounds.drawn[slot], slot)

    def _received(
        self, worlds: tuple[torch.Tensor, torch.Tensor], beta: torch.Tensor, *, of_rounds: bool = False
    ) -> torch.Tensor:
        """Return what arrives in this trial's world, slots x symbols, and add its log-likelihood ratio to the score."""
        clean, fault = worlds[self._world], self._runs.fault
        noise = torch.randn(clean.shape, generator=self._source, dtype=clean.dtype)
        if of_rounds and fault.reused_rounds:
            noise = self._first_noise = self._first_noise if self.done else noise
        received = receive_mixtures(clean, noise, beta, fault.heard(self._noise_watts))
        move, middle = worlds[0] - worlds[1], (worlds[0] + worlds[1]) / 2.0
        precision = (beta / (self._noise_watts / 2.0))[:, None]
        self._score += float(((received - middle) * move * precision).sum())
        return received


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
    scenario: Scenario, dataset: DataSet, air: AirSetting, fault: Fault, context: RunContext, failure: float
) -> NoiseCheck:
    """Run a scenario with its rounds on its own data, and return what the noise of the rounds is like.

    Runs with the seeds that follow are added as for other slots.
    """
    symbols, slots = air.signal.symbols, _counts(scenario)[-1]
    meter, runs = NoiseMeter(symbols, stated_noise_watts(scenario)), runs_needed(slots, symbols)
    alone = RunContext(speed=context.speed)
    for seeded in seeds_of(scenario, runs, _NOISE.removeprefix("the "), context.progress):
        where: dict[str, Any] = {"dataset": dataset, "population": None, "context": alone}
        first: tuple[Solution, ReceivedMoments | None]
        if seeded.workers.sends == "gradients":
            on_air = _MeteredRounds.alone(open_air([seeded], **where), alone)
            first = zero_model(on_air.air.dataset), None
        else:
            (sent,), (collected,) = gather_family([seeded], gather_moments, **where)
            on_air, moments = _MeteredRounds.after(sent, alone), received_moments(sent.report, collected.collector)
            first = solve(seeded.learner, moments), moments
        for _ in run_rounds(on_air.metered(meter, fault), *first):
            pass
    return meter.finish(failure, runs, of=_NOISE)
