"""What a sum has of transmitters that are not linear, and of the noise and masks of workers whose gains differ.

Transmitters. A worker scales its vector v so that its largest symbol is the outermost level of its converter, and lets
the amplifier undo that: the step is max |v_k| / (2^(b-1) - 1). A vector that rounding has lengthened is sent more
softly, so that the declared norm holds. To round the products of many workers one must form every one of them. Where
levels lie close, the errors of a worker are uniform and independent of its symbols (Widrow and Kollar 2008), and the
sum over workers of q_i g_i e_i is Gaussian of variance sum_i q_i^2 |g_i|^2 step_i^2 / 12. That is used where the root
mean square of a worker's symbols is at least 16 steps, and all symbols of a run are more than 2^26; else every symbol
is rounded. Samples, and the symbols of protected data, are always rounded. With OFDM converter and amplifier see the
sum of many subcarriers, which is Gaussian: both become a gain and an error that spreads over all symbols (Bussgang).

Residual noise, drawn from its exact law given the gains. Worker i arrives with x_i of what it should: on the ideal air
1, so that masks cancel and its noise stays. In general

    variance = s^2 sum_i x_i^2 + e^2 sum_(i, j) (x_i - x_j)^2 + b^2 sum_i (x_i - 1)^2,

over workers, masks, and self masks, which the server subtracts. No mask is ever formed. An absent worker has x_i = 0;
where its masks are recovered the server subtracts them as well, and x_i = 1. The server divides by the mean gain that
pilots tell, sum_i q_i g_i. It knows who is absent, so it expects 1 / sum_i q_i of a worker, over those who are there,
and subtracts that much: it stands for 1 in the last sum and for the recovered. Workers that are off time smear what
they send: then x_i is a vector with a number for every term of the expansion in ``impairments.timing``, the variance a
matrix, and every term is filtered like the signal. Sums over the masks of very large slots are replaced by their mean
over graphs, k / (N - 1) times the sum over all pairs; a drawn graph differs from that by about one part in
sqrt(N k / 2).
"""

import math
from functools import cached_property, partial
from typing import Final, NamedTuple

import numpy as np
import torch

from airmixml.arrays import Integers
from airmixml.impairments.frame import Frame
from airmixml.impairments.hardware import (
    amplified_gaussian,
    amplify,
    clipped_gaussian,
    gaussian_peak,
    gaussian_rounding,
    is_linear,
    limit_amplitude,
    round_to_levels,
    rounding_variance,
)
from airmixml.impairments.timing import filter_blocks, pulse_of, smears
from airmixml.radio.draws import AirSetting
from airmixml.radio.masking import Masking
from airmixml.scenario import Air, Scenario
from airmixml.workers.payloads import Wrapper, shorten, steps_to_end
from airmixml.workers.signal import Payload, Vectors

_FEW_NUMBERS: Final = 1 << 26
_STEPS_PER_DEVIATION: Final = 16.0
_MOST_OF_THE_POOL: Final = 0.99


class _Converted(Wrapper):
    """Vectors rounded to levels that end at the largest symbol of each, and no longer than declared."""

    def __init__(self, inner: Payload, bits: int) -> None:
        super().__init__(inner)
        self._bits = bits

    def vectors(self, index: Integers) -> Vectors:
        exact = torch.from_numpy(self.inner.vectors(index))
        rounded = round_to_levels(exact, exact.abs().amax(dim=1, keepdim=True), self._bits)
        return shorten(rounded.numpy(), self.largest_norm)

    @property
    def is_fine(self) -> bool:
        """Whether levels lie so close that errors are noise, of nearly every sample of the pool."""
        deviations = (self.squared_lengths / self.signal.symbols).sqrt()
        steps = self.largest_symbols / steps_to_end(self._bits)
        return bool((_STEPS_PER_DEVIATION * steps <= deviations).double().mean() > _MOST_OF_THE_POOL)


class PeakLimited(Wrapper):
    """Vectors whose symbols are clipped to amplitudes that differ from slot to slot; slots x workers."""

    def __init__(self, inner: Payload, limits: torch.Tensor) -> None:
        super().__init__(inner)
        self._limits = limits

    def sent(self, index: torch.Tensor, slots: slice, some: slice) -> torch.Tensor:
        limit = self._limits[slots, some, None]
        return torch.minimum(torch.maximum(super().sent(index, slots, some), -limit), limit)


class _Amplified(Wrapper):
    """One part, real or imaginary, of vectors that leave amplifiers which saturate at amplitudes of slots x workers."""

    def __init__(self, inner: Payload, air: Air, saturation: torch.Tensor, part: int) -> None:
        super().__init__(inner)
        self._air, self._saturation, self._part = air, saturation, part

    def sent(self, index: torch.Tensor, slots: slice, some: slice) -> torch.Tensor:
        vectors = super().sent(index, slots, some)
        return amplify(self._air, vectors, self._saturation[slots, some, None])[self._part].to(vectors.dtype)


def through_converters(scenario: Scenario, payload: Payload) -> Payload:
    """Return the payload as it leaves the workers' converters: rounded, or with errors that are left to the noise."""
    air, signal = scenario.air, payload.signal
    if air.waveform != "single-carrier":
        return payload
    converted = _Converted(payload, air.dac_bits)
    many = scenario.radio.slots * scenario.radio.scheduled * signal.symbols > _FEW_NUMBERS
    if signal.kind.tabled or not many or signal.bits or payload.protects or not converted.is_fine:
        return converted
    payload.models_rounding = True
    return payload


class Distortion(NamedTuple):
    """What transmitters do to their vectors v, besides what is computed symbol by symbol: a v + e."""

    factor: torch.Tensor  # a; slots x workers
    variance: torch.Tensor  # that of e on the real part of every symbol; slots x workers
    circular: bool  # whether e has an imaginary part of the same variance


def distort(
    scenario: Scenario, payload: Payload, samples: torch.Tensor, power_watts: torch.Tensor
) -> Distortion | None:
    """Return gain and error of transmitters that are not computed symbol by symbol, None without; slots x workers."""
    air, symbols = scenario.air, payload.signal.symbols
    if air.waveform == "ofdm":
        mean_squares = payload.squared_lengths[samples] / symbols
        return _distort_waveform(scenario, mean_squares, symbols, power_watts, payload.largest_norm)
    if not payload.models_rounding:
        return None
    variance = rounding_variance(payload.largest_symbols[samples], air.dac_bits)
    # Who is longer after rounding sends more softly.
    longer = (payload.squared_lengths[samples] + symbols * variance).clamp(min=math.ulp(0.0)).sqrt()
    factor = (payload.largest_norm / longer).clamp(max=1.0)
    return Distortion(factor, factor.square() * variance, circular=False)


def _distort_waveform(
    scenario: Scenario, mean_squares: torch.Tensor, symbols: int, power_watts: torch.Tensor, largest_norm: float
) -> Distortion | None:
    air, limits = scenario.air, limit_amplitude(scenario.air.peak_power_dbm, power_watts)
    saturation = limit_amplitude(scenario.air.amplifier_saturation_dbm, power_watts)
    if not air.dac_bits and limits is None and saturation is None:
        return None
    factor, error = torch.ones_like(mean_squares), torch.zeros_like(mean_squares)
    if air.dac_bits:
        # Real and imaginary part each have half the power, and levels that reach the expected largest amplitude.
        model = gaussian_rounding(air.dac_bits, math.sqrt(2.0 * gaussian_peak(symbols)))
        # Levels that lie far apart lengthen a vector, and who is longer after rounding sends more softly.
        longer = (symbols * mean_squares * (model.gain**2 + model.error_variance)).clamp(min=math.ulp(0.0)).sqrt()
        softer = (largest_norm / longer).clamp(max=1.0)
        factor, error = factor * model.gain * softer, error + model.error_variance * softer.square()
    # What was rounded, or clipped, is taken for Gaussian again.
    for limit, bussgang in ((limits, clipped_gaussian), (saturation, partial(amplified_gaussian, air))):
        if limit is not None:
            power = factor.square() + error
            gain, more = bussgang(limit.square() / (mean_squares * power).clamp(min=1e-300))
            factor, error = factor * gain, error * gain.abs().square() + power * more
    return Distortion(factor, error * mean_squares / 2.0, circular=True)


class TransmitterErrors:
    """Adds up, workers by workers, the variance in a slot's sum of errors that are not computed symbol by symbol."""

    def __init__(self, setting: AirSetting, payload: Payload, power_watts: torch.Tensor) -> None:
        self._setting, self._payload, self._strongest = setting, payload, power_watts.max()
        air, brought = setting.scenario.air, setting.noise.brought
        distorts = (
            bool(air.dac_bits) or math.isfinite(air.peak_power_dbm) or math.isfinite(air.amplifier_saturation_dbm)
        )
        self._exact = not distorts or brought
        # Of all errors before the server divides: on the real part, on the imaginary, and both; 3 x slots x pieces.
        self._covariance: torch.Tensor | None = None

    def senders(self, power_watts: torch.Tensor) -> list[tuple[Payload, complex]]:
        """Return what workers with these powers, slots x workers, send: real numbers, times 1 or a quarter turn."""
        scenario, payload = self._setting.scenario, self._payload
        if self._exact or scenario.air.waveform != "single-carrier":
            return [(payload, 1)]
        limits = limit_amplitude(scenario.air.peak_power_dbm, power_watts)
        sent = payload if limits is None else PeakLimited(payload, limits)
        saturation = self._saturation(power_watts)
        if saturation is None:
            return [(sent, 1)]
        turns: list[complex] = [1, 1j] if scenario.air.amplifier_turn_degrees else [1]
        return [(_Amplified(sent, scenario.air, saturation, part), turn) for part, turn in enumerate(turns)]

    def add(
        self, gains: torch.Tensor, ratios: torch.Tensor, samples: torch.Tensor, power_watts: torch.Tensor
    ) -> torch.Tensor:
        """Take gains into account: real and imaginary part, 2 x slots x workers x pieces; all else slots x workers.

        Return what a gain is multiplied with: the share, and what transmitters change; slots x workers.
        """
        distortion = None if self._exact else distort(self._setting.scenario, self._payload, samples, power_watts)
        if distortion is None:
            return ratios
        real, imag = gains
        weights = (ratios.square() * distortion.variance)[:, None, :].to(real.dtype)
        along, across, both = ((weights @ each)[:, 0].double() for each in (real * real, imag * imag, real * imag))
        if distortion.circular:
            along, across, both = along + across, along + across, torch.zeros_like(both)
        self._keep(torch.stack([along, across, both]))
        return ratios * distortion.factor

    def with_amplifiers(self, gains: torch.Tensor, ratios: torch.Tensor, power_watts: torch.Tensor) -> torch.Tensor:
        """Return gains, slots x workers x pieces, with what amplifiers do to workers' noise and masks (Bussgang)."""
        setting = self._setting
        saturation = limit_amplitude(setting.scenario.air.amplifier_saturation_dbm, power_watts)
        if saturation is None:
            return gains
        factor, error = amplified_gaussian(setting.scenario.air, saturation.square() / setting.radiated_share)
        squares = (ratios[:, :, None] * gains).abs().square()
        more = (squares * (error * setting.radiated_share / 2.0)[:, :, None]).sum(dim=1).double()
        self._keep(torch.stack([more, more, torch.zeros_like(more)]))
        return gains * factor[:, :, None].to(gains.dtype)

    def _keep(self, covariance: torch.Tensor) -> None:
        self._covariance = covariance if self._covariance is None else self._covariance + covariance

    def _saturation(self, power_watts: torch.Tensor) -> torch.Tensor | None:
        """Return the amplitudes at which amplifiers of a single carrier saturate; None where no symbol can come near.

        By the declared norm and the strongest worker of the slots: what a row holds must not decide for all.
        """
        scenario = self._setting.scenario
        first = limit_amplitude(scenario.air.amplifier_saturation_dbm, self._strongest)
        if first is None or is_linear(scenario.air, float((self._payload.largest_norm / first).square())):
            return None
        return limit_amplitude(scenario.air.amplifier_saturation_dbm, power_watts)

    def with_noise(self, deviation: torch.Tensor, divisor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the deviation of noise and errors together on real and imaginary part; slots x pieces (or x 1) each.

        Noise has the deviation slots x 1. Both are Gaussian and independent, so that one draw serves.
        """
        noise = deviation / divisor.abs()
        if self._covariance is None:
            return noise, noise
        by, (along, across, both) = 1.0 / divisor, self._covariance
        squares, crossed = (by.real.square(), by.imag.square()), 2.0 * by.real * by.imag * both
        real = noise.square() + squares[0] * along + squares[1] * across - crossed
        imag = noise.square() + squares[1] * along + squares[0] * across + crossed
        return real.clamp(min=0.0).sqrt(), imag.clamp(min=0.0).sqrt()


def kept_of_pilots(setting: AirSetting, frame: Frame, power_watts: torch.Tensor) -> torch.Tensor | float:
    """Return what is left of the amplitude of pilots, clipped and compressed, complex where turned; slots x workers."""
    scenario, air = setting.scenario, setting.scenario.air
    limits = limit_amplitude(scenario.air.peak_power_dbm, power_watts)
    saturation = limit_amplitude(scenario.air.amplifier_saturation_dbm, power_watts)
    if (limits is None and saturation is None) or not setting.pilot_energy:
        return 1.0
    amplitude = math.sqrt(setting.pilot_energy / (frame.pilot_count * air.pilot_symbols))
    kept = torch.ones_like(power_watts, dtype=torch.float64)
    if limits is not None:
        kept = (limits / amplitude).clamp(max=1.0)
    if saturation is None:
        return kept
    return torch.complex(*amplify(air, kept * amplitude, saturation)) / amplitude


_MOST_DIFFERENCES: Final = 1 << 28


class ResidualNoise:
    """Adds up, workers by workers, what decides the law of what is left."""

    def __init__(self, scenario: Scenario, masking: Masking) -> None:
        self.masking, self.air, self._seats = masking, scenario.air, scenario.radio.scheduled
        self._recovers = masking.self_watts > 0.0
        self._filters = pulse_of(self.air).filters if smears(self.air) else np.ones((1, 1))
        self._kept: torch.Tensor | None = None  # x of every seat, where a sum over the drawn masks is taken
        self._sums: dict[str, torch.Tensor] = {}

    @property
    def terms(self) -> int:
        """Numbers that say how a worker arrives: 1 unless workers are off time."""
        return len(self._filters)

    def add(
        self, arriving: torch.Tensor, shares: torch.Tensor, sending: torch.Tensor, offsets: torch.Tensor | None
    ) -> None:
        """Take seats into account: gains over the mean gain (slots x seats x pieces); all others are slots x seats."""
        gains = arriving.real * sending[:, :, None]
        terms = torch.ones((*gains.shape[:2], 1), dtype=gains.dtype, device=gains.device)
        if offsets is not None:
            terms = pulse_of(self.air).factors(offsets)
        products = (terms[..., :, None] * terms[..., None, :]).flatten(2)
        by_piece = gains.transpose(1, 2)
        self._add("squares", (by_piece.square() @ products).reshape(*by_piece.shape[:2], self.terms, self.terms))
        self._add("sum", by_piece @ terms)
        self._add("sending", sending.sum(dim=1))
        self._add("present", (shares * sending).sum(dim=1))
        graph, sums = self.masking.graph, gains.shape[0] * gains.shape[2] * self.terms**2
        every = gains.shape[1] == self._seats
        if graph is not None and every and sums * len(graph.edges) <= _MOST_DIFFERENCES:
            recovered = (~sending)[:, None, :, None] & self._recovers
            arrives = by_piece[..., None] * terms[:, None]
            self._kept = torch.where(recovered, self._expected_terms()[:, :, None], arrives)

    @cached_property
    def covariance(self) -> torch.Tensor:
        """Covariance of the terms on a symbol once all seats are added, in watts; slots x pieces x terms x terms."""
        masking, squares = self.masking, self._sums["squares"]
        total = masking.own_watts * squares
        graph, seats = masking.graph, self._seats
        if graph is not None:
            sending = self._sums["sending"][:, None, None, None]
            mean, arrived = self._expected_terms(), self._sums["sum"]
            expected = mean[..., :, None] * mean[..., None, :]
            crossed = arrived[..., :, None] * mean[..., None, :]
            from_expected = squares - crossed - crossed.transpose(2, 3) + sending * expected
            # The sum over masks of (x_i - x_j)(x_i - x_j)'.
            if self._kept is None or graph.complete:
                recovered = (seats - sending) * self._recovers
                every, whole = squares + recovered * expected, arrived + recovered[..., 0] * mean
                over_masks = graph.degree / (seats - 1) * (seats * every - whole[..., :, None] * whole[..., None, :])
            else:
                over_masks = torch.zeros_like(squares)
                for after in torch.from_numpy(graph.successors).to(squares.device):
                    apart = self._kept - self._kept[:, :, after]
                    over_masks += apart.transpose(2, 3) @ apart
            total = total + masking.pair_watts * over_masks + masking.self_watts * from_expected
        if self.air.dac_bits:
            total = total + masking.rounded_watts(self.air.dac_bits) * squares
        return total

    def receive(self, normals: torch.Tensor, power_scale_watts: torch.Tensor, frame: Frame) -> torch.Tensor:
        """Return what is left on every symbol, over sqrt(beta), slots x symbols; normals slots x terms x symbols."""
        covariance = self.covariance / power_scale_watts[:, None, None, None]
        lengths = torch.tensor(frame.lengths, device=normals.device)
        if self.terms == 1:
            deviation = covariance[:, :, 0, 0].clamp(min=0.0).sqrt().expand(-1, frame.pieces)
            return normals[:, 0] * deviation.repeat_interleave(lengths, dim=1)
        values, vectors = torch.linalg.eigh(covariance)
        roots = (vectors * values.clamp(min=0.0).sqrt()[..., None, :]).expand(-1, frame.pieces, -1, -1)
        total = torch.zeros_like(normals[:, 0])
        for term, taps in enumerate(torch.from_numpy(self._filters).to(normals.device)):
            correlated = torch.zeros_like(total)
            for part in range(self.terms):
                correlated += roots[:, :, term, part].repeat_interleave(lengths, dim=1) * normals[:, part]
            total += filter_blocks(correlated, taps, frame)
        return total

    def _expected_terms(self) -> torch.Tensor:
        """Return what a server takes a worker to arrive with; slots x 1 x terms.

        The mean pulse relative to its middle, times what dividing by the mean gain of those who are there makes of it.
        """
        means = torch.from_numpy(pulse_of(self.air).mean_factors if smears(self.air) else np.ones(1))
        middle = torch.from_numpy(self._filters[:, self._filters.shape[1] // 2])
        present = self._sums["present"]
        there = torch.where(present > 0.0, present, 1.0)
        return (means / (means @ middle)).to(there) / there[:, None, None]

    def _add(self, name: str, values: torch.Tensor) -> None:
        self._sums[name] = self._sums[name] + values if name in self._sums else values
