"""Sizing before anything is sent: is the privacy target feasible, what does it cost, and which design serves it best.

The paper's Remark 1 says that less noise or a stricter target means less power, and its Remark 2 that a larger alpha
gives a better signal at a strict target. Here both are computed: for many alpha, |N_t| and T, at the same privacy.
No data is read; of the inputs only a mean and a deviation are assumed.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from airmixml.errors import AirMixError, PrivacyError
from airmixml.progress import Progress, silent
from airmixml.radio.assignment import assign_ratios
from airmixml.radio.channel import generate_channel, path_gain
from airmixml.radio.design import (
    joules_per_watt,
    planned_design,
    power_may_tell_schedule,
    private_received_watts,
    sensitivity_of,
    weakest_gain,
)
from airmixml.radio.draws import AirSetting, SlotDraws, draw_ahead
from airmixml.radio.power import control_power
from airmixml.radio.ratios import draw_ratios
from airmixml.radio.rehearsal import placed_distances
from airmixml.radio.scheduling import draw_schedule
from airmixml.scenario import Scenario
from airmixml.streams import Streams
from airmixml.units import dbm_to_watts, ratio_to_db, watts_to_dbm
from airmixml.workers import Signal

__all__ = ["InputMoments", "Option", "Plan", "make_plan"]

_REHEARSED_CHAPTERS: Final = 16
_SAMPLE_SLOTS: Final = 256
_ALPHAS: Final = (1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e7)
_SCHEDULED: Final = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
_SLOT_FACTORS: Final = (0.1, 1.0, 10.0)


@dataclass(frozen=True, kw_only=True)
class InputMoments:
    """Mean and deviation of an input symbol, assumed or known, for the SNR of mixtures of them."""

    mean: float
    deviation: float

    def clipped(self, norm: float, input_dim: int) -> InputMoments:
        """Return about what is left of them when inputs are shortened to ``norm``: all are taken as equally long."""
        length = math.sqrt(input_dim * (self.mean**2 + self.deviation**2))
        share = min(1.0, norm / length)
        return InputMoments(mean=share * self.mean, deviation=share * self.deviation)


@dataclass(frozen=True, kw_only=True)
class Option:
    """One design at the target privacy.

    Attributes:
        alpha: dispersion of the ratios.
        scheduled: |N_t|.
        slots: T.
        snr_inputs_db: received energy of the mixture over that of the noise, inputs.
        contrast_db: the same for what differs between samples; a mixture of many is mostly their mean.
        energy_joules: of all workers and slots.
    """

    alpha: float
    scheduled: int
    slots: int
    snr_inputs_db: float
    contrast_db: float
    energy_joules: float

    @property
    def total_contrast_db(self) -> float:
        """Contrast of all slots together."""
        return self.contrast_db + 10.0 * math.log10(self.slots)


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
    """

    name: str
    feasible: bool
    verdict: str
    noise_multiplier: float = math.nan
    received_watts: float = math.nan
    power_scale_watts: float = math.nan
    power_dbm: dict[str, float] | None = None
    energy_joules: float = math.nan
    worker_energy_joules: float = math.nan
    limited_share: float = math.nan
    snr_inputs_db: float = math.nan
    contrast_db: float = math.nan
    snr_labels_db: float = math.nan
    options: tuple[Option, ...] = ()
    best: dict[str, Option] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain values for JSON; what an infeasible target leaves unknown is left out."""
        return {
            name: value
            for name, value in asdict(self).items()
            if value is not None and not (isinstance(value, float) and math.isnan(value))
        }


def make_plan(
    scenario: Scenario,
    input_dim: int,
    label_dim: int,
    moments: InputMoments,
    *,
    progress: Progress = silent,
) -> Plan:
    """Return the plan of a scenario.

    Args:
        scenario: its privacy target sets the power, whatever ``mixing.power`` says.
        input_dim: d_X.
        label_dim: d_Y.
        moments: what is assumed of an input symbol.
        progress: told how many options were tried.
    """
    scenario = replace(scenario, mixing=replace(scenario.mixing, power="dp"))
    sensitivity = sensitivity_of(scenario, input_dim, label_dim)
    try:
        received_watts = private_received_watts(scenario, sensitivity)
    except PrivacyError as problem:
        return Plan(name=scenario.name, feasible=False, verdict=str(problem))
    if scenario.workers.encoder == "clip":
        moments = moments.clipped(scenario.workers.clip_norm, input_dim)
    distance_metres = placed_distances(scenario)
    setting = AirSetting.of(scenario, input_dim, label_dim, distance_metres)
    draws = SlotDraws.joined(list(draw_ahead(setting, noise=False, chapters=_REHEARSED_CHAPTERS)))
    energy_joules = _energy_joules(scenario, setting.joules_per_watt, draws.power_watts)
    sending = draws.power_watts[draws.ratios > 0.0]
    options = _options(scenario, input_dim, label_dim, moments, distance_metres, progress)
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
        power_dbm={
            "median": float(watts_to_dbm(np.median(sending))),
            "largest": float(watts_to_dbm(sending.max())),
            "limit": scenario.radio.max_power_dbm,
        },
        energy_joules=energy_joules,
        worker_energy_joules=energy_joules / scenario.workers.count,
        limited_share=limited_share,
        snr_inputs_db=_median_db(signal * _input_energy(draws.ratios, moments)),
        contrast_db=_median_db(signal * _contrast_energy(draws.ratios, moments)),
        snr_labels_db=_median_db(signal * _label_energy(draws.ratios, label_dim)),
        options=options,
        best=_best(options),
    )


def _verdict(scenario: Scenario, received_watts: float, limited_share: float) -> str:
    """Return how the target is met, in words."""
    privacy, floor = scenario.privacy, weakest_gain(scenario)
    target = f"epsilon = {privacy.epsilon:g} by {privacy.accountant} against {privacy.adversary}"
    if floor > 0.0 and not power_may_tell_schedule(scenario, received_watts, floor):
        margin_db = 10.0 * math.log10(dbm_to_watts(scenario.radio.max_power_dbm) * floor / received_watts)
        if margin_db < 1e-6:
            return f"{target} is met with less power than it allows: more would reach the limit and tell the schedule"
        return f"{target} is met; even the farthest worker stays {margin_db:.0f} dB below its power limit"
    lowered = (
        f"lowers the power in {limited_share:.1%} of the slots" if limited_share else "may lower the power of a slot"
    )
    if privacy.adversary == "server":
        return f"{target} is met; the power limit {lowered}, which only adds privacy"
    return f"{target} is met, but without credit for sampling: the power limit {lowered}, which tells who was scheduled"


def _options(
    scenario: Scenario,
    input_dim: int,
    label_dim: int,
    moments: InputMoments,
    distance_metres: NDArray[np.float64],
    progress: Progress,
) -> tuple[Option, ...]:
    """Return designs at the same privacy: several |N_t| and T, and for each several alpha."""
    radio, workers = scenario.radio, scenario.workers.count
    # Accountants without a closed form take about a second per design, so they try fewer.
    closed_form = scenario.privacy.accountant in ("paper-loose", "gdp")
    near = [radio.scheduled // 4, radio.scheduled * 4]
    tried = [size for size in (_SCHEDULED if closed_form else near) if 1 <= size <= min(workers, 16 * radio.scheduled)]
    sizes = sorted({radio.scheduled, *tried})
    lengths = sorted({max(1, round(factor * radio.slots)) for factor in _SLOT_FACTORS})
    gain = path_gain(distance_metres, radio.path_loss_exponent, radio.unit_path_loss_db)
    signal = Signal.of(scenario.workers, input_dim, label_dim)
    joules = joules_per_watt(scenario, signal, sensitivity_of(scenario, input_dim, label_dim))
    found: list[Option] = []
    for done, size in enumerate(sizes):
        progress("options", done, len(sizes))
        private = {slots: _at_same_privacy(scenario, input_dim, label_dim, size, slots) for slots in lengths}
        for alpha in sorted({*_ALPHAS, scenario.mixing.alpha}):
            ratios, magnitude = _sample_slots(scenario, alpha, size, gain)
            for other, received_watts in filter(None, private.values()):
                found.append(_option(other, alpha, received_watts, joules, ratios, magnitude, moments))
    progress("options", len(sizes), len(sizes))
    return tuple(found)


def _at_same_privacy(
    scenario: Scenario, input_dim: int, label_dim: int, size: int, slots: int
) -> tuple[Scenario, float] | None:
    """Return the scenario with other |N_t| and T, and its beta max q^2; None where the target cannot be kept."""
    radio = scenario.radio
    limit = radio.max_participations
    if limit:
        rounds = -(-slots // max(1, scenario.workers.count // size))
        limit = max(rounds, round(limit * slots * size / (radio.slots * radio.scheduled)))
    try:
        other = scenario.with_overrides(
            f"radio.scheduled={size}", f"radio.slots={slots}", f"radio.max_participations={limit}", "mixing.prior="
        )
        watts = private_received_watts(other, sensitivity_of(other, input_dim, label_dim), quickly=True)
    except AirMixError:
        return None
    return other, watts


def _sample_slots(
    scenario: Scenario, alpha: float, size: int, worker_path_gain: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Draw some slots of DirMix(alpha): ratios and abs(h), both slots x scheduled."""
    streams = Streams(scenario.seed)
    mixing = replace(scenario.mixing, policy="dirmix", alpha=alpha, prior=())
    schedule = draw_schedule(_SAMPLE_SLOTS, size, len(worker_path_gain), streams.generator("schedule"))
    channel = generate_channel(scenario.radio, worker_path_gain, schedule, streams.generator("fading"))
    ratios = draw_ratios(mixing, size, _SAMPLE_SLOTS, streams.generator("ratios"))
    assigned = assign_ratios(mixing.assignment, ratios, channel.magnitude, streams.generator("assignment"))
    return assigned, channel.magnitude


def _option(
    scenario: Scenario,
    alpha: float,
    received_watts: float,
    joules: float,
    ratios: NDArray[np.float64],
    magnitude: NDArray[np.float64],
    moments: InputMoments,
) -> Option:
    power = control_power(scenario, received_watts, ratios, magnitude)
    signal = 2.0 * power.power_scale_watts / dbm_to_watts(scenario.radio.noise_dbm)
    return Option(
        alpha=alpha,
        scheduled=scenario.radio.scheduled,
        slots=scenario.radio.slots,
        snr_inputs_db=_median_db(signal * _input_energy(ratios, moments)),
        contrast_db=_median_db(signal * _contrast_energy(ratios, moments)),
        energy_joules=_energy_joules(scenario, joules, power.power_watts),
    )


def _energy_joules(scenario: Scenario, joules: float, power_watts: NDArray[np.float64]) -> float:
    """Return the joules per watt of a slot times T and the mean power of a slot, from slots x scheduled of them."""
    return joules * scenario.radio.slots * float(power_watts.sum(axis=1).mean())


def _best(options: tuple[Option, ...]) -> dict[str, Option]:
    if not options:
        return {}
    return {
        "best SNR per slot": max(options, key=lambda option: option.snr_inputs_db),
        "best contrast per slot": max(options, key=lambda option: option.contrast_db),
        "best contrast over all slots": max(options, key=lambda option: option.total_contrast_db),
        "least energy": min(options, key=lambda option: option.energy_joules),
    }


def _input_energy(ratios: NDArray[np.float64], moments: InputMoments) -> NDArray[np.float64]:
    """Expected square of an input symbol of a mixture; slots."""
    return np.asarray(moments.mean**2 + _contrast_energy(ratios, moments))


def _contrast_energy(ratios: NDArray[np.float64], moments: InputMoments) -> NDArray[np.float64]:
    """Expected squared distance of an input symbol of a mixture from the mean of all samples; slots."""
    return np.asarray(moments.deviation**2 * (ratios**2).sum(axis=1))


def _label_energy(ratios: NDArray[np.float64], label_dim: int) -> NDArray[np.float64]:
    """Expected square of a label symbol of a mixture, balanced classes; slots."""
    squares = (ratios**2).sum(axis=1)
    return np.asarray((squares + (1.0 - squares) / label_dim) / label_dim)


def _median_db(values: NDArray[np.float64]) -> float:
    return float(ratio_to_db(np.median(values)))
