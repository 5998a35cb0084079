"""The attack of an adversary who knows the schedule: the server, or a release whose schedule leaks.

Everything but one worker's sample is known, so what the others sent subtracts. What is left in the worker's own slots
is its signal in Gaussian noise, in one of two worlds: the canary, or another sample (replace-one) or silence
(remove-one). The log-likelihood ratio is a matched filter, and no attack does better.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from airmixml.audit.canaries import worst_samples
from airmixml.audit.trials import Bench, Trials, collect, noise_source
from airmixml.radio.air import receive_mixtures
from airmixml.radio.draws import AirSetting, draw_ahead
from airmixml.radio.senders import make_sender
from airmixml.units import dbm_to_watts

_NUMBERS_PER_BLOCK: Final = 1 << 26
_MOST_TRIALS_PER_BLOCK: Final = 1024
# What is worked on at once stays in the processor's cache.
_NUMBERS_AT_ONCE: Final = 1 << 19
# A trial beyond this, or all of them beyond that, has its noise drawn along the canary's direction alone.
_MOST_NUMBERS_PER_TRIAL: Final = 2_000_000
_MOST_NUMBERS: Final = 3_000_000_000


@dataclass(frozen=True, kw_only=True, eq=False)
class WorkerSlots:
    """The slots in which one worker sent.

    Attributes:
        ratios: its share of each; shape slots.
        power_scale_watts: beta of each; shape slots.
    """

    ratios: NDArray[np.float64]
    power_scale_watts: NDArray[np.float64]


def slots_of_worker(setting: AirSetting, worker: int, *, threads: int = 0) -> WorkerSlots:
    """Return the slots that a worker really sends in, drawn as a run of that seed draws them."""
    ratios, power = [], []
    for draws in draw_ahead(setting, threads=threads, noise=False):
        slot, seat = np.nonzero((draws.scheduled_workers == worker) & (draws.ratios > 0.0))
        ratios.append(draws.ratios[slot, seat])
        power.append(draws.power_scale_watts[slot])
    return WorkerSlots(ratios=np.concatenate(ratios), power_scale_watts=np.concatenate(power))


def known_schedule_trials(bench: Bench, own: WorkerSlots) -> Trials:
    """Return scores of receptions of a worker's slots in each world, each with noise of its own."""
    scenario, trials, fault = bench.setting.scenario, bench.trials, bench.fault
    noise_watts = dbm_to_watts(scenario.radio.noise_dbm)
    with_canary, without = _contributions(bench, own)
    amplitude = torch.from_numpy(np.sqrt(own.power_scale_watts / (noise_watts / 2.0)))[:, None]
    moved = (with_canary - without).double() * amplitude
    shift = float(moved.norm())
    slots, symbols = with_canary.shape
    full = slots * symbols <= _MOST_NUMBERS_PER_TRIAL and 2 * trials * slots * symbols <= _MOST_NUMBERS
    how = f"{slots:,} slot{'' if slots == 1 else 's'} of {symbols:,} symbols"
    if full:
        how += ", all of them received in every trial"
    else:
        how += ", received along the canary's direction in every trial, which has the same law"
        direction = (moved / moved.norm(dim=1, keepdim=True).clamp(min=1e-300)).float()
        with_canary, without = ((each * direction).sum(dim=1, keepdim=True) for each in (with_canary, without))
        moved = (with_canary - without).double() * amplitude
    numbers = with_canary.numel()
    per_block = max(1, min(_MOST_TRIALS_PER_BLOCK, _NUMBERS_PER_BLOCK // max(numbers, 1), trials))
    at_once = max(1, min(per_block, _NUMBERS_AT_ONCE // max(numbers, 1)))
    clean = [each.repeat(at_once, 1) for each in (with_canary, without)]
    power_scale_watts = torch.from_numpy(own.power_scale_watts).repeat(at_once)
    weights = (moved * amplitude).reshape(-1)
    middle = float(((with_canary.double() + without.double()) / 2.0).reshape(-1) @ weights)

    def score_block(block: int) -> NDArray[np.float64]:
        source = noise_source(scenario.seed, 2 * block)
        scores = np.empty((2, min(per_block, trials - block * per_block)))
        for first in range(0, scores.shape[1], at_once):
            count = min(at_once, scores.shape[1] - first)
            for world in range(2):
                signal = clean[world][: count * slots]
                noise = torch.randn(signal.shape, generator=source)
                received = receive_mixtures(signal, noise, power_scale_watts[: count * slots], fault.heard(noise_watts))
                found = received.reshape(count, -1).double() @ weights - middle
                scores[world, first : first + count] = found.numpy()
        return scores

    scores = collect("schedule known", -(-trials // per_block), score_block, bench)
    return Trials(scores_in=scores[0], scores_out=scores[1], how=how, normal=True, shift=shift)


def _contributions(bench: Bench, own: WorkerSlots) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what the worker adds to its slots with the canary and without; slots x symbols."""
    setting = bench.setting
    canaries = worst_samples(setting.scenario, setting.signal.features, bench.classes)
    sender = bench.fault.of(make_sender(setting.scenario, canaries, torch.device("cpu")))
    ratios = torch.from_numpy(own.ratios)[:, None]
    rows = torch.zeros((len(own.ratios), 1), dtype=torch.int64)
    with_canary = sender.mix(rows, ratios)
    silence = torch.zeros_like(with_canary)
    return with_canary, silence if bench.adjacency == "remove-one" else sender.mix(rows + 1, ratios)
