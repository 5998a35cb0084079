"""Signal per slot and energy, the goals that any learner shares: of a scenario, and of other |N_t|, T and alpha.

All designs have the same privacy. Before any data are seen, the energy of a slot's mixture is an expectation. Of an
encoded input x = (a u, c C) the features u are taken as uncorrelated and equally spread, and c C is the constant that
the encoder appends; a^2 = 1 - c^2. A slot adds up q_i v_i of independent workers, so its expected energy is
((sum q)^2 - sum q^2) ||E v||^2 + (sum q^2) E ||v||^2. Real features are correlated: of moments that makes the true
energy larger than this, never smaller.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import torch

from airmixml.arrays import Doubles, ratio_to_db
from airmixml.data import known_dataset
from airmixml.errors import AirMixError
from airmixml.impairments.fading import draw_magnitude
from airmixml.impairments.presence import truncates, within_reach
from airmixml.planning.sizing import Sizing
from airmixml.progress import Progress
from airmixml.radio.centring import centre_privately
from airmixml.radio.masking import masking_of
from airmixml.radio.noise import expected_noise
from airmixml.radio.power import control_power
from airmixml.radio.power_calibration import private_received_watts
from airmixml.radio.ratios import draw_ratios
from airmixml.randomness.slot_words import draw_schedule, slot_words
from airmixml.registries import ACCOUNTANTS, DATASETS
from airmixml.scenario import Mixing, Scenario, Workers
from airmixml.streams import Streams
from airmixml.workers import SYMBOLS_PER_SECOND, Signal, deploy, encoder_of, load_dataset

_SAMPLE_SLOTS: Final = 256
# Enough for a median, and fewer slots where many workers send in each.
_SAMPLED_SEATS: Final = 1 << 20
_FEWEST_SAMPLE_SLOTS: Final = 16
# A share whose square is no number that could be divided by: a small alpha leaves such ones to all but one worker.
_FAINTEST: Final = 1e-100
_ALPHAS: Final = (1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e7)
_SCHEDULED: Final = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
_SLOT_FACTORS: Final = (0.1, 1.0, 10.0)


@dataclass(frozen=True, kw_only=True)
class InputMoments:
    """Mean and deviation of an input symbol, assumed or known, for the SNR of mixtures of them."""

    mean: float
    deviation: float

    def encoded(self, workers: Workers, features: int) -> InputMoments:
        """Return about what the encoder leaves of them; features other than inputs count as centred, of full norm."""
        encoder = encoder_of(workers)
        if not encoder.bounds_norm:
            return self
        if not encoder.keeps_inputs:
            return InputMoments(mean=0.0, deviation=workers.clip_norm / math.sqrt(features))
        # The public centre is the middle of the bounds; an image's is about its own mean.
        mean = {"none": self.mean, "public": self.mean - 0.5}.get(workers.centre, 0.0)
        length = math.sqrt(features * (mean**2 + self.deviation**2))  # all are taken as equally long
        share = workers.clip_norm / length if workers.norm == "unit" else min(1.0, workers.clip_norm / length)
        return InputMoments(mean=share * mean, deviation=share * self.deviation)

    def contrast(self, ratios: Doubles) -> Doubles:
        """Return the expected squared distance of a mixture's input symbol from the mean of all samples; slots."""
        return np.asarray(self.deviation**2 * (ratios**2).sum(axis=1))


@dataclass(frozen=True, kw_only=True)
class ExpectedSignal:
    """Energies per symbol of what one worker sends, and of its mean over all workers."""

    input_energy: float  # E ||v||^2 of the input symbols, over their number
    input_mean_energy: float  # ||E v||^2 of the input symbols, over their number
    label_energy: float  # the same for the label symbols
    label_mean_energy: float  # likewise, for balanced classes that say nothing about the inputs
    workers: float = math.inf  # how many of them the means are over, where they are of rows and not of assumptions

    @classmethod
    def of(cls, workers: Workers, signal: Signal, moments: InputMoments) -> ExpectedSignal:
        """Return the energies for inputs in [0, 1] of that mean and deviation, as the workers encode and send them."""
        numbers = signal.features - (1 if workers.constant else 0)
        encoded = moments.encoded(workers, numbers)
        mean, deviation = encoded.mean, encoded.deviation
        share, constant = 1.0 - workers.constant**2, (workers.constant * workers.clip_norm) ** 2
        squared_mean = share * numbers * mean**2 + constant
        variance = share * deviation**2  # of one feature
        squared_norm = squared_mean + numbers * variance
        weight, mean_share = signal.label_weight**2, 0.0 if signal.centred_labels else 1.0 / signal.classes
        if not signal.moments:
            return cls(
                input_energy=squared_norm / signal.input_symbols,
                input_mean_energy=squared_mean / signal.input_symbols,
                label_energy=weight / signal.classes,
                label_mean_energy=weight * mean_share / signal.classes,
            )
        # tr M^2 of M = E x x^T: the mean's own product, what it shares with the features, and the features' spread.
        spread = numbers * variance**2 + 2.0 * variance * share * numbers * mean**2
        return cls(
            input_energy=squared_norm**2 / signal.input_symbols,
            input_mean_energy=(squared_mean**2 + spread) / signal.input_symbols,
            label_energy=weight * squared_norm / signal.label_symbols,
            label_mean_energy=weight * squared_mean * mean_share / signal.label_symbols,
        )

    def of_inputs(self, ratios: Doubles) -> Doubles:
        """Return the expected square of an input symbol of each slot's mixture; ratios are slots x scheduled."""
        return self._mixed(ratios, self.input_energy, self.input_mean_energy)

    def of_labels(self, ratios: Doubles) -> Doubles:
        """Return the expected square of a label symbol of each slot's mixture; ratios are slots x scheduled."""
        return self._mixed(ratios, self.label_energy, self.label_mean_energy)

    def _mixed(self, ratios: Doubles, energy: float, mean_energy: float) -> Doubles:
        """Return the energy of sum q_i v_i over draws of workers without replacement; all of them give the mean."""
        total, squares = ratios.sum(axis=1) ** 2, (ratios**2).sum(axis=1)
        if math.isinf(self.workers):
            return np.asarray((total - squares) * mean_energy + squares * energy)
        spread = (energy - mean_energy) * self.workers / (self.workers - 1.0)
        return np.asarray(total * mean_energy + (squares - total / self.workers) * spread)


@dataclass(frozen=True, kw_only=True)
class Option:
    """One design at the target privacy."""

    alpha: float  # dispersion of the ratios
    scheduled: int  # |N_t|
    slots: int  # T
    snr_inputs_db: float  # received energy of the mixture over that of the noise, inputs
    contrast_db: float  # the same for what differs between samples; a mixture of many is mostly their mean
    energy_joules: float  # of all workers and slots


def other_designs(sizing: Sizing, moments: InputMoments, progress: Progress) -> tuple[Option, ...]:
    """Return designs at the same privacy: several |N_t| and T, and for each several alpha."""
    scenario = sizing.scenario
    radio, workers = scenario.radio, scenario.workers.count
    # Accountants without a closed form take about a second per design, so they try fewer.
    closed_form = ACCOUNTANTS.load(scenario.privacy.accountant).closed_form
    near = [radio.scheduled // 4, radio.scheduled * 4]
    tried = [size for size in (_SCHEDULED if closed_form else near) if 1 <= size <= min(workers, 16 * radio.scheduled)]
    sizes = sorted({radio.scheduled, *tried})
    lengths = sorted({max(1, round(factor * radio.slots)) for factor in _SLOT_FACTORS})
    found: list[Option] = []
    for done, size in enumerate(sizes):
        progress("options", done, len(sizes))
        count = min(_SAMPLE_SLOTS, max(_FEWEST_SAMPLE_SLOTS, _SAMPLED_SEATS // size))
        private = [_at_same_privacy(sizing, size, slots) for slots in lengths]
        for alpha in sorted({*_ALPHAS, scenario.mixing.alpha}):
            mixing = replace(scenario.mixing, policy="dirmix", alpha=alpha, prior=())
            ratios, magnitude = draw_sample_slots(scenario, mixing, size, count, sizing.path_gain)
            contrast, inverse_gain = moments.contrast(ratios.numpy()), (1.0 / magnitude.square()).sum(dim=1).numpy()
            for other, received_watts in filter(None, private):
                power = control_power(other.scenario, received_watts, ratios, magnitude)
                beta = power.power_scale_watts.numpy()
                option = Option(
                    alpha=alpha,
                    scheduled=size,
                    slots=other.scenario.radio.slots,
                    snr_inputs_db=snr_db(other.scenario, beta, moments.mean**2 + contrast),
                    contrast_db=snr_db(other.scenario, beta, contrast),
                    energy_joules=energy_joules(other, power.power_watts.sum(dim=1).numpy(), inverse_gain),
                )
                found.append(option)
    progress("options", len(sizes), len(sizes))
    return tuple(found)


def _at_same_privacy(sizing: Sizing, size: int, slots: int) -> tuple[Sizing, float] | None:
    """Return the scenario with other |N_t| and T, and its beta max q^2; None where the target cannot be kept."""
    scenario, radio = sizing.scenario, sizing.scenario.radio
    limit = radio.max_participations
    if limit:
        rounds = -(-slots // max(1, scenario.workers.count // size))
        limit = max(rounds, round(limit * slots * size / (radio.slots * radio.scheduled)))
    try:
        aired = replace(radio, scheduled=size, slots=slots, max_participations=limit)
        other = replace(sizing, scenario=replace(scenario, radio=aired, mixing=replace(scenario.mixing, prior=())))
        return other, private_received_watts(other.scenario, other.system.sensitivity, quickly=True)
    except AirMixError:
        return None


def draw_sample_slots(
    scenario: Scenario, mixing: Mixing, size: int, count: int, worker_path_gain: Doubles
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw some slots of ``size`` workers, as ``mixing`` says: ratios and abs(h), both count x size.

    Where workers in a fade stay silent their ratio is 0; slots in which all are, or all but vanishing shares, do not
    count.
    """
    streams, slots = Streams(scenario.seed), range(count)
    schedule = draw_schedule(slots, size, len(worker_path_gain), slot_words(streams, "schedule"))
    gain = torch.from_numpy(worker_path_gain)
    magnitude = draw_magnitude(scenario.radio, gain, schedule, slots, slot_words(streams, "fading"))
    ratios = draw_ratios(mixing, size, slots, slot_words(streams, "ratios"))
    ratios = mixing.assignment_kind.deal(mixing, ratios, magnitude, slots, slot_words(streams, "assignment"))
    if truncates(scenario):
        sent = ratios * within_reach(scenario, magnitude, gain[schedule])
        heard = (sent > _FAINTEST).any(dim=1)
        if heard.any():
            return sent[heard], magnitude[heard]
    return ratios, magnitude


def snr_db(scenario: Scenario, power_scale_watts: Doubles, energy: Doubles) -> float:
    """Return the SNR in the median slot, for beta and the expected square of a mixture's symbol; both slots."""
    signal = 2.0 * power_scale_watts / expected_noise(scenario).total_watts
    return float(ratio_to_db(np.median(signal * energy)))


def energy_joules(sizing: Sizing, slot_watts: Doubles, inverse_gain: Doubles | None = None) -> float:
    """Return what all workers spend in T slots, from the power of all that send in some; shape slots.

    ``inverse_gain`` is sum 1 / abs(h)^2 of those slots, where the power is without the noise and masks of the workers.
    """
    joules = sizing.system.joules_per_watt * float(slot_watts.mean())
    masking = None if inverse_gain is None else masking_of(sizing.scenario)
    if masking is not None and inverse_gain is not None:
        probes = sizing.scenario.privacy.noise_kind.probes(sizing.scenario, sizing.system.signal.symbols)
        noisy_seconds = (sizing.system.signal.symbols + probes) / SYMBOLS_PER_SECOND
        joules += masking.added_watts * noisy_seconds * float(inverse_gain.mean())
    return sizing.scenario.radio.slots * joules


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


def is_public(scenario: Scenario) -> bool:
    """Whether the scenario's rows are a table that comes with the package, which anybody may read."""
    known = known_dataset(scenario.workers.dataset)
    return known is not None and known.name in DATASETS.own and known.image_shape is None


def public_signal(scenario: Scenario) -> ExpectedSignal | None:
    """Return the energies of what workers send of public rows; None where no such rows are sent one by one."""
    workers, one_by_one = scenario.workers, scenario.workers.sends in ("samples", "moments")
    if not is_public(scenario) or workers.several_rows or not one_by_one or not scenario.air.is_ideal:
        return None
    streams = Streams(scenario.seed)
    dataset = load_dataset(workers, streams)
    population = deploy(workers, dataset, streams)
    dataset = centre_privately([scenario], dataset, population)
    held = population.sample_index
    inputs = dataset.train_inputs[held].astype(np.float64)
    labels = workers.label_weight * dataset.label_code.coded(np.asarray(dataset.train_labels)[held])
    signal = Signal.of(workers, dataset.input_dim, dataset.label_dim)
    rows = len(inputs)
    squares, weights = (inputs**2).sum(axis=1), (labels**2).sum(axis=1)
    means = (inputs.mean(axis=0), labels.mean(axis=0))
    if signal.moments:
        means, weights, squares = (inputs.T @ inputs / rows, inputs.T @ labels / rows), squares * weights, squares**2
    return ExpectedSignal(
        input_energy=float(squares.mean()) / signal.input_symbols,
        input_mean_energy=float((means[0] ** 2).sum()) / signal.input_symbols,
        label_energy=float(weights.mean()) / signal.label_symbols,
        label_mean_energy=float((means[1] ** 2).sum()) / signal.label_symbols,
        workers=rows,
    )
