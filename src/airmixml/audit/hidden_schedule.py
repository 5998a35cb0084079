"""The attack of an adversary who sees the mixtures and knows no schedule.

The data set is the worst one. Where exactly |N_t| workers send, all others hold one sample u, so that a slot without
the canary v is known, and one with it is moved by q (v - u). Where every worker tosses its own coin, the others' coins
tell nothing of this one, so they are granted and what the others sent subtracts: the move is q v. Noise has the same
law in all directions, so only the plane of the moves is received: one number a slot, or two for a replacement.

A trial is one worker of a real schedule (its slots, shares and powers come from the draws of a run) in fresh noise. Up
to one worker in twenty of a run is used, then comes the run of the next seed. Workers of one run take each other's
seats, so they are nearly but not quite independent: counts of them had 0.80 to 1.06 times the variance of independent
trials where that was measured. That limits made for independent trials hold for them too is so about, not proven.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from airmixml.audit.moves import Moves, moves_of, quantised_law, seat_strengths
from airmixml.audit.trials import Bench, Trials, collect, noise_source, shares_of
from airmixml.radio.air import receive_mixtures
from airmixml.radio.channel import path_gain
from airmixml.radio.draws import AirSetting, chapter_count, cut_into_blocks, draw_ahead, draw_chapter
from airmixml.radio.privacy_target import round_length_of
from airmixml.radio.rehearsal import placed_distances
from airmixml.streams import SLOTS_PER_CHAPTER
from airmixml.units import dbm_to_watts

_WORKERS_PER_CANARY: Final = 20
_NUMBERS_AT_ONCE: Final = 1 << 19
# Beyond e^80 a slot has told everything; float32 would overflow next.
_LARGEST_LOG_RATIO: Final = 80.0
_CHAPTERS_LOOKED_AT: Final = 8


def hidden_schedule_trials(bench: Bench) -> Trials:
    """Return scores of so many workers in each world."""
    setting, trials, fault = bench.setting, bench.trials, bench.fault
    moves = moves_of(setting, bench.classes, bench.adjacency, fault)
    score = _Score(setting, moves)
    workers = setting.scenario.workers.count
    per_run = min(trials, max(1, workers // _WORKERS_PER_CANARY))
    runs = -(-trials // per_run)
    setting.scenario.with_seed(setting.scenario.seed + runs)  # refuses a last seed that is too large
    block_slots = max(SLOTS_PER_CHAPTER, _NUMBERS_AT_ONCE // per_run)

    def score_run(run: int) -> NDArray[np.float64]:
        canaries = min(per_run, trials - run * per_run)
        return _score_run(bench, moves, score, run, canaries, block_slots)

    scores = collect("schedule hidden", runs, score_run, bench)
    told = ", and the schedule is told" if fault.schedule_revealed else ""
    how = (
        f"{per_run:,} worker{'s' if per_run > 1 else ''} in each world of {runs:,} schedule{'s' if runs > 1 else ''}; "
        f"{moves.about}{told}"
    )
    return Trials(scores_in=scores[0], scores_out=scores[1], how=how, normal=False)


def _score_run(
    bench: Bench, moves: Moves, score: _Score, run: int, canaries: int, block_slots: int
) -> NDArray[np.float64]:
    """Return the scores of the first workers of one run in both worlds; 2 x canaries."""
    setting, fault, base = bench.setting, bench.fault, bench.setting.scenario
    scenario = base.with_seed(base.seed + run)
    radio = scenario.radio
    gain = path_gain(placed_distances(scenario), radio.path_loss_exponent, radio.unit_path_loss_db)
    drawn = replace(setting, scenario=scenario, worker_path_gain=gain)
    noise_watts, blocks = dbm_to_watts(radio.noise_dbm), -(-radio.slots // block_slots)
    column = np.full(scenario.workers.count, -1)
    column[:canaries] = np.arange(canaries)
    totals = [_Total(score, canaries) for _ in range(2)]
    for block, draws in enumerate(cut_into_blocks(draw_ahead(drawn, threads=bench.threads, noise=False), block_slots)):
        shares = shares_of(column[draws.scheduled_workers], draws.ratios, canaries)
        source = noise_source(base.seed, 2 * (run * blocks + block) + 1)
        beta = torch.from_numpy(draws.power_scale_watts)
        amplitude = torch.sqrt(beta / (noise_watts / 2.0)).float()[:, None]
        for total, move in zip(totals, (moves.with_canary, moves.without), strict=True):
            clean = torch.cat([shares * float(part) for part in move], dim=1)
            noise = torch.randn(clean.shape, generator=source)
            received = receive_mixtures(clean, noise, beta, fault.heard(noise_watts)) * amplitude
            told = shares * amplitude if fault.schedule_revealed else None
            total.add(received.reshape(len(draws), len(move), canaries), told)
    return np.stack([total.finish() for total in totals])


class _Score:
    """The log-likelihood ratio of a slot, or of a round of slots in which a worker sends once.

    With r the sampling rate, s a seat's strength and z what was received over the noise deviation it is
    ln(1 - r + r E_s exp(s a . z - s^2 |a|^2 / 2)), less the same with the other world's move. E_s is over a law with
    a few values, exact where shares are equal; any score is an attack, so rounding costs strength alone.
    """

    def __init__(self, setting: AirSetting, moves: Moves) -> None:
        scenario = setting.scenario
        self.rate = scenario.radio.scheduled / scenario.workers.count
        self.slots = scenario.radio.slots
        self.round_length = max(1, round_length_of(scenario))
        self.moves = (moves.with_canary, moves.without)
        looked_at = min(_CHAPTERS_LOOKED_AT, chapter_count(scenario.radio.slots))
        drawn = [seat_strengths(setting, draw_chapter(setting, number, noise=False)) for number in range(looked_at)]
        self.strengths, self.chances = quantised_law(np.concatenate(drawn))

    def likelihood(self, received: torch.Tensor, move: NDArray[np.float64]) -> torch.Tensor:
        """Return E_s exp(...) of a slot that the worker sends in; slots x trials."""
        along = sum(received[:, part] * float(value) for part, value in enumerate(move))
        square, ratio = float(move @ move), torch.zeros_like(received[:, 0])
        for strength, chance in zip(self.strengths, self.chances, strict=True):
            exponent = strength * along - strength**2 * square / 2.0
            ratio += chance * torch.exp(exponent.clamp_(-_LARGEST_LOG_RATIO, _LARGEST_LOG_RATIO))
        return ratio


class _Total:
    """Adds up the scores of trials, chapter by chapter."""

    def __init__(self, score: _Score, trials: int) -> None:
        self._score = score
        self._scores = torch.zeros(trials, dtype=torch.float64)
        self._open = [torch.zeros(trials) for _ in score.moves]
        self._slots = 0

    def add(self, received: torch.Tensor, told: torch.Tensor | None) -> None:
        """Take slots into account: slots x dimensions x trials, and the strengths of those told; slots x trials."""
        score = self._score
        for sign, number in ((1.0, 0), (-1.0, 1)):
            move = score.moves[number]
            if not move.any():
                continue
            if told is not None:
                along = sum(received[:, part] * float(value) for part, value in enumerate(move))
                ratio = told * along - told**2 * float(move @ move) / 2.0
            elif score.round_length == 1:
                ratio = torch.log1p(score.rate * (score.likelihood(received, move) - 1.0))
            else:
                ratio = self._finished_rounds(score.likelihood(received, move), number)
            self._scores += sign * ratio.sum(dim=0, dtype=torch.float64)
        self._slots += len(received)

    def _finished_rounds(self, likelihood: torch.Tensor, number: int) -> torch.Tensor:
        """Return the log-likelihood ratios of rounds that end here; what is left waits for its end. Rounds x trials."""
        score, last = self._score, self._slots + len(likelihood)
        first_round = self._slots // score.round_length
        places = torch.arange(self._slots, last) // score.round_length - first_round
        sums = torch.zeros((int(places[-1]) + 1, likelihood.shape[1])).index_add_(0, places, likelihood)
        sums[0] += self._open[number]
        ends_here = last % score.round_length == 0 or last == score.slots
        finished = sums if ends_here else sums[:-1]
        self._open[number] = torch.zeros_like(sums[-1]) if ends_here else sums[-1]
        lengths = torch.full((len(finished), 1), float(score.round_length))
        if last == score.slots and len(finished):
            lengths[-1] = score.slots - (first_round + len(finished) - 1) * score.round_length
        return torch.log((1.0 - score.rate * lengths).clamp(min=0.0) + score.rate * finished)

    def finish(self) -> NDArray[np.float64]:
        """Return the scores; shape trials."""
        return self._scores.numpy()
