"""The attack of an adversary who sees the mixtures and knows no schedule, on the ideal air.

The data set is the worst one. Where exactly |N_t| workers send, all others hold one sample u, so that a slot without
the canary v is known, and one with it is moved by q (v - u). Where every worker tosses its own coin, the others' coins
are granted and what they sent subtracts: the move is q v. Noise has the same law in all directions, so only the plane
of the moves is received: one number a slot, or two for a replacement.

A trial is one worker of a real schedule (its slots, shares and powers come from the draws of a run) in fresh noise. Up
to one worker in twenty of a run is used, then comes the run of the next seed. Workers of one run are nearly but not
quite independent: counts of them had 0.80 to 1.06 times the variance of independent trials where that was measured, so
that limits made for independent trials hold about, which is not proven.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Final

import numpy as np
import torch

from airmixml.arrays import Doubles
from airmixml.attacks.likelihood import Amplitudes
from airmixml.audit.canaries import sent_of, worst_samples
from airmixml.audit.faults import SOUND, Fault
from airmixml.audit.noise_check import stated_noise_watts
from airmixml.audit.trials import Bench, SlotKind, Trials, noise_source
from airmixml.errors import ScenarioError
from airmixml.radio.air import receive_mixtures
from airmixml.radio.draws import AirSetting, SlotTensors, draw_slots
from airmixml.radio.tally import placed_distances
from airmixml.streams import SLOTS_PER_CHAPTER
from airmixml.wording import plural

_WORKERS_PER_CANARY: Final = 20
# Beyond e^80 a slot has told everything; float32 would overflow next.
_LARGEST_LOG_RATIO: Final = 80.0
_SLOTS_LOOKED_AT: Final = 1024


@dataclass(frozen=True, kw_only=True, eq=False)
class Moves:
    """What the worker adds to a slot that it sends in with a share of 1, beside a slot without it."""

    with_canary: Doubles  # shape dimensions (1 or 2)
    without: Doubles  # in the other world; zero where that world's slots look like those without the worker
    about: str  # which data set that is, in words


def moves_of(setting: AirSetting, classes: int, adjacency: str, fault: Fault = SOUND) -> Moves:
    """Return the worst moves, of what the real sender sends.

    A removal from a fixed schedule lets another worker take its place, so the move is v - u.
    """
    scenario, radio = setting.scenario, setting.scenario.radio
    canary, other, third = sent_of(scenario, worst_samples(scenario, setting.signal.features, classes), fault)
    silence, everybody = np.zeros_like(canary), radio.scheduled == scenario.workers.count
    if radio.schedule_kind.by_coin or (adjacency == "remove-one" and everybody):
        without = silence if adjacency == "remove-one" else other
        return _in_plane(canary, without, "what the others sent is known; a seat without the worker is silent")
    if adjacency == "remove-one" or everybody:
        return _in_plane(canary - other, silence, "all other workers hold the sample farthest from the canary")
    return _in_plane(canary - third, other - third, "all other workers hold a third sample")


def _in_plane(first: Doubles, second: Doubles, about: str) -> Moves:
    """Return two moves in coordinates of the plane that they span: the first lies on its first axis."""
    length = math.sqrt(float(first @ first))
    if not second.any():
        return Moves(with_canary=np.array([length]), without=np.zeros(1), about=about)
    along = float(first @ second) / length
    across = math.sqrt(max(float(second @ second) - along**2, 0.0))
    return Moves(with_canary=np.array([length, 0.0]), without=np.array([along, across]), about=about)


def seat_strengths(setting: AirSetting, drawn: SlotTensors) -> Doubles:
    """Return sqrt(beta) q over the noise deviation of every seat that is taken; shape seats."""
    draws, radio = drawn.numpy(), setting.scenario.radio
    amplitude = np.sqrt(draws.power_scale_watts / (stated_noise_watts(setting.scenario) / 2.0))
    if radio.schedule_kind.by_coin:
        return np.asarray(amplitude * (1.0 / radio.scheduled))  # of anybody who sends, even if nobody does
    return np.asarray((draws.ratios * amplitude[:, None]).ravel())


@dataclass(frozen=True, kw_only=True, eq=False)
class _Runs:
    """Scores workers of the schedule of one seed after the other, in fresh noise."""

    kinds: list[tuple[SlotKind, Moves, Amplitudes]]
    fault: Fault
    block_slots: int

    def __call__(self, run: int, canaries: int) -> Doubles:
        """Return the scores of so many workers of a run, with the canary and without; 2 x workers."""
        seed = self.kinds[0][0].air.scenario.seed
        blocks = run * sum(-(-len(kind.slots) // self.block_slots) for kind, *_ in self.kinds)
        sources = (noise_source(seed, 2 * block + 1) for block in count(blocks))
        return np.asarray(np.sum([self._scores(run, canaries, sources, *each) for each in self.kinds], axis=0))

    def _scores(
        self, run: int, canaries: int, sources: Iterator[torch.Generator], kind: SlotKind, moves: Moves, law: Amplitudes
    ) -> Doubles:
        """Return the same of one kind of slots; each block has the next source of noise."""
        base, fault = kind.air.scenario, self.fault
        noise_watts, scenario = stated_noise_watts(base), base.with_seed(base.seed + run)
        kind = replace(kind, air=replace(kind.air, scenario=scenario, distance_metres=placed_distances(scenario)))
        column, worlds = torch.full((scenario.workers.count,), -1), (moves.with_canary, moves.without)
        column[:canaries] = torch.arange(canaries)
        totals = [torch.zeros(canaries, dtype=torch.float64) for _ in worlds]
        for drawn in kind.drawn(self.block_slots):
            source = next(sources)
            slot, seat = torch.nonzero(column[drawn.scheduled_workers] >= 0, as_tuple=True)
            who, beta = column[drawn.scheduled_workers[slot, seat]], drawn.power_scale_watts
            amplitude = torch.sqrt(beta / (noise_watts / 2.0)).float()[:, None, None]
            shares, told = drawn.ratios[slot, seat], None
            if fault.schedule_revealed:
                told = torch.zeros((len(drawn), canaries))
                told[slot, who] = shares.float()
                told = told * amplitude[:, 0]
            for total, move in zip(totals, worlds, strict=True):
                clean = torch.zeros((len(drawn), len(move), canaries))
                clean[slot, :, who] = (shares[:, None] * torch.from_numpy(move)).float()
                noise = torch.randn(clean.flatten(1).shape, generator=source)
                heard = receive_mixtures(clean.flatten(1), noise, beta, fault.heard(noise_watts)).reshape(clean.shape)
                total.add_(_log_ratios(moves, law, heard * amplitude, told))
        return np.stack([total.numpy() for total in totals])


def _log_ratios(moves: Moves, law: Amplitudes, received: torch.Tensor, told: torch.Tensor | None) -> torch.Tensor:
    """Return the log-likelihood ratios of some slots (slots x dimensions x trials), added up; shape trials.

    Their mean is over whether the worker sends in a slot, and over a few strengths of those who do, exact where
    shares are equal; any score is an attack, so rounding costs strength alone.
    """
    total = torch.zeros(received.shape[2], dtype=torch.float64)
    for sign, move in ((1.0, moves.with_canary), (-1.0, moves.without)):
        if not move.any():
            continue
        along: Any = sum(received[:, part] * float(value) for part, value in enumerate(move))
        square = float(move @ move)
        if told is not None:
            ratio = told * along - told**2 * square / 2.0
        else:
            likelihood = torch.zeros(received[:, 0].shape)  # of a slot that the worker sends in
            for strength, share in zip(law.levels, law.shares, strict=True):
                exponent = strength * along - strength**2 * square / 2.0
                likelihood += share * torch.exp(exponent.clamp_(-_LARGEST_LOG_RATIO, _LARGEST_LOG_RATIO))
            ratio = torch.log1p(law.taking_part * (likelihood - 1.0))
        total += sign * ratio.sum(dim=0, dtype=torch.float64)
    return total


def hidden_schedule_trials(bench: Bench, numbers_at_once: int = 1 << 19) -> Trials:
    """Return scores of so many workers in each world, their slots in blocks of about so many numbers."""
    base, trials, fault = bench.air.scenario, bench.trials, bench.fault
    if not base.air.is_ideal:
        what = "adversary = 'release': a hidden schedule on an imperfect air is not audited"
        raise ScenarioError(f"{what}; audit the server (--adversary server)")
    per_run = min(trials, max(1, base.workers.count // _WORKERS_PER_CANARY))
    runs = -(-trials // per_run)
    base.with_seed(base.seed + runs)  # refuses a last seed that is too large
    kinds = []
    for kind in bench.kinds:
        strengths = seat_strengths(kind.air, draw_slots(kind.air, kind.slots[:_SLOTS_LOOKED_AT]))
        law = Amplitudes.of(np.square(strengths)[:, None], base.workers.count / base.radio.scheduled, alike=False)
        kinds.append((kind, moves_of(kind.air, bench.classes, bench.adjacency, fault), law))
    told = ", and the schedule is told" if fault.schedule_revealed else ""
    how = f"{plural(per_run, 'worker')} in each world of {plural(runs, 'schedule')}; {kinds[0][1].about}{told}"
    scored = _Runs(kinds=kinds, fault=fault, block_slots=max(SLOTS_PER_CHAPTER, numbers_at_once // per_run))
    return bench.run("schedule hidden", per_run, scored, how=how)
