"""The noise in what is left to an adversary who knows everything but one worker's sample: a class for each kind.

Gaussian noise lies on real numbers. Where workers send integers, the adversary learns the sum of the honest ones modulo
2^b, whether it hears that sum or every worker: masks are uniform. What the others sent subtracts, and is assumed to lie
on whole steps, so that their rounding hides nothing. Left are the worker's own rounded numbers in the Skellam noise of
those who carry it (without masks the worker alone), modulo 2^b: made here by the workers' own rounding, in every trial
anew. Numbers in which both worlds are alike tell nothing.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from airmixml.arrays import Doubles, Integers
from airmixml.audit.faults import Fault
from airmixml.audit.noise_check import stated_noise_watts
from airmixml.integers.exact_sampler import draw_skellam
from airmixml.integers.rounding import reduce
from airmixml.radio.integer_sums import IntegerSums
from airmixml.radio.reception import receive_mixtures
from airmixml.scenario import Scenario

Worlds = tuple[torch.Tensor, torch.Tensor]
"""What a worker adds to its slots, with the canary and without; each slots x numbers."""


@dataclass(frozen=True, kw_only=True, eq=False)
class HeardNoise:
    """Gaussian noise on the slots of a worker."""

    stated_watts: Doubles  # per complex symbol; shape slots, or 1 where all are alike
    fault: Fault

    def narrowed(self, worlds: Worlds, moved: torch.Tensor, *, few: bool) -> tuple[Worlds, str]:
        """Return numbers that tell as much, fewer unless there are ``few``, and how they are received, in words.

        ``moved`` is the move over the noise; slots x numbers.
        """
        if few:
            return worlds, ", all of them received in every trial"
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

    def narrowed(self, worlds: Worlds, moved: torch.Tensor, *, few: bool) -> tuple[Worlds, str]:
        """Return the numbers that differ between the worlds."""
        differ = (moved != 0.0).any(dim=0)
        one, other = (each[:, differ] for each in worlds)
        how = "that differ between the worlds, rounded and received modulo a power of two in every trial"
        return (one, other), f", the {int(differ.sum()):,} {how}"

    def put_on(self, clean: torch.Tensor, power_scale_watts: torch.Tensor, source: torch.Generator) -> torch.Tensor:
        """Return receptions of these slots, one after the other; slots x numbers."""
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
