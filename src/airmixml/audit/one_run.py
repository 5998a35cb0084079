"""One real run with many canaries in it (Steinke, Nasr and Jagielski 2023).

The workers hold their real data but for K canaries, each with a sample of its own and a fair coin: heads it holds the
first sample of its pair, tails the second, or sends nothing (remove-one). The run goes through the same code as every
other, in full dimension, and the adversary guesses the coins from what it receives. A guess may use everything but the
other canaries' coins: for those it assumes the middle of their pairs.

Canaries disturb each other and the data disturb the release, so this is a weaker attack than one that grants all but
one sample. But it is one of the whole run, and nothing in it is idealised.
"""

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from airmixml.audit.canaries import draw_pairs, sent_of
from airmixml.audit.faults import Fault
from airmixml.audit.noise_check import NoiseMeter, heard_of
from airmixml.audit.trials import shares_of
from airmixml.data import DataSet
from airmixml.devices import using_threads
from airmixml.radio.centring import centre_privately
from airmixml.radio.draws import SlotDraws
from airmixml.radio.senders import Sender, make_sender
from airmixml.radio.transmission import simulate_blocks
from airmixml.scenario import RunContext, Scenario
from airmixml.streams import SLOTS_PER_CHAPTER, Streams
from airmixml.units import dbm_to_watts
from airmixml.workers import deploy

_LEAST_CANARIES: Final = 10
_WORKERS_PER_CANARY: Final = 20
_MOST_NUMBERS: Final = 50_000_000
_STAGE: Final = "one run"


@dataclass(frozen=True, kw_only=True, eq=False)
class OneRun:
    """What the adversary made of one run.

    Attributes:
        scores: of each canary, large where its coin is believed to show heads.
        coins: what they showed.
        adjacency: what a coin decides.
    """

    scores: NDArray[np.float64]
    coins: NDArray[np.bool_]
    adjacency: str


def canaries_that_fit(wanted: int, workers: int, symbols: int) -> tuple[int, str]:
    """Return how many canaries a run can hold, and why not more: 0 where there are too few to say anything."""
    by_workers, by_memory = workers // _WORKERS_PER_CANARY, _MOST_NUMBERS // symbols
    count = min(wanted, by_workers, by_memory)
    why = ""
    if count < wanted:
        limit = "one worker in twenty" if by_workers <= by_memory else f"{symbols:,} symbols each fill the memory"
        why = f"{count:,} canaries, not {wanted:,}: {limit}"
    if count >= _LEAST_CANARIES:
        return count, why
    return 0, f"{why or f'{count} canaries'}; fewer than {_LEAST_CANARIES} say nothing" if wanted else "none asked for"


def run_with_canaries(
    scenario: Scenario,
    dataset: DataSet,
    canaries: int,
    *,
    adjacency: str,
    told: bool,
    fault: Fault,
    context: RunContext,
    meter: NoiseMeter | None = None,
) -> OneRun:
    """Run all slots once and return the score of every canary.

    Args:
        scenario: what to run.
        dataset: the real data, encoded.
        canaries: how many workers are canaries.
        adjacency: "replace-one" for two samples a canary, "remove-one" for one that is sent or not.
        told: whether the adversary knows schedule, ratios and everybody else's samples, or only the mixtures.
        fault: injected into the mechanism.
        context: block size, threads and progress.
        meter: told of the noise of every slot.
    """
    population = deploy(scenario.workers, dataset.train_samples, Streams(scenario.seed))
    dataset = centre_privately([scenario], dataset, population)
    rng = Streams(scenario.seed).generator("canary", 1)
    who = rng.permutation(population.count)[:canaries]
    coins = rng.random(canaries) < 0.5
    pairs = draw_pairs(scenario, dataset.input_dim, dataset.label_dim, canaries)
    first = dataset.train_samples
    held = replace(
        dataset,
        train_inputs=np.concatenate([dataset.train_inputs, pairs.train_inputs]),
        train_labels=np.concatenate([dataset.train_labels, pairs.train_labels]),
    )
    sample_index = population.sample_index.copy()
    heads, tails = first + np.arange(canaries), first + canaries + np.arange(canaries)
    sample_index[who] = np.where(coins, heads, tails)
    sender: Sender = fault.of(make_sender(scenario, held, torch.device("cpu")))
    if adjacency == "remove-one":
        audible = torch.ones(held.train_samples, dtype=torch.float64)
        audible[tails] = 0.0
        sender = _WithSilence(sender, audible)
    sent = torch.from_numpy(sent_of(make_sender(scenario, pairs, torch.device("cpu")), 2 * canaries)).float()
    if adjacency == "remove-one":
        sent[canaries:] = 0.0
    middles, moves = (sent[:canaries] + sent[canaries:]) / 2.0, (sent[:canaries] - sent[canaries:]) / 2.0
    column = np.full(population.count, -1)
    column[who] = np.arange(canaries)
    score: _Matched | _Blind = (
        _Matched(scenario, make_sender(scenario, dataset, torch.device("cpu")), population.sample_index, middles, moves)
        if told
        else _Blind(scenario, moves, one_sided=adjacency == "remove-one")
    )
    moved = replace(population, sample_index=sample_index)
    slots, speed, progress = scenario.radio.slots, context.speed, context.progress
    progress(_STAGE, 0, slots)
    for block in simulate_blocks(scenario, held, moved, speed=speed, sender=sender):
        with using_threads(speed.threads):
            received, clean = heard_of(block, scenario.workers.label_weight, fault)
            score.add(received, block.draws, column)
            if meter is not None:
                meter.add(received, clean, block.draws.power_scale_watts)
        progress(_STAGE, block.first_slot + block.slots, slots)
    return OneRun(scores=score.finish(), coins=coins, adjacency=adjacency)


class _WithSilence:
    """Leaves out the samples that are not sent at all."""

    def __init__(self, sender: Sender, audible: torch.Tensor) -> None:
        self._sender, self._audible = sender, audible

    def mix(self, sample_index: torch.Tensor, ratios: torch.Tensor) -> torch.Tensor:
        """Return the sum on the air; slots x symbols."""
        return self._sender.mix(sample_index, ratios * self._audible[sample_index])


class _Matched:
    """Knows the schedule: subtracts what it expects, and filters the rest for each canary's own move."""

    def __init__(
        self,
        scenario: Scenario,
        sender: Sender,
        sample_index: NDArray[np.int64],
        middles: torch.Tensor,
        moves: torch.Tensor,
    ) -> None:
        self._sender, self._sample_index = sender, sample_index
        self._middles, self._moves = middles, moves
        self._noise_watts = dbm_to_watts(scenario.radio.noise_dbm)
        self._scores = torch.zeros(len(moves), dtype=torch.float64)

    def add(self, received: torch.Tensor, draws: SlotDraws, column: NDArray[np.int64]) -> None:
        """Take a block into account; slots x symbols."""
        columns = column[draws.scheduled_workers]
        shares = shares_of(columns, draws.ratios, len(self._moves))
        others = torch.from_numpy(np.where(columns < 0, draws.ratios, 0.0))
        known = self._sender.mix(torch.from_numpy(self._sample_index[draws.scheduled_workers]), others)
        left = received - known - shares @ self._middles
        weights = torch.from_numpy(draws.power_scale_watts / (self._noise_watts / 2.0))[:, None]
        self._scores += ((left @ self._moves.T).double() * shares.double() * weights).sum(dim=0)

    def finish(self) -> NDArray[np.float64]:
        """Return the scores; shape canaries."""
        return self._scores.numpy()


class _Blind:
    """Knows the mixtures alone: a slot's likelihood over whether the canary sent in it, noise and data taken together.

    Level and spread of a canary's direction and the share of a sender are those of the first chapter of slots, whatever
    the block size: slots wait until it is whole.
    """

    def __init__(self, scenario: Scenario, moves: torch.Tensor, *, one_sided: bool) -> None:
        # A canary that sends or not moves by the whole of what it sends, from a silent seat.
        lengths = moves.norm(dim=1).clamp(min=1e-30)
        self._directions, self._lengths = moves / lengths[:, None], lengths * (2.0 if one_sided else 1.0)
        self._odds = math.log(scenario.sampling_rate) - math.log1p(-min(scenario.sampling_rate, 1.0 - 1e-12))
        self._one_sided = one_sided
        self._level: tuple[torch.Tensor, torch.Tensor, float] | None = None
        self._waiting: list[tuple[torch.Tensor, NDArray[np.float64]]] = []
        self._scores = torch.zeros(len(moves), dtype=torch.float64)

    def add(self, received: torch.Tensor, draws: SlotDraws, _column: NDArray[np.int64]) -> None:
        """Take a block into account; slots x symbols."""
        along = received @ self._directions.T
        if self._level is not None:
            self._add(along)
            return
        self._waiting.append((along, draws.ratios))
        if sum(len(ratios) for _, ratios in self._waiting) >= SLOTS_PER_CHAPTER:
            self._look_at_the_first()

    def _look_at_the_first(self) -> None:
        """Take the level from the first chapter, or from all slots where there are fewer, and score what waited."""
        along = torch.cat([waiting for waiting, _ in self._waiting])
        first = along[:SLOTS_PER_CHAPTER]
        ratios = np.concatenate([waiting for _, waiting in self._waiting])[:SLOTS_PER_CHAPTER]
        deviation = first.std(dim=0) if len(first) > 1 else torch.ones_like(first[0])
        share = float(np.sqrt(np.mean(ratios[ratios > 0.0] ** 2))) if ratios.any() else 0.0
        self._level, self._waiting = (first.mean(dim=0), deviation.clamp(min=1e-30), share), []
        self._add(along)

    def _add(self, along: torch.Tensor) -> None:
        assert self._level is not None
        mean, deviation, share = self._level
        standard, move = (along - mean) / deviation, share * self._lengths / deviation
        softplus = torch.nn.functional.softplus
        ratio = softplus(self._odds + standard * move - move**2 / 2.0)
        if not self._one_sided:
            ratio = ratio - softplus(self._odds - standard * move - move**2 / 2.0)
        self._scores += ratio.sum(dim=0, dtype=torch.float64)

    def finish(self) -> NDArray[np.float64]:
        """Return the scores; shape canaries."""
        if self._waiting:
            self._look_at_the_first()
        return self._scores.numpy()
