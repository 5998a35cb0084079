"""How the workers of our schedules are drawn: |N_t| of N, uniformly, without replacement.

With a limit on a worker's participations the slots are cut into rounds. In a round no worker sends twice: the seats of
all its slots together are one uniform sample without replacement. Rounds are independent of each other, and there are
no more of them than the limit. A limit of T gives rounds of one slot, the paper's schedule.
"""

from functools import lru_cache
from typing import Final

import numpy as np
import torch
from scipy.special import bdtr

from airmixml.privacy.design import slots_per_round
from airmixml.randomness.slot_words import PhiloxWords, SlotWords, integers_below, uniforms
from airmixml.scenario import Scenario

_DENSE_CELLS: Final = 4_000_000


def draw_schedule(slots: range, scheduled: int, workers: int, source: SlotWords) -> torch.Tensor:
    """Draw the scheduled workers of each slot in random order; slots x scheduled."""
    if scheduled * 4 > workers:
        return _with_smallest_numbers(slots, scheduled, workers, source)
    return _first_distinct(slots, scheduled, workers, source)


@lru_cache(maxsize=8)
def _chances_to_be_fewer(workers: int, rate: float, seats: int) -> tuple[float, ...]:
    """Return P(Binomial(N, rate) <= n) for n below the seats."""
    return tuple(bdtr(np.arange(seats), workers, rate).tolist())


def presence_of(scenario: Scenario, slots: range, source: SlotWords) -> torch.Tensor:
    """Draw which seats of a Poisson schedule are taken: Binomial(N, |N_t| / N) of them; slots x seats."""
    seats = scenario.seats
    chances = _chances_to_be_fewer(scenario.workers.count, scenario.sampling_rate, seats)
    fewer = torch.tensor(chances, dtype=torch.float64, device=source.device)
    taken = torch.searchsorted(fewer, uniforms(source.words(slots, 1)))
    return torch.arange(seats, device=source.device) < taken


def draw_in_rounds(scenario: Scenario, slots: range, source: SlotWords) -> torch.Tensor:
    """Draw |N_t| workers for each of these slots, with the scenario's limit on participations; slots x scheduled."""
    radio, workers = scenario.radio, scenario.workers.count
    if radio.scheduled == workers:
        # Everybody sends in every slot, and shares are dealt out at random: the order says nothing.
        return torch.arange(workers, device=source.device).expand(len(slots), workers)
    if not radio.max_participations:
        return draw_schedule(slots, radio.scheduled, workers, source)
    length = slots_per_round(radio.slots, radio.max_participations)
    rounds = range(slots.start // length, (slots.stop - 1) // length + 1)
    draw = _draw_rounds if isinstance(source, PhiloxWords) else _draw_rounds.__wrapped__  # secrets are not kept
    drawn = draw(rounds, length, radio.scheduled, workers, source)
    offset = slots.start - rounds.start * length
    return drawn[offset : offset + len(slots)]


@lru_cache(maxsize=2)
def _draw_rounds(rounds: range, length: int, scheduled: int, workers: int, source: SlotWords) -> torch.Tensor:
    """Draw whole rounds, kept because a long one serves many blocks of slots; (rounds length) x scheduled."""
    return draw_schedule(rounds, length * scheduled, workers, source).reshape(len(rounds) * length, scheduled)


def _with_smallest_numbers(slots: range, scheduled: int, workers: int, source: SlotWords) -> torch.Tensor:
    """Give every worker a random number and take the smallest, in order; a few slots at a time to save memory."""
    at_once = max(1, _DENSE_CELLS // workers)
    chosen = [
        uniforms(source.words(slots[first : first + at_once], workers)).topk(scheduled, dim=1, largest=False).indices
        for first in range(0, len(slots), at_once)
    ]
    return torch.cat(chosen)


def _first_distinct(slots: range, scheduled: int, workers: int, source: SlotWords) -> torch.Tensor:
    """Take the first ``scheduled`` distinct values of a sequence of independent draws, which is exactly uniform."""
    chosen = integers_below(source.words(slots, scheduled), workers)
    unfinished = torch.nonzero(_has_repeats(chosen))[:, 0]
    drawn, attempt = chosen[unfinished], 0
    while len(unfinished):
        attempt += 1
        places = unfinished[:, None] * scheduled + torch.arange(scheduled, device=source.device)
        more = integers_below(source.words_at(slots, scheduled, places, attempt), workers)
        drawn = torch.cat([drawn, more], dim=1)
        new = _first_occurrences(drawn)
        order = new.cumsum(dim=1)
        complete = order[:, -1] >= scheduled
        wanted = new[complete] & (order[complete] <= scheduled)
        chosen[unfinished[complete]] = drawn[complete][wanted].reshape(-1, scheduled)
        unfinished, drawn = unfinished[~complete], drawn[~complete]
    return chosen


def _has_repeats(drawn: torch.Tensor) -> torch.Tensor:
    """Return which rows hold a value twice; shape rows."""
    if drawn.device.type == "cpu":  # NumPy sorts short rows of short integers six times faster
        ascending = torch.from_numpy(np.sort(drawn.to(torch.int32).numpy(), axis=1))
    else:
        ascending = drawn.sort(dim=1).values
    return (ascending[:, 1:] == ascending[:, :-1]).any(dim=1)


def _first_occurrences(drawn: torch.Tensor) -> torch.Tensor:
    """Mark the first occurrence of each value in its row; same shape."""
    ascending, order = drawn.sort(dim=1, stable=True)
    repeated = torch.zeros(drawn.shape, dtype=torch.bool, device=drawn.device)
    repeated.scatter_(1, order[:, 1:], ascending[:, 1:] == ascending[:, :-1])
    return ~repeated
