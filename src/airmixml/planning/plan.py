"""Sizing before anything is sent: is the privacy target feasible, what does it cost, and which design serves it best.

The paper's Remark 1 says that less noise or a stricter target means less power, and its Remark 2 that a larger alpha
gives a better signal at a strict target. Here both are computed: for many alpha, |N_t| and T, at the same privacy.
No data is read; of the inputs only a mean and a deviation are assumed.
"""

import math
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import numpy as np

from airmixml.doors import ADVERSARIES
from airmixml.errors import PrivacyError, ScenarioError
from airmixml.planning.alternatives import (
    InputMoments,
    Option,
    best_options,
    contrast_energy,
    energy_joules,
    input_energy,
    label_energy,
    median_db,
    other_designs,
)
from airmixml.planning.design_scorer import DesignScorer
from airmixml.planning.recommend import Recommendation, recommend
from airmixml.progress import Progress, silent
from airmixml.radio.draws import AirSetting, SlotDraws, draw_ahead
from airmixml.radio.privacy_target import (
    planned_design,
    power_may_tell_schedule,
    private_received_watts,
    sensitivity_of,
    weakest_gain,
)
from airmixml.radio.rehearsal import placed_distances
from airmixml.radio.scheduling import NOBODY_SENT
from airmixml.runs.results import TransmitPower
from airmixml.scenario import Scenario
from airmixml.units import dbm_to_watts, watts_to_dbm
from airmixml.workers import encoder_of

_REHEARSED_CHAPTERS: Final = 16


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a scenario asks of its workers, whether that can be had, and what would serve it better.

    Attributes:
        feasible: whether some power meets the target.
        verdict: why or why not, in words, and what to do.
        received_watts: beta max q^2 of every slot.
        power_scale_watts: median beta.
        power_dbm: median and largest transmit power, and the limit.
        energy_joules: expected, of all workers together; with fading rare deep fades spend most of it, so that a
            rehearsal says no more than its order of magnitude.
        worker_energy_joules: expected, of one worker.
        limited_share: share of the rehearsed slots in which the power limit lowered beta.
        snr_inputs_db: expected SNR of the inputs of a mixture.
        contrast_db: expected SNR of what differs between samples.
        snr_labels_db: expected SNR of the labels of a mixture, for balanced classes.
        options: designs at the same privacy.
        best: names of goals to the options that serve them best.
        recommended: for a learner in closed form, what to send instead.
    """

    name: str
    feasible: bool
    verdict: str
    noise_multiplier: float = math.nan
    received_watts: float = math.nan
    power_scale_watts: float = math.nan
    power_dbm: TransmitPower | None = None
    energy_joules: float = math.nan
    worker_energy_joules: float = math.nan
    limited_share: float = math.nan
    snr_inputs_db: float = math.nan
    contrast_db: float = math.nan
    snr_labels_db: float = math.nan
    options: tuple[Option, ...] = ()
    best: dict[str, Option] | None = None
    recommended: Recommendation | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain values for JSON; what an infeasible target leaves unknown is left out."""
        plain = {**asdict(self), "recommended": self.recommended and self.recommended.to_dict()}
        return {
            name: value
            for name, value in plain.items()
            if value is not None and not (isinstance(value, float) and math.isnan(value))
        }


def make_plan(
    scenario: Scenario,
    input_dim: int,
    label_dim: int,
    moments: InputMoments,
    *,
    max_air_seconds: float | None = None,
    progress: Progress = silent,
) -> Plan:
    """Return the plan of a scenario.

    Args:
        scenario: its privacy target sets the power, whatever ``mixing.power`` says.
        input_dim: d_X.
        label_dim: d_Y.
        moments: what is assumed of an input symbol.
        max_air_seconds: most time on the air that may be recommended; None takes an hour or the scenario's own.
        progress: told how many options were tried.
    """
    given, scenario = scenario, replace(scenario, mixing=replace(scenario.mixing, power="dp"))
    sensitivity = sensitivity_of(scenario, input_dim, label_dim)
    try:
        received_watts = private_received_watts(scenario, sensitivity)
    except PrivacyError as problem:
        return Plan(name=scenario.name, feasible=False, verdict=str(problem))
    moments = moments.encoded(scenario.workers, input_dim)
    distance_metres = placed_distances(scenario)
    setting = AirSetting.of(scenario, input_dim, label_dim, distance_metres)
    draws = SlotDraws.joined(list(draw_ahead(setting, noise=False, chapters=_REHEARSED_CHAPTERS)))
    joules = energy_joules(scenario, (input_dim, label_dim), draws.power_watts)
    sending = draws.power_watts[draws.ratios > 0.0]
    if not len(sending):
        raise ScenarioError(NOBODY_SENT)
    closed_form = scenario.learner.closed_form
    # Signal per slot says little of moments; and coins leave no shares to choose.
    shares_count = scenario.workers.sends == "samples" and scenario.radio.schedule == "fixed"
    options = other_designs(scenario, input_dim, label_dim, moments, distance_metres, progress) if shares_count else ()
    squared_norm = _squared_norm(scenario, input_dim, moments)
    scorer = DesignScorer(given, input_dim, label_dim, squared_norm, distance_metres)
    design = planned_design(scenario, sensitivity, received_watts=received_watts)
    limited_share = float(draws.limited.mean())
    signal = 2.0 * draws.power_scale_watts / dbm_to_watts(scenario.radio.noise_dbm)
    return Plan(
        name=scenario.name,
        feasible=True,
        verdict=_verdict(scenario, received_watts, limited_share),
        noise_multiplier=design.noise_multiplier(scenario.privacy.adjacency),
        received_watts=received_watts,
        power_scale_watts=float(np.median(draws.power_scale_watts)),
        power_dbm=TransmitPower(
            median=float(watts_to_dbm(np.median(sending))),
            largest=float(watts_to_dbm(sending.max())),
            limit=scenario.radio.max_power_dbm,
        ),
        energy_joules=joules,
        worker_energy_joules=joules / scenario.workers.count,
        limited_share=limited_share,
        snr_inputs_db=median_db(signal * input_energy(draws.ratios, moments)),
        contrast_db=median_db(signal * contrast_energy(draws.ratios, moments)),
        snr_labels_db=median_db(signal * label_energy(draws.ratios, label_dim)),
        options=options,
        best=best_options(options),
        recommended=recommend(scorer, max_air_seconds=max_air_seconds, progress=progress) if closed_form else None,
    )


def _squared_norm(scenario: Scenario, input_dim: int, moments: InputMoments) -> float:
    """Return what is assumed of ||x||^2 of an encoded input: the bound, or what differs between scaled samples."""
    if not encoder_of(scenario.workers).bounds_norm:
        return input_dim * moments.deviation**2
    return scenario.workers.clip_norm**2


def _verdict(scenario: Scenario, received_watts: float, limited_share: float) -> str:
    """Return how the target is met, in words."""
    privacy, floor = scenario.privacy, weakest_gain(scenario)
    target = f"epsilon = {privacy.epsilon:g} by {privacy.accountant} against {privacy.adversary}"
    if floor > 0.0 and not power_may_tell_schedule(scenario, received_watts, floor):
        margin_db = 10.0 * math.log10(dbm_to_watts(scenario.radio.max_power_dbm) * floor / received_watts)
        if margin_db < 1e-6:
            return f"{target} is met with less power than it allows: more would reach the limit and reveal the schedule"
        return f"{target} is met; even the farthest worker stays {margin_db:.0f} dB below its power limit"
    lowered = (
        f"lowers the power in {limited_share:.1%} of the slots" if limited_share else "may lower the power of a slot"
    )
    if ADVERSARIES.load(privacy.adversary).knows_schedule:
        return f"{target} is met; the power limit {lowered}, which only adds privacy"
    return (
        f"{target} is met, but without credit for sampling: the power limit {lowered}, which reveals who was scheduled"
    )
