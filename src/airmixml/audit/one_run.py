"""One real run with many canaries in it (Steinke, Nasr and Jagielski 2023).

The workers hold their real data but for K canaries, each with a sample of its own and a fair coin: heads it holds the
first sample of its pair, tails the second, or sends nothing (remove-one). The run goes through the same code as every
other, in full dimension, and the adversary guesses the coins from what it receives. A guess may use everything but the
other canaries' coins: for those it assumes the middle of their pairs.

Canaries disturb each other and the data disturb the release, so this is a weaker attack than one that grants all but
one sample. But it is one of the whole run, and nothing in it is idealised.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from airmixml.arrays import Doubles, Integers, dbm_to_watts
from airmixml.attacks.rounds import received_gains
from airmixml.audit.canaries import AlteredPayload, draw_pairs, faulty_sender, sent_of
from airmixml.audit.faults import Fault
from airmixml.audit.noise_check import NoiseMeter, heard_blocks
from airmixml.data import DataSet
from airmixml.impairments.frame import frame_of
from airmixml.radio.centring import centre_privately
from airmixml.radio.mixtures import MixtureBlock, make_sender
from airmixml.scenario import RunContext, Scenario
from airmixml.streams import SLOTS_PER_CHAPTER, Streams
from airmixml.workers import deploy
from airmixml.workers.payloads import Payload, Places

_LEAST_CANARIES: Final = 10
_WORKERS_PER_CANARY: Final = 20
_MOST_NUMBERS: Final = 50_000_000
Heard = tuple[torch.Tensor, MixtureBlock]


@dataclass(frozen=True, kw_only=True, eq=False)
class OneRun:
    """What the adversary made of one run."""

    scores: Doubles  # of each canary, large where its coin is believed to show heads
    coins: NDArray[np.bool_]  # what they showed


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
    meter: NoiseMeter | None = None,
    *,
    adjacency: str,
    told: bool,
    fault: Fault,
    context: RunContext,
) -> OneRun:
    """Run all slots once on the real data, encoded, and return the score of every canary.

    By "replace-one" a canary has two samples, by "remove-one" one that is sent or not. ``told``: the adversary knows
    schedule, ratios and everybody else's samples, and not only the mixtures. The meter is told of the noise.
    """
    population = deploy(scenario.workers, dataset.train_samples, Streams(scenario.seed))
    dataset = centre_privately([scenario], dataset, population)
    rng = Streams(scenario.seed).generator("canary", 1)
    who = rng.permutation(population.count)[:canaries]
    coins = rng.random(canaries) < 0.5
    pairs = draw_pairs(scenario, dataset.input_dim, dataset.label_dim, canaries)
    labels: NDArray[Any] = pairs.train_labels
    if dataset.code is not None:  # as the data set has its own
        labels = dataset.code.decoded(pairs.label_code.coded(labels).astype(np.float64))
    held = replace(
        dataset,
        train_inputs=np.concatenate([dataset.train_inputs, pairs.train_inputs]),
        train_labels=np.concatenate([dataset.train_labels, labels]),
    )
    heads, tails = np.split(dataset.train_samples + np.arange(2 * canaries), 2)
    sample_index = population.sample_index.copy()
    sample_index[who] = np.where(coins, heads, tails)
    sender = faulty_sender(scenario, held, fault)
    sent = torch.from_numpy(sent_of(scenario, pairs)).float()
    if adjacency == "remove-one":
        audible = torch.ones(held.train_samples, dtype=torch.float64)
        audible[tails] = 0.0
        sender = AlteredPayload(sender, audible=audible)
        sent[canaries:] = 0.0
    middles, moves = (sent[:canaries] + sent[canaries:]) / 2.0, (sent[:canaries] - sent[canaries:]) / 2.0
    column = np.full(population.count, -1)
    column[who] = np.arange(canaries)
    moved = replace(population, sample_index=sample_index)
    heard = heard_blocks(scenario, held, moved, fault, context.speed, meter, sender, context.progress)
    if told:
        others = make_sender(scenario, dataset, torch.device("cpu"))
        scores = _matched_scores(heard, scenario, others, population.sample_index, column, middles, moves)
    else:
        scores = _blind_scores(heard, scenario, moves, one_sided=adjacency == "remove-one")
    return OneRun(scores=scores.numpy(), coins=coins)


def _matched_scores(
    heard: Iterator[Heard],
    scenario: Scenario,
    sender: Payload,
    sample_index: Integers,
    column: Integers,
    middles: torch.Tensor,
    moves: torch.Tensor,
) -> torch.Tensor:
    """Return the scores of who knows the schedule: subtract what is expected, filter for each canary's own move.

    Who knows the schedule knows gains too, and so the share with which a worker enters each piece of what the server
    made of its reception. Pilots of silent canaries are left in: a weaker attack.
    """
    lengths = frame_of(scenario.air, moves.shape[1]).lengths
    watts, scores = dbm_to_watts(scenario.radio.noise_dbm) / 2.0, torch.zeros(len(moves), dtype=torch.float64)
    for received, block in heard:
        columns, index = (torch.from_numpy(each[block.draws.scheduled_workers]) for each in (column, sample_index))
        left, shares = received.double(), torch.zeros((len(received), len(moves), len(lengths)), dtype=torch.float64)
        for seats, gains in received_gains(block):
            turned = block.drawn.ratios[:, seats, None] * gains
            others = turned * (columns[:, seats] < 0)[..., None]
            left = left - sender.weighted_sum(index[:, seats], others, Places(lengths, index.shape[1]))
            slot, seat = torch.nonzero(columns[:, seats] >= 0, as_tuple=True)
            shares[slot, columns[:, seats][slot, seat]] = turned[slot, seat].double()
        precision = block.drawn.power_scale_watts[:, None] / watts
        if block.divisor is not None:
            precision = precision * block.divisor.abs().square()
        ends = np.cumsum(lengths)
        for piece, (end, length) in enumerate(zip(ends, lengths, strict=True)):
            mine, share = slice(end - length, end), shares[:, :, piece]
            rest = left[:, mine] - share @ middles[:, mine].double()
            weighted = share * precision.expand(-1, len(lengths))[:, piece, None]
            scores += ((rest @ moves[:, mine].double().T) * weighted).sum(dim=0)
    return scores


def _blind_scores(heard: Iterator[Heard], scenario: Scenario, moves: torch.Tensor, *, one_sided: bool) -> torch.Tensor:
    """Return the scores of who knows the mixtures alone: likelihoods over whether a canary sent in a slot.

    Noise and data are taken together. Level and spread of a canary's direction and the share of a sender are those of
    the first chapter of slots, whatever the block size: slots wait until it is whole.
    """
    lengths = moves.norm(dim=1).clamp(min=1e-30)
    directions = moves / lengths[:, None]
    # A canary that sends or not moves by the whole of what it sends, from a silent seat.
    lengths = lengths * (2.0 if one_sided else 1.0)
    odds = math.log(scenario.sampling_rate) - math.log1p(-min(scenario.sampling_rate, 1.0 - 1e-12))
    chapter, softplus = min(SLOTS_PER_CHAPTER, scenario.radio.slots), torch.nn.functional.softplus
    scores, waiting = torch.zeros(len(moves), dtype=torch.float64), list[tuple[torch.Tensor, Doubles]]()
    level: tuple[torch.Tensor, ...] | None = None
    for received, block in heard:
        draws = block.draws
        along = received.to(directions.dtype) @ directions.T
        if level is None:
            waiting.append((along, draws.ratios))
            if sum(len(ratios) for _, ratios in waiting) < chapter:
                continue
            along = torch.cat([part for part, _ in waiting])
            first, ratios = along[:chapter], np.concatenate([part for _, part in waiting])[:chapter]
            deviation = (first.std(dim=0) if chapter > 1 else torch.ones_like(first[0])).clamp(min=1e-30)
            share = float(np.sqrt(np.mean(ratios[ratios > 0.0] ** 2))) if ratios.any() else 0.0
            level = first.mean(dim=0), deviation, share * lengths / deviation
        mean, deviation, move = level
        standard = (along - mean) / deviation
        ratio = softplus(odds + standard * move - move**2 / 2.0)
        if not one_sided:
            ratio = ratio - softplus(odds - standard * move - move**2 / 2.0)
        scores += ratio.sum(dim=0, dtype=torch.float64)
    return scores
