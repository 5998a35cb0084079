"""The attack of an adversary who sees the mixtures and knows no schedule.

The data set is the worst one. Where exactly |N_t| workers send, all others hold one sample u, so that a slot without
the canary v is known, and one with it is moved by q (v - u). Where every worker tosses its own coin, the others' coins
tell nothing of this one, so they are granted and what the others sent subtracts: the move is q v. Noise has the same
law in all directions, so only the plane of the moves is received: one number a slot, or two for a replacement.

On an imperfect air a seat has a gain of its own, which the adversary knows without knowing who sits there, and both
quadratures of the plane are received. Gains that differ from piece to piece act on what the canary sends in each; the
score takes their mean.

A trial is one worker of a real schedule (its slots, shares and powers come from the draws of a run) in fresh noise. Up
to one worker in twenty of a run is used, then comes the run of the next seed. Workers of one run take each other's
seats, so they are nearly but not quite independent: counts of them had 0.80 to 1.06 times the variance of independent
trials where that was measured. That limits made for independent trials hold for them too is so about, not proven.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from airmixml.arrays import Doubles
from airmixml.audit.canaries import has_rounds, sent_of, worst_samples
from airmixml.audit.faults import SOUND, Fault
from airmixml.audit.noise_check import stated_noise_watts
from airmixml.audit.rounds import ONE_MODEL
from airmixml.audit.trials import Bench, SlotKind, Trials, noise_source
from airmixml.impairments.fading import worker_path_gain
from airmixml.impairments.frame import frame_of
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
_SHORTEST: Final = 1e-300
_PHASES: Final = 6
Law = tuple[NDArray[Any], Doubles]


@dataclass(frozen=True, kw_only=True, eq=False)
class Moves:
    """What the worker adds to a slot that it sends in with a share of 1, beside a slot without it."""

    with_canary: Doubles  # shape dimensions (1 or 2)
    without: Doubles  # in the other world; zero where that world's slots look like those without the worker
    about: str  # which data set that is, in words
    # on an air that is not ideal, how much of the plane is sent in each piece and each pilot: products of its axes
    # there, which add up to the identity; dimensions x dimensions x (pieces and pilots)
    in_pieces: Doubles | None = None


def moves_of(setting: AirSetting, classes: int, adjacency: str, fault: Fault = SOUND) -> Moves:
    """Return the worst moves, of what the real sender sends.

    A removal from a fixed schedule lets somebody else take the seat, so the move is v - u. A replacement has several
    candidates for what the others hold: the second sample itself, or a third one far from both. The one that moves
    more is taken, by the chi-square divergence of a slot at a small sampling rate,
    e^|a|^2 + e^|b|^2 - 2 e^(a . b) for moves a and b over the noise; u half-way between the two moves least.
    """
    scenario, radio = setting.scenario, setting.scenario.radio
    samples = sent_of(scenario, worst_samples(scenario, setting.signal.features, classes), fault)
    if not scenario.air.is_ideal:
        count = frame_of(scenario.air, setting.signal.symbols).pilot_count
        pilot = fault.gain_factor * math.sqrt(setting.pilot_energy / count)
        samples = np.concatenate([samples, np.full((len(samples), count), pilot)], axis=1)
    canary, other, third = samples
    silence, _in_plane = np.zeros_like(canary), partial(_moves_in_plane, setting)
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
    strongest = float(np.abs(seat_strengths(setting, draw_slots(setting, first))).max())

    def divergence(moves: Moves) -> float:
        a, b = strongest * moves.with_canary, strongest * moves.without
        products = np.minimum([a @ a, b @ b, a @ b], _LARGEST_EXPONENT)
        return float(np.expm1(products) @ np.array([1.0, 1.0, -2.0]))

    return max(candidates, key=divergence)


def _moves_in_plane(setting: AirSetting, first: Doubles, second: Doubles, about: str) -> Moves:
    """Return two moves in coordinates of the plane that they span: the first lies on its first axis."""
    length = math.sqrt(float(first @ first))
    axes = [first / length]
    if not second.any():
        moves = Moves(with_canary=np.array([length]), without=np.zeros(1), about=about)
    else:
        along = float(first @ second) / length
        rest = second - along * axes[0]
        across = math.sqrt(max(float(second @ second) - along**2, 0.0))
        axes.append(rest / max(across, _SHORTEST))
        moves = Moves(with_canary=np.array([length, 0.0]), without=np.array([along, across]), about=about)
    return moves if setting.scenario.air.is_ideal else replace(moves, in_pieces=_in_pieces(setting, axes))


def _in_pieces(setting: AirSetting, axes: list[Doubles]) -> Doubles:
    """Return the products of axes in each piece and then each pilot; axes x axes x (pieces and pilots)."""
    frame = frame_of(setting.scenario.air, setting.signal.symbols)
    every = frame.pieces + frame.pilot_count
    place = np.concatenate([np.repeat(np.arange(frame.pieces), frame.lengths), np.arange(frame.pieces, every)])
    return np.array([[np.bincount(place, one * other, every) for other in axes] for one in axes])


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


def quantised_gains(strengths: NDArray[np.complex128]) -> tuple[NDArray[np.complex128], Doubles]:
    """Return a few complex strengths and their chances: as many seats of each of a few phases, quantised there."""
    heard = strengths[np.abs(strengths) > _SILENT * np.abs(strengths).max(initial=0.0)]
    if not len(heard):
        return np.zeros(1, dtype=np.complex128), np.ones(1)
    phase = np.angle(heard * np.conj(heard.mean()))
    parts = np.array_split(heard[np.argsort(phase)], _PHASES if np.ptp(phase) > _SAME else 1)
    values, chances = [], []
    for part in filter(len, parts):
        sizes, odds = quantised_law(np.abs(part))
        values.append(sizes * np.exp(1j * np.angle(part.sum())))
        chances.append(odds * len(part) / len(strengths))
    silent = 1.0 - len(heard) / len(strengths)
    return np.append(np.concatenate(values), 0.0), np.append(np.concatenate(chances), silent)


def seat_strengths(setting: AirSetting, drawn: SlotTensors, energies: Doubles | None = None) -> NDArray[Any]:
    """Return sqrt(beta) q over the noise deviation of every seat that is taken; shape seats.

    On an air that is not ideal it is complex, with the mean gain over pieces and pilots that have these shares of a
    canary's energy (pieces and pilots); without them the largest gain.
    """
    draws = drawn.numpy()
    amplitude = np.sqrt(draws.power_scale_watts / (stated_noise_watts(setting.scenario) / 2.0))
    by_coin = setting.scenario.radio.schedule_kind.by_coin
    shares = 1.0 / setting.scenario.radio.scheduled  # of anybody who sends, even if nobody does
    if drawn.gains is None:
        return np.asarray(amplitude * shares) if by_coin else (draws.ratios * amplitude[:, None]).ravel()
    gains: NDArray[Any] = drawn.gains.peaks.sqrt().numpy()
    if energies is not None:
        every, parts = len(energies), drawn.gains.parts
        found = [drawn.gains.with_pilots(some).expand(-1, -1, every).numpy() @ energies for some in parts]
        gains = np.concatenate(found, axis=1)
    return np.asarray((shares if by_coin else draws.ratios) * gains * amplitude[:, None]).ravel()


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
        """Take slots into account: slots x dimensions x trials, and the strengths of those told; slots x trials."""
        for sign, number in ((1.0, 0), (-1.0, 1)):
            move = self._moves[number]
            if not move.any():
                continue
            along = sum(received[:, part] * float(value) for part, value in enumerate(move))
            square = float(move @ move)
            if told is not None:
                ratio = _aligned(told, along) - abs(told) ** 2 * square / 2.0
            else:
                likelihood = torch.zeros(received[:, 0].shape)  # E_s exp(...) of a slot that the worker sends in
                for strength, chance in zip(*self._law, strict=True):
                    exponent = _aligned(strength, along) - abs(strength) ** 2 * square / 2.0
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


def _aligned(strength: Any, along: Any) -> torch.Tensor:
    """Return Re(conj(s) z), s a number or like z, which is real on the ideal air."""
    if not along.is_complex():
        return torch.as_tensor(strength * along)
    return torch.as_tensor(strength.real * along.real + strength.imag * along.imag)


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
            turned = drawn.ratios[slot, seat, None, None] * self._gains(drawn, slot, seat)
            dtype, told = torch.complex64 if turned.is_complex() else torch.float32, None
            if fault.schedule_revealed:
                told = torch.zeros((len(drawn), canaries), dtype=dtype)
                told[slot, who] = turned[:, 0, 0].to(dtype)
                told = told * amplitude[:, 0]
            for total, move in zip(totals, worlds, strict=True):
                clean = torch.zeros((len(drawn), len(move), canaries), dtype=dtype)
                clean[slot, :, who] = (turned @ torch.from_numpy(move).to(turned.dtype)).to(dtype)
                total.add(_in_noise(clean, beta, fault.heard(noise_watts), source) * amplitude, told)
        return np.stack([total.scores.numpy() for total in totals])

    def _gains(self, drawn: SlotTensors, slot: torch.Tensor, seat: torch.Tensor) -> torch.Tensor:
        """Return what the gains of seats make of the plane; seats x dimensions x dimensions."""
        if drawn.gains is None or self.moves.in_pieces is None:
            return torch.eye(len(self.moves.without), dtype=torch.float64)
        products = torch.from_numpy(self.moves.in_pieces).to(torch.complex128)
        gain = drawn.gains.at(slot, seat).to(products.dtype).expand(-1, products.shape[2])
        return torch.einsum("np,dep->nde", gain, products)


def _in_noise(clean: torch.Tensor, beta: torch.Tensor, watts: float, source: torch.Generator) -> torch.Tensor:
    """Return the receptions of slots, of both quadratures where they are complex; slots x dimensions x trials."""
    parts = [part.flatten(1) for part in ((clean.real, clean.imag) if clean.is_complex() else (clean,))]
    heard = [receive_mixtures(part, torch.randn(part.shape, generator=source), beta, watts) for part in parts]
    return (torch.complex(*heard) if len(heard) == 2 else heard[0]).reshape(clean.shape)


def _of_all_kinds(kinds: Sequence[_Runs], run: int, canaries: int) -> Doubles:
    return np.asarray(np.sum([each(run, canaries) for each in kinds], axis=0))


def hidden_schedule_trials(bench: Bench, numbers_at_once: int = 1 << 19) -> Trials:
    """Return scores of so many workers in each world, their slots in blocks of about so many numbers."""
    base, trials, fault = bench.air.scenario, bench.trials, bench.fault
    per_run = min(trials, max(1, base.workers.count // _WORKERS_PER_CANARY))
    runs = -(-trials // per_run)
    base.with_seed(base.seed + runs)  # refuses a last seed that is too large
    block_slots = max(SLOTS_PER_CHAPTER, numbers_at_once // per_run)
    counts = [-(-len(kind.slots) // block_slots) for kind in bench.kinds]
    scored = []
    for number, kind in enumerate(bench.kinds):
        moves = moves_of(kind.air, bench.classes, bench.adjacency, fault)
        drawn = draw_slots(kind.air, kind.slots[:_SLOTS_LOOKED_AT])
        energies = None if moves.in_pieces is None else moves.in_pieces[0, 0]
        strengths = seat_strengths(kind.air, drawn, energies)
        law: Law = quantised_law(strengths) if energies is None else quantised_gains(strengths)
        blocks = range(sum(counts[:number]), sum(counts[: number + 1]))
        about: dict[str, Any] = {"fault": fault, "block_slots": block_slots, "blocks_per_run": sum(counts)}
        scored.append(_Runs(kind=kind, moves=moves, law=law, blocks=blocks, **about))
    told = ", and the schedule is told" if fault.schedule_revealed else ""
    how = f"{plural(per_run, 'worker')} in each world of {plural(runs, 'schedule')}; {scored[0].moves.about}{told}"
    how += ONE_MODEL if has_rounds(base) else ""
    return bench.run("schedule hidden", per_run, partial(_of_all_kinds, scored), how=how)
