"""What a transmission cost and gave: energy, power, SNR, privacy; gathered block by block in constant memory."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from airmixml.privacy import (
    PrivacyStatement,
    gaussian_epsilon,
    known_schedule_loss,
    paper_sensitivity,
    slot_privacy_exponent,
    slot_privacy_loss,
    total_privacy_loss,
)
from airmixml.radio.transmission import MixtureBlock
from airmixml.scenario import Scenario
from airmixml.units import dbm_to_watts, ratio_to_db, watts_to_dbm
from airmixml.workers import DataSet

__all__ = ["AirReport", "DecibelHistogram"]


class DecibelHistogram:
    """Counts of values in dB, in steps of 0.1 dB from -600 to 600; zero power falls into the lowest step."""

    LOWEST_DB: Final = -600.0
    HIGHEST_DB: Final = 600.0
    STEP_DB: Final = 0.1

    def __init__(self) -> None:
        steps = round((self.HIGHEST_DB - self.LOWEST_DB) / self.STEP_DB)
        self.counts: NDArray[np.int64] = np.zeros(steps, dtype=np.int64)
        self.edges_db: NDArray[np.float64] = np.linspace(self.LOWEST_DB, self.HIGHEST_DB, steps + 1)

    def add(self, values_db: NDArray[np.float64]) -> None:
        """Count values of any shape."""
        inside = np.clip(values_db.ravel(), self.LOWEST_DB, self.HIGHEST_DB - self.STEP_DB / 2.0)
        step = ((inside - self.LOWEST_DB) / self.STEP_DB).astype(np.int64)
        self.counts += np.bincount(step, minlength=len(self.counts))

    def quantile_db(self, share: float) -> float:
        """Return the middle of the step below which that share of the values lies."""
        step = int(np.searchsorted(np.cumsum(self.counts), share * self.counts.sum()))
        return float(self.edges_db[min(step, len(self.counts) - 1)] + self.STEP_DB / 2.0)


class AirReport:
    """Adds up the blocks of one transmission."""

    def __init__(self, scenario: Scenario, dataset: DataSet) -> None:
        self.scenario = scenario
        self.slots = 0
        self.limited_slots = 0
        self.worker_energy_joules: NDArray[np.float64] = np.zeros(scenario.workers.count)
        self.largest_power_watts = 0.0
        self.power_dbm = DecibelHistogram()
        self.input_snr_db = DecibelHistogram()
        self.label_snr_db = DecibelHistogram()
        self._sensitivity = paper_sensitivity(dataset.input_dim, dataset.label_dim)
        self._input_share = dataset.input_dim / (dataset.input_dim + dataset.label_dim)
        self.snr_db = DecibelHistogram()
        self._sum_of_slot_losses = 0.0
        self._worker_losses: NDArray[np.float64] = np.zeros(scenario.workers.count)

    def add(self, block: MixtureBlock) -> None:
        """Take one block into account."""
        scenario, draws = self.scenario, block.draws
        self.slots += block.slots
        self.limited_slots += int(draws.limited.sum())
        workers = draws.scheduled_workers.ravel()
        self.worker_energy_joules += self._by_worker(workers, block.energy_joules)
        self.largest_power_watts = max(self.largest_power_watts, float(draws.power_watts.max()))
        self.power_dbm.add(watts_to_dbm(draws.power_watts[draws.ratios > 0.0]))
        self.input_snr_db.add(ratio_to_db(block.input_snr))
        self.label_snr_db.add(ratio_to_db(block.label_snr))
        share = self._input_share
        self.snr_db.add(ratio_to_db(share * block.input_snr + (1.0 - share) * block.label_snr))
        mechanism = (draws.power_scale_watts, dbm_to_watts(scenario.radio.noise_dbm), self._sensitivity)
        exponent = slot_privacy_exponent(draws.ratios.max(axis=1), *mechanism)
        self._sum_of_slot_losses += float(slot_privacy_loss(exponent, scenario.sampling_rate).sum())
        self._worker_losses += self._by_worker(workers, known_schedule_loss(draws.ratios, *mechanism))

    def _by_worker(self, workers: NDArray[np.int64], values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.bincount(workers, values.ravel(), self.scenario.workers.count).astype(np.float64, copy=False)

    @property
    def power_tells_the_schedule(self) -> bool:
        """Whether the received power depended on who was scheduled, in any slot.

        Where the power limit of a scheduled worker sets beta, the noise level of that slot's mixture gives that worker
        away, and amplification by sampling, which rests on a hidden schedule, cannot be claimed.
        """
        return self.scenario.mixing.power == "max" or self.limited_slots > 0

    @property
    def energy_joules(self) -> float:
        """Total energy tau sum P."""
        return float(self.worker_energy_joules.sum())

    @property
    def privacy(self) -> PrivacyStatement:
        """What the paper's loose bound gives for the powers really used.

        That is Corollary 1, with its credit for sampling; or, where the power told the schedule, the same bound without
        that credit: the losses of the worst worker over its own slots.
        """
        target, told = self.scenario.privacy, self.power_tells_the_schedule
        losses = float(self._worker_losses.max()) if told else self._sum_of_slot_losses
        return PrivacyStatement(
            epsilon=total_privacy_loss(losses, target.delta),
            adversary=target.adversary,
            accountant=target.accountant,
            sampling_rate=1.0 if told else self.scenario.sampling_rate,
            target_epsilon=target.epsilon if self.scenario.mixing.power == "dp" else None,
            **self._assumptions(),
        )

    @property
    def privacy_against_server(self) -> PrivacyStatement:
        """What the server, who knows the schedule, can learn of the worst worker; exact.

        The worker's slots are one Gaussian mechanism whose mu^2 is the sum of its losses of order 2.
        """
        return PrivacyStatement(
            epsilon=gaussian_epsilon(math.sqrt(float(self._worker_losses.max())), self.scenario.privacy.delta),
            adversary="server",
            accountant="gdp",
            sampling_rate=1.0,
            **self._assumptions(),
        )

    def _assumptions(self) -> dict[str, Any]:
        return {
            "delta": self.scenario.privacy.delta,
            "adjacency": "replace-one",
            "sensitivity": self._sensitivity,
            "noise_watts_per_symbol": dbm_to_watts(self.scenario.radio.noise_dbm),
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values for JSON."""
        energy = self.worker_energy_joules
        return {
            "slots": self.slots,
            "energy_joules": self.energy_joules,
            "worker_energy_joules": {
                "mean": float(energy.mean()),
                "median": float(np.median(energy)),
                "largest": float(energy.max()),
            },
            "power_dbm": {
                "median": self.power_dbm.quantile_db(0.5),
                "largest": float(watts_to_dbm(self.largest_power_watts)),
                "limit": self.scenario.radio.max_power_dbm,
            },
            "power_limited_slots": self.limited_slots,
            "snr_db": self.snr_db.quantile_db(0.5),
            "snr_inputs_db": self.input_snr_db.quantile_db(0.5),
            "snr_labels_db": self.label_snr_db.quantile_db(0.5),
            "privacy": [self.privacy.to_dict(), self.privacy_against_server.to_dict()],
        }
