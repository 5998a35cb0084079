"""The attack of an isolating listener, who hears every worker separately, perfectly, and without noise of its own.

Everything but one worker's sample is known. What is left of every worker's signal is its own noise and its masks with
honest workers; in the audited worker's also the canary, or another sample (replace-one) or nothing (remove-one). A
removed worker goes on with its noise and its masks, as the claim has it. A trial is one symbol, that along the canary's
direction: noise is drawn for everybody, masks are formed by the workers' own code from keys (``isolating_filter``).

Two attacks: the best one there is if noise and masks are as stated, and one that listens to the audited worker alone,
which is weak unless masks are missing, or come again in every run. Where masks may be recovered, the second calls the
worker absent though it sent: its masks are revealed, its self mask is left. The sum of integers is all there is of
them: it is attacked as the server's (``known_schedule``), and the second attack hears one number's residue.

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
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import ndtri

from airmixml.arrays import Doubles
from airmixml.audit.canaries import has_rounds, sent_of, worst_samples
from airmixml.audit.faults import Fault
from airmixml.audit.isolating_filter import FormedMasks, Listening, draw_honest, listen
from airmixml.audit.known_schedule import contributions, rounded_in_noise, skellam_numbers
from airmixml.audit.noise_check import NoiseCheck, NoiseMeter
from airmixml.audit.rounds import ONE_MODEL
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
_ROUND, _ROUND_ALONE, _ROUND_RESIDUE = b"audit", b"audit, one alone", b"audit, one residue"
# Behind the chapters of the other attacks.
_CHAPTER: Final = 1 << 33
_COLLUDERS: Final = 1 << 34
_CHECKED_CHAPTER: Final = 1 << 35
_RESIDUES_CHAPTER: Final = 1 << 37
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
    alone: bool  # whether the worker alone is listened to

    def scored(self, world: int, turn: int, *where: int) -> Doubles:
        """Return the scores of trials of one world, with noise of that turn and masks from there; shape trials."""
        # Half-way between the worlds is 0; a mean that masks have in all trials stays.
        signal, move = self.along[world] - math.fsum(self.along) / 2.0, self.along[0] - self.along[1]
        clean = self.amplitude * signal * (1.0 if self.alone else self.listening.precision)
        heard = clean + self._noise(_CHAPTER + 4 * turn + 2 * self.alone + world, where[-1]) + self._masks(*where)
        precision = 1.0 / (self.masking.own_watts + self.masking.self_watts) if self.alone else 1.0
        return np.asarray(self.amplitude * move * precision * heard)

    def _noise(self, chapter: int, size: int) -> Doubles:
        listening, weights = self.listening, np.ones(1)
        if not self.alone:
            weights = np.append(listening.weights, math.sqrt(listening.others) * listening.others_weight)
        source = noise_source(self.seed, chapter)
        drawn = torch.randn((len(weights), size), generator=source, dtype=torch.float64).numpy()
        return math.sqrt(self.masking.own_watts) * self.fault.noise_factor * np.asarray(weights @ drawn)

    def _masks(self, *where: int) -> Doubles:
        formed = self.formed
        if formed is None or self.fault.unmasked:
            return np.zeros(where[-1])
        if self.alone and self.masking.self_watts > 0.0:  # masks are recovered
            return formed.self_mask(0, *where)
        return formed.added({formed.seat: 1.0} if self.alone else formed.weights, 0, *where)


@dataclass(frozen=True, kw_only=True, eq=False)
class ResidueSlot:
    """A slot of the audited worker where it sends integers: the residue of one number."""

    seed: int  # of noise and rounding
    fault: Fault  # injected into the mechanism
    sums: IntegerSums  # of which the worker's own noise alone counts
    worlds: tuple[float, float]  # its number with the canary and without
    formed: FormedMasks | None  # masks; None where there are none
    recovers: bool  # whether masks may be recovered: then the self mask is left

    def scored(self, world: int, turn: int, *where: int) -> Doubles:
        code, generator = (
            self.sums.noise.code,
            Streams(self.seed).generator("audit", _RESIDUES_CHAPTER + 2 * turn + world),
        )
        sent = np.full((where[-1], 1), self.worlds[world])
        heard = reduce(rounded_in_noise(self.sums, sent, generator, self.fault)[:, 0], code.bits)
        if self.formed is not None and not self.fault.unmasked:
            own = {self.formed.seat: 1.0}
            masks = (
                self.formed.self_mask(code.bits, *where) if self.recovers else self.formed.added(own, code.bits, *where)
            )
            heard = reduce(heard + masks, code.bits)
        precision = 1.0 / (self.sums.noise.variance_per_worker * code.step)
        return np.asarray((self.worlds[0] - self.worlds[1]) * precision * signed(heard, code.bits))


@dataclass(frozen=True, eq=False)
class _Scored:
    slots: tuple[HeardSlot | ResidueSlot, ...]  # that the worker sends in

    def __call__(self, block: int, size: int) -> Doubles:
        """Return the scores of a block of trials, with the canary and without; 2 x size."""
        scores, first = np.zeros((2, size)), block * _TRIALS_PER_BLOCK
        for number, slot in enumerate(self.slots):
            for world in range(2):
                scores[world] += slot.scored(world, block * len(self.slots) + number, 2 * number + world, first, size)
        return scores


def heard_slots(bench: Bench, worker: int, *, alone: bool = False) -> tuple[HeardSlot, ...]:
    """Return the slots of a worker for a listener who knows what colluding and absent workers add."""
    scenario = bench.air.scenario
    masking = masking_of(scenario)
    assert masking is not None
    seats, generator = list[tuple[float, int, Along]](), Streams(scenario.seed).generator("audit", _COLLUDERS)
    for kind in bench.kinds:
        along = _along(bench, kind.air)
        for drawn, draws, slot, seat in seats_of_worker(kind, worker):
            assert drawn.planned_ratios is not None
            # What a worker sends more softly than planned it sends with softer noise and masks.
            amplitudes = np.sqrt(draws.power_scale_watts[slot]) * drawn.planned_ratios.numpy()[slot, seat]
            seats += ((float(amplitude), int(own), along) for amplitude, own in zip(amplitudes, seat, strict=True))
    most_masks, heard = 0 if alone else _MOST_MASKS // max(1, len(seats)), dict[int, dict[str, Any]]()
    for own in dict.fromkeys(own for _, own, _ in seats):
        listening = listen(masking, own, draw_honest(scenario, masking, own, generator), most_masks)
        round_id = (_ROUND_ALONE if alone else _ROUND) + b" seat %d" % own
        heard[own] = {"listening": listening, "formed": _formed(bench, masking, listening, round_id)}
    about: dict[str, Any] = {"seed": scenario.seed, "masking": masking, "fault": bench.fault, "alone": alone}
    return tuple(HeardSlot(amplitude=amplitude, along=along, **heard[own], **about) for amplitude, own, along in seats)


def _formed(bench: Bench, masking: Masking, listening: Listening, round_id: bytes) -> FormedMasks | None:
    if masking.graph is None:
        return None
    agreed: dict[str, Any] = {"seed": bench.air.scenario.seed, "round_id": round_id, "reused": bench.fault.reused_seeds}
    return FormedMasks.of(listening, masking, **agreed)


def _along(bench: Bench, air: AirSetting) -> Along:
    """Return what the canary and what takes its place are in a kind of slots, along the direction between them."""
    canary, other, _ = sent_of(
        air.scenario, worst_samples(air.scenario, air.signal.features, bench.classes), bench.fault
    )
    if bench.adjacency == "remove-one":
        other = np.zeros_like(canary)
    direction = (canary - other) / math.sqrt(math.fsum((canary - other) ** 2))
    return float(canary @ direction), float(other @ direction)


def isolating_trials(bench: Bench, worker: int, *, alone: bool = False) -> Trials:
    """Return scores of trials in which everybody is heard, or in which the worker alone is listened to."""
    slots, how = heard_slots(bench, worker, alone=alone), "the worker's own noise is drawn in every trial"
    first = slots[0].listening
    if slots[0].formed is not None:
        weights = f"{plural(len(first.near), 'worker')} and with one weight {plural(first.others, 'other')}"
        cancel = "those between workers of equal weight cancel in the score"
        how = f"listens to {weights}, whose {len(first.masks):,} masks are formed from keys in every trial; {cancel}"
    heard = "every worker heard separately and without noise, along the canary's direction"
    how = f"{plural(len(slots), 'slot')}, {heard}; {how}{ONE_MODEL if has_rounds(bench.air.scenario) else ''}"
    name = "one worker heard alone" if alone else "all workers heard"
    return bench.run(name, min(_TRIALS_PER_BLOCK, bench.trials), _Scored(slots), how=how, normal=True)


def residue_trials(bench: Bench, worker: int) -> Trials:
    """Return scores of trials in which the worker alone is listened to, where it sends integers."""
    scenario = bench.air.scenario
    about: dict[str, Any] = {"seed": scenario.seed, "fault": bench.fault, "formed": _formed_residues(bench, worker)}
    _, with_canary, without, every = contributions(bench, worker)
    slots = []
    for one, other, sums in zip(with_canary.double(), without.double(), every, strict=True):
        assert sums is not None
        place = int((one - other).abs().argmax())
        worlds = (sums.noise.workers * float(one[place]), sums.noise.workers * float(other[place]))
        alone, recovers = replace(sums, masked=False), scenario.privacy.most_absent > 0.0
        slots.append(ResidueSlot(sums=alone, worlds=worlds, recovers=recovers, **about))
    how = f"{plural(len(slots), 'slot')}, the residue of one number that the worker sends"
    return bench.run("one worker heard alone", min(_TRIALS_PER_BLOCK, bench.trials), _Scored(tuple(slots)), how=how)


def _formed_residues(bench: Bench, worker: int) -> FormedMasks | None:
    """Return the masks that the worker shares with honest neighbours, in the seat of its first slot; None: none."""
    scenario = bench.air.scenario
    masking, generator = any_masking(scenario, None), Streams(scenario.seed).generator("audit", _COLLUDERS)
    own = next(int(where) for kind in bench.kinds for *_, seat in seats_of_worker(kind, worker) for where in seat)
    listening = listen(masking, own, draw_honest(scenario, masking, own, generator), most_masks=0)
    return _formed(bench, masking, listening, _ROUND_RESIDUE)


def check_added_noise(bench: Bench, worker: int, failure: float) -> NoiseCheck:
    """Form what workers add in several slots, and return what it is like."""
    if bench.air.integers is None:
        standardised = _standardised(bench, heard_slots(bench, worker, alone=True)[0])
    else:
        standardised = _standardised_residues(bench, bench.air.integers, _formed_residues(bench, worker))
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


def _standardised(bench: Bench, heard: HeardSlot) -> Standardised:
    masking, listening = heard.masking, heard.listening
    deviation, count = math.sqrt(masking.own_watts), listening.others + 1
    masked_watts = len(listening.masks) * masking.pair_watts + (1.0 - 1.0 / count) * masking.own_watts

    def standardised(slot: int, symbols: int) -> Doubles:
        source = noise_source(heard.seed, _CHECKED_CHAPTER + slot)
        drawn = torch.randn((2, symbols), generator=source).double().numpy()
        own, rest = deviation * bench.fault.noise_factor * drawn
        if heard.formed is None:
            return np.asarray(own[None] / deviation)
        masks, others = _masks_of(bench, heard.formed, slot, symbols)
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
