"""A scenario whose workers send integers: step, bits and noise that keep its target, and what that takes on the air.

A channel adds up and does not reduce modulo 2^b, so residues are sent as bit planes: one
symbol of constant power for each bit, all workers of a slot at once. On the ideal air gains are right, and the power is
such that one number is wrong in a hundred runs. Planes tell more than the sum, but nothing that separate residues do
not tell. So everybody is stated to learn what somebody learns who hears each worker alone: with masks the sum of the
honest workers, without masks a worker's own integers with its own noise.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from scipy.special import ndtri

from airmixml.errors import ScenarioError
from airmixml.integers.fitting import WRAP_FAILURE, SumTarget, fitted
from airmixml.integers.integer_noise import IntegerNoise
from airmixml.integers.skellam import mu_per_step
from airmixml.masks.hidden_noise import Honest
from airmixml.privacy import Design, Sensitivity
from airmixml.privacy.rounded_noise import Rounding
from airmixml.radio.masking import honest_of, honest_with
from airmixml.radio.path_loss import weakest_gain
from airmixml.scenario import Scenario
from airmixml.units import db_to_ratio, dbm_to_watts, ratio_to_db, watts_to_dbm

WRONG_NUMBERS: Final = 0.01
"""Expected numbers of all sums of a run that are wrong because a bit plane was heard wrongly."""


_FOR_COARSER_STEPS: Final = 0.95


def plane_snr_db(error_rate: float) -> float:
    """Return the SNR per worker at which the ones of a bit plane are miscounted at that rate, in dB.

    Bits are sent as +-1/2, so with G = (1/4) / (noise variance of the real part) the rate is 2 Phi(-sqrt(G)).
    """
    return float(ratio_to_db(ndtri(error_rate / 2.0) ** 2))


@dataclass(frozen=True, kw_only=True)
class IntegerSums:
    """Sums of integers modulo 2^b over the workers of a slot.

    Attributes:
        noise: code (step, bits) and noise of each worker.
        honest: who is left of a slot without colluders and absent workers.
        masked: whether masks hide all but the sum.
        received_watts: of a worker's bit, at the server.
        assumed_range: largest number of a sum that does not wrap around, over the root mean square of a sum of equal
            vectors; 0 where none does, whatever the data.
    """

    noise: IntegerNoise
    honest: Honest
    masked: bool
    received_watts: float
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
        """Variance of noise and rounding in a number of the mean over all workers."""
        return self.noise.sum_variance / self.noise.workers**2

    @property
    def symbols(self) -> int:
        """Of a slot on the air: one for each bit of each number."""
        return self.noise.code.bits * self.noise.code.numbers

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


def integer_sums_of(scenario: Scenario, sensitivity: Sensitivity) -> IntegerSums | None:
    """Return the sums that keep the scenario's target; None where workers send real numbers."""
    privacy, radio = scenario.privacy, scenario.radio
    if privacy.arithmetic != "integers" or not sensitivity.numbers:
        return None
    honest = honest_of(scenario)
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
        carriers=honest.count if privacy.noise == "masked" else 1,
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
    snr = db_to_ratio(plane_snr_db(WRONG_NUMBERS / planes))
    return IntegerSums(
        noise=noise,
        honest=honest,
        masked=privacy.noise == "masked",
        received_watts=snr * dbm_to_watts(radio.noise_dbm) / 2.0,
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


@lru_cache(maxsize=64)
def _fitted(target: SumTarget, bits: int, sum_range: float) -> IntegerNoise:
    return fitted(target, bits, sum_range)


def check_plane_power(scenario: Scenario, sums: IntegerSums, floor: float | None = None) -> None:
    """Refuse bit planes that take more than the power limit of the worker with the weakest channel."""
    weakest, limit_dbm = weakest_gain(scenario) if floor is None else floor, scenario.radio.max_power_dbm
    needed_dbm = float(watts_to_dbm(sums.received_watts / weakest))
    if needed_dbm > limit_dbm:
        raise ScenarioError(
            f"radio.max_power_dbm = {limit_dbm:g}: the bits of the farthest worker take {needed_dbm:.1f} dBm where "
            'privacy.arithmetic = "integers"; must be at least that, or use a smaller workers.side_metres'
        )
