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
import torch

from airmixml.arrays import Doubles, ratio_to_db, watts_to_dbm
from airmixml.errors import AirMixError
from airmixml.impairments.fading import silent_share, worker_path_gain
from airmixml.impairments.frame import frame_of
from airmixml.impairments.gains import SeatDraws, draw_gains
from airmixml.planning.known_inputs import InputMoments, is_public
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

_SEATS: Final = 512
_COLLUDING: Final = (0.01, 0.1, 0.3)
_WORTH_DB: Final = 0.2  # less noise than that is no reason for another setting


@dataclass(frozen=True, kw_only=True)
class FramePlan:
    """A slot of a scenario on its air."""

    data_symbols: int  # symbols of what a worker sends
    symbols: int  # all symbols on the air, pilots and guards too
    blocks: int  # how many blocks with a pilot of their own
    seconds: float  # how long the slot lasts
    signal_loss_db: float  # power that drifting phases and absent workers take from the sum
    margin_db: float  # by how much less power is sent, so that no gain breaks the privacy target


@dataclass(frozen=True)
class Sizing:
    """A scenario, and what follows from it and from the dimensions of its data alone."""

    scenario: Scenario
    input_dim: int  # d_X as it leaves the encoder
    label_dim: int  # d_Y

    @property
    def system(self) -> System:
        """What follows from them for every command: signal, sensitivity, energy and more."""
        return System.of(self.scenario, self.input_dim, self.label_dim)

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
        channel = torch.full((1, _SEATS), gain, dtype=torch.float64)
        gains = draw_gains(
            scenario,
            SeatDraws(
                slots=range(1),
                frame=frame_of(scenario.air, self.system.signal.symbols),
                workers=torch.arange(_SEATS)[None] % scenario.workers.count,
                magnitude=channel,
                path_gain=channel,
                source=slot_words(Streams(scenario.seed), "air"),
                in_slot=_SEATS,
            ),
        )
        left = float(gains.mean(dim=1).abs().square().mean()) * (1.0 - scenario.air.absent) ** 2
        return 1.0 / max(left, 1.0 / _SEATS)

    def frame(self) -> FramePlan | None:
        """Return what the scenario's air makes of a slot; None on the ideal air."""
        scenario, signal = self.scenario, self.system.signal
        if scenario.air.is_ideal:
            return None
        return FramePlan(
            data_symbols=signal.symbols,
            symbols=self.system.symbols_on_air,
            blocks=frame_of(scenario.air, signal.symbols).block_count,
            seconds=self.system.slot_seconds,
            signal_loss_db=10.0 * math.log10(self.signal_loss),
            margin_db=10.0 * math.log10(self.system.gain_bound),
        )


@dataclass(frozen=True, kw_only=True)
class MaskPlan:
    """Noise and masks of the workers of a scenario."""

    degree: int  # masks of each worker; 0 without masks
    mask_share: float  # share of the privacy loss that is due to masks
    above_thermal_db: float  # own noise of all workers over the receiver's
    neighbours: int  # workers, neither colluding nor absent, with whom each shares masks, at least
    nearest_dbm: float  # power of the nearest worker, all symbols of a slot on average
    farthest_dbm: float  # that of the farthest, which fading may raise
    gain_error: float  # deviation of the workers' gains over their mean, in phase
    times_the_noise: float  # what that makes of the noise in the sum, over exact gains; 1 without masks
    absent: float  # share of the workers that do not send
    noise: dict[str, Any]  # in the sum, by where it comes from
    # What other assumptions on colluders and absent workers cost: "name", "override", and "noise_db", the noise over
    # signal in the sum, in dB more than as planned (None: impossible).
    costs: tuple[dict[str, Any], ...]
    overrides: tuple[str, ...]  # what would leave less noise
    gain_db: float  # how much less


def plan_masks(sizing: Sizing, received_watts: float) -> MaskPlan | None:
    """Return what workers add to hide themselves; None where they rest on the receiver's noise.

    ``received_watts`` is beta max q^2.
    """
    scenario = sizing.scenario
    masking = masking_of(scenario)
    if masking is None:
        return None
    radio, noise, signal = scenario.radio, expected_noise(scenario, sizing.signal_loss), sizing.system.signal
    gains = sizing.path_gain**2
    noisy = signal.symbols + scenario.privacy.noise_kind.probes(scenario, signal.symbols)
    added_joules = masking.added_watts * noisy / SYMBOLS_PER_SECOND
    sent_watts = (received_watts * sizing.system.joules_per_watt + added_joules) / sizing.system.slot_seconds
    costs = tuple(_costs(sizing, noise.total_watts / received_watts))
    possible = [cost for cost in costs if cost["noise_db"] is not None]
    better = min(possible, key=lambda cost: cost["noise_db"], default=None)
    gain_db = 0.0 if better is None or better["override"].startswith("privacy.colluders") else -better["noise_db"]
    return MaskPlan(
        degree=0 if masking.graph is None else masking.graph.degree,
        mask_share=mask_share_of(scenario) if masking.graph is not None else 0.0,
        above_thermal_db=above_thermal_db_of(scenario, masking),
        neighbours=masking.honest.neighbours,
        nearest_dbm=float(watts_to_dbm(sent_watts / gains.max())),
        farthest_dbm=float(watts_to_dbm(sent_watts / gains.min())),
        gain_error=gain_error_of(scenario),
        times_the_noise=times_the_noise(radio.scheduled, gain_error_of(scenario)) if masking.graph is not None else 1.0,
        absent=silent_share(scenario),
        noise=noise.to_dict(),
        costs=costs,
        overrides=(better["override"],) if better is not None and gain_db > _WORTH_DB else (),
        gain_db=gain_db,
    )


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
    """Energies per symbol of what one worker sends, and of its mean over all workers."""

    input_energy: float  # E ||v||^2 of the input symbols, over their number
    input_mean_energy: float  # ||E v||^2 of the input symbols, over their number
    label_energy: float  # the same for the label symbols
    label_mean_energy: float  # likewise, for balanced classes that say nothing about the inputs
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
        return cls(
            input_energy=float(squares.mean()) / signal.input_symbols,
            input_mean_energy=float((means[0] ** 2).sum()) / signal.input_symbols,
            label_energy=float(weights.mean()) / signal.label_symbols,
            label_mean_energy=float((means[1] ** 2).sum()) / signal.label_symbols,
            workers=rows,
        )

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
