"""Channels that are not what a worker takes them for: estimated with noise, or another uplink than downlink."""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch

from airmixml.arrays import db_to_ratio, dbm_to_watts
from airmixml.impairments.fading import deepest_shadow, fades, largest_ratio, weakest_fading
from airmixml.impairments.frame import Frame
from airmixml.impairments.gain_laws import GaussianError
from airmixml.impairments.gains import Impairment, SeatDraws
from airmixml.impairments.renewal import Echoes, draw_responses, echoes_of, magnitudes
from airmixml.scenario import Scenario


@dataclass(frozen=True, kw_only=True)
class EstimationError(Impairment):
    """h = h_hat + e, e ~ CN(0, NMSE path_gain^2) independent of the estimate h_hat: g = h / h_hat = 1 + e / h_hat.

    That is the error of a minimum-mean-square estimate (Yoo and Goldsmith 2006, IEEE Trans. Inf. Theory 52(5)), new in
    every block. The worker inverts what it has, the estimate, whose magnitude is the one that is drawn for the slot; so
    it never sends more than planned, and what arrives has a bound wherever the estimate has a floor. With
    g = 1 / (1 + e), where the channel is drawn and the estimate follows, there would be none.

    Without fading a channel's magnitude stays what it is, and a worker knows it from all blocks before; a new estimate
    tells it the phase alone. What arrives then has the planned magnitude: g = (1 + e) / abs(1 + e).

    From ``pilots`` symbols L of power P at a receiver with the noise sigma^2 it has the NMSE 1 / (1 + snr) with
    snr = L P path_gain^2 / sigma^2 (Hassibi and Hochwald 2003, IEEE Trans. Inf. Theory 49(4), for one antenna): far
    workers know their channel less well, which tells them from near ones.
    """

    about = "error of a worker's channel estimate"
    scenario: Scenario
    nmse: float
    snr_without_path: float  # L P / sigma^2; 0: the NMSE is given

    @classmethod
    def of(cls, scenario: Scenario) -> Self | None:
        air, nmse = scenario.air, db_to_ratio(scenario.air.estimation_nmse_db)
        if not air.estimation_pilots:
            return cls(scenario=scenario, nmse=nmse, snr_without_path=0.0) if nmse else None
        power_watts, noise_watts = dbm_to_watts(air.estimation_power_dbm), dbm_to_watts(scenario.radio.noise_dbm)
        snr = air.estimation_pilots * power_watts / noise_watts
        radio, farthest_metres = scenario.radio, np.array([scenario.workers.farthest_metres])
        weakest = float(radio.path_loss_kind.gain(radio, farthest_metres)[0]) ** 2 * deepest_shadow(scenario)
        return cls(scenario=scenario, nmse=1.0 / (1.0 + snr * weakest), snr_without_path=snr)

    @property
    def follows_worker(self) -> bool:
        """Whether the error depends on a worker's distance."""
        return self.snr_without_path > 0.0

    def gains(self, draws: SeatDraws) -> torch.Tensor:
        echoes = echoes_of(self.scenario)
        if echoes is not None:
            return self._gains_on_clusters(echoes, draws)
        if not fades(self.scenario):
            return super().gains(draws)
        error = draws.complex_normals("estimation-error", draws.frame.block_count)
        return draws.by_block(error.mul_(self._deviation(draws)).add_(1.0))

    def angle(self, draws: SeatDraws) -> torch.Tensor | None:
        """Draw the phase of 1 + e, which is all that errs without fading; slots x scheduled x pieces."""
        if fades(self.scenario):
            return None
        error = draws.normals("estimation-error", 2 * draws.frame.block_count)
        along, across = error.mul_(math.sqrt(0.5) * self._deviation(draws)).chunk(2, dim=2)
        return draws.by_block(torch.atan2(across, along.add_(1.0)))

    def _deviation(self, draws: SeatDraws) -> torch.Tensor:
        """Return that of e / h_hat; slots x scheduled x blocks, or x 1."""
        path, nmse = draws.path_gain[:, :, None], torch.as_tensor(self.nmse)
        if self.follows_worker:
            nmse = 1.0 / (1.0 + self.snr_without_path * path.square())
        return nmse.sqrt() * path / magnitudes(self.scenario, draws)

    def _gains_on_clusters(self, echoes: Echoes, draws: SeatDraws) -> torch.Tensor:
        """Draw g where every cluster of subcarriers has a channel and an estimate of its own."""
        frame, device = draws.frame, draws.workers.device
        error = draws.complex_normals("estimation-error", frame.pilot_count)[:, :, list(frame.pilots)]
        fading = draw_responses(echoes, draws).abs()[:, :, torch.tensor(frame.clusters, device=device)]
        nmse = torch.full_like(draws.path_gain, self.nmse)
        if self.follows_worker:
            nmse = 1.0 / (1.0 + self.snr_without_path * draws.path_gain.square())
        return error * (nmse.sqrt()[:, :, None] / fading) + 1.0

    def law(self, frame: Frame | None = None) -> GaussianError | None:
        if not (fades(self.scenario) and weakest_fading(self.scenario)):
            return None
        return GaussianError(1.0, self.nmse, over_fading=True, drawn="block")

    def largest_power_gain(self, failure: float) -> float:
        """Return (1 + x)^2, x the quantile of abs(e / h_hat), of the farthest worker; 1 without fading."""
        if not fades(self.scenario):
            return 1.0
        return (1.0 + largest_ratio(self.scenario, self.nmse, failure)) ** 2


@dataclass(frozen=True)
class ReciprocityError(Impairment):
    """g = 1 + r, r ~ CN(0, NMSE), new in every slot: the uplink is 1 + r times the downlink that was estimated.

    The air is the same both ways; the chains of amplifiers and filters before the antennas are not, and calibration
    leaves a multiplicative error (Guillaud, Slock and Knopp 2005, ISSPA). It is relative to the channel itself,
    so fading makes it no worse. Calibration is repeated from slot to slot, so it says nothing of who sends.
    """

    about = "difference between uplink and downlink that calibration leaves"
    nmse: float

    @classmethod
    def of(cls, scenario: Scenario) -> Self | None:
        nmse = db_to_ratio(scenario.air.reciprocity_nmse_db)
        return cls(nmse) if nmse else None

    def gains(self, draws: SeatDraws) -> torch.Tensor:
        return draws.complex_normals("reciprocity-error").mul_(math.sqrt(self.nmse)).add_(1.0)

    def law(self, frame: Frame | None = None) -> GaussianError:
        return GaussianError(1.0, self.nmse, drawn="slot")

    def largest_power_gain(self, failure: float) -> float:
        """Return (1 + x)^2, x the quantile of abs(r): P(abs(r)^2 > y) = exp(-y / NMSE)."""
        return (1.0 + math.sqrt(self.nmse * math.log(1.0 / failure))) ** 2
