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
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
import torch

from airmixml.arrays import Doubles
from airmixml.audit.canaries import sent_of, worst_samples
from airmixml.audit.faults import SOUND, Fault
from airmixml.audit.noise_of_runs import stated_noise_watts
from airmixml.audit.trials import Bench, SlotKind, Trials, noise_source
from airmixml.errors import ScenarioError
from airmixml.impairments.fading import worker_path_gain
from airmixml.radio.air import receive_mixtures
from airmixml.radio.draws import AirSetting, SlotTensors, draw_slots
from airmixml.radio.system import round_length_of
from airmixml.radio.tally import placed_distances
from airmixml.scenario import Scenario
from airmixml.streams import SLOTS_PER_CHAPTER
from airmixml.wording import plural

_WORKERS_PER_CANARY: Final = 20
# Beyond e^80 a slot has told everything; float32 would overflow next.
_LARGEST_LOG_RATIO: Final = 80.0
_SLOTS_LOOKED_AT: Final = 1024
_LARGEST_EXPONENT: Final = 200.0
_VALUES: Final = 6
_SAME: Final = 0.1
_SILENT: Final = 1e-6
Law = tuple[Doubles, Doubles]


@dataclass(frozen=True, kw_only=True, eq=False)
class Moves:
    """What the worker adds to a slot that it sends in with a share of 1, beside a slot without it."""

    with_canary: Doubles  # shape dimensions (1 or 2)
    without: Doubles  # in the other world; zero where that world's slots look like those without the worker
    about: str  # which data set that is, in words


def moves_of(setting: AirSetting, classes: int, adjacency: str, fault: Fault = SOUND) -> Moves:
    """Return the worst moves, of what the real sender sends.

    A removal from a fixed schedule lets somebody else take the seat, so the move is v - u. A replacement has several
    candidates for what the others hold: the second sample itself, or a third one far from both. The one that moves
    more is taken, by the chi-square divergence of a slot at a small sampling rate,
    e^|a|^2 + e^|b|^2 - 2 e^(a . b) for moves a and b over the noise; u half-way between the two moves least.
    """
    scenario, radio = setting.scenario, setting.scenario.radio
    canary, other, third = sent_of(scenario, worst_samples(scenario, setting.signal.features, classes), fault)
    silence = np.zeros_like(canary)
    everybody = radio.scheduled == scenario.workers.count
    if adjacency == "remove-one":
        if radio.schedule_kind.by_coin or everybody:
            return _in_plane(canary, silence, "a seat without the canary is silent")
        return _in_plane(canary - other, silence, "all other workers hold the sample farthest from the canary")
    if radio.schedule_kind.by_coin:
        return _in_plane(canary, other, "what the others sent is known; without the worker a seat is silent")
    candidates = [
        _in_plane(canary - other, silence, "all other workers hold the sample that replaces the canary"),
        _in_plane(canary - third, other - third, "all other workers hold a third sample"),
    ]
    if everybody:
        return candidates[0]
    first = range(setting.scenario.radio.slots)[:SLOTS_PER_CHAPTER]
    strongest = float(seat_strengths(setting, draw_slots(setting, first)).max())

    def divergence(moves: Moves) -> float:
        a, b = strongest * moves.with_canary, strongest * moves.without
        products = np.minimum([a @ a, b @ b, a @ b], _LARGEST_EXPONENT)
        return float(np.expm1(products) @ np.array([1.0, 1.0, -2.0]))

    return max(candidates, key=divergence)


def _in_plane(first: Doubles, second: Doubles, about: str) -> Moves:
    """Return two moves in coordinates of the plane that they span: the first lies on its first axis."""
    length = math.sqrt(float(first @ first))
    if not second.any():
        return Moves(with_canary=np.array([length]), without=np.zeros(1), about=about)
    along = float(first @ second) / length
    across = math.sqrt(max(float(second @ second) - along**2, 0.0))
    return Moves(with_canary=np.array([length, 0.0]), without=np.array([along, across]), about=about)


def quantised_law(strengths: Doubles) -> Law:
    """Return a few strengths and their chances: equal parts of the energy, each at its root mean square.

    Strong seats tell most, so they are divided finest. Nearly equal strengths are one value, and none is another.
    """
    ordered = np.sort(strengths)
    silent = int(np.searchsorted(ordered, _SILENT * ordered[-1], side="right"))
    if silent == len(ordered):
        return np.zeros(1), np.ones(1)
    if silent:
        heard, chances = quantised_law(ordered[silent:])
        share = silent / len(ordered)
        return np.append(heard, 0.0), np.append((1.0 - share) * chances, share)
    if ordered[0] >= (1.0 - _SAME) * ordered[-1]:
        return np.array([float(np.sqrt(np.mean(ordered**2)))]), np.ones(1)
    energy = np.cumsum(ordered**2)
    part = np.minimum((_VALUES * energy / energy[-1]).astype(np.int64), _VALUES - 1)
    counts = np.bincount(part, minlength=_VALUES)
    squares = np.bincount(part, ordered**2, _VALUES)
    used = counts > 0
    return np.sqrt(squares[used] / counts[used]), counts[used] / len(ordered)


def seat_strengths(setting: AirSetting, drawn: SlotTensors) -> Doubles:
    """Return sqrt(beta) q over the noise deviation of every seat that is taken; shape seats."""
    draws, radio = drawn.numpy(), setting.scenario.radio
    amplitude = np.sqrt(draws.power_scale_watts / (stated_noise_watts(setting.scenario) / 2.0))
    if radio.schedule_kind.by_coin:
        return np.asarray(amplitude * (1.0 / radio.scheduled))  # of anybody who sends, even if nobody does
    return np.asarray((draws.ratios * amplitude[:, None]).ravel())


class _Score:
    """Adds up the scores of trials: log-likelihood ratios of slots, or of rounds of slots in which a worker sends once.

    With r the sampling rate, s a seat's strength and z what was received over the noise deviation that of a slot is
    ln(1 - r + r E_s exp(s a . z - s^2 |a|^2 / 2)), less the same with the other world's move. E_s is over a law with
    a few values, exact where shares are equal; any score is an attack, so rounding costs strength alone.
    """

    def __init__(self, scenario: Scenario, moves: Moves, law: Law, trials: int) -> None:
        self.scores = torch.zeros(trials, dtype=torch.float64)
        self._moves, self._law, self._slots = (moves.with_canary, moves.without), law, scenario.radio.slots
        self._rate = scenario.radio.scheduled / scenario.workers.count
        self._round_length = max(1, round_length_of(scenario))
        self._done, self._open = 0, [torch.zeros(trials) for _ in self._moves]

    def add(self, received: torch.Tensor, told: torch.Tensor | None) -> None:
        for sign, number in ((1.0, 0), (-1.0, 1)):
            move = self._moves[number]
            if not move.any():
                continue
            along = sum(received[:, part] * float(value) for part, value in enumerate(move))
            square = float(move @ move)
            if told is not None:
                ratio = told * along - told**2 * square / 2.0
            else:
                likelihood = torch.zeros(received[:, 0].shape)  # E_s exp(...) of a slot that the worker sends in
                for strength, chance in zip(*self._law, strict=True):
                    exponent = strength * along - strength**2 * square / 2.0
                    likelihood += chance * torch.exp(exponent.clamp_(-_LARGEST_LOG_RATIO, _LARGEST_LOG_RATIO))
                if self._round_length == 1:
                    ratio = torch.log1p(self._rate * (likelihood - 1.0))
                else:
                    ratio = self._finished_rounds(likelihood, number)
            self.scores += sign * ratio.sum(dim=0, dtype=torch.float64)
        self._done += len(received)

    def _finished_rounds(self, likelihood: torch.Tensor, number: int) -> torch.Tensor:
        """Return the log-likelihood ratios of rounds that end here; what is left waits for its end. Rounds x trials."""
        length, last = self._round_length, self._done + len(likelihood)
        first_round = self._done // length
        places = torch.arange(self._done, last) // length - first_round
        sums = torch.zeros((int(places[-1]) + 1, likelihood.shape[1])).index_add_(0, places, likelihood)
        sums[0] += self._open[number]
        ends_here = last % length == 0 or last == self._slots
        finished = sums if ends_here else sums[:-1]
        self._open[number] = torch.zeros_like(sums[-1]) if ends_here else sums[-1]
        lengths = torch.full((len(finished), 1), float(length))
        if last == self._slots and len(finished):
            lengths[-1] = self._slots - (first_round + len(finished) - 1) * length
        return torch.log((1.0 - self._rate * lengths).clamp(min=0.0) + self._rate * finished)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Runs:
    """Scores workers of the schedule of one seed after the other, in fresh noise."""

    kind: SlotKind
    moves: Moves
    law: Law
    fault: Fault
    block_slots: int
    blocks: range  # numbers of its blocks among those of all kinds of slots
    blocks_per_run: int  # of all kinds of slots

    def __call__(self, run: int, canaries: int) -> Doubles:
        """Return the scores of so many workers of a run, with the canary and without; 2 x workers."""
        base, fault = self.kind.air.scenario, self.fault
        noise_watts, scenario = stated_noise_watts(base), base.with_seed(base.seed + run)
        gain = worker_path_gain(scenario, placed_distances(scenario))
        kind = replace(self.kind, air=replace(self.kind.air, scenario=scenario, worker_path_gain=gain))
        column, worlds = torch.full((scenario.workers.count,), -1), (self.moves.with_canary, self.moves.without)
        column[:canaries] = torch.arange(canaries)
        totals = [_Score(base, self.moves, self.law, canaries) for _ in worlds]
        for block, drawn in zip(self.blocks, kind.drawn(self.block_slots), strict=True):
            source = noise_source(base.seed, 2 * (run * self.blocks_per_run + block) + 1)
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
                total.add(heard * amplitude, told)
        return np.stack([total.scores.numpy() for total in totals])


def _of_all_kinds(kinds: Sequence[_Runs], run: int, canaries: int) -> Doubles:
    return np.asarray(np.sum([each(run, canaries) for each in kinds], axis=0))


def hidden_schedule_trials(bench: Bench, numbers_at_once: int = 1 << 19) -> Trials:
    """Return scores of so many workers in each world, their slots in blocks of about so many numbers."""
    base, trials, fault = bench.air.scenario, bench.trials, bench.fault
    if not base.air.is_ideal:
        what = "adversary = 'release': a hidden schedule on an imperfect air is not audited"
        raise ScenarioError(f"{what}; audit the server (--adversary server)")
    per_run = min(trials, max(1, base.workers.count // _WORKERS_PER_CANARY))
    runs = -(-trials // per_run)
    base.with_seed(base.seed + runs)  # refuses a last seed that is too large
    block_slots = max(SLOTS_PER_CHAPTER, numbers_at_once // per_run)
    counts = [-(-len(kind.slots) // block_slots) for kind in bench.kinds]
    scored = []
    for number, kind in enumerate(bench.kinds):
        moves = moves_of(kind.air, bench.classes, bench.adjacency, fault)
        law = quantised_law(seat_strengths(kind.air, draw_slots(kind.air, kind.slots[:_SLOTS_LOOKED_AT])))
        blocks = range(sum(counts[:number]), sum(counts[: number + 1]))
        about: dict[str, Any] = {"fault": fault, "block_slots": block_slots, "blocks_per_run": sum(counts)}
        scored.append(_Runs(kind=kind, moves=moves, law=law, blocks=blocks, **about))
    told = ", and the schedule is told" if fault.schedule_revealed else ""
    how = f"{plural(per_run, 'worker')} in each world of {plural(runs, 'schedule')}; {scored[0].moves.about}{told}"
    return bench.run("schedule hidden", per_run, partial(_of_all_kinds, scored), how=how)
