"""What a plan derives of a scenario once: what the air leaves of a slot, what hidden workers add, and what arrives.

Between two resynchronisations phases drift apart. The longer a block, the less of the sum is left at its end: the mean
gain of the workers falls, and the noise stays. An air that never resynchronises within a slot bounds its length.

Of noise and masks there is how much they leave in the sum, and what each assumption costs.

Before any data are seen, the energy of a slot's mixture is an expectation. Of an encoded input x = (a u, c C) the
features u are taken as uncorrelated and equally spread, and c C is the constant that the encoder appends;
a^2 = 1 - c^2. A slot adds up q_i v_i of independent workers, so its expected energy is
((sum q)^2 - sum q^2) ||E v||^2 + (sum q^2) E ||v||^2. Real features are correlated: of moments that makes the true
energy larger than this, never smaller.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from airmixml.arrays import Doubles, ratio_to_db, watts_to_dbm
from airmixml.impairments.fading import silent_share, worker_path_gain
from airmixml.impairments.frame import frame_of
from airmixml.impairments.gain_bound import SEATS, some_gains
from airmixml.messages import AirMixError
from airmixml.planning.known_inputs import InputMoments, KnownInputs, is_public
from airmixml.radio.air import expected_noise
from airmixml.radio.centring import centre_privately
from airmixml.radio.masking import (
    above_thermal_db_of,
    enough_absent,
    gain_error_of,
    mask_share_of,
    masking_of,
    most_recoverable_share,
    times_the_noise,
)
from airmixml.radio.privacy_target import private_received_watts
from airmixml.radio.system import System
from airmixml.radio.tally import placed_distances
from airmixml.randomness.slot_words import slot_words
from airmixml.scenario import Scenario, Workers
from airmixml.streams import Streams
from airmixml.workers import SYMBOLS_PER_SECOND, Signal, deploy, load_dataset

_COLLUDING: Final = (0.01, 0.1, 0.3)
_WORTH_DB: Final = 0.2  # less noise than that is no reason for another setting


@dataclass(frozen=True)
class Sizing:
    """A scenario with what is known of its data, and what follows from that alone."""

    scenario: Scenario
    known: KnownInputs

    @cached_property
    def system(self) -> System:
        """What follows from them for every command: signal, sensitivity, energy and more."""
        return System.of(self.scenario, *self.known.dimensions)

    @cached_property
    def path_gain(self) -> Doubles:
        """Amplitude gain of every worker's path; shape workers."""
        return worker_path_gain(self.scenario, self.distance_metres)

    @cached_property
    def distance_metres(self) -> Doubles:
        """How far from the server each worker stands; shape workers."""
        return placed_distances(self.scenario)

    @cached_property
    def signal_loss(self) -> float:
        """The power of an ideal sum over that of the mean gain, averaged over a slot; 1 for nothing lost.

        It is estimated from 512 workers at the mean distance, so a sum of which less than 1/512 is left counts as that.
        """
        scenario = self.scenario
        if scenario.air.is_ideal:
            return 1.0
        gain = float(scenario.radio.path_loss_kind.gain(scenario.radio, self.distance_metres.mean(keepdims=True))[0])
        frame, source = frame_of(scenario.air, self.system.signal.symbols), slot_words(Streams(scenario.seed), "air")
        gains = some_gains(scenario, frame, gain, source)
        left = float(gains.mean(dim=0).abs().square().mean()) * (1.0 - scenario.air.absent) ** 2
        return 1.0 / max(left, 1.0 / SEATS)

    def frame(self) -> dict[str, Any] | None:
        """Return what the scenario's air makes of a slot; None on the ideal air."""
        scenario, data_symbols = self.scenario, self.system.signal.symbols
        if scenario.air.is_ideal:
            return None
        return {
            "data_symbols": data_symbols,  # symbols of what a worker sends
            "symbols": self.system.symbols_on_air,  # all symbols on the air, pilots and guards too
            "blocks": frame_of(scenario.air, data_symbols).block_count,  # how many blocks with a pilot of their own
            "seconds": self.system.slot_seconds,
            "signal_loss_db": 10.0 * math.log10(self.signal_loss),  # that drifting phases and absent workers take
            "margin_db": 10.0 * math.log10(self.system.gain_bound),  # less power, so that no gain breaks the target
        }


def plan_masks(sizing: Sizing, received_watts: float) -> dict[str, Any] | None:
    """Return what workers add to hide themselves; None where they rest on the receiver's noise.

    ``received_watts`` is beta max q^2. Powers are of all symbols of a slot on average; fading may raise the farthest
    worker's. Of "costs" each has a "name", an "override", and "noise_db", the noise over signal in the sum, in dB more
    than as planned (None: impossible); "overrides" would leave "gain_db" less noise.
    """
    scenario = sizing.scenario
    masking = masking_of(scenario)
    if masking is None:
        return None
    noise, signal = expected_noise(scenario, sizing.signal_loss), sizing.system.signal
    gains, gain_error = sizing.path_gain**2, gain_error_of(scenario)
    noisy = signal.symbols + scenario.privacy.noise_kind.probes(scenario, signal.symbols)
    added_joules = masking.added_watts * noisy / SYMBOLS_PER_SECOND
    sent_watts = (received_watts * sizing.system.joules_per_watt + added_joules) / sizing.system.slot_seconds
    costs = tuple(_costs(sizing, noise.total_watts / received_watts))
    possible = [cost for cost in costs if cost["noise_db"] is not None]
    better = min(possible, key=lambda cost: cost["noise_db"], default=None)
    gain_db = 0.0 if better is None or better["override"].startswith("privacy.colluders") else -better["noise_db"]
    masked = masking.graph is not None
    return {
        "degree": masking.graph.degree if masking.graph is not None else 0,  # masks of each worker
        "mask_share": mask_share_of(scenario) if masked else 0.0,  # of the privacy loss that is due to masks
        "above_thermal_db": above_thermal_db_of(scenario, masking),  # own noise of all workers over the receiver's
        "neighbours": masking.honest.neighbours,  # neither colluding nor absent, with whom each shares masks, at least
        "nearest_dbm": float(watts_to_dbm(sent_watts / gains.max())),
        "farthest_dbm": float(watts_to_dbm(sent_watts / gains.min())),
        "gain_error": gain_error,  # deviation of the workers' gains over their mean, in phase
        # What that makes of the noise in the sum, over exact gains.
        "times_the_noise": times_the_noise(scenario.radio.scheduled, gain_error) if masked else 1.0,
        "absent": silent_share(scenario),  # share of the workers that do not send
        "noise": noise.to_dict(),  # in the sum, by where it comes from
        "costs": costs,
        "overrides": (better["override"],) if better is not None and gain_db > _WORTH_DB else (),
        "gain_db": gain_db,
    }


def _costs(sizing: Sizing, planned: float) -> list[dict[str, Any]]:
    """Return what colluders, and recovering masks or not, cost; ``planned`` is noise over received power now."""
    scenario = sizing.scenario
    privacy, seats = scenario.privacy, scenario.radio.scheduled
    others = [
        (f"{count:,} colluders ({share:.0%})", f"privacy.colluders={count}")
        for share in _COLLUDING
        if (count := math.ceil(share * seats)) > privacy.colluders
    ]
    if privacy.noise_kind.masked and (silent_share(scenario) or privacy.most_absent):
        enough = enough_absent(scenario)
        if privacy.most_absent:
            others.append(("absent workers' masks stay in the sum", "privacy.most_absent=0"))
        elif enough <= most_recoverable_share(scenario):
            others.append((f"masks of up to {enough:.0%} absent workers recovered", f"privacy.most_absent={enough:g}"))
    found = []
    for name, override in others:
        try:
            other = scenario.with_overrides(override)
            watts = private_received_watts(other, sizing.system.sensitivity, quickly=True)
            noise_db: float | None = float(
                ratio_to_db(expected_noise(other, sizing.signal_loss).total_watts / watts / planned)
            )
        except AirMixError:
            noise_db = None
        found.append({"name": name, "override": override, "noise_db": noise_db})
    return found


@dataclass(frozen=True, kw_only=True)
class ExpectedSignal:
    """Energies per symbol of what one worker sends, E ||v||^2, and of its mean over all workers, ||E v||^2."""

    inputs: tuple[float, float]  # both of the input symbols, over their number
    labels: tuple[float, float]  # both of the label symbols, over their number; for balanced classes that say nothing
    workers: float = math.inf  # how many of them the means are over, where they are of rows and not of assumptions

    @classmethod
    def of_public(cls, scenario: Scenario) -> ExpectedSignal | None:
        """Return the energies of what workers send of public rows; None where no such rows are sent one by one."""
        workers, one_by_one = scenario.workers, scenario.workers.sends in ("samples", "moments")
        if not is_public(scenario) or workers.several_rows or not one_by_one or not scenario.air.is_ideal:
            return None
        streams = Streams(scenario.seed)
        dataset = load_dataset(workers, streams)
        population = deploy(workers, dataset, streams)
        dataset, held = centre_privately([scenario], dataset, population), population.sample_index
        inputs = dataset.train_inputs[held].astype(np.float64)
        labels = workers.label_weight * dataset.label_code.coded(np.asarray(dataset.train_labels)[held])
        signal, rows = Signal.of(workers, dataset.input_dim, dataset.label_dim), len(inputs)
        squares, weights = (inputs**2).sum(axis=1), (labels**2).sum(axis=1)
        means = (inputs.mean(axis=0), labels.mean(axis=0))
        if signal.moments:
            means, weights = (inputs.T @ inputs / rows, inputs.T @ labels / rows), squares * weights
            squares = squares**2
        symbols = signal.input_symbols, signal.label_symbols
        energies = (
            (float(each.mean()) / count, float((mean**2).sum()) / count)
            for each, mean, count in zip((squares, weights), means, symbols, strict=True)
        )
        return cls(inputs=next(energies), labels=next(energies), workers=rows)

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
                inputs=(squared_norm / signal.input_symbols, squared_mean / signal.input_symbols),
                labels=(weight / signal.classes, weight * mean_share / signal.classes),
            )
        # tr M^2 of M = E x x^T: the mean's own product, what it shares with the features, and the features' spread.
        spread = numbers * variance**2 + 2.0 * variance * share * numbers * mean**2
        second = squared_norm**2, squared_mean**2 + spread
        cross = weight * squared_norm, weight * squared_mean * mean_share
        return cls(
            inputs=(second[0] / signal.input_symbols, second[1] / signal.input_symbols),
            labels=(cross[0] / signal.label_symbols, cross[1] / signal.label_symbols),
        )

    def mixed(self, ratios: Doubles, energies: tuple[float, float]) -> Doubles:
        """Return the expected square of a symbol of each slot's mixture; ratios are slots x scheduled.

        Workers are drawn without replacement, and all of them together give the mean.
        """
        energy, mean_energy = energies
        total, squares = ratios.sum(axis=1) ** 2, (ratios**2).sum(axis=1)
        if math.isinf(self.workers):
            return np.asarray((total - squares) * mean_energy + squares * energy)
        spread = (energy - mean_energy) * self.workers / (self.workers - 1.0)
        return np.asarray(total * mean_energy + (squares - total / self.workers) * spread)
