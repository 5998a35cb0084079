"""Runs with rounds: each model that is broadcast follows from all that was received before (adaptive composition).

In a trial the slots of moments are received in noise of their own, the server solves its first model from them, and
steps from round to round by the code of every run (``edge.descents``). The canary is in all slots or in none. The
adversary knows the models, hence what the canary would send in each round and what all others sent, and adds up the
log-likelihood ratios of all slots. All others hold the canary's input with a label that contradicts its own (for
replace-one, half of them with each of both labels): so the canary's gradient is clipped in every round.

The noise in the rounds of a real run is measured as that in its other slots is (``noise_check``).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import torch

from airmixml.arrays import Doubles
from airmixml.audit.canaries import faulty_sender, has_rounds, worst_samples
from airmixml.audit.faults import Fault
from airmixml.audit.noise_check import NoiseCheck, NoiseMeter, heard, runs_needed, seeds_of, stated_noise_watts
from airmixml.audit.trials import Bench, SlotKind, Trials, noise_source, seats_of_worker
from airmixml.data import DataSet
from airmixml.edge.closed_form import ReceivedMoments, Solution, solve
from airmixml.edge.descents import descend, run_rounds
from airmixml.edge.training import collector_for, solve_collected
from airmixml.radio.air import receive_mixtures
from airmixml.radio.draws import AirSetting
from airmixml.radio.mixtures import MixtureBlock
from airmixml.radio.rounds import RoundsOnAir, as_gradient
from airmixml.radio.transmission import open_air, run_here
from airmixml.registries import DESCENTS, LEARNERS
from airmixml.scenario import RunContext, Scenario
from airmixml.wording import plural
from airmixml.workers.payloads import Broadcast

ONE_MODEL: Final = "; one model is broadcast in all rounds"
"""How trials were made in which models do not follow from what was received."""
_CHAPTER: Final = 1 << 36  # behind those of all other attacks
_RUNS_PER_BLOCK: Final = 128
# A run of more numbers than that takes too long: its rounds are received under one model.
_MOST_NUMBERS_PER_RUN: Final = 1 << 14
_NOISE: Final = "the noise of rounds"


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
    samples = worst_samples(scenario, rounds.air.signal.features, bench.classes)
    pair = replace(samples, train_inputs=samples.train_inputs[:2], train_labels=samples.train_labels[:2])
    scored = _Runs(scenario=scenario, samples=pair, fault=bench.fault, moments=moments, rounds=rounds)
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
    power_scale_watts: torch.Tensor  # shape slots
    shares: torch.Tensor  # with which each sample arrives in each world; worlds x slots x samples

    @classmethod
    def of(cls, bench: Bench, kind: SlotKind, worker: int) -> "_Slots":
        removed, shares, beta = bench.adjacency == "remove-one", list[Doubles](), list[Doubles]()
        for _, draws, slot, seat in seats_of_worker(kind, worker):
            own = np.zeros(len(draws))
            own[slot] = draws.ratios[slot, seat]
            others = draws.ratios.sum(axis=1) - own
            crowd = np.outer(others, (0.0, 1.0) if removed else (0.5, 0.5))
            without = np.outer(own, (0.0, 0.0 if removed else 1.0))
            shares.append(np.stack([crowd + np.outer(own, (1.0, 0.0)), crowd + without]))
            beta.append(draws.power_scale_watts)
        return cls(
            air=kind.air,
            power_scale_watts=torch.from_numpy(np.concatenate(beta)),
            shares=torch.from_numpy(np.concatenate(shares, axis=1)),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Runs:
    """Scores runs of the schedule of the scenario's seed."""

    scenario: Scenario
    samples: DataSet  # the canary, and one with its input and another label
    fault: Fault
    moments: list[_Slots]  # one, or none where all slots are rounds
    rounds: _Slots

    def __call__(self, block: int, size: int) -> Doubles:
        """Return the scores of a block of runs, with the canary and without; 2 x size."""
        worlds, source = torch.arange(2).repeat_interleave(size), noise_source(self.scenario.seed, _CHAPTER + block)
        several = worlds[None] if self.several_at_once else worlds[:, None]
        scores = [_RunsAtOnce(self, some, source).scored() for some in several]
        return torch.cat(scores).reshape(2, size).numpy()

    @property
    def several_at_once(self) -> bool:
        """Whether the learner and the descent take several runs; softer sums are undone one by one."""
        learner = self.scenario.learner
        solvers = [DESCENTS.load(learner.descent), *(LEARNERS.load(learner.model) for _ in self.moments)]
        softer = any(slots.air.signal.bits or slots.air.signal.several_rows for slots in self.moments)
        return not softer and all(getattr(each, "several_runs", False) for each in solvers)


class _RunsAtOnce:
    """Runs, each with noise of its own in one of both worlds, and what each scores so far."""

    def __init__(self, runs: _Runs, worlds: torch.Tensor, source: torch.Generator) -> None:
        count, samples = len(worlds), runs.samples
        self._runs, self._worlds, self._source = runs, worlds, source
        self._axis = (count,) if runs.several_at_once else ()
        inputs, labels = np.tile(samples.train_inputs, (count, 1)), np.concatenate([samples.train_labels] * count)
        copies = replace(samples, train_inputs=inputs, train_labels=labels)
        kinds = (*runs.moments, runs.rounds)
        self._senders = {each: faulty_sender(each.air.scenario, copies, runs.fault) for each in kinds}
        self._of_run = torch.arange(2 * count).reshape(count, 2)
        self._noise_watts = stated_noise_watts(runs.scenario)
        self._scores, self._last_noise = torch.zeros(count, dtype=torch.float64), torch.zeros(())
        self._done = 0

    def scored(self) -> torch.Tensor:
        """Make the runs and return their scores; shape runs."""
        scenario, signal = self._runs.scenario, self._runs.rounds.air.signal
        first = torch.zeros((*self._axis, signal.features, signal.classes), dtype=torch.float64)
        solution, moments = (first, first[..., 0, :].clone()), None
        for slots in self._runs.moments:
            moments = self._moments(slots)
            solution = solve(scenario.learner, moments)
        for _ in descend(scenario, self._send, len(self._runs.rounds.power_scale_watts), solution, moments):
            pass
        return self._scores

    def _moments(self, slots: _Slots) -> ReceivedMoments:
        """Return what the server knows after the slots of moments."""
        scenario, inputs = self._runs.scenario, slots.air.signal.input_symbols
        received = torch.stack([self._receive(slots, slot) for slot in range(len(slots.power_scale_watts))])
        received = received.reshape(len(received), *self._axis, -1)
        collector = collector_for(scenario, self._runs.samples)
        collector.add(received[..., :inputs], received[..., inputs:] / slots.air.signal.label_weight)
        half_watts = scenario.privacy.noise_kind.in_sum_watts(scenario) / 2.0
        return collector.moments(float((half_watts / slots.power_scale_watts).mean()), 1.0)

    def _send(self, told: Broadcast) -> tuple[torch.Tensor, float]:
        """Run one round of each run, under the model that it broadcasts."""
        rounds, scenario = self._runs.rounds, self._runs.scenario
        gradients: Any = self._senders[rounds]
        gradients.broadcast(told)
        repeats = self._runs.fault.reused_rounds and self._done > 0
        received = self._receive(rounds, self._done, self._last_noise if repeats else None)
        watts = scenario.privacy.noise_kind.in_sum_watts(scenario) / 2.0
        deviation = float((watts / rounds.power_scale_watts[self._done]).sqrt()) / gradients.unit
        self._done += 1
        gradient = as_gradient(rounds.air.signal, received.float()) / gradients.unit
        return gradient.reshape(*self._axis, *gradient.shape[1:]), deviation

    def _receive(self, slots: _Slots, slot: int, noise: torch.Tensor | None = None) -> torch.Tensor:
        """Receive a slot of each run in noise of its own, and add its log-likelihood ratio; runs x symbols.

        What the adversary expects follows from what each worker sends. The code of every run forms sums in another way.
        """
        sender, shares, beta = self._senders[slots], slots.shares[:, slot], slots.power_scale_watts[slot]
        clean = sender.weighted_sum(self._of_run, shares[self._worlds]).double()
        alone = torch.from_numpy(sender.vectors(self._of_run.flatten().numpy())).double()
        first, second = (shares @ alone.reshape(*self._of_run.shape, -1)).unbind(dim=1)
        if noise is None:
            noise = self._last_noise = torch.randn(clean.shape, generator=self._source, dtype=clean.dtype)
        received = receive_mixtures(clean, noise, beta.expand(len(clean)), self._runs.fault.heard(self._noise_watts))
        ratios = ((received - (first + second) / 2.0) * (first - second)).sum(dim=1)
        self._scores += ratios * beta / (self._noise_watts / 2.0)
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
        block = super().receive(slot)
        heard(self.report.scenario, block, self.fault, self.meter)
        return block


def check_rounds_noise(
    kinds: Sequence[SlotKind], dataset: DataSet, fault: Fault, context: RunContext, failure: float
) -> NoiseCheck:
    """Run a scenario with its rounds on its own data, and return what the noise of the rounds is like.

    Runs with the seeds that follow are added as for other slots. As many symbols of the slots before are measured too.
    """

    scenario, rounds = kinds[0].air.scenario, kinds[-1]
    symbols = rounds.air.signal.symbols
    meter = NoiseMeter(symbols, stated_noise_watts(scenario, rounds.air.integers))
    runs = runs_needed(len(rounds.slots), symbols)
    alone = RunContext(speed=context.speed)
    for seeded in seeds_of(scenario, runs, _NOISE.removeprefix("the "), context.progress):
        air = open_air([seeded], dataset, None, alone)
        first: tuple[Solution, ReceivedMoments] | tuple[()] = ()
        if seeded.workers.sends == "gradients":
            on_air = _MeteredRounds.alone(air, alone)
        else:
            collector, stated = collector_for(seeded, air.dataset), stated_noise_watts(scenario, kinds[0].air.integers)

            def receive(_number: int, block: MixtureBlock, collector: Any = collector, watts: float = stated) -> None:
                # Noise of these slots is measured with that of rounds, which must not repeat it.
                collector.add(block.inputs, block.labels)
                heard(scenario, block, fault, meter, watts)

            (sent,) = run_here(air, receive, alone)
            on_air, first = _MeteredRounds.of(sent, alone), solve_collected(sent, collector)
        for _ in run_rounds(on_air.metered(meter, fault), *first):
            pass
    return meter.finish(failure, runs, of=_NOISE)
