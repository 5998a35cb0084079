"""Whether the noise of a real run is what all claims rest on: of the stated deviation, independent, and Gaussian.

Trials draw noise of their own, so a run whose noise is too weak would pass them all. Here one run goes through the
same code as every other, and what it added to its clean mixtures is measured: z = (received - clean) over the stated
deviation, that of the receiver's noise with what workers bring, must be independent standard normal numbers. Noise that
is stronger than stated is no fault.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import beta, binom, chi2, norm

from airmixml.arrays import Doubles
from airmixml.audit.faults import Fault
from airmixml.data import DataSet
from airmixml.devices import using_threads
from airmixml.impairments.frame import frame_of
from airmixml.privacy import Sensitivity
from airmixml.progress import Progress, silent
from airmixml.radio.centring import centre_privately
from airmixml.radio.mixtures import MixtureBlock, simulate_blocks
from airmixml.radio.system import assumed_noise_watts, planned_design
from airmixml.radio.workers_noise import IntegerSums
from airmixml.scenario import RunContext, Scenario, Speed
from airmixml.streams import Streams
from airmixml.workers import Population, deploy
from airmixml.workers.payloads import Payload

# Each may fail by chance, so each takes its part of the failure probability: level, quietest, repeated, shape.
CHECKS: Final = 4
# A slot is left out where half a unit in the last place of its float32 signal is more than this part of the noise.
_HALF_UNIT: Final = 2.0**-24
_MOST_ROUNDING: Final = 0.01
# Of half a million numbers a few are rounded to nothing; of several that are added up none is.
_FEWEST_ADDED_UP: Final = 4
_NUMBERS_AT_ONCE: Final = 1 << 22
_GROUPS: Final = 8
# Of these each slot is compared with each other.
_KEPT_SLOTS: Final = 1024
_KEPT_SYMBOLS: Final = 256
_MANY: Final = 10_000_000
# Runs go on to this many numbers, which tell a deviation to 5 %, or to so many runs.
_ENOUGH_NUMBERS: Final = 5000
_MOST_RUNS: Final = 200
_SEEDS: Final = 2**63
_THRESHOLDS: Final = (1.0, 2.0, 3.0)
_STAGE: Final = "noise of a run"


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
    def short(self) -> bool:
        """Whether there is less noise than stated."""
        return self.upper is not None and self.upper < 1.0

    @property
    def passed(self) -> bool | None:
        """Whether nothing is wrong; None where nothing was measured."""
        return None if self.deviation is None else not self.why_not

    @property
    def why_not(self) -> str:
        """What is wrong with the noise, in words; empty where nothing is."""
        reasons = []
        if self.short:
            reasons.append(f"has {self.deviation:.3g} of the stated deviation")
        elif self._fails(self.quietest_p_value):
            reasons.append("is too weak in some slots or symbols")
        if self._fails(self.repeated_p_value):
            reasons.append("repeats itself")
        if self._fails(self.shape_p_value) and not reasons:
            reasons.append("is not Gaussian")
        return f"{self.of} {' and '.join(reasons)}" if reasons else ""

    def _fails(self, p_value: float | None) -> bool:
        return p_value is not None and p_value < self.failure

    @property
    def in_words(self) -> str:
        """What the noise is like, in one line."""
        if self.passed is None:
            return "not checked: its signal is so loud that float32 rounds it away"
        runs = f" of {self.runs:,} runs" if self.runs > 1 else ""
        left_out = f", {self.slots_left_out:,} louder slots left out" if self.slots_left_out else ""
        shape = "" if self.shape_p_value is None else f", of being Gaussian {self.shape_p_value:.2g}"
        return (
            f"{self.why_not.removeprefix(f'{self.of} ') or 'as stated'}; "
            f"standard deviation {self.deviation:.4g} of the stated one, {self.upper:.4g} at most, from "
            f"{self.numbers:,} numbers{runs}{left_out}; p-value of the quietest slot or symbol "
            f"{self.quietest_p_value:.2g}, of repeated noise {self.repeated_p_value:.2g}{shape} (a fault below "
            f"{self.failure:.2g})"
        )

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "passed": self.passed, "why_not": self.why_not}


class NoiseMeter:
    """Takes in the noise of a run block by block; their size changes nothing."""

    def __init__(self, symbols: int, noise_watts: float) -> None:
        self.symbols = symbols
        self._noise_watts = noise_watts
        self._groups = min(symbols, _GROUPS)
        self._slots = 0
        self._squares = 0.0
        self._row_squares = 0.0
        self._least_of_slots = 1.0
        self._symbol_sums = torch.zeros(symbols, dtype=torch.float64)
        self._symbol_squares = torch.zeros(symbols, dtype=torch.float64)
        self._beyond = np.zeros(1 + len(_THRESHOLDS), dtype=np.int64)
        self._grouped: list[Doubles] = []
        self._used: list[NDArray[np.bool_]] = []
        self._kept: list[torch.Tensor] = []  # of the first slots, the first symbols

    def add(
        self, received: torch.Tensor, clean: torch.Tensor, power_scale_watts: Doubles, noise_watts: float = 0.0
    ) -> None:
        """Take consecutive slots into account: received with noise and without it, slots x symbols; beta, slots.

        ``noise_watts`` is what is stated of them, where that is not what is stated of the others.
        """
        power_scale_watts = power_scale_watts * (self._noise_watts / (noise_watts or self._noise_watts))
        at_once = max(1, _NUMBERS_AT_ONCE // self.symbols)
        for first in range(0, len(received), at_once):
            part = slice(first, first + at_once)
            self._add(received[part].cpu().double(), clean[part].cpu().double(), power_scale_watts[part])

    def _add(self, received: torch.Tensor, clean: torch.Tensor, power_scale_watts: Doubles) -> None:
        amplitude = np.sqrt(power_scale_watts / (self._noise_watts / 2.0))
        loudest = clean.abs().amax(dim=1).numpy()
        with np.errstate(invalid="ignore"):
            used = np.isfinite(amplitude) & (amplitude > 0.0) & (_HALF_UNIT * loudest * amplitude <= _MOST_ROUNDING)
        noise = ((received - clean) * torch.from_numpy(amplitude)[:, None])[torch.from_numpy(used)]
        if not bool(torch.isfinite(noise).all()):  # what is no number hides nothing that can be relied on
            noise = torch.nan_to_num(noise, 0.0, 0.0, 0.0)
            self._least_of_slots = 0.0
        grouped = np.zeros((len(used), self._groups))
        for group in range(self._groups):
            members = noise[:, group :: self._groups]
            grouped[used, group] = (members.sum(dim=1) / math.sqrt(members.shape[1])).numpy()
        self._grouped.append(grouped)
        self._used.append(used)
        if not used.any():
            return
        self._kept.append(noise[: max(0, _KEPT_SLOTS - self._slots), :_KEPT_SYMBOLS])
        squares = noise.square()
        slot_squares = squares.sum(dim=1)
        self._slots += len(noise)
        self._squares += float(slot_squares.sum())
        self._row_squares += float(noise.sum(dim=1).square().sum()) / self.symbols
        self._least_of_slots = min(self._least_of_slots, float(chi2.cdf(float(slot_squares.min()), self.symbols)))
        self._symbol_sums += noise.sum(dim=0)
        self._symbol_squares += squares.sum(dim=0)
        self._beyond += [int((noise > 0.0).sum()), *(int((squares > limit**2).sum()) for limit in _THRESHOLDS)]

    def finish(self, failure: float, runs: int = 1, of: str = NoiseCheck.of) -> NoiseCheck:
        """Return what was found in so many runs, each check failing by chance with that probability at most."""
        slots, numbers = self._slots, self._slots * self.symbols
        left_out = sum(map(len, self._used)) - slots
        if not numbers:
            return NoiseCheck(runs=runs, slots=0, slots_left_out=left_out, numbers=0, failure=failure, of=of)
        # Noise that is stronger than stated must not look like noise that repeats itself.
        excess = max(1.0, self._squares / numbers)
        least_of_symbols = float(chi2.cdf(float(self._symbol_squares.min()), slots))
        quietest = [
            2.0 * slots * self._least_of_slots if self.symbols >= _FEWEST_ADDED_UP else 1.0,
            2.0 * self.symbols * least_of_symbols if slots >= _FEWEST_ADDED_UP else 1.0,
        ]
        alike = [
            float(chi2.sf(float(self._symbol_sums.square().sum()) / slots / excess, self.symbols)) if slots > 1 else 1,
            float(chi2.sf(self._row_squares / excess, slots)) if self.symbols > 1 else 1.0,
            self._lag_p_value(excess),
            self._pair_p_value(),
        ]
        louder = float(chi2.sf(self._squares, numbers)) < failure
        return NoiseCheck(
            runs=runs,
            slots=slots,
            slots_left_out=left_out,
            numbers=numbers,
            deviation=math.sqrt(self._squares / numbers),
            upper=math.sqrt(self._squares / _least_chi_square(failure, numbers)),
            quietest_p_value=min(1.0, *quietest),
            repeated_p_value=min(1.0, len(alike) * min(alike)),
            shape_p_value=None if louder else self._shape_p_value(),
            failure=failure,
            of=of,
        )

    def _shape_p_value(self) -> float:
        """Return how likely the numbers beyond 0 and beyond 1, 2 and 3 deviations are as far off, for all counts."""
        numbers = self._slots * self.symbols
        chances = np.array([0.5, *(2.0 * norm.sf(limit) for limit in _THRESHOLDS)])
        below = binom.cdf(self._beyond, numbers, chances)
        above = binom.sf(self._beyond - 1, numbers, chances)
        return min(1.0, float(2.0 * len(chances) * np.minimum(below, above).min()))

    def _pair_p_value(self) -> float:
        """Return how likely two slots, of the first ones, are as much alike as the two that are most so.

        The squared cosine between independent standard normal vectors of n numbers has the law Beta(1/2, (n - 1) / 2).
        """
        noise = torch.cat(self._kept)
        slots, symbols = noise.shape
        if slots < 2 or symbols < _FEWEST_ADDED_UP:
            return 1.0
        noise = torch.nn.functional.normalize(noise)
        largest = float((noise @ noise.T).fill_diagonal_(0.0).square().max())
        pairs = slots * (slots - 1) / 2
        return min(1.0, pairs * float(beta.sf(min(largest, 1.0), 0.5, (symbols - 1) / 2.0)))

    def _lag_p_value(self, excess: float) -> float:
        """Return a bound on how likely slots some lag apart are as much alike as at the lag where they are most so.

        A sum c of n products of neighbours in chains of standard normal numbers has the moment generating function
        (1 - 4 l^2)^(-n / 8) at most: its matrix has eigenvalues of both signs, none beyond 1, of squares n / 2
        together. Chernoff's bound with the best l follows.
        """
        used, grouped = np.concatenate(self._used), np.concatenate(self._grouped)
        slots = len(used)
        if slots < 2:
            return 1.0
        products = np.abs(sum(_autocorrelation(column) for column in grouped.T)) / excess
        pairs = np.rint(_autocorrelation(used.astype(np.float64))) * self._groups
        told = (pairs > 0) & (products > 0.0)
        terms, total = pairs[told], products[told]
        best = (np.sqrt(terms**2 + 16.0 * total**2) - terms) / (8.0 * total)
        exponents = -best * total - terms / 8.0 * np.log1p(-4.0 * best**2)
        least = float(np.min(exponents, initial=0.0))
        return min(1.0, math.exp(least + math.log(2.0 * (slots - 1))))


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


def heard_blocks(
    scenario: Scenario,
    dataset: DataSet,
    population: Population,
    fault: Fault,
    speed: Speed,
    meter: NoiseMeter | None,
    sender: Payload | None = None,
    progress: Progress = silent,
) -> Iterator[tuple[torch.Tensor, MixtureBlock]]:
    """Run all slots and yield what reaches the adversary, the weight of labels put back, and the block it is from.

    Received is slots x symbols. The meter is told of the noise of every slot, as it was before the server divided by
    the mean gain of an imperfect air.
    """
    slots = scenario.radio.slots
    progress("one run", 0, slots)
    for block in simulate_blocks(scenario, dataset, population, speed=speed, sender=sender):
        with using_threads(speed.threads):
            yield heard(scenario, block, fault, meter), block
        progress("one run", block.first_slot + block.slots, slots)


def heard(
    scenario: Scenario, block: MixtureBlock, fault: Fault, meter: NoiseMeter | None, noise_watts: float = 0.0
) -> torch.Tensor:
    """Return what reaches the adversary of a block, slots x symbols, and tell the meter of its noise.

    A meter of fewer symbols is told of the first ones alone.
    """
    weight = scenario.workers.label_weight
    received = torch.cat([block.inputs, block.labels * weight], dim=1)
    clean = torch.cat([block.clean_inputs, block.clean_labels * weight], dim=1)
    if fault.noise_factor != 1.0:
        received = clean + (received - clean) * fault.noise_factor
    if meter is not None:
        gain, some = torch.ones((), device=received.device), slice(meter.symbols)
        if block.divisor is not None:
            frame = frame_of(scenario.air, received.shape[1])
            lengths = torch.tensor(frame.lengths, device=received.device)
            gain = block.divisor.abs().expand(-1, frame.pieces).repeat_interleave(lengths, dim=1)
        meter.add((received * gain)[:, some], (clean * gain)[:, some], block.draws.power_scale_watts, noise_watts)
    return received


def runs_needed(slots: int, symbols: int) -> int:
    """Return how many runs have enough noise between them to be measured."""
    return min(-(-_ENOUGH_NUMBERS // (slots * symbols)), _MOST_RUNS)


def seeds_of(scenario: Scenario, runs: int, stage: str, progress: Progress) -> Iterator[Scenario]:
    """Yield the scenario with its own seed and those that follow; after the largest comes 0."""
    for run in range(runs):
        progress(stage, run, runs)
        yield scenario.with_seed((scenario.seed + run) % _SEEDS)
    progress(stage, runs, runs)


def check_noise(
    scenario: Scenario,
    dataset: DataSet,
    symbols: int,
    fault: Fault,
    context: RunContext,
    failure: float,
    sums: IntegerSums | None = None,
) -> NoiseCheck:
    """Run all slots of a scenario on its own data, and return what their noise is like.

    Few slots tell little of it, so runs with the seeds that follow are added until there are enough numbers or runs.
    """
    meter, runs = NoiseMeter(symbols, stated_noise_watts(scenario, sums)), runs_needed(scenario.radio.slots, symbols)
    for seeded in seeds_of(scenario, runs, _STAGE, context.progress):
        population = deploy(seeded.workers, dataset.train_samples, Streams(seeded.seed))
        centred = centre_privately([seeded], dataset, population)
        for _ in heard_blocks(seeded, centred, population, fault, context.speed, meter):
            pass
    return meter.finish(failure, runs)


def _least_chi_square(failure: float, freedom: int) -> float:
    """Return what a chi-square falls below with that probability; SciPy loses digits where it has most."""
    if freedom < _MANY:
        return float(chi2.ppf(failure, freedom))
    part = 2.0 / (9.0 * freedom)  # Wilson and Hilferty
    return freedom * (1.0 - part + float(norm.ppf(failure)) * math.sqrt(part)) ** 3


def _autocorrelation(values: Doubles) -> Doubles:
    """Return sum_t v_t v_(t + lag) at every lag from 1 on; shape slots - 1."""
    length = 1 << (2 * len(values) - 1).bit_length()
    spectrum = np.fft.rfft(values, length)
    return np.asarray(np.fft.irfft(np.abs(spectrum) ** 2, length)[1 : len(values)])
