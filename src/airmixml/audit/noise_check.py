"""Whether the noise of real runs is what all claims rest on: of the stated deviation, independent, and Gaussian.

Trials draw noise of their own, so a run whose noise is too weak would pass them all. Here runs go through the same code
as every other, on their own data, and what they add to their clean mixtures in slots and rounds is measured. Few slots
tell little, so runs with the seeds that follow are added until there are enough numbers or runs.

z = (received - clean) over the stated deviation, that of the receiver's noise with what workers bring, must be
independent standard normal numbers. Noise that is stronger than stated is no fault.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import beta, binom, chi2, norm

from airmixml.arrays import Doubles, using_threads
from airmixml.audit.trials import Bench, SlotKind
from airmixml.data import DataSet
from airmixml.edge.training import run_observed
from airmixml.impairments.frame import frame_of
from airmixml.privacy import Sensitivity
from airmixml.radio.centring import centre_privately
from airmixml.radio.draws import MixtureBlock
from airmixml.radio.rounds import RoundsOnAir
from airmixml.radio.system import planned_design
from airmixml.radio.transmission import open_air, simulate_blocks
from airmixml.radio.workers_noise import IntegerSums
from airmixml.scenario import RunContext, Scenario
from airmixml.streams import Streams
from airmixml.workers import deploy

# Each may fail by chance, so each takes its part of the failure probability: level, quietest, repeated, shape.
CHECKS: Final = 4
# A slot is left out where half a unit in the last place of its float32 signal is more than this part of the noise.
_HALF_UNIT: Final = 2.0**-24
_MOST_ROUNDING: Final = 0.01
# Of half a million numbers a few are rounded to nothing; of several that are added up none is.
_FEWEST_ADDED_UP: Final = 4
_MOST_NUMBERS: Final = 1 << 23  # whose noise is measured
_GROUPS: Final = 8
# Of these each slot is compared with each other.
_KEPT_SLOTS: Final = 1024
_KEPT_SYMBOLS: Final = 256
_THRESHOLDS: Final = (1.0, 2.0, 3.0)
# Runs go on to this many numbers, which tell a deviation to 5 %, or to so many runs.
_ENOUGH_NUMBERS: Final = 5000
_MOST_RUNS: Final = 200
_SEEDS: Final = 2**63  # after the largest comes 0


@dataclass(frozen=True, kw_only=True)
class NoiseCheck:
    """What the noise of a real run is like, over what is stated."""

    runs: int  # with which the noise was measured: the scenario's seed and those that follow
    slots: int  # whose noise was measured
    slots_left_out: int  # whose signal is so loud that float32 rounds the noise away
    numbers: int  # of noise, slots times symbols
    deviation: float | None = None  # root mean square, 1 where it is as stated; None where nothing was measured
    upper: float | None = None  # limit of the deviation, exceeded with probability ``failure`` at most
    quietest_p_value: float | None = None  # of the slot and of the symbol with the least noise, for their number
    repeated_p_value: float | None = None  # of noise that is alike between slots or between symbols
    # of how many numbers lie beyond 0 and 1, 2 and 3 deviations; None where there is more noise than stated, which may
    # have any shape
    shape_p_value: float | None = None
    failure: float  # below which a p-value is a fault
    of: str = "the noise of a real run"  # what was measured, in words

    @property
    def passed(self) -> bool | None:
        """Whether nothing is wrong; None where nothing was measured."""
        return None if self.deviation is None else not self.why_not

    @property
    def why_not(self) -> str:
        """What is wrong with the noise, in words; empty where nothing is."""
        values = self.quietest_p_value, self.repeated_p_value, self.shape_p_value
        weak, repeated, misshaped = (value is not None and value < self.failure for value in values)
        reasons = ["is too weak in some slots or symbols"] if weak else []
        if self.upper is not None and self.upper < 1.0:
            reasons = [f"has {self.deviation:.3g} of the stated deviation"]
        if repeated:
            reasons.append("repeats itself")
        if misshaped and not reasons:
            reasons.append("is not Gaussian")
        return f"{self.of} {' and '.join(reasons)}" if reasons else ""

    @property
    def in_words(self) -> str:
        """What the noise is like, in one line."""
        if self.passed is None:
            return "not checked: its signal is so loud that float32 rounds it away"
        runs = f" of {self.runs:,} runs" if self.runs > 1 else ""
        left_out = f", {self.slots_left_out:,} louder slots left out" if self.slots_left_out else ""
        return (
            f"{self.why_not.removeprefix(f'{self.of} ') or 'as stated'}; standard deviation {self.deviation:.4g} of "
            f"the stated one, {self.upper:.4g} at most, from {self.numbers:,} numbers{runs}{left_out}"
        )

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "passed": self.passed, "why_not": self.why_not}


class NoiseMeter:
    """Takes in the noise of a run block by block, of the first slots where there are very many."""

    def __init__(self, symbols: int, noise_watts: float) -> None:
        self.symbols, self._noise_watts = symbols, noise_watts
        self._noise: list[Doubles] = []  # over the stated deviation; of the slots that are used
        self._used: list[NDArray[np.bool_]] = []

    def add(
        self, received: torch.Tensor, clean: torch.Tensor, power_scale_watts: Doubles, noise_watts: float = 0.0
    ) -> None:
        """Take consecutive slots into account: received with noise and without it, slots x symbols; beta, slots.

        ``noise_watts`` is what is stated of them, where that is not what is stated of the others.
        """
        some = slice(max(0, max(1, _MOST_NUMBERS // self.symbols) - sum(map(len, self._used))))
        with_noise, without = received[some].cpu().double(), clean[some].cpu().double()
        amplitude = np.sqrt(power_scale_watts[some] / ((noise_watts or self._noise_watts) / 2.0))
        loudest = without.abs().amax(dim=1).numpy()
        with np.errstate(invalid="ignore"):
            used = np.isfinite(amplitude) & (amplitude > 0.0) & (_HALF_UNIT * loudest * amplitude <= _MOST_ROUNDING)
        noise = ((with_noise - without).numpy() * amplitude[:, None])[used]
        noise[~np.isfinite(noise).all(axis=1)] = 0.0  # what is no number hides nothing that can be relied on
        self._noise.append(noise)
        self._used.append(used)

    def finish(self, failure: float, runs: int = 1, of: str = NoiseCheck.of) -> NoiseCheck:
        """Return what was found in so many runs, each check failing by chance with that probability at most."""
        noise, used = np.concatenate(self._noise), np.concatenate(self._used)
        (slots, symbols), numbers = noise.shape, noise.size
        about: dict[str, Any] = {"runs": runs, "slots": slots, "slots_left_out": len(used) - slots}
        about |= {"numbers": numbers, "failure": failure, "of": of}
        if not numbers:
            return NoiseCheck(**about)
        squares = np.square(noise)
        total = float(squares.sum())
        # Noise that is stronger than stated must not look like noise that repeats itself.
        excess = max(1.0, total / numbers)
        quietest, alike = [1.0], [_lag_p_value(noise, used, excess), _pair_p_value(noise[:_KEPT_SLOTS, :_KEPT_SYMBOLS])]
        for axis, count, added_up in ((1, slots, symbols), (0, symbols, slots)):
            if added_up >= _FEWEST_ADDED_UP:
                quietest.append(2.0 * count * float(chi2.cdf(float(squares.sum(axis=axis).min()), added_up)))
            if added_up > 1:
                alike.append(float(chi2.sf(float(np.square(noise.sum(axis=axis)).sum()) / added_up / excess, count)))
        louder = float(chi2.sf(total, numbers)) < failure
        return NoiseCheck(
            deviation=math.sqrt(total / numbers),
            upper=math.sqrt(total / float(chi2.ppf(failure, numbers))),
            quietest_p_value=min(quietest),
            repeated_p_value=min(1.0, len(alike) * min(alike)),
            shape_p_value=None if louder else _shape_p_value(noise),
            **about,
        )


def _shape_p_value(noise: Doubles) -> float:
    """Return how likely the numbers beyond 0 and beyond 1, 2 and 3 deviations are as far off, for all counts."""
    beyond = np.array([np.sum(noise > 0.0), *(np.sum(np.abs(noise) > limit) for limit in _THRESHOLDS)])
    chances = np.array([0.5, *(2.0 * norm.sf(limit) for limit in _THRESHOLDS)])
    below, above = binom.cdf(beyond, noise.size, chances), binom.sf(beyond - 1, noise.size, chances)
    return min(1.0, float(2.0 * len(chances) * np.minimum(below, above).min()))


def _pair_p_value(noise: Doubles) -> float:
    """Return how likely two slots are as much alike as the two that are most so.

    The squared cosine between independent standard normal vectors of n numbers has the law Beta(1/2, (n - 1) / 2).
    """
    slots, symbols = noise.shape
    if slots < 2 or symbols < _FEWEST_ADDED_UP:
        return 1.0
    directions = noise / np.linalg.norm(noise, axis=1, keepdims=True).clip(1e-30)
    largest = float(np.square(np.triu(directions @ directions.T, 1)).max())
    p_value = float(beta.sf(min(largest, 1.0), 0.5, (symbols - 1) / 2.0))
    return min(1.0, len(noise) * (len(noise) - 1) / 2 * p_value)


def _lag_p_value(noise: Doubles, used: NDArray[np.bool_], excess: float) -> float:
    """Return a bound on how likely slots some lag apart are as much alike as at the lag where they are most so.

    Symbols are added up in a few groups. A sum c of n products of neighbours in chains of standard normal numbers has
    the moment generating function (1 - 4 l^2)^(-n / 8) at most: its matrix has eigenvalues of both signs, none beyond
    1, of squares n / 2 together. Chernoff's bound with the best l follows.
    """
    slots, groups = len(used), min(noise.shape[1], _GROUPS)
    if slots < 2:
        return 1.0
    products = np.zeros(slots - 1)
    for members in (noise[:, group::groups] for group in range(groups)):
        column = np.zeros(slots)
        column[used] = members.sum(axis=1) / math.sqrt(members.shape[1])
        products += _autocorrelation(column)
    pairs = np.rint(_autocorrelation(used.astype(np.float64))) * groups
    told = (pairs > 0) & (products != 0.0)
    terms, total = pairs[told], np.abs(products[told]) / excess
    best = (np.sqrt(terms**2 + 16.0 * total**2) - terms) / (8.0 * total)
    exponents = -best * total - terms / 8.0 * np.log1p(-4.0 * best**2)
    return min(1.0, math.exp(float(np.min(exponents, initial=0.0)) + math.log(2.0 * (slots - 1))))


def _autocorrelation(values: Doubles) -> Doubles:
    """Return sum_t v_t v_(t + lag) at every lag from 1 on; shape slots - 1."""
    length = 1 << (2 * len(values) - 1).bit_length()
    spectrum = np.fft.rfft(values, length)
    return np.asarray(np.fft.irfft(np.abs(spectrum) ** 2, length)[1 : len(values)])


def stated_noise_watts(scenario: Scenario, sums: IntegerSums | None = None) -> float:
    """Return the noise assumed against listeners who hear only sums, per complex symbol.

    It is the least of the receiver, with what honest workers bring; of ``sums`` of integers, which powers do not
    change, what would be as much beside the power of their bits. On an air that is not ideal claims assume less than
    that: what hides a worker from an isolating listener.
    """
    if sums is not None:
        return 2.0 * sums.received_watts * sums.carriers * sums.noise.variance_per_worker * sums.noise.code.step**2
    if not scenario.privacy.noise_kind.brought:
        return float(scenario.privacy.noise_kind.stated_watts(scenario))
    any_sensitivity = Sensitivity(removal=1.0, replacement=1.0)
    return planned_design(scenario, any_sensitivity, received_watts=0.0).in_workers_noise().noise_watts


Add = Callable[[MixtureBlock, float], None]
"""Takes a block into account; the number is that of ``NoiseMeter.add``."""
Run = Callable[[Scenario, Add], None]
"""Runs a scenario of some seed, and hands on the blocks whose noise is measured."""


def _measure(bench: Bench, kind: SlotKind, stage: str, failure: float, run: Run, of: str = NoiseCheck.of) -> NoiseCheck:
    """Return what the noise of a kind of slots is like, with the scenario's seed and those that follow."""
    scenario, progress, air = bench.air.scenario, bench.context.progress, kind.air
    meter = NoiseMeter(air.signal.symbols, stated_noise_watts(scenario, air.integers))
    runs = min(-(-_ENOUGH_NUMBERS // (len(kind.slots) * meter.symbols)), _MOST_RUNS)
    for number in range(runs):
        progress(stage, number, runs)
        run(scenario.with_seed((scenario.seed + number) % _SEEDS), partial(_add, bench, meter))
    progress(stage, runs, runs)
    return meter.finish(failure, runs, of=of)


def _add(bench: Bench, meter: NoiseMeter, block: MixtureBlock, noise_watts: float) -> None:
    """Meter a block as it was before the server divided by the mean gain of an imperfect air.

    Of more symbols than the meter has the first ones count.
    """
    fault, scenario = bench.fault, bench.air.scenario
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

    def run(seeded: Scenario, add: Add) -> None:
        population, speed = deploy(seeded.workers, dataset.train_samples, Streams(seeded.seed)), bench.context.speed
        for block in simulate_blocks(seeded, centre_privately([seeded], dataset, population), population, speed=speed):
            with using_threads(speed.threads):
                add(block, 0.0)

    return _measure(bench, bench.kinds[0], "noise of a run", failure, run)


def check_rounds_noise(bench: Bench, dataset: DataSet, failure: float) -> NoiseCheck:
    """Return what the noise of rounds is like, and as many symbols of the slots before, which it must not repeat."""
    alone = RunContext(speed=bench.context.speed)

    def run(seeded: Scenario, add: Add) -> None:
        before_watts = stated_noise_watts(seeded, bench.air.integers)

        def see(block: MixtureBlock, on_air: RoundsOnAir | None) -> None:
            add(block, before_watts if on_air is None else 0.0)
            if on_air is not None and bench.fault.reused_rounds:
                on_air.slots = [on_air.slots[0]] * len(on_air)  # each is the first again

        run_observed(open_air([seeded], dataset, None, alone), see, alone)

    return _measure(bench, bench.kinds[-1], "noise of rounds", failure, run, of="the noise of rounds")
