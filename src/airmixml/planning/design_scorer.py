"""What workers could send at one privacy target, and how much a closed-form learner gains from each.

Privacy fixes (received power) x (what a worker can move)^2 for given |N_t|, T and schedule. What the worker sends, how
loud its label is beside its input and how unequal the shares are can then be compared without asking the accountant.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from airmixml.doors import ADVERSARIES
from airmixml.errors import AirMixError, ScenarioError
from airmixml.planning.alternatives import draw_sample_slots, energy_joules
from airmixml.planning.frames import signal_loss
from airmixml.planning.learning_noise import LearningNoise, SlotQuality, learning_noise
from airmixml.privacy import Sensitivity
from airmixml.radio.expected_noise import expected_noise
from airmixml.radio.path_loss import path_gain
from airmixml.radio.privacy_target import guessed_received_watts, private_received_watts, sensitivity_of, symbols_on_air
from airmixml.radio.ratios import varying_share
from airmixml.scenario import Scenario
from airmixml.units import dbm_to_watts
from airmixml.workers import SYMBOLS_PER_SECOND, Signal

_MOST_SAMPLE_SLOTS: Final = 128
_FEWEST_SAMPLE_SLOTS: Final = 8
_SAMPLED_SEATS: Final = 1 << 19


@dataclass(frozen=True, kw_only=True)
class SendingPlan:
    """What is sent, by how many and how often: the choices that a privacy target leaves open.

    Attributes:
        sends: "samples" or "moments".
        label_weight: w.
        scheduled: |N_t|.
        slots: T.
        schedule: "fixed" or "poisson".
        policy: how ratios are drawn.
        alpha: dispersion of the ratios; None where the policy has none.
    """

    sends: str
    label_weight: float
    scheduled: int
    slots: int
    schedule: str
    policy: str
    alpha: float | None

    @classmethod
    def of(cls, scenario: Scenario) -> SendingPlan:
        """Return what a scenario sends."""
        workers, radio, mixing = scenario.workers, scenario.radio, scenario.mixing
        return cls(
            sends=workers.sends,
            label_weight=workers.label_weight,
            scheduled=radio.scheduled,
            slots=radio.slots,
            schedule=radio.schedule,
            policy=mixing.policy,
            alpha=mixing.alpha if mixing.policy == "dirmix" else None,
        )

    def applied_to(self, scenario: Scenario) -> Scenario:
        """Return the scenario that sends this, all else equal; raise a ScenarioError where it cannot."""
        if self == SendingPlan.of(scenario):
            return replace(scenario, mixing=replace(scenario.mixing, power="dp"))
        workers, radio, mixing = scenario.workers, scenario.radio, scenario.mixing
        aired = replace(
            radio,
            scheduled=self.scheduled,
            slots=self.slots,
            schedule=self.schedule,
            # Moments are many more symbols than a sample: a slot lasts as long as they need.
            slot_seconds=radio.slot_seconds if self.sends == workers.sends else 0.0,
            max_participations=self._participations(scenario),
        )
        alpha = mixing.alpha if self.alpha is None else self.alpha
        mixed = replace(mixing, power="dp", policy=self.policy, alpha=alpha, prior=())
        code = workers.label_code if self.sends == "moments" else "one-hot"
        sent = replace(workers, sends=self.sends, label_weight=self.label_weight, label_code=code)
        return replace(scenario, workers=sent, radio=aired, mixing=mixed)

    def _participations(self, scenario: Scenario) -> int:
        """Return the limit on participations: against those who know the schedule the least that fills all seats."""
        if self.schedule == "poisson" or self.slots == 1:
            return 0
        least = -(-self.slots // max(1, scenario.workers.count // self.scheduled))
        if ADVERSARIES.load(scenario.privacy.adversary).knows_schedule:
            return least
        own, radio = scenario.radio.max_participations, scenario.radio
        scaled = round(own * self.slots * self.scheduled / (radio.slots * radio.scheduled))
        return max(least, scaled) if own else 0


@dataclass(frozen=True, kw_only=True)
class _SampleSlots:
    """Some slots of a mixing policy: what of their ratios and channels decides noise and power; all of shape slots."""

    largest_square: NDArray[np.float64]
    largest_power: NDArray[np.float64]
    all_power: NDArray[np.float64]
    inverse_gain: NDArray[np.float64]
    square_share: float


class DesignScorer:
    """Scores what the workers of one scenario could send at its privacy target; remembers what the accountant said."""

    def __init__(
        self,
        scenario: Scenario,
        input_dim: int,
        label_dim: int,
        squared_norm: float,
        distance_metres: NDArray[np.float64],
    ) -> None:
        """Take the scenario, its dimensions, what is assumed of ||x||^2, and where the workers stand (workers)."""
        self.given = scenario
        self.scenario = replace(scenario, mixing=replace(scenario.mixing, power="dp"))
        self.own = SendingPlan.of(self.scenario)
        self._dims, self._squared_norm = (input_dim, label_dim), squared_norm
        self._distance_metres = float(distance_metres.mean())
        radio = scenario.radio
        self._gain = path_gain(distance_metres, radio.path_loss_exponent, radio.unit_path_loss_db)
        self._known_watts: dict[tuple[object, ...], float | None] = {}
        self._sent, self._drawn_slots = cache(self._send), cache(self._draw_slots)

    @cached_property
    def moments_refused(self) -> str:
        """Why this scenario's workers cannot send moments; empty where they can."""
        try:
            replace(self.own, sends="moments").applied_to(self.scenario)
        except ScenarioError as problem:
            return str(problem)
        return ""

    def air_seconds(self, sending: SendingPlan) -> float:
        """Return how long all slots take: as long as given, and never shorter than the symbols need."""
        slot_seconds = self.scenario.radio.slot_seconds if sending.sends == self.own.sends else 0.0
        signal, _ = self._sent(sending.sends, sending.label_weight)
        symbols = symbols_on_air(self.scenario, signal)
        return sending.slots * max(slot_seconds, symbols / SYMBOLS_PER_SECOND)

    def noise(self, sending: SendingPlan, *, guess: bool = False) -> LearningNoise | None:
        """Return the learning noise at the privacy target; None where the target cannot be kept.

        The accountant is asked once for |N_t|, T and schedule; for other weights and for what is sent the power is
        scaled by what a worker can move. ``exact_noise`` asks again. With ``guess`` a guess at the answer will do.
        """
        policy = "equalmix" if sending.policy == "dirmix" else sending.policy
        reference = replace(
            sending, sends=self.own.sends, label_weight=self.own.label_weight, policy=policy, alpha=None
        )
        watts = self._watts(reference, guess=guess)
        if watts is None:
            return None
        return self._noise_at(sending, watts * self._squared_move(reference) / self._squared_move(sending))

    def exact_noise(self, sending: SendingPlan) -> LearningNoise | None:
        """Return the learning noise with the power that the accountant allows for exactly this; None for none."""
        watts = self._watts(sending)
        return None if watts is None else self._noise_at(sending, watts)

    def energy_joules(self, sending: SendingPlan) -> float:
        """Return the expected energy of all workers together; nan where the target cannot be kept."""
        watts = self._watts(sending)
        if watts is None:
            return math.nan
        slots = self._slots(sending)
        slot_watts = self._power_scale_watts(slots, watts) * slots.all_power
        return energy_joules(sending.applied_to(self.scenario), self._dims, slot_watts, slots.inverse_gain)

    def _noise_at(self, sending: SendingPlan, watts: float) -> LearningNoise:
        slots, workers = self._slots(sending), self.scenario.workers.count
        poisson = sending.schedule == "poisson"
        signal, _ = self._sent(sending.sends, sending.label_weight)
        loss = signal_loss(self.scenario, signal.symbols, self._distance_metres)
        noise_watts = expected_noise(sending.applied_to(self.scenario), loss).total_watts
        quality = SlotQuality(
            slots=sending.slots,
            noise_variance=float((noise_watts / 2.0 / self._power_scale_watts(slots, watts)).mean()),
            varying_share=varying_share(slots.square_share, sending.scheduled, workers, poisson=poisson),
        )
        return learning_noise(signal, self._squared_norm, quality)

    def _power_scale_watts(self, slots: _SampleSlots, watts: float) -> NDArray[np.float64]:
        """Return beta of the sampled slots: what privacy allows, within the power limit; shape slots."""
        limit_watts = dbm_to_watts(self.scenario.radio.max_power_dbm)
        return np.minimum(watts / slots.largest_square, limit_watts / slots.largest_power)

    def _squared_move(self, sending: SendingPlan) -> float:
        knows = ADVERSARIES.load(self.scenario.privacy.adversary).knows_schedule
        known = knows or sending.scheduled == self.scenario.workers.count
        hidden = "poisson" if sending.schedule == "poisson" else "without-replacement"
        _, sensitivity = self._sent(sending.sends, sending.label_weight)
        return sensitivity.squared_move(self.scenario.privacy.adjacency, "none" if known else hidden)

    def _send(self, sends: str, label_weight: float) -> tuple[Signal, Sensitivity]:
        """Return what a worker sends in a slot, and how far it can move that."""
        workers = replace(self.scenario.workers, sends=sends, label_weight=label_weight)
        if sends == "samples":
            workers = replace(workers, label_code="one-hot")
        return Signal.of(workers, *self._dims), sensitivity_of(replace(self.scenario, workers=workers), *self._dims)

    def _watts(self, sending: SendingPlan, *, guess: bool = False) -> float | None:
        """Return beta max q^2 that keeps the target, within a few per cent; None where none does."""
        # Shares do not enter: privacy bounds the largest one, whatever the others are.
        key = (replace(sending, policy="", alpha=None), sending == self.own, guess)
        if key not in self._known_watts:
            try:
                changed = sending.applied_to(self.scenario)
                ask = guessed_received_watts if guess else partial(private_received_watts, quickly=True)
                self._known_watts[key] = ask(changed, sensitivity_of(changed, *self._dims))
            except AirMixError:
                self._known_watts[key] = None
        return self._known_watts[key]

    def _slots(self, sending: SendingPlan) -> _SampleSlots:
        prior = self.scenario.mixing.prior if sending == self.own else ()
        return self._drawn_slots(sending.scheduled, sending.policy, sending.alpha, prior)

    def _draw_slots(self, size: int, policy: str, alpha: float | None, prior: tuple[float, ...]) -> _SampleSlots:
        count = min(_MOST_SAMPLE_SLOTS, max(_FEWEST_SAMPLE_SLOTS, _SAMPLED_SEATS // size))
        mixing = self.scenario.mixing
        mixing = replace(mixing, policy=policy, alpha=mixing.alpha if alpha is None else alpha, prior=prior)
        drawn = draw_sample_slots(self.scenario, mixing, size, count, self._gain)
        ratios, magnitude = (each.numpy() for each in drawn)
        powers = (ratios / magnitude) ** 2
        return _SampleSlots(
            largest_square=ratios.max(axis=1) ** 2,
            largest_power=powers.max(axis=1),
            all_power=powers.sum(axis=1),
            inverse_gain=(1.0 / magnitude**2).sum(axis=1),
            square_share=float((ratios**2).sum(axis=1).mean()),
        )
