"""Ways to spend the power that a privacy target leaves, and what a learner in closed form would have of each.

Privacy fixes (received power) x (what a worker can move)^2 for given |N_t|, T and schedule. What the worker sends, how
loud its label is beside its input and how unequal the shares are can then be compared without asking the accountant.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from airmixml.doors import ADVERSARIES
from airmixml.errors import AirMixError, ScenarioError
from airmixml.planning.learning_noise import LearningNoise, SlotQuality, learning_noise
from airmixml.privacy import Sensitivity
from airmixml.radio.channel import generate_channel, path_gain
from airmixml.radio.privacy_target import (
    guessed_received_watts,
    joules_per_watt,
    private_received_watts,
    sensitivity_of,
)
from airmixml.radio.ratios import assign_ratios, draw_ratios, varying_share
from airmixml.radio.scheduling import draw_schedule
from airmixml.scenario import Scenario
from airmixml.streams import Streams
from airmixml.units import dbm_to_watts
from airmixml.workers import SYMBOLS_PER_SECOND, Signal

_MOST_SAMPLE_SLOTS: Final = 128
_FEWEST_SAMPLE_SLOTS: Final = 8
_SAMPLED_SEATS: Final = 1 << 19


@dataclass(frozen=True, kw_only=True)
class Spending:
    """What is sent, by how many and how often.

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
    def of(cls, scenario: Scenario) -> Spending:
        """Return how a scenario spends its power."""
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
        """Return the scenario that spends its power so, all else equal; raise a ScenarioError where it cannot."""
        if self == Spending.of(scenario):
            return replace(scenario, mixing=replace(scenario.mixing, power="dp"))
        workers, radio, mixing = scenario.workers, scenario.radio, scenario.mixing
        sent = replace(workers, sends=self.sends, label_weight=self.label_weight)
        slot_seconds = radio.slot_seconds
        if self.sends != workers.sends:
            # Moments are many more symbols than a sample: a slot lasts as long as they need.
            slot_seconds = 0.0
        aired = replace(
            radio,
            scheduled=self.scheduled,
            slots=self.slots,
            schedule=self.schedule,
            slot_seconds=slot_seconds,
            max_participations=self._participations(scenario),
        )
        alpha = mixing.alpha if self.alpha is None else self.alpha
        mixed = replace(mixing, power="dp", policy=self.policy, alpha=alpha, prior=())
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
    square_share: float


class SpendingBench:
    """Scores ways to spend the power of one scenario at its privacy target; remembers what the accountant said."""

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
        self.own = Spending.of(self.scenario)
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

    def air_seconds(self, spending: Spending) -> float:
        """Return how long all slots take: as long as given, and never shorter than the symbols need."""
        slot_seconds = self.scenario.radio.slot_seconds if spending.sends == self.own.sends else 0.0
        return spending.slots * max(slot_seconds, self.signal(spending).symbols / SYMBOLS_PER_SECOND)

    def signal(self, spending: Spending) -> Signal:
        """Return what a worker sends in a slot."""
        return self._sent(spending)[0]

    def _sent(self, spending: Spending) -> tuple[Signal, Sensitivity]:
        """Return what a worker sends in a slot, and how far it can move that."""
        key = (spending.sends, spending.label_weight)
        if key not in self._known_signals:
            workers = replace(self.scenario.workers, sends=spending.sends, label_weight=spending.label_weight)
            sensitivity = sensitivity_of(replace(self.scenario, workers=workers), *self._dims)
            self._known_signals[key] = Signal.of(workers, *self._dims), sensitivity
        return self._known_signals[key]

    def noise(self, spending: Spending, *, guess: bool = False) -> LearningNoise | None:
        """Return the learning noise at the privacy target; None where the target cannot be kept.

        The accountant is asked once for |N_t|, T and schedule; for other weights and for what is sent the power is
        scaled by what a worker can move. ``exact_watts`` asks again.

        Args:
            spending: what to score.
            guess: whether a guess at the accountant's answer will do.
        """
        watts = self._scaled_watts(spending, guess=guess)
        if watts is None:
            return None
        return learning_noise(self.signal(spending), self._squared_norm, self._quality_at(spending, watts))

    def exact_noise(self, spending: Spending) -> LearningNoise | None:
        """Return the learning noise with the power that the accountant allows for exactly this; None for none."""
        quality = self.exact_quality(spending)
        return None if quality is None else learning_noise(self.signal(spending), self._squared_norm, quality)

    def exact_quality(self, spending: Spending) -> SlotQuality | None:
        """Return what the slots are like with the power that the accountant allows for this; None for none."""
        watts = self._exact_watts(spending)
        return None if watts is None else self._quality_at(spending, watts)

    def energy_joules(self, spending: Spending) -> float:
        """Return the expected energy of all workers together; nan where the target cannot be kept."""
        watts = self._exact_watts(spending)
        if watts is None:
            return math.nan
        slots = self._slots(spending)
        per_watt = joules_per_watt(spending.applied_to(self.scenario), *self._sent(spending))
        beta = self._power_scale_watts(slots, watts)
        return per_watt * spending.slots * float((beta * slots.all_power).mean())

    def _quality_at(self, spending: Spending, watts: float) -> SlotQuality:
        slots = self._slots(spending)
        noise_watts = dbm_to_watts(self.scenario.radio.noise_dbm)
        return SlotQuality(
            slots=spending.slots,
            noise_variance=float((noise_watts / 2.0 / self._power_scale_watts(slots, watts)).mean()),
            varying_share=varying_share(
                slots.square_share,
                spending.scheduled,
                self.scenario.workers.count,
                poisson=spending.schedule == "poisson",
            ),
        )

    def _power_scale_watts(self, slots: _SampleSlots, watts: float) -> NDArray[np.float64]:
        """Return beta of the sampled slots: what privacy allows, within the power limit; shape slots."""
        limit_watts = dbm_to_watts(self.scenario.radio.max_power_dbm)
        return np.minimum(watts / slots.largest_square, limit_watts / slots.largest_power)

    def _scaled_watts(self, spending: Spending, *, guess: bool) -> float | None:
        reference = replace(
            self.own,
            scheduled=spending.scheduled,
            slots=spending.slots,
            schedule=spending.schedule,
            policy=spending.policy if spending.policy != "dirmix" else "equalmix",
            alpha=None,
        )
        watts = self._exact_watts(reference, guess=guess)
        return None if watts is None else watts * self._squared_move(reference) / self._squared_move(spending)

    def _squared_move(self, spending: Spending) -> float:
        knows = ADVERSARIES.load(self.scenario.privacy.adversary).knows_schedule
        known = knows or spending.scheduled == self.scenario.workers.count
        hidden = "poisson" if spending.schedule == "poisson" else "without-replacement"
        sensitivity = self._sent(spending)[1]
        return sensitivity.squared_move(self.scenario.privacy.adjacency, "none" if known else hidden)

    def _exact_watts(self, spending: Spending, *, guess: bool = False) -> float | None:
        """Return beta max q^2 that keeps the target, within a few per cent; None where none does."""
        # Shares do not enter: privacy bounds the largest one, whatever the others are.
        key = (replace(spending, policy="", alpha=None), spending == self.own, guess)
        if key not in self._known_watts:
            try:
                changed = spending.applied_to(self.scenario)
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

    def _slots(self, spending: Spending) -> _SampleSlots:
        prior = self.scenario.mixing.prior if spending == self.own else ()
        key = (spending.scheduled, spending.policy, spending.alpha, prior)
        if key not in self._drawn:
            self._drawn[key] = self._draw(spending, prior)
        return self._drawn[key]

    def _draw(self, spending: Spending, prior: tuple[float, ...]) -> _SampleSlots:
        scenario, size = self.scenario, spending.scheduled
        count = min(_MOST_SAMPLE_SLOTS, max(_FEWEST_SAMPLE_SLOTS, _SAMPLED_SEATS // size))
        streams, alpha = Streams(scenario.seed), scenario.mixing.alpha if spending.alpha is None else spending.alpha
        mixing = replace(scenario.mixing, policy=spending.policy, alpha=alpha, prior=prior)
        schedule = draw_schedule(count, size, scenario.workers.count, streams.generator("schedule"))
        magnitude = generate_channel(scenario.radio, self._gain, schedule, streams.generator("fading")).magnitude
        ratios = assign_ratios(
            mixing.assignment,
            draw_ratios(mixing, size, count, streams.generator("ratios")),
            magnitude,
            streams.generator("assignment"),
        )
        powers = (ratios / magnitude) ** 2
        return _SampleSlots(
            largest_square=ratios.max(axis=1) ** 2,
            largest_power=powers.max(axis=1),
            all_power=powers.sum(axis=1),
            square_share=float((ratios**2).sum(axis=1).mean()),
        )


def changed_keys(scenario: Scenario, spending: Spending) -> tuple[str, ...]:
    """Return what must be set to spend a scenario's power so, as ``airmix run --set`` takes it."""
    before, after = scenario.to_dict(), spending.applied_to(scenario).to_dict()
    return tuple(
        f"{table}.{name}={_as_text(value)}"
        for table in ("workers", "radio", "mixing")
        for name, value in after[table].items()
        if value != before[table][name]
    )


def _as_text(value: object) -> str:
    return "" if value == [] else str(value)
