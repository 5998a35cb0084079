"""The attack of an isolating listener, who hears every worker separately, perfectly, and without noise of its own.

Everything but one worker's sample is known. What is left of every worker's signal is its own noise and its masks with
honest workers; in the audited worker's also the canary, or another sample (replace-one) or nothing (remove-one). A
removed worker goes on with its noise and its masks, as the claim has it. A trial is one symbol, that along the canary's
direction: noise is drawn for everybody, masks are formed by the workers' own code from keys (``isolating_filter``). The
sum of integers is all there is of them: it is attacked as the server's (``known_schedule``).

What workers add is also measured, symbol by symbol in several slots. Two sums, each over its stated deviation, must be
independent standard normal numbers, within a slot and between slots:

- of all honest workers: masks cancel, n workers' own noise stays, of variance n s^2. Noise that is too weak shows here.
- of the audited worker, less the mean of all: k masks, of variance k e^2 + (1 - 1 / n) s^2. Masks that are missing show
  here, and masks that come again in another slot. A residue is uniform, and taken for the normal number of the same
  probability.

Without masks the worker's own noise is measured alone.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import ndtri

from airmixml.arrays import Doubles
from airmixml.audit.canaries import sent_of, worst_samples
from airmixml.audit.faults import Fault
from airmixml.audit.isolating_filter import FormedMasks, Listening, draw_honest, listen
from airmixml.audit.known_schedule import skellam_numbers
from airmixml.audit.noise_check import NoiseCheck, NoiseMeter
from airmixml.audit.trials import Bench, Trials, noise_source, seats_of_worker
from airmixml.integers.rounding import reduce, signed
from airmixml.radio.draws import AirSetting
from airmixml.radio.masking import Masking, any_masking, masking_of
from airmixml.radio.workers_noise import IntegerSums
from airmixml.streams import Streams
from airmixml.wording import plural

Along = tuple[float, float]

_MOST_MASKS: Final = 4096  # of all slots of a worker together
_TRIALS_PER_BLOCK: Final = 8192  # a seed takes as long for a few values as for a few thousand
_ROUND, _ROUND_CHECKED = b"audit", b"audit, one alone"
# Behind the chapters of the other attacks.
_CHAPTER: Final = 1 << 33
_COLLUDERS: Final = 1 << 34
_CHECKED_CHAPTER: Final = 1 << 35
_ENOUGH_NUMBERS: Final = 4096
_MOST_SYMBOLS: Final = 1024
_LEAST_SLOTS: Final = 4
_FIRST_CHECKED_SLOT: Final = 1 << 40  # of masks: behind those of all trials
_CHECKED: Final = "what workers add"


@dataclass(frozen=True, kw_only=True, eq=False)
class HeardSlot:
    """A slot of the audited worker."""

    seed: int  # of noise
    masking: Masking  # how strong noise and masks are stated to be
    fault: Fault  # injected into the mechanism
    amplitude: float  # sqrt(beta) q of the worker, in sqrt(watts)
    along: Along  # what it sends in either world along the direction of the move, with a share of 1
    listening: Listening  # with which weights everybody is listened to
    formed: FormedMasks | None  # masks; None where there are none

    def scored(self, world: int, turn: int, *where: int) -> Doubles:
        """Return the scores of trials of one world, with noise of that turn and masks from there; shape trials."""
        # Half-way between the worlds is 0; a mean that masks have in all trials stays.
        signal, move = self.along[world] - math.fsum(self.along) / 2.0, self.along[0] - self.along[1]
        listening, source = self.listening, noise_source(self.seed, _CHAPTER + 4 * turn + world)
        weights = np.append(listening.weights, math.sqrt(listening.others) * listening.others_weight)
        drawn = torch.randn((len(weights), where[-1]), generator=source, dtype=torch.float64).numpy()
        noise = math.sqrt(self.masking.own_watts) * self.fault.noise_factor * np.asarray(weights @ drawn)
        heard = self.amplitude * signal * listening.precision + noise
        if self.formed is not None and not self.fault.unmasked:
            heard += self.formed.added(self.formed.weights, 0, *where)
        return np.asarray(self.amplitude * move * heard)


@dataclass(frozen=True, eq=False)
class _Scored:
    slots: tuple[HeardSlot, ...]  # that the worker sends in

    def __call__(self, block: int, size: int) -> Doubles:
        """Return the scores of a block of trials, with the canary and without; 2 x size."""
        scores, first = np.zeros((2, size)), block * _TRIALS_PER_BLOCK
        for number, slot in enumerate(self.slots):
            for world in range(2):
                scores[world] += slot.scored(world, block * len(self.slots) + number, 2 * number + world, first, size)
        return scores


def heard_slots(bench: Bench, worker: int) -> tuple[HeardSlot, ...]:
    """Return the slots of a worker for a listener who knows what colluding and absent workers add."""
    seats = list[tuple[float, int, Along]]()
    for kind in bench.kinds:
        along = _along(bench, kind.air)
        for drawn, draws, slot, seat in seats_of_worker(kind, worker):
            assert drawn.planned_ratios is not None
            # What a worker sends more softly than planned it sends with softer noise and masks.
            amplitudes = np.sqrt(draws.power_scale_watts[slot]) * drawn.planned_ratios.numpy()[slot, seat]
            seats += ((float(amplitude), int(own), along) for amplitude, own in zip(amplitudes, seat, strict=True))
    heard = _listened(bench, [own for _, own, _ in seats], _MOST_MASKS // max(1, len(seats)), _ROUND)
    about: dict[str, Any] = {"seed": bench.air.scenario.seed, "fault": bench.fault}
    return tuple(HeardSlot(amplitude=amplitude, along=along, **heard[own], **about) for amplitude, own, along in seats)


def _listened(bench: Bench, seats: list[int], most_masks: int, round_id: bytes) -> dict[int, dict[str, Any]]:
    """Return what a ``HeardSlot`` has of each of these seats: masking, listening, and masks as they are formed."""
    scenario, found = bench.air.scenario, dict[int, dict[str, Any]]()
    masking = masking_of(scenario) or any_masking(scenario)
    generator = Streams(scenario.seed).generator("audit", _COLLUDERS)
    agreed: dict[str, Any] = {"seed": scenario.seed, "reused": bench.fault.reused_seeds}
    for own in dict.fromkeys(seats):
        listening, formed = listen(masking, own, draw_honest(scenario, masking, own, generator), most_masks), None
        if masking.graph is not None:
            formed = FormedMasks.of(listening, masking, round_id=round_id + b" seat %d" % own, **agreed)
        found[own] = {"masking": masking, "listening": listening, "formed": formed}
    return found


def _along(bench: Bench, air: AirSetting) -> Along:
    """Return what the canary and what takes its place are in a kind of slots, along the direction between them."""
    canary, other, _ = sent_of(
        air.scenario, worst_samples(air.scenario, air.signal.features, bench.classes), bench.fault
    )
    if bench.adjacency == "remove-one":
        other = np.zeros_like(canary)
    direction = (canary - other) / math.sqrt(math.fsum((canary - other) ** 2))
    return float(canary @ direction), float(other @ direction)


def isolating_trials(bench: Bench, worker: int) -> Trials:
    """Return scores of trials in which everybody is heard."""
    slots, how = heard_slots(bench, worker), "the worker's own noise is drawn in every trial"
    first = slots[0].listening
    if slots[0].formed is not None:
        weights = f"{plural(len(first.near), 'worker')} and with one weight {plural(first.others, 'other')}"
        cancel = "those between workers of equal weight cancel in the score"
        how = f"listens to {weights}, whose {len(first.masks):,} masks are formed from keys in every trial; {cancel}"
    heard = "every worker heard separately and without noise, along the canary's direction"
    how = f"{plural(len(slots), 'slot')}, {heard}; {how}"
    return bench.run("all workers heard", min(_TRIALS_PER_BLOCK, bench.trials), _Scored(slots), how=how, normal=True)


def check_added_noise(bench: Bench, worker: int, failure: float) -> NoiseCheck:
    """Form what workers add in several slots, and return what it is like."""
    own = next(int(where) for kind in bench.kinds for *_, seat in seats_of_worker(kind, worker) for where in seat)
    heard = _listened(bench, [own], 0, _ROUND_CHECKED)[own]
    if bench.air.integers is None:
        standardised = _standardised(bench, **heard)
    else:
        standardised = _standardised_residues(bench, bench.air.integers, heard["formed"])
    symbols = min(bench.air.signal.symbols, _MOST_SYMBOLS)
    slots = max(_LEAST_SLOTS, -(-_ENOUGH_NUMBERS // symbols))
    meter = NoiseMeter(symbols, 2.0)
    for slot in range(slots):
        bench.context.progress(_CHECKED, slot, slots)
        rows = torch.from_numpy(standardised(slot, symbols))
        meter.add(rows, torch.zeros_like(rows), np.ones(len(rows)))
    bench.context.progress(_CHECKED, slots, slots)
    return meter.finish(failure, of=_CHECKED)


Standardised = Callable[[int, int], Doubles]
"""Returns sums of a slot, from its number and its symbols, over their stated deviations; rows x symbols."""


def _masks_of(bench: Bench, formed: FormedMasks | None, slot: int, symbols: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return what masks add to what the audited worker sends, and to all others together; shape symbols each."""
    bits = 0 if bench.air.integers is None else bench.air.integers.noise.code.bits
    if formed is None or bench.fault.unmasked:
        none = np.zeros(symbols, dtype=np.uint64 if bits else np.float64)
        return none, none
    where = bits, _FIRST_CHECKED_SLOT + slot, 0, symbols
    others = {other: 1.0 for other in formed.weights if other != formed.seat}
    return formed.added({formed.seat: 1.0}, *where), formed.added(others, *where)


def _standardised(bench: Bench, masking: Masking, listening: Listening, formed: FormedMasks | None) -> Standardised:
    deviation, count = math.sqrt(masking.own_watts), listening.others + 1
    masked_watts = len(listening.masks) * masking.pair_watts + (1.0 - 1.0 / count) * masking.own_watts

    def standardised(slot: int, symbols: int) -> Doubles:
        source = noise_source(bench.air.scenario.seed, _CHECKED_CHAPTER + slot)
        drawn = torch.randn((2, symbols), generator=source).double().numpy()
        own, rest = deviation * bench.fault.noise_factor * drawn
        if formed is None:
            return np.asarray(own[None] / deviation)
        masks, others = _masks_of(bench, formed, slot, symbols)
        everybody = own + rest * math.sqrt(listening.others) + masks + others
        apart = own + masks - everybody / count
        return np.stack([everybody / (deviation * math.sqrt(count)), apart / math.sqrt(masked_watts)])

    return standardised


def _standardised_residues(bench: Bench, sums: IntegerSums, formed: FormedMasks | None) -> Standardised:
    bits, each, fault = sums.noise.code.bits, sums.noise.variance_per_worker, bench.fault

    def standardised(slot: int, symbols: int) -> Doubles:
        generator = Streams(bench.air.scenario.seed).generator("audit", _CHECKED_CHAPTER + slot)
        own = skellam_numbers(each, generator, (symbols,), fault)
        rest = own * 0
        if sums.carriers > 1:
            rest = skellam_numbers((sums.carriers - 1) * each, generator, (symbols,), fault)
        masks, others = _masks_of(bench, formed, slot, symbols)
        sent = reduce(reduce(own, bits) + masks, bits)
        everybody = signed(reduce(sent + reduce(rest, bits) + others, bits), bits)
        within = generator.random((2, symbols)) - 0.5  # of a step: what is on steps has no density
        rows = [(everybody + within[0]) / np.sqrt(sums.carriers * each)]
        if formed is not None:
            rows.append(ndtri((signed(sent, bits) + within[1] + 0.5) / 2.0**bits + 0.5))
        return np.stack(rows)

    return standardised
