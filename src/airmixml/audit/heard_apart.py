"""The attack of somebody who hears every worker separately, perfectly, and without any noise of its own.

Everything but one worker's sample is known, so what all others send of theirs subtracts, and so do the masks of those
who collude or are called absent. What is left of every worker's signal is its own noise and its masks; in the audited
worker's also the canary, or in the other world another sample (replace-one) or nothing (remove-one). A removed worker
goes on with its noise and its masks, as the claim has it.

Symbols have noise and masks of the same law in all directions, so a trial is one symbol, that along the canary's
direction. Noise is drawn for everybody (of those whose weights are alike, their sum), masks are formed by the workers'
own code from keys (``formed``). Gains of an imperfect air change nothing for somebody who hears workers one by one.

Two attacks: the best one there is if noise and masks are as stated (``listening``), and one that listens to the audited
worker alone, which is weak unless masks are missing, or come again in every run. Where masks may be recovered, the
second calls the worker absent though it sent: its masks are revealed, its self mask is left.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from airmixml.audit.canaries import sent_of, worst_samples
from airmixml.audit.formed import FormedMasks
from airmixml.audit.listening import Listening, draw_honest, listen
from airmixml.audit.settings import Fault
from airmixml.audit.trials import Bench, Trials, noise_source
from airmixml.output.numbers import plural
from airmixml.radio.draws import AirSetting, draw_blocks, suitable_block
from airmixml.radio.masking import Masking, masking_of
from airmixml.streams import Streams

_MOST_MASKS: Final = 4096  # of all slots of a worker together
_TRIALS_PER_BLOCK: Final = 8192  # a seed takes as long for a few values as for a few thousand
_ROUND, _ROUND_ALONE = b"audit", b"audit, one alone"
_CHAPTER: Final = 1 << 33  # behind those of the other attacks
_COLLUDERS: Final = 1 << 34


@dataclass(frozen=True, kw_only=True, eq=False)
class HeardSlot:
    """A slot of the audited worker.

    Attributes:
        amplitude: sqrt(beta) q of the worker, in sqrt(watts).
        listening: with which weights everybody is listened to.
        formed: masks; None where there are none.
    """

    amplitude: float
    listening: Listening
    formed: FormedMasks | None


@dataclass(frozen=True, kw_only=True, eq=False)
class _Scored:
    """Scores trials, with the canary and without.

    Attributes:
        seed: of noise.
        slots: that the worker sends in.
        masking: how strong noise and masks are stated to be.
        along: what the worker sends along the direction of the move in either world, with a share of 1.
        alone: whether the worker alone is listened to.
        fault: injected into the mechanism.
    """

    seed: int
    slots: tuple[HeardSlot, ...]
    masking: Masking
    along: tuple[float, float]
    alone: bool
    fault: Fault

    def __call__(self, block: int, size: int) -> NDArray[np.float64]:
        """Return the scores of a block of trials; 2 x size."""
        scores, move = np.zeros((2, size)), self.along[0] - self.along[1]
        for world, sent in enumerate(self.along):
            for number, slot in enumerate(self.slots):
                chapter = _CHAPTER + (block * len(self.slots) + number) * 4 + 2 * self.alone + world
                # Half-way between the worlds is 0; a mean that masks have in all trials stays.
                signal, where = sent - math.fsum(self.along) / 2.0, (2 * number + world, block * _TRIALS_PER_BLOCK)
                clean = slot.amplitude * signal * (1.0 if self.alone else slot.listening.precision)
                heard = clean + self._noise(slot, chapter, size) + self._masks(slot, *where, size)
                precision = 1.0 / (self.masking.own_watts + self.masking.self_watts) if self.alone else 1.0
                scores[world] += slot.amplitude * move * precision * heard
        return scores

    def _noise(self, slot: HeardSlot, chapter: int, size: int) -> NDArray[np.float64]:
        """Return the workers' own noise in the score; shape size."""
        source, listening = noise_source(self.seed, chapter), slot.listening
        if self.alone:
            weights = np.ones(1)
        else:
            weights = np.append(listening.weights, math.sqrt(listening.others) * listening.others_weight)
        drawn = torch.randn((len(weights), size), generator=source, dtype=torch.float64).numpy()
        return math.sqrt(self.masking.own_watts) * self.fault.noise_factor * np.asarray(weights @ drawn)

    def _masks(self, slot: HeardSlot, number: int, first: int, size: int) -> NDArray[np.float64]:
        """Return what masks add to it; shape size."""
        formed = slot.formed
        if formed is None or self.fault.unmasked:
            return np.zeros(size)
        if not self.alone:
            return formed.in_score(number, first, size)
        recovers = self.masking.self_watts > 0.0
        return formed.self_mask(number, first, size) if recovers else formed.of_worker(number, first, size)


def heard_slots(bench: Bench, worker: int, *, alone: bool = False) -> tuple[HeardSlot, ...]:
    """Return the slots of a worker as somebody hears them who knows what colluding and absent workers add."""
    scenario, fault = bench.air.scenario, bench.settings.fault
    masking = masking_of(scenario)
    assert masking is not None
    drawn, generator = _seats_of_worker(bench.air, worker), Streams(scenario.seed).generator("audit", _COLLUDERS)
    most_masks, found = 0 if alone else _MOST_MASKS // max(1, len(drawn)), dict[int, tuple[Listening, FormedMasks]]()
    slots = []
    for amplitude, seat in drawn:
        if seat not in found:
            honest = draw_honest(scenario, masking, seat, generator)
            listening = listen(masking, seat, honest, most_masks)
            round_id = (_ROUND_ALONE if alone else _ROUND) + b" seat %d" % seat
            formed = FormedMasks.of(
                listening, masking, seed=scenario.seed, round_id=round_id, reused=fault.reused_seeds
            )
            found[seat] = listening, formed
        listening, formed = found[seat]
        slots.append(
            HeardSlot(amplitude=amplitude, listening=listening, formed=formed if masking.graph is not None else None)
        )
    return tuple(slots)


def heard_apart_trials(bench: Bench, worker: int, *, alone: bool = False) -> Trials:
    """Return scores of trials in which everybody is heard, or in which the worker alone is listened to."""
    scenario, fault = bench.air.scenario, bench.settings.fault
    masking, slots = masking_of(scenario), heard_slots(bench, worker, alone=alone)
    assert masking is not None
    canaries = worst_samples(scenario, bench.air.signal.features, bench.classes)
    canary, other, _ = sent_of(scenario, canaries, fault)
    if bench.adjacency == "remove-one":
        other = np.zeros_like(canary)
    direction = (canary - other) / math.sqrt(math.fsum((canary - other) ** 2))
    scored = _Scored(
        seed=scenario.seed,
        slots=slots,
        masking=masking,
        along=(float(canary @ direction), float(other @ direction)),
        alone=alone,
        fault=fault,
    )
    name = "one worker heard alone" if alone else "all workers heard"
    scores = bench.collect(name, min(_TRIALS_PER_BLOCK, bench.trials), scored)
    return Trials(scores_in=scores[0], scores_out=scores[1], how=_in_words(slots, masking), normal=True)


def _seats_of_worker(setting: AirSetting, worker: int) -> list[tuple[float, int]]:
    """Return sqrt(beta) q as planned, and the seat, of each slot that the worker sends in."""
    found = list[tuple[float, int]]()
    for drawn in draw_blocks(setting, suitable_block(setting)):
        draws, planned = drawn.numpy(), drawn.planned_ratios
        assert planned is not None
        slot, seat = np.nonzero((draws.scheduled_workers == worker) & (draws.ratios > 0.0))
        # What a worker sends more softly than planned it sends with softer noise and masks.
        amplitudes = np.sqrt(draws.power_scale_watts[slot]) * planned.numpy()[slot, seat]
        found += zip(amplitudes.tolist(), seat.tolist(), strict=True)
    return found


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
