"""Gains that are off: phases, amplitudes, workers that join late, channels that move or are not what they seem.

A turned phase moves part of a signal to the imaginary part. It arrives with the power it was to have, so that changes
nothing of what the server can learn of a worker. Workers that move invert the channel of a block's start: scattered
paths from all directions change as a Gaussian process with the correlation J_0(2 pi f_D t), f_D = v f / c (Clarke 1968;
Jakes 1974, Ch. 1).
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final, Self

import numpy as np
import torch
from scipy.special import j0

from airmixml.arrays import Doubles, db_to_ratio, dbm_to_watts
from airmixml.impairments.fading import deepest_shadow, fades, largest_ratio, weakest_fading
from airmixml.impairments.frame import Frame
from airmixml.impairments.gain_laws import GaussianError, UniformError
from airmixml.impairments.gains import Impairment, SeatDraws, Term, mix
from airmixml.impairments.renewal import Echoes, by_fading, echoes_of, response_amplitudes
from airmixml.scenario import Scenario


@dataclass(frozen=True)
class PhaseError(Impairment):
    """phi ~ N(0, s^2) after each resynchronisation, then constant."""

    about = "phase error after a resynchronisation"
    key = "phase_error_radians"
    deviation_radians: float

    def angle(self, draws: SeatDraws) -> torch.Tensor:
        return self.deviation_radians * draws.normals("phase-error", draws.frame.block_count)


@dataclass(frozen=True)
class FrequencyOffset(Impairment):
    """phi = 2 pi f t, t from the last resynchronisation on, with f ~ N(0, s^2) for each worker."""

    about = "carrier frequency offset between resynchronisations"
    key = "frequency_offset_hz"
    deviation_hz: float

    def angle(self, draws: SeatDraws) -> torch.Tensor:
        return draws.drifting(2.0 * math.pi * self.deviation_hz * draws.normals("frequency-offset"))


@dataclass(frozen=True)
class PhaseNoise(Impairment):
    """A Wiener process from each resynchronisation on: phi has variance 2 pi w t for a linewidth w."""

    about = "phase noise of an oscillator"
    key = "phase_noise_hz"
    linewidth_hz: float

    def angle(self, draws: SeatDraws) -> torch.Tensor:
        frame = draws.frame
        walk = draws.normals("phase-noise", frame.block_count * frame.per_block)
        walk[:, :, : frame.pieces] *= draws.over_pieces(2.0 * math.pi * self.linewidth_hz * frame.steps).sqrt()
        in_blocks = torch.unflatten(walk, 2, (frame.block_count, frame.per_block))
        for piece in range(1, frame.per_block):
            in_blocks[..., piece] += in_blocks[..., piece - 1]
        return walk[:, :, : frame.pieces]


@dataclass(frozen=True)
class AmplitudeError(Impairment):
    """abs(g) uniform in dB, at most so many above or below; it stays with a worker, as data sheets state it."""

    about = "error of a transmitter's amplitude"
    largest_db: float
    stays: bool

    @classmethod
    def of(cls, scenario: Scenario) -> Self | None:
        air = scenario.air
        stays = "amplitude_error_db" in air.staying
        return cls(air.amplitude_error_db, stays) if air.amplitude_error_db else None

    def gains(self, draws: SeatDraws) -> torch.Tensor:
        off_db = self.largest_db * (2.0 * draws.uniforms("amplitude-error") - 1.0)
        return torch.exp(off_db * (math.log(10.0) / 20.0))

    def largest_power_gain(self, failure: float) -> float:
        return db_to_ratio(self.largest_db)

    def law(self, frame: Frame | None = None) -> UniformError:
        return UniformError(self.largest_db * math.log(10.0) / 20.0, self.stays)


@dataclass(frozen=True)
class LateWorkers(Impairment):
    """With that probability a worker comes at a time u uniform over the slot, and g = 0 until the next block begins.

    A block begins with what its phases are aligned to and with the pilot that tells the server its mean gain, so nobody
    can join in the middle: a late worker waits for the next, and misses a slot of one block. Block b, which begins at
    the share t_b of the slot, is missed with probability p (1 - t_b), half a block more than it is late.
    """

    about = "workers that join late"
    key = "late"
    probability: float

    def gains(self, draws: SeatDraws) -> torch.Tensor:
        chance, frame = draws.uniforms("late", 2), draws.frame
        late, came_at = chance[:, :, :1] < self.probability, chance[:, :, 1:]
        lengths = torch.tensor(frame.lengths, dtype=torch.float64, device=chance.device)
        begins = ((lengths.cumsum(dim=0) - lengths) / lengths.sum())[
            torch.from_numpy(np.flatnonzero(np.diff(frame.blocks, prepend=-1)))
        ]
        return (~late | (came_at <= begins)).double()


class _Additive(Impairment):
    """g = m + e: a mean, and a complex normal error that may be relative to a channel that fades."""

    scenario: Scenario

    def error(self, frame: Frame | None = None) -> GaussianError | None:
        """Return m and e, growing within the blocks of a frame where it does; None: g moves no power."""
        raise NotImplementedError

    def law(self, frame: Frame | None = None) -> GaussianError | None:
        error = self.error(frame)
        return error if error is None or not error.over_fading or weakest_fading(self.scenario) else None

    def largest_power_gain(self, failure: float) -> float:
        """Return (m + x)^2, x the quantile of abs(e): P(abs(e)^2 > y) = exp(-y / variance) behind a mean channel."""
        error = self.error()
        if error is None:
            return 1.0
        if error.over_fading:
            return (error.mean + largest_ratio(self.scenario, error.variance, failure)) ** 2
        return (error.mean + math.sqrt(error.variance * math.log(1.0 / failure))) ** 2


_FIRST_ZERO: Final = 2.404825557695773  # of J_0
_LOWEST: Final = 3.831705970207512  # where J_0 is least
_PARTS: Final = 3
_NEGLIGIBLE: Final = 1e-9  # variance of a direction in which the gains of a block hardly move


@dataclass(frozen=True, kw_only=True)
class Doppler(_Additive):
    """g(t) = h(t) / h(0), t from the start of a block, given abs(h(0)), the magnitude that was drawn for the slot.

    Scattered paths: h(t) = r(t) h(0) + w(t) with r(t) = J_0(2 pi f_D t) and w Gaussian with the covariance
    path_gain^2 (r(t - s) - r(t) r(s)), the law of the process given its value at 0. All pieces of a block have it
    jointly; blocks are independent of each other. A worker in a fade has a small h(0), and w weighs the more.

    Without fading there is one path, from a direction of its own: g(t) = exp(2 pi j f_D cos(a) t) with a uniform for
    each worker, which moves no power. Rician fading moves the scattered share
    1 / (K + 1) alone. The direct path, whose own shift is part of ``air.frequency_offset_hz``, stays, and fills up what
    r(t) takes away: (1 - r(t)) d / h(0), by its mean given abs(h(0)) = path_gain f, which is
    rho = a / f I_1(k) / I_0(k) with a^2 = K / (K + 1), k = 2 (K + 1) a f. What it varies around that is of the order of
    1 - r(t), below 0.005 in blocks of 0.05 coherence times.
    """

    about = "Doppler of moving workers after Jakes"
    follows_worker = False  # fading has the same law for everybody, and so has what it changes by
    scenario: Scenario
    doppler_hz: float
    direct: float  # K; 0: all is scattered

    @classmethod
    def of(cls, scenario: Scenario) -> Self | None:
        doppler_hz, radio = scenario.air.doppler_hz, scenario.radio
        if not doppler_hz:
            return None
        return cls(scenario=scenario, doppler_hz=doppler_hz, direct=radio.direct_path if fades(scenario) else 0.0)

    def gains(self, draws: SeatDraws) -> torch.Tensor:
        if not fades(self.scenario):
            return super().gains(draws)
        terms = self.terms(draws)
        assert terms is not None
        ones = torch.ones_like(draws.path_gain[:, :, None], dtype=torch.float32)
        return torch.complex(*mix(terms, draws.frame, ones, torch.zeros_like(ones)))

    def terms(self, draws: SeatDraws) -> list[Term] | None:
        """Return what is kept of h(0), directions in which w moves, and what fills up; None without fading."""
        if not fades(self.scenario):
            return None
        frame, path = draws.frame, draws.path_gain[:, :, None]
        last = (frame.block_count - 1) * frame.per_block  # all blocks but the last are laid out alike
        moves = [
            innovations(tuple(times), self.doppler_hz)
            for times in (frame.seconds[: frame.per_block], frame.seconds[last:])
        ]
        each = max(move.shape[1] for move in moves)
        weights = np.zeros((frame.pieces, each))
        weights[:last, : moves[0].shape[1]] = np.tile(moves[0], (frame.block_count - 1, 1))
        weights[last:, : moves[1].shape[1]] = moves[1]
        scattered = by_fading(self.scenario, draws, lambda magnitude: path / (magnitude * math.sqrt(1.0 + self.direct)))
        normals = draws.normals("doppler", 2 * each * frame.block_count).mul_(math.sqrt(0.5))
        along, across = (torch.unflatten(half, 2, (frame.block_count, each)) for half in normals.chunk(2, dim=2))
        kept = j0(2.0 * math.pi * self.doppler_hz * frame.times)
        terms = [Term(None, draws.over_pieces(kept))]
        for direction, of_pieces in enumerate(weights.T):
            number = (along[..., direction] * scattered.float(), across[..., direction] * scattered.float())
            terms.append(Term(number, draws.over_pieces(of_pieces)))
        if self.direct:
            filled_up = by_fading(self.scenario, draws, lambda magnitude: self._filled_up(magnitude / path)).float()
            terms.append(Term((filled_up, torch.zeros_like(filled_up)), draws.over_pieces(1.0 - kept)))
        return terms

    def _filled_up(self, fading: torch.Tensor) -> torch.Tensor:
        """Return rho of f."""
        amplitude = math.sqrt(self.direct / (1.0 + self.direct))
        turn = 2.0 * (1.0 + self.direct) * amplitude * fading
        filled_up: torch.Tensor = amplitude / fading * torch.special.i1e(turn) / torch.special.i0e(turn)
        return filled_up

    def angle(self, draws: SeatDraws) -> torch.Tensor | None:
        if fades(self.scenario):
            return None
        shift_hz = self.doppler_hz * torch.cos(2.0 * math.pi * draws.uniforms("doppler-direction").float())
        return draws.drifting(2.0 * math.pi * shift_hz)

    def error(self, frame: Frame | None = None) -> GaussianError | None:
        """Return a bound on the mean of g in a block, and the largest variance of what is added to it.

        w has at most the variance 1 - r^2 of the scattered share, which grows from piece to piece; these are counted in
        three parts of a block, each by its last. The mean lies between r and 1, or, where a direct path fills up a fade
        of power c, at most at 1 + (1 - r) (rho - 1) with rho <= min(K, a / sqrt(c)), since I_1(k) / I_0(k) <= min(1, k
        / 2).
        """
        if not fades(self.scenario):
            return None
        furthest = 2.0 * math.pi * self.doppler_hz * self.scenario.air.block_seconds
        variance = self._moved(self.scenario.air.block_seconds) / (1.0 + self.direct)
        floor, lost = weakest_fading(self.scenario), 1.0 - float(j0(min(furthest, _LOWEST)))
        filled_up = self.direct
        if floor > 0.0:
            filled_up = min(filled_up, math.sqrt(self.direct / (1.0 + self.direct) / floor))
        mean = 1.0 + lost * max(0.0, filled_up - 1.0)
        if frame is None:
            return GaussianError(mean, variance, over_fading=True, drawn="piece", stays=False)
        times = sorted({second for second, block in zip(frame.seconds, frame.blocks, strict=True) if block == 0})
        ends = [round(len(times) * part / _PARTS) for part in range(_PARTS + 1)]
        whole = self._moved(self.scenario.air.block_seconds)
        parts = ((end - start, self._moved(times[end - 1]) / whole) for start, end in pairwise(ends) if end > start)
        return GaussianError(mean, variance, over_fading=True, drawn="block", parts=tuple(parts), stays=False)

    def _moved(self, seconds: float) -> float:
        """Return 1 - r(t)^2, the variance of w, or the largest until then."""
        return 1.0 - float(j0(min(2.0 * math.pi * self.doppler_hz * seconds, _FIRST_ZERO))) ** 2


@lru_cache(maxsize=64)
def innovations(seconds: tuple[float, ...], doppler_hz: float) -> Doubles:
    """Return A with A A^T = r(t - s) - r(t) r(s), what is new at these times since 0; times x directions.

    A smooth process moves in a few directions only, two or three in a short block: the others, of a variance below
    1e-9, are left out.
    """
    turns = 2.0 * math.pi * doppler_hz * np.array(seconds)
    kept = j0(turns)
    values, vectors = np.linalg.eigh(j0(turns[:, None] - turns[None, :]) - np.outer(kept, kept))
    large = values > _NEGLIGIBLE
    return np.asarray(vectors[:, large] * np.sqrt(values[large]))


@dataclass(frozen=True, kw_only=True)
class EstimationError(_Additive):
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
        return error.mul_(self._deviation(draws).to(error.dtype)).add_(1.0)

    def angle(self, draws: SeatDraws) -> torch.Tensor | None:
        """Draw the phase of 1 + e, which is all that errs without fading; slots x scheduled x pieces."""
        if fades(self.scenario):
            return None
        error = draws.normals("estimation-error", 2 * draws.frame.block_count)
        along, across = error.mul_(math.sqrt(0.5) * self._deviation(draws)).chunk(2, dim=2)
        return torch.atan2(across, along.add_(1.0))

    def _deviation(self, draws: SeatDraws) -> torch.Tensor:
        """Return that of e / h_hat; slots x scheduled x blocks, or x 1."""
        path, nmse = draws.path_gain[:, :, None], torch.as_tensor(self.nmse)
        if self.follows_worker:
            nmse = 1.0 / (1.0 + self.snr_without_path * path.square())
        return by_fading(self.scenario, draws, lambda magnitude: nmse.sqrt() * path / magnitude)

    def _gains_on_clusters(self, echoes: Echoes, draws: SeatDraws) -> torch.Tensor:
        """Draw g where every cluster of subcarriers has a channel and an estimate of its own."""
        frame, device = draws.frame, draws.workers.device
        error = draws.complex_normals("estimation-error", frame.pilot_count)[:, :, list(frame.pilots)]
        fading = response_amplitudes(echoes, draws)[:, :, torch.tensor(frame.clusters, device=device)]
        nmse = torch.full_like(draws.path_gain, self.nmse)
        if self.follows_worker:
            nmse = 1.0 / (1.0 + self.snr_without_path * draws.path_gain.square())
        return error * (nmse.sqrt()[:, :, None] / fading) + 1.0

    def error(self, frame: Frame | None = None) -> GaussianError | None:
        """Return that of the farthest worker."""
        if not fades(self.scenario):
            return None
        return GaussianError(1.0, self.nmse, over_fading=True, drawn="block", stays=False)


@dataclass(frozen=True)
class ReciprocityError(_Additive):
    """g = 1 + r, r ~ CN(0, NMSE) for each worker: the uplink is 1 + r times the downlink that was estimated.

    The air is the same both ways; the chains of amplifiers and filters before the antennas are not, and calibration
    leaves a multiplicative error (Guillaud, Slock and Knopp 2005, ISSPA). It is relative to the channel itself,
    so fading makes it no worse. It stays until the device is calibrated again: for good, unless a profile says
    otherwise.
    """

    about = "difference between uplink and downlink that calibration leaves"
    scenario: Scenario
    nmse: float

    @classmethod
    def of(cls, scenario: Scenario) -> Self | None:
        nmse = db_to_ratio(scenario.air.reciprocity_nmse_db)
        return cls(scenario, nmse) if nmse else None

    def gains(self, draws: SeatDraws) -> torch.Tensor:
        return draws.complex_normals("reciprocity-error").mul_(math.sqrt(self.nmse)).add_(1.0)

    def error(self, frame: Frame | None = None) -> GaussianError:
        stays = "reciprocity_nmse_db" in self.scenario.air.staying
        return GaussianError(1.0, self.nmse, drawn="slot", stays=stays)
