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

from airmixml.errors import PrivacyError
from airmixml.progress import Progress, silent
from airmixml.radio.channel import generate_channel, path_gain
from airmixml.radio.design import power_may_tell_schedule, private_received_watts, sensitivity_of, weakest_gain
from airmixml.radio.draws import AirSetting
from airmixml.radio.ratios import draw_ratios
from airmixml.radio.rehearsal import placed_distances, rehearsed_draws
from airmixml.scenario import Scenario
from airmixml.streams import SLOTS_PER_CHAPTER, Streams
from airmixml.units import dbm_to_watts, ratio_to_db, watts_to_dbm

__all__ = ["InputMoments", "Option", "Plan", "make_plan"]

_REHEARSED_CHAPTERS: Final = 16
_RATIO_DRAWS: Final = 512
_ALPHAS: Final = (1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e7)
_SCHEDULED: Final = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
_SLOT_FACTORS: Final = (0.1, 1.0, 10.0)


@dataclass(frozen=True, kw_only=True)
class InputMoments:
    """Mean and deviation of an input symbol, assumed or known, for the SNR of mixtures of them."""

    mean: float
    deviation: float


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
        energy_joules: expected, of all workers together.
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
        values = asdict(self)
        return {
            name: value
            for name, value in values.items()
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
    distance_metres = placed_distances(scenario)
    setting = AirSetting.of(scenario, input_dim, label_dim, distance_metres)
    chapters = min(_REHEARSED_CHAPTERS, -(-scenario.radio.slots // SLOTS_PER_CHAPTER))
    draws = list(rehearsed_draws(setting, chapters))
    beta = np.concatenate([each.power_scale_watts for each in draws])
    ratios = np.concatenate([each.ratios for each in draws])
    power_watts = np.concatenate([each.power_watts for each in draws])
    limited_share = float(np.mean(np.concatenate([each.limited for each in draws])))
    energy_joules = scenario.radio.slot_seconds * scenario.radio.slots * float(power_watts.sum(axis=1).mean())
    noise_watts = dbm_to_watts(scenario.radio.noise_dbm)
    options = _options(scenario, input_dim, label_dim, moments, distance_metres, progress)
    sending = power_watts[ratios > 0.0]
    return Plan(
        name=scenario.name,
        feasible=True,
        verdict=_verdict(scenario, received_watts, limited_share),
        noise_multiplier=(sensitivity.replacement * received_watts / (noise_watts / 2.0)) ** -0.5,
        received_watts=received_watts,
        power_scale_watts=float(np.median(beta)),
        power_dbm={
            "median": float(watts_to_dbm(np.median(sending))),
            "largest": float(watts_to_dbm(sending.max())),
            "limit": scenario.radio.max_power_dbm,
        },
        energy_joules=energy_joules,
        worker_energy_joules=energy_joules / scenario.workers.count,
        limited_share=limited_share,
        snr_inputs_db=_median_db(beta * _input_energy(ratios, moments) / (noise_watts / 2.0)),
        contrast_db=_median_db(beta * _contrast_energy(ratios, moments) / (noise_watts / 2.0)),
        snr_labels_db=_median_db(beta * _label_energy(ratios, label_dim) / (noise_watts / 2.0)),
        options=options,
        best=_best(options),
    )


def _verdict(scenario: Scenario, received_watts: float, limited_share: float) -> str:
    """Return how the target is met, in words."""
    privacy, floor = scenario.privacy, weakest_gain(scenario)
    target = f"epsilon = {privacy.epsilon:g} by {privacy.accountant} against {privacy.adversary}"
    if floor > 0.0 and not power_may_tell_schedule(scenario, received_watts, floor):
        margin_db = 10.0 * math.log10(dbm_to_watts(scenario.radio.max_power_dbm) * floor / received_watts)
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
    inverse_gains, limit_watts = _inverse_gains(scenario, distance_metres), dbm_to_watts(radio.max_power_dbm)
    found: list[Option] = []
    for done, size in enumerate(sizes):
        progress("options", done, len(sizes))
        shares = {alpha: _ratio_moments(scenario, alpha, size) for alpha in sorted({*_ALPHAS, scenario.mixing.alpha})}
        for slots in lengths:
            watts = _private_watts(scenario, input_dim, label_dim, size, slots)
            if watts is None:
                continue
            noise_watts = dbm_to_watts(radio.noise_dbm)
            sent_watts = float(np.minimum(watts * inverse_gains, limit_watts).mean())
            for alpha, (inverse_peak, squares_per_peak) in shares.items():
                mean_square = moments.mean**2 * inverse_peak
                spread_square = moments.deviation**2 * squares_per_peak
                found.append(
                    Option(
                        alpha=alpha,
                        scheduled=size,
                        slots=slots,
                        snr_inputs_db=_db(watts * (mean_square + spread_square) / (noise_watts / 2.0)),
                        contrast_db=_db(watts * spread_square / (noise_watts / 2.0)),
                        energy_joules=radio.slot_seconds * slots * sent_watts * squares_per_peak,
                    )
                )
    progress("options", len(sizes), len(sizes))
    return tuple(found)


def _private_watts(scenario: Scenario, input_dim: int, label_dim: int, size: int, slots: int) -> float | None:
    """Return beta max q^2 at the target privacy for other |N_t| and T; None where the limits cannot be kept."""
    radio = scenario.radio
    limit = radio.max_participations
    if limit:
        rounds = -(-slots // max(1, scenario.workers.count // size))
        limit = max(rounds, round(limit * slots * size / (radio.slots * radio.scheduled)))
    other = scenario.with_overrides(
        f"radio.scheduled={size}", f"radio.slots={slots}", f"radio.max_participations={limit}", "mixing.prior="
    )
    try:
        return private_received_watts(other, sensitivity_of(other, input_dim, label_dim), quickly=True)
    except PrivacyError:
        return None


def _ratio_moments(scenario: Scenario, alpha: float, size: int) -> tuple[float, float]:
    """Return the means of 1 / max q^2 and of sum q^2 / max q^2 of DirMix(alpha)."""
    mixing = replace(scenario.mixing, policy="dirmix", alpha=alpha, prior=())
    ratios = draw_ratios(mixing, size, _RATIO_DRAWS, Streams(scenario.seed).generator("ratios"))
    peak = ratios.max(axis=1) ** 2
    return float(np.mean(1.0 / peak)), float(np.mean((ratios**2).sum(axis=1) / peak))


def _inverse_gains(scenario: Scenario, distance_metres: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return 1 / abs(h)^2 of every worker in one slot; shape workers."""
    radio = scenario.radio
    gain = path_gain(distance_metres, radio.path_loss_exponent, radio.unit_path_loss_db)
    everyone = np.arange(len(gain))[None, :]
    channel = generate_channel(radio, gain, everyone, Streams(scenario.seed).generator("fading"))
    return np.asarray(channel.magnitude[0] ** -2.0)


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
    return _db(float(np.median(values)))


def _db(value: float) -> float:
    return float(ratio_to_db(value))
