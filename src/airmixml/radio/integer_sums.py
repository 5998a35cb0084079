"""A scenario whose workers send integers: step, bits and noise that keep its target, and what that takes on the air.

A digital link carries residues as packets. On an analog one, which adds up and does not reduce modulo 2^b, they are
sent as bit planes: one symbol of constant power for each bit, all workers of a slot at once. On the ideal air gains are
right, and the power is such that one number is wrong in a hundred runs. Planes tell more than the sum, but nothing that
separate residues do not tell. So every adversary is stated to learn what one learns who hears each worker alone: with
masks the sum of the honest workers, without masks a worker's own integers with its own noise.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from airmixml.integers.fitting import WRAP_FAILURE, SumTarget, fitted
from airmixml.integers.integer_noise import IntegerNoise
from airmixml.integers.skellam import mu_per_step
from airmixml.masks.hidden_noise import Honest
from airmixml.privacy import Design, Sensitivity
from airmixml.privacy.mechanism import Rounding
from airmixml.radio.masking import Masking, any_masking, honest_with
from airmixml.scenario import Scenario

_fitted: Final = lru_cache(maxsize=64)(fitted)
_FOR_COARSER_STEPS: Final = 0.95
_AS_UNIFORM: Final = 1e8  # masks over own noise that leave nothing but the sum


@dataclass(frozen=True, kw_only=True)
class IntegerSums:
    """Sums of integers modulo 2^b over the workers of a slot."""

    noise: IntegerNoise  # code (step, bits) and noise of each worker
    honest: Honest  # who is left of a slot without colluders and absent workers
    masked: bool  # whether masks hide all but the sum
    received_watts: float  # of a worker's bit, at the server; 1 where bits are sent as packets
    # Largest number of a sum that does not wrap around, over the root mean square of a sum of equal vectors; 0 where
    # none does, whatever the data.
    assumed_range: float = 0.0

    @property
    def carriers(self) -> int:
        """Workers whose noise hides a worker."""
        return self.honest.count if self.masked else 1

    @property
    def rounding(self) -> Rounding:
        """What one sum is, beside a Gaussian mechanism."""
        step_mu = mu_per_step(self.carriers * self.noise.variance_per_worker)
        return Rounding(step_mu=step_mu, numbers=self.noise.code.numbers)

    @property
    def hidden_variance(self) -> float:
        """Variance of Gaussian noise that would hide as much, but for rounding, in the units of a worker's vector."""
        return (self.noise.code.step / self.rounding.step_mu) ** 2

    @property
    def mixture_variance(self) -> float:
        """Variance of noise and rounding in a number of the mean over all workers; of fewer it is as much larger."""
        return self.noise.sum_variance / self.noise.workers**2

    @property
    def symbols(self) -> int:
        """Of a slot on the air: one for each bit of each number."""
        return self.noise.code.bits * self.noise.code.numbers

    def as_masking(self, scenario: Scenario) -> Masking:
        """Return noise and masks on real numbers that hide as much from an isolating listener, but for rounding."""
        own_watts = self.received_watts * self.noise.variance_per_worker * self.noise.code.step**2
        masking = any_masking(scenario)
        return replace(masking, own_watts=own_watts, pair_watts=_AS_UNIFORM * own_watts, self_watts=0.0)

    def left_with(self, scenario: Scenario, colluders: int) -> tuple["IntegerSums", str]:
        """Return the same sums if so many workers collude, and what to know about that."""
        if not self.masked:
            return self, ""
        honest, note = honest_with(scenario, colluders)
        return replace(self, honest=honest, masked=not honest.is_cut), note

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            **self.noise.to_dict(),
            "carriers": self.carriers,
            "noise_in_steps": math.sqrt(self.noise.workers * self.noise.variance_per_worker),
            "rounding_share": 1.0 - self.noise.noise_variance / self.noise.sum_variance,
            "assumed_range": self.assumed_range,
            "wrap_failure": WRAP_FAILURE,
        }

    @property
    def in_words(self) -> str:
        """What hides a worker."""
        if not self.masked:
            return "its own Skellam noise on integers"
        masks = f"masks that are uniform modulo 2^{self.noise.code.bits}{self.honest.assumption}"
        return f"the Skellam noise of {self.honest.count:,} honest workers on integers, and {masks}"


def fit_sums(scenario: Scenario, sensitivity: Sensitivity, *, masked: bool) -> IntegerSums:
    """Return the sums that keep the target of a scenario whose workers send integers, with masks or without."""
    privacy, radio = scenario.privacy, scenario.radio
    honest = any_masking(scenario).honest
    slots, share, rounded = _slots_and_share(scenario, sensitivity.numbers)
    schedule = Design(
        workers=scenario.workers.count,
        scheduled=radio.scheduled,
        received_watts=(1.0,),
        counts=(slots,),
        sensitivity=sensitivity,
        noise_watts=1.0,
        max_participations=radio.max_participations,
    )
    target = SumTarget(
        numbers=sensitivity.numbers,
        norm=math.sqrt(sensitivity.removal),
        workers=radio.scheduled,
        carriers=honest.count if masked else 1,
        epsilon=privacy.epsilon,
        delta=privacy.delta,
        distance=math.sqrt(sensitivity.squared_move(privacy.adjacency, "none") / sensitivity.removal),
        participations=schedule.participations,
        sums=slots,
        share=share,
        rounded=rounded,
    )
    noise = _fitted(target, privacy.modulus_bits, privacy.sum_range)
    planes = noise.code.bits * sensitivity.numbers * slots
    return IntegerSums(
        noise=noise,
        honest=honest,
        masked=masked,
        received_watts=radio.link_kind.received_watts(scenario, planes),
        assumed_range=privacy.sum_range,
    )


def _slots_and_share(scenario: Scenario, numbers: int) -> tuple[int, float, int]:
    """Return the slots of one kind, their share of mu^2, and a bound on what is rounded in slots of both kinds.

    A run with rounds has slots of moments and slots of gradients. The coarser step of the two is assumed of both, which
    ``_FOR_COARSER_STEPS`` leaves room for; products of d numbers with themselves and K outputs are fewer than (d K)^2.
    """
    learner, slots = scenario.learner, scenario.radio.slots
    if not learner.rounds:
        return slots, 1.0, 0
    in_rounds = scenario.workers.sends == "gradients"
    share = scenario.rounds_share if in_rounds else 1.0 - scenario.rounds_share
    most = numbers**2 if in_rounds else numbers
    return learner.rounds if in_rounds else slots, _FOR_COARSER_STEPS * share, most * (slots + learner.rounds)
