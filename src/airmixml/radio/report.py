"""What a transmission cost and gave: energy, power, SNR, privacy; gathered block by block in constant memory."""

from typing import Any

import numpy as np

from airmixml.arrays import Doubles
from airmixml.data import DataSet
from airmixml.radio.histogram import DecibelHistogram
from airmixml.radio.ratios import varying_share
from airmixml.radio.tally import Tally
from airmixml.radio.transmission import MixtureBlock
from airmixml.scenario import Scenario
from airmixml.units import dbm_to_watts, ratio_to_db


class AirReport(Tally):
    """Adds up the blocks of one transmission: their draws, and how well the mixtures were received."""

    def __init__(
        self,
        scenario: Scenario,
        dataset: DataSet,
        *,
        distance_metres: Doubles | None = None,
        received_watts: float | None = None,
    ) -> None:
        super().__init__(scenario, dataset.input_dim, dataset.label_dim, distance_metres, received_watts=received_watts)
        self.snr_db = DecibelHistogram()
        self.input_snr_db = DecibelHistogram()
        self.label_snr_db = DecibelHistogram()
        self._input_share = self.signal.input_symbols / self.signal.symbols
        self._noise_variance_sum = 0.0
        self._square_share_sum = 0.0

    def add(self, block: MixtureBlock) -> None:
        """Take one block into account."""
        self.add_draws(block.draws)
        noise_watts = dbm_to_watts(self.scenario.radio.noise_dbm)
        self._noise_variance_sum += float((noise_watts / 2.0 / block.draws.power_scale_watts).sum())
        self._square_share_sum += float(np.square(block.draws.ratios).sum())
        self.input_snr_db.add(ratio_to_db(block.input_snr))
        self.label_snr_db.add(ratio_to_db(block.label_snr))
        share = self._input_share
        self.snr_db.add(ratio_to_db(share * block.input_snr + (1.0 - share) * block.label_snr))

    @property
    def noise_variance(self) -> float:
        """Mean over the slots of the variance of the noise on an input symbol, sigma_n^2 / (2 beta); known to all."""
        return self._noise_variance_sum / self.slots

    @property
    def variance_share(self) -> float:
        """How much of the variance of the N workers' samples the mixtures' own variance is; see ``varying_share``."""
        return varying_share(
            self._square_share_sum / self.slots,
            self.scenario.radio.scheduled,
            self.scenario.workers.count,
            poisson=self.scenario.radio.schedule == "poisson",
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values for JSON."""
        return {
            **super().to_dict(),
            "snr_db": self.snr_db.quantile_db(0.5),
            "snr_inputs_db": self.input_snr_db.quantile_db(0.5),
            "snr_labels_db": self.label_snr_db.quantile_db(0.5),
        }
