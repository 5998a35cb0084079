"""The noise that real runs add, in their slots and in their rounds.

Trials draw noise of their own, so a run whose noise is too weak would pass them all. Here runs go through the same code
as every other, on their own data, and what they add to their clean mixtures is measured (``noise_check``). Few slots
tell little, so runs with the seeds that follow are added until there are enough numbers or runs.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import torch

from airmixml.audit.noise_check import NoiseCheck, NoiseMeter
from airmixml.audit.trials import Bench, SlotKind
from airmixml.data import DataSet
from airmixml.devices import using_threads
from airmixml.edge.closed_form import ReceivedMoments, Solution
from airmixml.edge.descents import run_rounds
from airmixml.edge.training import collector_for, solve_collected
from airmixml.impairments.frame import frame_of
from airmixml.privacy import Sensitivity
from airmixml.radio.centring import centre_privately
from airmixml.radio.mixtures import MixtureBlock, simulate_blocks
from airmixml.radio.system import assumed_noise_watts, planned_design
from airmixml.radio.transmission import RoundsOnAir, open_air, run_here
from airmixml.radio.workers_noise import IntegerSums
from airmixml.scenario import RunContext, Scenario
from airmixml.streams import Streams
from airmixml.workers import deploy

# Runs go on to this many numbers, which tell a deviation to 5 %, or to so many runs.
_ENOUGH_NUMBERS: Final = 5000
_MOST_RUNS: Final = 200
_SEEDS: Final = 2**63
_ROUNDS: Final = "the noise of rounds"


def stated_noise_watts(scenario: Scenario, sums: IntegerSums | None = None) -> float:
    """Return the noise assumed against listeners who hear only sums, per complex symbol.

    It is the least of the receiver, with what honest workers bring; of ``sums`` of integers, which powers do not
    change, what would be as much beside the power of their bits. On an air that is not ideal claims assume less than
    that: what hides a worker from an isolating listener.
    """
    if sums is not None:
        return 2.0 * sums.received_watts * sums.carriers * sums.noise.variance_per_worker * sums.noise.code.step**2
    if not scenario.privacy.noise_kind.brought:
        return assumed_noise_watts(scenario)
    any_sensitivity = Sensitivity(removal=1.0, replacement=1.0)
    return planned_design(scenario, any_sensitivity, received_watts=0.0).in_workers_noise().noise_watts


@dataclass
class _Measured:
    """Noise of a kind of slots, over some runs."""

    bench: Bench
    kind: SlotKind
    stage: str
    runs: int = 0

    def __post_init__(self) -> None:
        air, scenario = self.kind.air, self.bench.air.scenario
        self.meter = NoiseMeter(air.signal.symbols, stated_noise_watts(scenario, air.integers))

    def scenarios(self) -> Iterator[Scenario]:
        """Yield the scenario with its own seed and those that follow; after the largest comes 0."""
        scenario, progress = self.bench.air.scenario, self.bench.context.progress
        runs = min(-(-_ENOUGH_NUMBERS // (len(self.kind.slots) * self.meter.symbols)), _MOST_RUNS)
        for self.runs in range(runs):
            progress(self.stage, self.runs, runs)
            yield scenario.with_seed((scenario.seed + self.runs) % _SEEDS)
        self.runs = runs
        progress(self.stage, runs, runs)

    def add(self, scenario: Scenario, block: MixtureBlock, noise_watts: float = 0.0) -> None:
        """Take a block into account, as it was before the server divided by the mean gain of an imperfect air.

        Of more symbols than the meter has the first ones count; ``noise_watts`` is that of ``NoiseMeter.add``.
        """
        fault, meter = self.bench.fault, self.meter
        weight = scenario.workers.label_weight
        received = torch.cat([block.inputs, block.labels * weight], dim=1)
        clean = torch.cat([block.clean_inputs, block.clean_labels * weight], dim=1)
        if fault.noise_factor != 1.0:
            received = clean + (received - clean) * fault.noise_factor
        gain, some = torch.ones((), device=received.device), slice(meter.symbols)
        if block.divisor is not None:
            frame = frame_of(scenario.air, received.shape[1])
            lengths = torch.tensor(frame.lengths, device=received.device)
            gain = block.divisor.abs().expand(-1, frame.pieces).repeat_interleave(lengths, dim=1)
        meter.add((received * gain)[:, some], (clean * gain)[:, some], block.draws.power_scale_watts, noise_watts)


def check_noise(bench: Bench, dataset: DataSet, failure: float) -> NoiseCheck:
    """Return what the noise of the slots of a real run is like."""
    measured, speed = _Measured(bench, bench.kinds[0], "noise of a run"), bench.context.speed
    for seeded in measured.scenarios():
        population = deploy(seeded.workers, dataset.train_samples, Streams(seeded.seed))
        centred = centre_privately([seeded], dataset, population)
        for block in simulate_blocks(seeded, centred, population, speed=speed):
            with using_threads(speed.threads):
                measured.add(seeded, block)
    return measured.meter.finish(failure, measured.runs)


class _MeteredRounds(RoundsOnAir):
    """Real rounds whose noise is measured."""

    measured: _Measured

    def metered(self, measured: _Measured) -> "_MeteredRounds":
        """Tell this meter; a fault may give all rounds the number of the first."""
        self.measured, fault = measured, measured.bench.fault
        self.slots = [self.slots[0]] * len(self) if fault.reused_rounds else self.slots
        return self

    def receive(self, slot: int) -> MixtureBlock:
        block = super().receive(slot)
        self.measured.add(self.report.scenario, block)
        return block


def check_rounds_noise(bench: Bench, dataset: DataSet, failure: float) -> NoiseCheck:
    """Return what the noise of rounds is like, and as many symbols of the slots before."""
    measured = _Measured(bench, bench.kinds[-1], _ROUNDS.removeprefix("the "))

    alone = RunContext(speed=bench.context.speed)
    for seeded in measured.scenarios():
        air = open_air([seeded], dataset, None, alone)
        first: tuple[Solution, ReceivedMoments] | tuple[()] = ()
        if seeded.workers.sends == "gradients":
            on_air = _MeteredRounds.alone(air, alone)
        else:
            collector, stated = collector_for(seeded, air.dataset), stated_noise_watts(seeded, bench.air.integers)

            def receive(_number: int, block: MixtureBlock, collector: Any = collector, watts: float = stated) -> None:
                # Noise of these slots is measured with that of rounds, which must not repeat it.
                collector.add(block.inputs, block.labels)
                measured.add(bench.air.scenario, block, watts)

            (sent,) = run_here(air, receive, alone)
            on_air, first = _MeteredRounds.of(sent, alone), solve_collected(sent, collector)
        for _ in run_rounds(on_air.metered(measured), *first):
            pass
    return measured.meter.finish(failure, measured.runs, of=_ROUNDS)
