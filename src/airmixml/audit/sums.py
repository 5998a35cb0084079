"""The attacks of those who hear sums: who know the schedule, and who see only the mixtures.

The server, or a release whose schedule leaks, knows everything but one worker's sample. What is left in the worker's
own slots is its signal in Gaussian noise: the canary, or another sample (replace-one) or silence (remove-one). The
log-likelihood ratio is a matched filter, and no attack does better.

On an imperfect air the adversary also knows the worker's gain in every piece, and has both quadratures, with the
pilots, which a silent worker does not send. Where workers bring noise there, the claim is that against everyone, to
which an attack on sums does not come near: it is not audited.

Of integers, every adversary learns the sum of the honest workers modulo 2^b. The others' is assumed to lie on whole
steps, so that their rounding hides nothing. Left are the worker's own numbers, rounded by the workers' own code, in the
Skellam noise of those who carry it, new in every trial. Numbers in which both worlds are alike tell nothing.

An adversary who sees only the mixtures attacks on the ideal air alone. The data set is the worst one. Where exactly
|N_t| workers send, all others hold one sample u, so that a slot without the canary v is known, and one with it is moved
by q (v - u). Where every worker tosses its own coin, the others' coins are granted and what they sent subtracts: the
move is q v. Noise has the same law in all directions, so only the plane of the moves is received: one number a slot, or
two for a replacement.

A trial is one worker of a real schedule (its slots, shares and powers come from the draws of a run) in fresh noise. Up
to one worker in twenty of a run is used, then comes the run of the next seed. Workers of one run are nearly but not
quite independent: counts of them had 0.80 to 1.06 times the variance of independent trials where that was measured, so
that limits made for independent trials hold about, which is not proven.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any, Final

import numpy as np
import torch

from airmixml.arrays import Doubles, Integers
from airmixml.attacks.likelihood import Amplitudes
from airmixml.audit.canaries import faulty_sender, sent_of, worst_samples
from airmixml.audit.faults import SOUND, Fault
from airmixml.audit.noise_check import stated_noise_watts
from airmixml.audit.trials import INDEPENDENT, Bench, SlotKind, Trials, noise_source, seats_of_worker
from airmixml.impairments.frame import frame_of
from airmixml.integers.encoding import draw_skellam, reduce
from airmixml.messages import ScenarioError, plural
from airmixml.radio.air import receive_mixtures
from airmixml.radio.draws import AirSetting, SlotTensors, draw_slots
from airmixml.radio.tally import placed_distances
from airmixml.radio.workers_noise import IntegerSums
from airmixml.scenario import Scenario
from airmixml.streams import SLOTS_PER_CHAPTER

_WORKERS_PER_CANARY: Final = 20
_NEARLY_INDEPENDENT: Final = f"{INDEPENDENT}, but several are workers of one schedule: only nearly so"
# Beyond e^80 a slot has told everything; float32 would overflow next.
_LARGEST_LOG_RATIO: Final = 80.0
_SLOTS_LOOKED_AT: Final = 1024
_MOST_TRIALS_PER_BLOCK: Final = 1024
_NUMBERS_AT_ONCE: Final = 1 << 19
Worlds = tuple[torch.Tensor, torch.Tensor]
"""What a worker adds to its slots, with the canary and without; each slots x numbers."""


@dataclass(frozen=True, kw_only=True, eq=False)
class HeardNoise:
    """Gaussian noise on the slots of a worker."""

    stated_watts: Doubles  # per complex symbol; shape slots, or 1 where all are alike
    fault: Fault

    def narrowed(self, worlds: Worlds, moved: torch.Tensor) -> tuple[Worlds, str]:
        """Return fewer numbers that tell as much, and how they are received, in words.

        ``moved`` is the move over the noise; slots x numbers.
        """
        direction = (moved / moved.norm(dim=1, keepdim=True).clamp(min=1e-300)).float()
        one, other = ((each * direction).sum(dim=1, keepdim=True) for each in worlds)
        return (one, other), ", received along the canary's direction in every trial, which has the same law"

    def put_on(self, clean: torch.Tensor, power_scale_watts: torch.Tensor, source: torch.Generator) -> torch.Tensor:
        """Return receptions of these slots, one after the other; slots x numbers."""
        noise = torch.randn(clean.shape, generator=source)
        return receive_mixtures(clean, noise, power_scale_watts, self.fault.heard(float(self.stated_watts[0])))


@dataclass(frozen=True, kw_only=True, eq=False)
class HeardIntegers(HeardNoise):
    """Skellam noise on integers modulo 2^b."""

    sums: tuple[IntegerSums, ...]  # of each slot

    def narrowed(self, worlds: Worlds, moved: torch.Tensor) -> tuple[Worlds, str]:
        differ = (moved != 0.0).any(dim=0)
        one, other = (each[:, differ] for each in worlds)
        how = "that differ between the worlds, rounded and received modulo a power of two in every trial"
        return (one, other), f", the {int(differ.sum()):,} {how}"

    def put_on(self, clean: torch.Tensor, power_scale_watts: torch.Tensor, source: torch.Generator) -> torch.Tensor:
        generator = np.random.default_rng(int(torch.randint(2**63 - 1, (), generator=source)))
        by_slot = clean.double().numpy().reshape(-1, len(self.sums), clean.shape[1])
        received = np.empty_like(by_slot)
        for slot, sums in enumerate(self.sums):
            # A worker's rounded vectors, one for each trial, in the noise of all who carry it.
            vectors, code = sums.noise.workers * by_slot[:, slot], sums.noise.code
            variance = sums.carriers * sums.noise.variance_per_worker
            coarser = max(1, round(self.fault.coarse_steps * math.sqrt(variance)))
            rounded = coarser * replace(code, step=coarser * code.step).rounded(vectors, generator)
            heard = rounded + skellam_numbers(variance, generator, vectors.shape, self.fault)
            received[:, slot] = sums.noise.decoded(reduce(heard, code.bits)) / sums.noise.workers
        return torch.from_numpy(received.reshape(clean.shape))


def skellam_numbers(variance: float, generator: np.random.Generator, shape: tuple[int, ...], fault: Fault) -> Integers:
    """Return noise of a stated variance as it really is."""
    real = variance * fault.noise_factor**2
    return draw_skellam(real, generator, shape, simulated=True) if real else np.zeros(shape, dtype=np.int64)


def heard_noise(scenario: Scenario, of_slots: Sequence[IntegerSums | None], fault: Fault) -> HeardNoise:
    """Return the noise of a worker's slots; the sums of each where workers send integers, else None."""
    sums = tuple(each for each in of_slots if each is not None)
    if not sums:
        return HeardNoise(stated_watts=np.array([stated_noise_watts(scenario)]), fault=fault)
    stated_watts = np.array([stated_noise_watts(scenario, each) for each in sums])
    return HeardIntegers(stated_watts=stated_watts, fault=fault, sums=sums)


def _receive(
    seed: int,
    noise: HeardNoise,
    worlds: Worlds,
    power_scale_watts: torch.Tensor,
    weights: torch.Tensor,
    middle: float,
    block: int,
    size: int,
) -> Doubles:
    """Return the scores of a block of receptions in noise of their own, with the canary and without; 2 x size.

    The weights are those of the matched filter (shape slots times numbers), which gives ``middle`` half-way between
    the worlds.
    """
    source, beta = noise_source(seed, 2 * block), power_scale_watts.repeat(size)
    received = (noise.put_on(clean.repeat(size, 1), beta, source) for clean in worlds)
    return np.stack([(each.reshape(size, -1).double() @ weights - middle).numpy() for each in received])


def known_schedule_trials(bench: Bench, worker: int) -> Trials:
    """Return scores of receptions of a worker's slots in each world, each with noise of its own."""
    scenario, trials, fault = bench.air.scenario, bench.trials, bench.fault
    beta, with_canary, without, sums = contributions(bench, worker)
    noise = heard_noise(scenario, sums, fault)
    amplitude = torch.from_numpy(np.sqrt(beta / (noise.stated_watts / 2.0)))[:, None]
    moved = (with_canary - without).double() * amplitude
    quadratures = "" if scenario.air.is_ideal else ", pilots with them, in both quadratures"
    slots = len(with_canary)
    (with_canary, without), received = noise.narrowed((with_canary, without), moved)
    moved = (with_canary - without).double() * amplitude
    how = f"{plural(slots, 'slot')} of {bench.air.signal.symbols:,} symbols{quadratures}{received}"
    numbers = with_canary.numel()
    # What is worked on at once stays in the processor's cache.
    per_block = max(1, min(_MOST_TRIALS_PER_BLOCK, _NUMBERS_AT_ONCE // max(numbers, 1), trials))
    weights = (moved * amplitude).reshape(-1)
    middle = float(((with_canary.double() + without.double()) / 2.0).reshape(-1) @ weights)
    scored = partial(_receive, scenario.seed, noise, (with_canary, without), torch.from_numpy(beta), weights, middle)
    return bench.run("schedule known", per_block, scored, how=how, normal=True)


def contributions(bench: Bench, worker: int) -> tuple[Doubles, torch.Tensor, torch.Tensor, list[IntegerSums | None]]:
    """Return beta of the slots that the worker sends in, what it adds with the canary and without, and the sums.

    What it adds is slots x numbers; a kind of slots that has fewer than another is filled up with zeros.
    """
    betas, *worlds = zip(*(_contributions_to(bench, kind, worker) for kind in bench.kinds), strict=True)
    most = max(each.shape[1] for each in worlds[0])
    with_canary, without = (
        torch.cat([torch.nn.functional.pad(each, (0, most - each.shape[1])) for each in world]) for world in worlds
    )
    sums = [kind.air.integers for kind, beta in zip(bench.kinds, betas, strict=True) for _ in beta]
    return np.concatenate(betas), with_canary, without, sums


def _contributions_to(bench: Bench, kind: SlotKind, worker: int) -> tuple[Doubles, torch.Tensor, torch.Tensor]:
    """Return the same of one kind of slots, of a round under a model that is the same in all of them.

    Numbers are the worker's symbols; on an air that is not ideal symbols and pilots, their real parts before the
    imaginary ones.
    """
    air, shares, betas, of_air = kind.air, list[Doubles](), list[Doubles](), list[torch.Tensor]()
    for drawn, draws, slot, seat in seats_of_worker(kind, worker):
        # Of integers a worker's own vector counts, however many others arrive.
        own = draws.ratios[slot, seat] if air.integers is None else np.full(len(slot), 1.0 / air.integers.noise.workers)
        shares.append(own)
        betas.append(draws.power_scale_watts[slot])
        if drawn.gains is not None and len(slot):
            of_air.append(drawn.gains.at(torch.from_numpy(slot), torch.from_numpy(seat)))
    beta, ratios = np.concatenate(betas), torch.from_numpy(np.concatenate(shares))[:, None]
    scenario, fault = air.scenario, bench.fault
    send = faulty_sender(scenario, worst_samples(scenario, air.signal.features, bench.classes), fault)

    def received(row: int) -> torch.Tensor:
        rows = torch.full((len(beta), 1), row)
        if not of_air:
            return send(rows, ratios)
        frame = frame_of(scenario.air, air.signal.symbols)
        gains = (ratios * torch.cat(of_air)).expand(-1, frame.pieces + frame.pilot_count)
        on_symbols = gains[:, : frame.pieces].repeat_interleave(torch.tensor(frame.lengths), dim=1)
        pilots = fault.gain_factor * math.sqrt(air.pilot_energy / frame.pilot_count) * gains[:, frame.pieces :]
        numbers = torch.cat([on_symbols * send(rows, torch.ones_like(ratios)), pilots], dim=1)
        return torch.cat([numbers.real, numbers.imag], dim=1)

    with_canary = received(0)
    return beta, with_canary, torch.zeros_like(with_canary) if bench.adjacency == "remove-one" else received(1)


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
    trials_made = bench.run("schedule hidden", per_run, scored, how=how)
    together = per_run > 1 and not base.radio.schedule_kind.by_coin and base.radio.scheduled < base.workers.count
    return replace(trials_made, independence=_NEARLY_INDEPENDENT) if together else trials_made
