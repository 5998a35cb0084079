"""The attack of an adversary who knows the schedule: the server, or a release whose schedule leaks.

Everything but one worker's sample is known. What is left in the worker's own slots is its signal in Gaussian noise: the
canary, or another sample (replace-one) or silence (remove-one). The log-likelihood ratio is a matched filter, and no
attack does better.

On an imperfect air the adversary also knows the worker's gain in every piece, and has both quadratures, with the
pilots, which a silent worker does not send. Where workers bring noise there, the claim is that against everyone, to
which an attack on sums does not come near: it is not audited.

Of integers, every adversary learns the sum of the honest workers modulo 2^b. The others' is assumed to lie on whole
steps, so that their rounding hides nothing. Left are the worker's own numbers, rounded by the workers' own code, in the
Skellam noise of those who carry it, new in every trial. Numbers in which both worlds are alike tell nothing.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import torch

from airmixml.arrays import Doubles, Integers
from airmixml.audit.canaries import faulty_sender, worst_samples
from airmixml.audit.faults import Fault
from airmixml.audit.noise_check import stated_noise_watts
from airmixml.audit.trials import Bench, SlotKind, Trials, noise_source, seats_of_worker
from airmixml.impairments.frame import frame_of
from airmixml.integers.encoding import draw_skellam, reduce
from airmixml.radio.air import receive_mixtures
from airmixml.radio.workers_noise import IntegerSums
from airmixml.scenario import Scenario
from airmixml.wording import plural

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
            heard = rounded_in_noise(sums, sums.noise.workers * by_slot[:, slot], generator, self.fault)
            received[:, slot] = sums.noise.decoded(reduce(heard, sums.noise.code.bits)) / sums.noise.workers
        return torch.from_numpy(received.reshape(clean.shape))


def rounded_in_noise(sums: IntegerSums, vectors: Doubles, generator: np.random.Generator, fault: Fault) -> Integers:
    """Return a worker's rounded vectors, one for each trial, in the noise of all who carry it; trials x numbers."""
    variance, code = sums.carriers * sums.noise.variance_per_worker, sums.noise.code
    coarser = max(1, round(fault.coarse_steps * math.sqrt(variance)))
    rounded = coarser * replace(code, step=coarser * code.step).rounded(vectors, generator)
    return rounded + skellam_numbers(variance, generator, vectors.shape, fault)


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


@dataclass(frozen=True, kw_only=True, eq=False)
class _Receptions:
    """Scores receptions of a worker's slots in noise of their own."""

    seed: int  # of the noise
    worlds: Worlds
    power_scale_watts: torch.Tensor  # beta of these slots; shape slots
    weights: torch.Tensor  # matched filter; shape slots times numbers
    middle: float  # what the filter gives half-way between the worlds
    noise: HeardNoise  # that there really is

    def __call__(self, block: int, size: int) -> Doubles:
        """Return the scores of a block of receptions, with the canary and without; 2 x size."""
        source = noise_source(self.seed, 2 * block)
        beta = self.power_scale_watts.repeat(size)
        received = (self.noise.put_on(clean.repeat(size, 1), beta, source) for clean in self.worlds)
        return np.stack([(each.reshape(size, -1).double() @ self.weights - self.middle).numpy() for each in received])


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
    scored = _Receptions(
        seed=scenario.seed,
        worlds=(with_canary, without),
        power_scale_watts=torch.from_numpy(beta),
        weights=weights,
        middle=float(((with_canary.double() + without.double()) / 2.0).reshape(-1) @ weights),
        noise=noise,
    )
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
    scenario, fault, removed = air.scenario, bench.fault, bench.adjacency == "remove-one"
    sender = faulty_sender(scenario, worst_samples(scenario, air.signal.features, bench.classes), fault)
    rows, whole = torch.zeros((len(beta), 1), dtype=torch.int64), torch.ones_like(ratios)

    def in_both_worlds(received: Callable[[torch.Tensor], torch.Tensor]) -> tuple[Doubles, torch.Tensor, torch.Tensor]:
        with_canary = received(rows)
        return beta, with_canary, torch.zeros_like(with_canary) if removed else received(rows + 1)

    if not of_air:
        return in_both_worlds(lambda row: sender.weighted_sum(row, ratios))
    frame = frame_of(scenario.air, air.signal.symbols)
    gains = (ratios * torch.cat(of_air)).expand(-1, frame.pieces + frame.pilot_count)
    on_symbols = gains[:, : frame.pieces].repeat_interleave(torch.tensor(frame.lengths), dim=1)
    pilots = fault.gain_factor * math.sqrt(air.pilot_energy / frame.pilot_count) * gains[:, frame.pieces :]

    def with_pilots(row: torch.Tensor) -> torch.Tensor:
        numbers = torch.cat([on_symbols * sender.weighted_sum(row, whole), pilots], dim=1)
        return torch.cat([numbers.real, numbers.imag], dim=1)

    return in_both_worlds(with_pilots)
