"""The attack of an isolating listener, who hears every worker separately, perfectly, and without noise of its own.

Everything but one worker's sample is known, so what all others send of theirs subtracts, and so do the masks of those
who collude or are called absent. What is left of every worker's signal is its own noise and its masks; in the audited
worker's also the canary, or in the other world another sample (replace-one) or nothing (remove-one). A removed worker
goes on with its noise and its masks, as the claim has it.

Symbols have noise and masks of the same law in all directions, so a trial is one symbol, that along the canary's
direction. Noise is drawn for everybody (of those whose weights are alike, their sum), masks are formed by the workers'
own code from keys (``isolating_filter``). Gains of an imperfect air change nothing for an isolating listener.

Two attacks: the best one there is if noise and masks are as stated, and one that listens to the audited worker alone,
which is weak unless masks are missing, or come again in every run. Where masks may be recovered, the second calls the
worker absent though it sent: its masks are revealed, its self mask is left.

What workers add is also measured, symbol by symbol in several slots. Two sums, each over its stated deviation, must be
independent standard normal numbers, within a slot and between slots:

- of all honest workers: masks cancel, n workers' own noise stays, of variance n s^2. Noise that is too weak shows here.
- of the audited worker, less the mean of all: k masks, of variance k e^2 + (1 - 1 / n) s^2. Masks that are missing show
  here, and masks that come again in another slot, which a difference of the two slots would take away.

The two are independent of each other. Without masks the worker's own noise is measured alone.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch

from airmixml.arrays import Doubles
from airmixml.audit.canaries import has_rounds, sent_of, worst_samples
from airmixml.audit.faults import Fault
from airmixml.audit.isolating_filter import FormedMasks, Listening, draw_honest, listen
from airmixml.audit.noise_check import NoiseCheck, NoiseMeter
from airmixml.audit.rounds import ONE_MODEL
from airmixml.audit.trials import Bench, Trials, noise_source, seats_of_worker
from airmixml.radio.draws import AirSetting
from airmixml.radio.masking import Masking, masking_of
from airmixml.streams import Streams
from airmixml.wording import plural

Along = tuple[float, float]

_MOST_MASKS: Final = 4096  # of all slots of a worker together
_TRIALS_PER_BLOCK: Final = 8192  # a seed takes as long for a few values as for a few thousand
_ROUND, _ROUND_ALONE = b"audit", b"audit, one alone"
_CHAPTER: Final = 1 << 33  # behind those of the other attacks
COLLUDERS: Final = 1 << 34
_ENOUGH_NUMBERS: Final = 4096
_MOST_SYMBOLS: Final = 1024
_LEAST_SLOTS: Final = 4
CHECKED_CHAPTER: Final = 1 << 35
FIRST_CHECKED_SLOT: Final = 1 << 40  # of masks: behind those of all trials
_CHECKED: Final = "what workers add"


@dataclass(frozen=True, kw_only=True, eq=False)
class HeardSlot:
    """A slot of the audited worker."""

    amplitude: float  # sqrt(beta) q of the worker, in sqrt(watts)
    along: Along  # what it sends in either world along the direction of the move, with a share of 1
    listening: Listening  # with which weights everybody is listened to
    formed: FormedMasks | None  # masks; None where there are none


@dataclass(frozen=True, kw_only=True, eq=False)
class _Scored:
    """Scores trials, with the canary and without."""

    seed: int  # of noise
    slots: tuple[HeardSlot, ...]  # that the worker sends in
    masking: Masking  # how strong noise and masks are stated to be
    alone: bool  # whether the worker alone is listened to
    fault: Fault  # injected into the mechanism

    def __call__(self, block: int, size: int) -> Doubles:
        """Return the scores of a block of trials; 2 x size."""
        scores = np.zeros((2, size))
        for number, slot in enumerate(self.slots):
            move = slot.along[0] - slot.along[1]
            for world, sent in enumerate(slot.along):
                chapter = _CHAPTER + (block * len(self.slots) + number) * 4 + 2 * self.alone + world
                # Half-way between the worlds is 0; a mean that masks have in all trials stays.
                signal, where = sent - math.fsum(slot.along) / 2.0, (2 * number + world, block * _TRIALS_PER_BLOCK)
                clean = slot.amplitude * signal * (1.0 if self.alone else slot.listening.precision)
                heard = clean + self._noise(slot, chapter, size) + self._masks(slot, *where, size)
                precision = 1.0 / (self.masking.own_watts + self.masking.self_watts) if self.alone else 1.0
                scores[world] += slot.amplitude * move * precision * heard
        return scores

    def _noise(self, slot: HeardSlot, chapter: int, size: int) -> Doubles:
        """Return the workers' own noise in the score; shape size."""
        source, listening = noise_source(self.seed, chapter), slot.listening
        if self.alone:
            weights = np.ones(1)
        else:
            weights = np.append(listening.weights, math.sqrt(listening.others) * listening.others_weight)
        drawn = torch.randn((len(weights), size), generator=source, dtype=torch.float64).numpy()
        return math.sqrt(self.masking.own_watts) * self.fault.noise_factor * np.asarray(weights @ drawn)

    def _masks(self, slot: HeardSlot, number: int, first: int, size: int) -> Doubles:
        """Return what masks add to it; shape size."""
        formed = slot.formed
        if formed is None or self.fault.unmasked:
            return np.zeros(size)
        if self.alone and self.masking.self_watts > 0.0:  # masks are recovered
            return formed.self_mask(number, first, size)
        return formed.added({formed.seat: 1.0} if self.alone else formed.weights, number, first, size)


def heard_slots(bench: Bench, worker: int, *, alone: bool = False) -> tuple[HeardSlot, ...]:
    """Return the slots of a worker for a listener who knows what colluding and absent workers add."""
    scenario = bench.air.scenario
    masking = masking_of(scenario)
    assert masking is not None
    seats, generator = list[tuple[float, int, Along]](), Streams(scenario.seed).generator("audit", COLLUDERS)
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
        agreed: dict[str, Any] = {"seed": scenario.seed, "round_id": round_id, "reused": bench.fault.reused_seeds}
        formed = None if masking.graph is None else FormedMasks.of(listening, masking, **agreed)
        heard[own] = {"listening": listening, "formed": formed}
    return tuple(HeardSlot(amplitude=amplitude, along=along, **heard[own]) for amplitude, own, along in seats)


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
    scenario = bench.air.scenario
    masking, slots = masking_of(scenario), heard_slots(bench, worker, alone=alone)
    assert masking is not None
    scored = _Scored(seed=scenario.seed, slots=slots, masking=masking, alone=alone, fault=bench.fault)
    name = "one worker heard alone" if alone else "all workers heard"
    how = _in_words(slots, masking) + (ONE_MODEL if has_rounds(scenario) else "")
    return bench.run(name, min(_TRIALS_PER_BLOCK, bench.trials), scored, how=how, normal=True)


def _in_words(slots: tuple[HeardSlot, ...], masking: Masking) -> str:
    first = slots[0].listening
    how = f"{plural(len(slots), 'slot')}, every worker heard separately and without noise, along the canary's direction"
    if masking.graph is None:
        return f"{how}; the worker's own noise is drawn in every trial"
    weights = f"{plural(len(first.near), 'worker')} and with one weight {plural(first.others, 'other')}"
    cancel = "those between workers of equal weight cancel in the score"
    return (
        f"{how}; listens to {weights}, whose {len(first.masks):,} masks are formed from keys in every trial; {cancel}"
    )


def check_added_noise(bench: Bench, worker: int, failure: float) -> NoiseCheck:
    """Form what workers add in several slots, and return what it is like."""
    heard = heard_slots(bench, worker, alone=True)[0]
    return check_standardised(bench, lambda slot, symbols: _standardised(bench, heard, slot, symbols), failure)


def check_standardised(bench: Bench, formed: Callable[[int, int], Doubles], failure: float) -> NoiseCheck:
    """Return what is like that which workers add in several slots, from a slot's number and its symbols.

    Rows x symbols, each number over its stated deviation.
    """
    symbols = min(bench.air.signal.symbols, _MOST_SYMBOLS)
    slots = max(_LEAST_SLOTS, -(-_ENOUGH_NUMBERS // symbols))
    meter = NoiseMeter(symbols, 2.0)
    for slot in range(slots):
        bench.context.progress(_CHECKED, slot, slots)
        rows = torch.from_numpy(formed(slot, symbols))
        meter.add(rows, torch.zeros_like(rows), np.ones(len(rows)))
    bench.context.progress(_CHECKED, slots, slots)
    return meter.finish(failure, of=_CHECKED)


def _standardised(bench: Bench, heard: HeardSlot, slot: int, symbols: int) -> Doubles:
    """Return both sums of a slot over their stated deviations; rows x symbols."""
    masking, fault = masking_of(bench.air.scenario), bench.fault
    assert masking is not None
    source, listening = noise_source(bench.air.scenario.seed, CHECKED_CHAPTER + slot), heard.listening
    deviation, others = math.sqrt(masking.own_watts), listening.others
    own, rest = deviation * fault.noise_factor * torch.randn((2, symbols), generator=source).double().numpy()
    if heard.formed is None:
        return np.asarray(own[None] / deviation)
    rest, count = rest * math.sqrt(others), others + 1
    masks = others_masks = np.zeros(symbols)
    if not fault.unmasked:
        every, seat, where = heard.formed.weights, heard.formed.seat, (FIRST_CHECKED_SLOT + slot, 0, symbols)
        masks = heard.formed.added({seat: 1.0}, *where)
        others_masks = heard.formed.added({other: 1.0 for other in every if other != seat}, *where)
    everybody = own + rest + masks + others_masks
    masked_watts = len(listening.masks) * masking.pair_watts + (1.0 - 1.0 / count) * masking.own_watts
    apart = own + masks - everybody / count
    return np.stack([everybody / (deviation * math.sqrt(count)), apart / math.sqrt(masked_watts)])
