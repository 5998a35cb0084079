"""What workers could send at one privacy target, and how much noise a closed-form learner is left with.

Such a learner solves (second moments) W = (moments with the label). Both arrive with noise. What counts of a noise
matrix is its edge, the largest eigenvalue or singular value that it makes by itself: directions in which the data vary
less than that are lost. The edges of Gaussian noise are known without data (Wigner, Marchenko and Pastur), so designs
can be compared before anything is sent. benchmarks/check_plan.py tells how well the order agrees with measured errors.

Privacy fixes (received power) x (what a worker can move)^2 for given |N_t|, T and schedule. What the worker sends, how
loud its label is beside its input and how unequal the shares are can then be compared without asking the accountant.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Final

import numpy as np

from airmixml.arrays import Doubles, dbm_to_watts
from airmixml.errors import AirMixError, ScenarioError
from airmixml.planning.sizing import Sizing, signal_loss
from airmixml.planning.slot_designs import draw_sample_slots
from airmixml.privacy import Sensitivity
from airmixml.radio.noise import expected_noise
from airmixml.radio.power_calibration import guessed_received_watts, private_received_watts
from airmixml.radio.system import System, sensitivity_of
from airmixml.registries import ACCOUNTANTS, ADVERSARIES, SCHEDULES
from airmixml.scenario import Scenario
from airmixml.scenario.consistency import rounds_refusal
from airmixml.workers import SYMBOLS_PER_SECOND, Signal

_MOST_SAMPLE_SLOTS: Final = 128
_FEWEST_SAMPLE_SLOTS: Final = 8
_SAMPLED_SEATS: Final = 1 << 19
# ||W||^2 of one class, in units of 1 / ||x||^2, is about this over the root of the second moments' noise edge: the less
# noise, the more directions are resolved, and small ones need large weights. Fitted to errors measured on digits.
_WEIGHT_FACTOR: Final = 0.2
# Share of a label's variance that inputs leave unexplained. Fitted likewise.
_UNEXPLAINED: Final = 0.2


@dataclass(frozen=True, kw_only=True)
class SlotQuality:
    """What matters of the slots."""

    slots: int  # T
    noise_variance: float  # s^2 on a received symbol, in units of a worker's own symbol when all shares add up to 1
    varying_share: float  # sum_i q_i^2, less what is the same in every slot


@dataclass(frozen=True, kw_only=True)
class LearningNoise:
    """Edges of the noise, over what the same moments of one sample are."""

    quality: SlotQuality  # of the slots
    second_edge: float  # of the second moments (their largest eigenvalue by noise alone), over ||x||^2
    cross_edge: float  # of the moments with the label (largest singular value), over ||x||
    # of (moments with the label) - (second moments) W, what is wrong with the equation that is solved. Edges are
    # products of two amplitudes, so powers
    total: float


def learning_noise(signal: Signal, squared_norm: float, quality: SlotQuality) -> LearningNoise:
    """Return the noise that is left after all slots.

    Received moments are averaged. Their symmetric noise has variance s^2 / (2 T) off the diagonal, so its eigenvalues
    fill a half circle of radius s sqrt(2 d / T) (Wigner); d x K independent entries of deviation s / (w sqrt(T)) have
    singular values up to that times sqrt(d) + sqrt(K). Where not everybody sends in a slot, which workers were drawn
    adds to both as it does below.

    Of samples the server takes covariances. T slots of level v = s^2 + v_q ||x||^2 / d in each of d directions give
    eigenvalues up to v (1 + sqrt(d / T))^2 (Marchenko and Pastur), and their cross-covariance with label symbols of
    level u = s^2 / w^2 + v_q / K entries of deviation sqrt(v u / T); both over v_q, the share that varies.

    The total is the edge of what the true weights leave over: the channel's noise on the label, its noise on the inputs
    times the weights, and of the samples that happened to be drawn only what their inputs do not explain of their
    labels, since both moments are of the same samples. ``signal`` has d, K, w and whether moments are sent,
    ``squared_norm`` is ||x||^2 of an encoded input.
    """
    if not signal.moments and quality.varying_share == 0.0:
        return LearningNoise(quality=quality, second_edge=math.inf, cross_edge=math.inf, total=math.inf)
    features, classes, slots, share = signal.features, signal.classes, quality.slots, quality.varying_share
    rectangle = math.sqrt(features) + math.sqrt(classes)
    noise, label_noise = quality.noise_variance, quality.noise_variance / signal.label_weight**2
    per_feature, aspect = squared_norm / features, features / slots
    if signal.moments:
        second = math.sqrt(2.0 * aspect * noise + 4.0 * share * squared_norm * per_feature / slots)
        cross_variance = (label_noise + share * per_feature / classes) / slots
        left_over = (label_noise + share * per_feature * _UNEXPLAINED / classes) / slots
        weighted_input_noise = noise / 2.0 / slots
    else:
        level = noise + share * per_feature
        # Fewer slots than features: the edge of Marchenko and Pastur grows beyond the root.
        few_slots = 1.0 + math.sqrt(aspect) / 2.0
        second = 2.0 * level * math.sqrt(aspect) * few_slots / share
        per_slot = level / slots / share**2
        cross_variance = per_slot * (label_noise + share / classes)
        left_over = per_slot * few_slots**2 * (label_noise + share * _UNEXPLAINED / classes)
        weighted_input_noise = per_slot * few_slots**2 * noise
    squared_weights = _WEIGHT_FACTOR / math.sqrt(second / squared_norm) / squared_norm
    return LearningNoise(
        quality=quality,
        second_edge=second / squared_norm,
        cross_edge=rectangle * math.sqrt(cross_variance / squared_norm),
        total=rectangle * math.sqrt((left_over + squared_weights * weighted_input_noise) / squared_norm),
    )


@dataclass(frozen=True, kw_only=True)
class SendingPlan:
    """What is sent, by how many and how often: the choices that a privacy target leaves open."""

    sends: str  # "samples" or "moments"
    label_weight: float  # w
    scheduled: int  # |N_t|
    slots: int  # T
    schedule: str  # who sends when
    policy: str  # how ratios are drawn
    alpha: float | None  # dispersion of the ratios; None where the policy has none

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
        learner = replace(scenario.learner, rounds=0) if rounds_refusal(sent, aired) else scenario.learner
        return replace(scenario, workers=sent, radio=aired, mixing=mixed, learner=learner)

    def _participations(self, scenario: Scenario) -> int:
        """Return the limit on participations: against those who know the schedule the least that fills all seats."""
        if not SCHEDULES.load(self.schedule).uniform or self.slots == 1:
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

    largest_square: Doubles
    largest_power: Doubles
    square_share: float


class DesignScorer:
    """Scores what the workers of one scenario could send at its privacy target; remembers what the accountant said."""

    def __init__(self, scenario: Scenario, input_dim: int, label_dim: int, squared_norm: float) -> None:
        """Take the scenario, its dimensions, and what is assumed of ||x||^2."""
        self.given = scenario
        # Noise is that of slots alone: how much of it rounds take over does not tell what is best sent before them.
        learner = replace(scenario.learner, rounds=0)
        self.scenario = replace(scenario, mixing=replace(scenario.mixing, power="dp"), learner=learner)
        self.own = SendingPlan.of(self.scenario)
        self._dims, self._squared_norm = (input_dim, label_dim), squared_norm
        sizing = Sizing(scenario, input_dim, label_dim)
        self._distance_metres, self._gain = sizing.mean_distance_metres, sizing.path_gain
        self._known_watts: dict[tuple[object, ...], float | None] = {}
        self._sent, self._drawn_slots = cache(self._send), cache(self._draw_slots)
        self._noise_watts = cache(self._expected_watts)

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
        symbols = System.of(self.scenario, signal.features, signal.classes).symbols_of(signal)
        return sending.slots * max(slot_seconds, symbols / SYMBOLS_PER_SECOND)

    def noise(self, sending: SendingPlan) -> LearningNoise | None:
        """Return the learning noise at the privacy target; None where the target cannot be kept.

        The accountant is asked once for |N_t|, T and schedule; for other weights and for what is sent the power is
        scaled by what a worker can move. Of an accountant without a closed form, which takes a second, the answer is
        guessed. ``exact_noise`` asks again.
        """
        policy = "equalmix" if sending.policy == "dirmix" else sending.policy
        reference = replace(
            sending, sends=self.own.sends, label_weight=self.own.label_weight, policy=policy, alpha=None
        )
        watts = self._watts(reference, guess=not ACCOUNTANTS.load(self.scenario.privacy.accountant).closed_form)
        if watts is None:
            return None
        return self._noise_at(sending, watts * self._squared_move(reference) / self._squared_move(sending))

    def exact_noise(self, sending: SendingPlan) -> LearningNoise | None:
        """Return the learning noise with the power that the accountant allows for exactly this; None for none."""
        watts = self._watts(sending)
        return None if watts is None else self._noise_at(sending, watts)

    def _noise_at(self, sending: SendingPlan, watts: float) -> LearningNoise:
        slots, workers = self._slots(sending), self.scenario.workers.count
        varying_share = SCHEDULES.load(sending.schedule).varying_share
        signal, _ = self._sent(sending.sends, sending.label_weight)
        # However loudly a label is sent, the noise is the same.
        noise_watts = self._noise_watts(replace(sending, label_weight=self.own.label_weight), signal.symbols)
        quality = SlotQuality(
            slots=sending.slots,
            noise_variance=float((noise_watts / 2.0 / self._power_scale_watts(slots, watts)).mean()),
            varying_share=varying_share(slots.square_share, sending.scheduled, workers),
        )
        return learning_noise(signal, self._squared_norm, quality)

    def _expected_watts(self, sending: SendingPlan, symbols: int) -> float:
        loss = signal_loss(self.scenario, symbols, self._distance_metres)
        return float(expected_noise(sending.applied_to(self.scenario), loss).total_watts)

    def _power_scale_watts(self, slots: _SampleSlots, watts: float) -> Doubles:
        """Return beta of the sampled slots: what privacy allows, within the power limit; shape slots."""
        limit_watts = dbm_to_watts(self.scenario.radio.max_power_dbm)
        return np.minimum(watts / slots.largest_square, limit_watts / slots.largest_power)

    def _squared_move(self, sending: SendingPlan) -> float:
        knows = ADVERSARIES.load(self.scenario.privacy.adversary).knows_schedule
        known = knows or sending.scheduled == self.scenario.workers.count
        hidden = SCHEDULES.load(sending.schedule).sampling
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
        return _SampleSlots(
            largest_square=ratios.max(axis=1) ** 2,
            largest_power=((ratios / magnitude) ** 2).max(axis=1),
            square_share=float((ratios**2).sum(axis=1).mean()),
        )
