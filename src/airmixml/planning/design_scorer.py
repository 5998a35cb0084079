"""How much a closed-form learner gains from each way to send at one privacy target.

Privacy fixes (received power) x (what a worker can move)^2 for given |N_t|, T and schedule. What the worker sends, how
loud its label is beside its input and how unequal the shares are can then be compared without asking the accountant.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from airmixml.doors import ADVERSARIES
from airmixml.errors import AirMixError, ScenarioError
from airmixml.planning.alternatives import draw_sample_slots
from airmixml.planning.learning_noise import LearningNoise, SlotQuality, learning_noise
from airmixml.planning.sending_plan import SendingPlan
from airmixml.privacy import Sensitivity
from airmixml.radio.channel import path_gain
from airmixml.radio.privacy_target import (
    guessed_received_watts,
    joules_per_watt,
    private_received_watts,
    sensitivity_of,
)
from airmixml.radio.ratios import varying_share
from airmixml.scenario import Scenario
from airmixml.units import dbm_to_watts
from airmixml.workers import SYMBOLS_PER_SECOND, Signal

_MOST_SAMPLE_SLOTS: Final = 128
_FEWEST_SAMPLE_SLOTS: Final = 8
_SAMPLED_SEATS: Final = 1 << 19


@dataclass(frozen=True, kw_only=True)
class _SampleSlots:
    """Some slots of a mixing policy: what of their ratios and channels decides noise and power; all of shape slots."""

    largest_square: NDArray[np.float64]
    largest_power: NDArray[np.float64]
    all_power: NDArray[np.float64]
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
        radio = scenario.radio
        self._gain = path_gain(distance_metres, radio.path_loss_exponent, radio.unit_path_loss_db)
        self._drawn: dict[tuple[object, ...], _SampleSlots] = {}
        self._known_signals: dict[tuple[str, float], tuple[Signal, Sensitivity]] = {}
        self._known_watts: dict[tuple[object, ...], float] = {}

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
        return sending.slots * max(slot_seconds, self.signal(sending).symbols / SYMBOLS_PER_SECOND)

    def signal(self, sending: SendingPlan) -> Signal:
        """Return what a worker sends in a slot."""
        return self._sent(sending)[0]

    def _sent(self, sending: SendingPlan) -> tuple[Signal, Sensitivity]:
        """Return what a worker sends in a slot, and how far it can move that."""
        key = (sending.sends, sending.label_weight)
        if key not in self._known_signals:
            workers = replace(self.scenario.workers, sends=sending.sends, label_weight=sending.label_weight)
            sensitivity = sensitivity_of(replace(self.scenario, workers=workers), *self._dims)
            self._known_signals[key] = Signal.of(workers, *self._dims), sensitivity
        return self._known_signals[key]

    def noise(self, sending: SendingPlan, *, guess: bool = False) -> LearningNoise | None:
        """Return the learning noise at the privacy target; None where the target cannot be kept.

        The accountant is asked once for |N_t|, T and schedule; for other weights and for what is sent the power is
        scaled by what a worker can move. ``exact_watts`` asks again.

        Args:
            sending: what to score.
            guess: whether a guess at the accountant's answer will do.
        """
        watts = self._scaled_watts(sending, guess=guess)
        if watts is None:
            return None
        return learning_noise(self.signal(sending), self._squared_norm, self._quality_at(sending, watts))

    def exact_noise(self, sending: SendingPlan) -> LearningNoise | None:
        """Return the learning noise with the power that the accountant allows for exactly this; None for none."""
        quality = self.exact_quality(sending)
        return None if quality is None else learning_noise(self.signal(sending), self._squared_norm, quality)

    def exact_quality(self, sending: SendingPlan) -> SlotQuality | None:
        """Return what the slots are like with the power that the accountant allows for this; None for none."""
        watts = self._exact_watts(sending)
        return None if watts is None else self._quality_at(sending, watts)

    def energy_joules(self, sending: SendingPlan) -> float:
        """Return the expected energy of all workers together; nan where the target cannot be kept."""
        watts = self._exact_watts(sending)
        if watts is None:
            return math.nan
        slots = self._slots(sending)
        per_watt = joules_per_watt(sending.applied_to(self.scenario), *self._sent(sending))
        beta = self._power_scale_watts(slots, watts)
        return per_watt * sending.slots * float((beta * slots.all_power).mean())

    def _quality_at(self, sending: SendingPlan, watts: float) -> SlotQuality:
        slots = self._slots(sending)
        noise_watts = dbm_to_watts(self.scenario.radio.noise_dbm)
        return SlotQuality(
            slots=sending.slots,
            noise_variance=float((noise_watts / 2.0 / self._power_scale_watts(slots, watts)).mean()),
            varying_share=varying_share(
                slots.square_share,
                sending.scheduled,
                self.scenario.workers.count,
                poisson=sending.schedule == "poisson",
            ),
        )

    def _power_scale_watts(self, slots: _SampleSlots, watts: float) -> NDArray[np.float64]:
        """Return beta of the sampled slots: what privacy allows, within the power limit; shape slots."""
        limit_watts = dbm_to_watts(self.scenario.radio.max_power_dbm)
        return np.minimum(watts / slots.largest_square, limit_watts / slots.largest_power)

    def _scaled_watts(self, sending: SendingPlan, *, guess: bool) -> float | None:
        reference = replace(
            self.own,
            scheduled=sending.scheduled,
            slots=sending.slots,
            schedule=sending.schedule,
            policy=sending.policy if sending.policy != "dirmix" else "equalmix",
            alpha=None,
        )
        watts = self._exact_watts(reference, guess=guess)
        return None if watts is None else watts * self._squared_move(reference) / self._squared_move(sending)

    def _squared_move(self, sending: SendingPlan) -> float:
        knows = ADVERSARIES.load(self.scenario.privacy.adversary).knows_schedule
        known = knows or sending.scheduled == self.scenario.workers.count
        hidden = "poisson" if sending.schedule == "poisson" else "without-replacement"
        sensitivity = self._sent(sending)[1]
        return sensitivity.squared_move(self.scenario.privacy.adjacency, "none" if known else hidden)

    def _exact_watts(self, sending: SendingPlan, *, guess: bool = False) -> float | None:
        """Return beta max q^2 that keeps the target, within a few per cent; None where none does."""
        # Shares do not enter: privacy bounds the largest one, whatever the others are.
        key = (replace(sending, policy="", alpha=None), sending == self.own, guess)
        if key not in self._known_watts:
            try:
                changed = sending.applied_to(self.scenario)
                sensitivity = sensitivity_of(changed, *self._dims)
                watts = (
                    guessed_received_watts(changed, sensitivity)
                    if guess
                    else private_received_watts(changed, sensitivity, quickly=True)
                )
            except AirMixError:
                watts = math.nan
            self._known_watts[key] = watts
        found = self._known_watts[key]
        return None if math.isnan(found) else found

    def _slots(self, sending: SendingPlan) -> _SampleSlots:
        prior = self.scenario.mixing.prior if sending == self.own else ()
        key = (sending.scheduled, sending.policy, sending.alpha, prior)
        if key not in self._drawn:
            self._drawn[key] = self._draw(sending, prior)
        return self._drawn[key]

    def _draw(self, sending: SendingPlan, prior: tuple[float, ...]) -> _SampleSlots:
        scenario, size = self.scenario, sending.scheduled
        count = min(_MOST_SAMPLE_SLOTS, max(_FEWEST_SAMPLE_SLOTS, _SAMPLED_SEATS // size))
        alpha = scenario.mixing.alpha if sending.alpha is None else sending.alpha
        mixing = replace(scenario.mixing, policy=sending.policy, alpha=alpha, prior=prior)
        ratios, magnitude = draw_sample_slots(scenario, mixing, size, count, self._gain)
        powers = (ratios / magnitude) ** 2
        return _SampleSlots(
            largest_square=ratios.max(axis=1) ** 2,
            largest_power=powers.max(axis=1),
            all_power=powers.sum(axis=1),
            square_share=float((ratios**2).sum(axis=1).mean()),
        )
