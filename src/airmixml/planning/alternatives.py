"""Other |N_t|, T and alpha at the same privacy: signal per slot and energy, the goals that any learner shares."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from airmixml.doors import ACCOUNTANTS
from airmixml.errors import AirMixError
from airmixml.impairments.presence import truncates, within_reach
from airmixml.progress import Progress
from airmixml.radio.channel import draw_magnitude
from airmixml.radio.expected_noise import expected_noise
from airmixml.radio.masking import masking_of, noisy_symbols
from airmixml.radio.path_loss import path_gain
from airmixml.radio.power import control_power
from airmixml.radio.privacy_target import joules_per_watt, private_received_watts, sensitivity_of
from airmixml.radio.ratios import assign_ratios, draw_ratios
from airmixml.radio.scheduling import draw_schedule
from airmixml.randomness.slot_words import slot_words
from airmixml.scenario import Mixing, Scenario, Workers
from airmixml.streams import Streams
from airmixml.units import ratio_to_db
from airmixml.workers import SYMBOLS_PER_SECOND, Signal, encoder_of

_SAMPLE_SLOTS: Final = 256
# Enough for a median, and fewer slots where many workers send in each.
_SAMPLED_SEATS: Final = 1 << 20
_FEWEST_SAMPLE_SLOTS: Final = 16
_ALPHAS: Final = (1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e7)
_SCHEDULED: Final = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
_SLOT_FACTORS: Final = (0.1, 1.0, 10.0)


@dataclass(frozen=True, kw_only=True)
class InputMoments:
    """Mean and deviation of an input symbol, assumed or known, for the SNR of mixtures of them."""

    mean: float
    deviation: float

    def encoded(self, workers: Workers, input_dim: int) -> InputMoments:
        """Return about what the encoder leaves of them; features and centred inputs count as centred, of full norm."""
        encoder = encoder_of(workers)
        if not encoder.bounds_norm:
            return self
        if encoder.keeps_inputs and workers.centre == "none" and workers.norm == "clip":
            length = math.sqrt(input_dim * (self.mean**2 + self.deviation**2))  # all are taken as equally long
            share = min(1.0, workers.clip_norm / length)
            return InputMoments(mean=share * self.mean, deviation=share * self.deviation)
        return InputMoments(mean=0.0, deviation=workers.clip_norm / math.sqrt(input_dim))

    def contrast(self, ratios: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the expected squared distance of a mixture's input symbol from the mean of all samples; slots."""
        return np.asarray(self.deviation**2 * (ratios**2).sum(axis=1))


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


def other_designs(
    scenario: Scenario,
    dimensions: tuple[int, int],
    moments: InputMoments,
    distance_metres: NDArray[np.float64],
    progress: Progress,
) -> tuple[Option, ...]:
    """Return designs at the same privacy: several |N_t| and T, and for each several alpha."""
    radio, workers = scenario.radio, scenario.workers.count
    # Accountants without a closed form take about a second per design, so they try fewer.
    closed_form = ACCOUNTANTS.load(scenario.privacy.accountant).closed_form
    near = [radio.scheduled // 4, radio.scheduled * 4]
    tried = [size for size in (_SCHEDULED if closed_form else near) if 1 <= size <= min(workers, 16 * radio.scheduled)]
    sizes = sorted({radio.scheduled, *tried})
    lengths = sorted({max(1, round(factor * radio.slots)) for factor in _SLOT_FACTORS})
    gain = path_gain(distance_metres, radio.path_loss_exponent, radio.unit_path_loss_db)
    found: list[Option] = []
    for done, size in enumerate(sizes):
        progress("options", done, len(sizes))
        count = min(_SAMPLE_SLOTS, max(_FEWEST_SAMPLE_SLOTS, _SAMPLED_SEATS // size))
        private = [_at_same_privacy(scenario, dimensions, size, slots) for slots in lengths]
        for alpha in sorted({*_ALPHAS, scenario.mixing.alpha}):
            mixing = replace(scenario.mixing, policy="dirmix", alpha=alpha, prior=())
            ratios, magnitude = draw_sample_slots(scenario, mixing, size, count, gain)
            contrast, inverse_gain = moments.contrast(ratios.numpy()), (1.0 / magnitude.square()).sum(dim=1).numpy()
            for other, received_watts in filter(None, private):
                power = control_power(other, received_watts, ratios, magnitude)
                beta = power.power_scale_watts.numpy()
                option = Option(
                    alpha=alpha,
                    scheduled=size,
                    slots=other.radio.slots,
                    snr_inputs_db=snr_db(other, beta, moments.mean**2 + contrast),
                    contrast_db=snr_db(other, beta, contrast),
                    energy_joules=energy_joules(other, dimensions, power.power_watts.sum(dim=1).numpy(), inverse_gain),
                )
                found.append(option)
    progress("options", len(sizes), len(sizes))
    return tuple(found)


def _at_same_privacy(
    scenario: Scenario, dimensions: tuple[int, int], size: int, slots: int
) -> tuple[Scenario, float] | None:
    """Return the scenario with other |N_t| and T, and its beta max q^2; None where the target cannot be kept."""
    radio = scenario.radio
    limit = radio.max_participations
    if limit:
        rounds = -(-slots // max(1, scenario.workers.count // size))
        limit = max(rounds, round(limit * slots * size / (radio.slots * radio.scheduled)))
    try:
        aired = replace(radio, scheduled=size, slots=slots, max_participations=limit)
        other = replace(scenario, radio=aired, mixing=replace(scenario.mixing, prior=()))
        return other, private_received_watts(other, sensitivity_of(other, *dimensions), quickly=True)
    except AirMixError:
        return None


def draw_sample_slots(
    scenario: Scenario, mixing: Mixing, size: int, count: int, worker_path_gain: NDArray[np.float64]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw some slots of ``size`` workers, as ``mixing`` says: ratios and abs(h), both count x size.

    Where workers in a fade stay silent their ratio is 0, and slots in which all are do not count.
    """
    streams, slots = Streams(scenario.seed), range(count)
    schedule = draw_schedule(slots, size, len(worker_path_gain), slot_words(streams, "schedule"))
    gain = torch.from_numpy(worker_path_gain)
    magnitude = draw_magnitude(scenario.radio, gain, schedule, slots, slot_words(streams, "fading"))
    ratios = draw_ratios(mixing, size, slots, slot_words(streams, "ratios"))
    ratios = assign_ratios(mixing, ratios, magnitude, slots, slot_words(streams, "assignment"))
    if truncates(scenario):
        sent = ratios * within_reach(scenario, magnitude, gain[schedule])
        heard = (sent > 0.0).any(dim=1)
        if heard.any():
            return sent[heard], magnitude[heard]
    return ratios, magnitude


def snr_db(scenario: Scenario, power_scale_watts: NDArray[np.float64], energy: NDArray[np.float64]) -> float:
    """Return the SNR in the median slot, for beta and the expected square of a mixture's symbol; both slots."""
    signal = 2.0 * power_scale_watts / expected_noise(scenario).total_watts
    return float(ratio_to_db(np.median(signal * energy)))


def energy_joules(
    scenario: Scenario,
    dimensions: tuple[int, int],
    slot_watts: NDArray[np.float64],
    inverse_gain: NDArray[np.float64] | None = None,
) -> float:
    """Return what all workers spend in T slots, from the power of all that send in some; shape slots.

    ``inverse_gain`` is sum 1 / abs(h)^2 of those slots, where the power is without the noise and masks of the workers.
    """
    signal, sensitivity = Signal.of(scenario.workers, *dimensions), sensitivity_of(scenario, *dimensions)
    joules = joules_per_watt(scenario, signal, sensitivity) * float(slot_watts.mean())
    masking = None if inverse_gain is None else masking_of(scenario)
    if masking is not None and inverse_gain is not None:
        noisy_seconds = noisy_symbols(scenario, signal.symbols) / SYMBOLS_PER_SECOND
        joules += masking.added_watts * noisy_seconds * float(inverse_gain.mean())
    return scenario.radio.slots * joules


def best_options(options: tuple[Option, ...]) -> dict[str, Option]:
    """Return the names of goals with the options that serve them best."""
    if not options:
        return {}
    return {
        "best SNR per slot": max(options, key=lambda each: each.snr_inputs_db),
        "best contrast per slot": max(options, key=lambda each: each.contrast_db),
        "best contrast over all slots": max(options, key=lambda each: each.contrast_db + 10.0 * math.log10(each.slots)),
        "least energy": min(options, key=lambda each: each.energy_joules),
    }
