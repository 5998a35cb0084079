"""What the server receives on an air with impairments.

All workers send a known symbol first in each block. It arrives as the mean gain sum_i q_i g_i with noise on it, and the
server divides the block by that, and by what drifting phases are expected to take of it from there on. It knows no
gain. It measures noise where no signal should be: workers send real numbers in phase, so whatever arrives a quarter
turn off is noise, or a signal whose phase is wrong. Noise and masks of the workers are in phase: those it measures on
noise probes, symbols without data.
"""

import math
from collections.abc import Sequence
from typing import Final

import torch

from airmixml.arrays import in_order, using_threads
from airmixml.impairments.frame import expected_drift, frame_of
from airmixml.impairments.gains import SeatDraws, both
from airmixml.impairments.hardware import (
    HEADROOM,
    causal_levels,
    first_level,
    leaked,
    round_to_levels,
    rounding_variance,
)
from airmixml.impairments.timing import draw_offsets, pulse_of, smears
from airmixml.radio.air import Arrival, Reception, signal_power
from airmixml.radio.draws import AirSetting, SlotTensors
from airmixml.radio.masking import check_recoverable
from airmixml.radio.mixing import PowerControl
from airmixml.radio.transmitters import ResidualNoise, TransmitterErrors, kept_of_pilots
from airmixml.randomness.slot_words import normal_pairs, slot_words
from airmixml.scenario import Air
from airmixml.workers.signal import Payload, Places

_DOUBT: Final = 4.0  # noise alone passes for a gain with probability exp(-4)
_CLEARLY_LESS: Final = 0.25  # |g|^2 below which a pilot may be that of nobody
_NOTHING: Final = complex(1e30)
# Sequences of the stream "air" that no impairment draws from.
_PILOT, _QUADRATURE, _RESIDUAL, _PROBES, _NOISE_ON_PROBES = 1, 2, 3, 4, 5


class ImpairedArrival(Arrival):
    """Some slots of an air that is not ideal: who sends what in them, and what of it reaches the server."""

    def __init__(
        self, setting: AirSetting, payload: Payload, index: torch.Tensor, drawn: SlotTensors, slots: range
    ) -> None:
        assert drawn.gains is not None
        self.setting, self.payload, self.index, self.drawn, self.slots = setting, payload, index, drawn, slots
        self.air, self.gains = setting.scenario.air, drawn.gains
        self.frame = frame = frame_of(self.air, setting.signal.symbols)
        self.source = slot_words(setting.streams, "air", index.device)  # that all of it is drawn from
        # What transmitters do that is not computed symbol by symbol.
        self.errors = errors = TransmitterErrors(setting, payload, drawn.power_watts)
        masking = setting.masking  # what the noise and masks of workers leave, where they bring some
        self.residual = None if masking is None else ResidualNoise(setting.scenario, masking)
        self._places = Places(frame.lengths, index.shape[1])
        # Signals of workers add up before the server divides: real and imaginary part, slots x symbols each.
        self._sums: dict[str, torch.Tensor] = {}
        self._carriers: torch.Tensor | None = None  # slots x pieces
        divisor, mean = None, torch.zeros((), dtype=torch.complex128, device=index.device)
        threads = torch.get_num_threads() if index.device.type == "cpu" else 1
        if self.residual is not None:
            check_recoverable(setting.scenario, self.residual.masking, drawn.ratios > 0.0, slots)
            pilots = zip(self.gains.parts, in_order(self.gains.of_pilots, self.gains.parts, threads), strict=True)
            divisor = self._divisor(sum((self._of_pilots(*each) for each in pilots), start=mean))
        for parts in self.gains.batches:
            together = slice(parts[0].start, parts[-1].stop)
            arriving = in_order(self.gains.planes, parts, threads)
            with using_threads(1 if len(parts) > 1 else threads):
                gains = None
                for seats, drawn_gains in zip(parts, arriving, strict=True):
                    turns = drawn_gains.expand(-1, -1, -1, frame.pieces + frame.pilot_count)[..., frame.pieces :]
                    mean = mean + self._of_pilots(seats, torch.complex(turns[0], turns[1]))
                    if gains is None:  # of both parts, with seats side by side in memory
                        shape = (2, len(slots), min(drawn_gains.shape[3], frame.pieces), together.stop - together.start)
                        gains = torch.empty(shape, dtype=drawn_gains.dtype, device=index.device).mT
                    here = slice(seats.start - together.start, seats.stop - together.start)
                    self._turn(seats, drawn_gains[..., : frame.pieces], divisor, gains[:, :, here])
            assert gains is not None
            for sent, turn in errors.senders(drawn.power_watts[:, together]):
                weights = gains if turn == 1 else torch.stack([-gains[1], gains[0]])
                self._add(sent, index[:, together], weights, self.gains.draws.some(together))
        # Mean gain that the server divides by, complex; slots x pieces, or x 1.
        self.divisor = self._divisor(mean) if divisor is None else divisor
        # What arrives in phase, and a quarter turn off, without noise; slots x symbols each.
        self.clean, self.across = self._over(self.divisor)

    def _turn(self, seats: slice, parts: torch.Tensor, divisor: torch.Tensor | None, out: torch.Tensor) -> None:
        """Take some seats into account, given both parts of their gains; put those with shares in ``out``."""
        ratios, watts = self.drawn.ratios[:, seats], self.drawn.power_watts[:, seats]
        if divisor is not None:  # how the noise and masks of these workers arrive, over the mean gain
            gains = self.errors.with_amplifiers(torch.complex(parts[0], parts[1]), ratios, watts)
            self._add_residual(seats, gains * (1.0 / divisor)[:, None, :])
            parts = both(gains)
        mean_square = ratios.square() * self._mean_square(seats)
        leaks = leaked(self.air, self.gains.draws.some(seats), parts, mean_square)
        if leaks is not None:
            self._carriers = leaks if self._carriers is None else self._carriers + leaks
        shares = self.errors.add(parts, ratios, self.index[:, seats], watts)
        if shares.is_complex():
            gains = torch.complex(parts[0], parts[1])
            parts, shares = both(gains * shares[:, :, None].to(gains.dtype)), torch.ones_like(shares.real)
        torch.mul(parts, shares[:, :, None].to(parts.dtype), out=out)

    def _of_pilots(self, seats: slice, gains: torch.Tensor) -> torch.Tensor:
        """Return how the pilots of some seats arrive, given their gains; slots x pilots, complex."""
        shares = self.drawn.ratios[:, seats] * kept_of_pilots(
            self.setting, self.frame, self.drawn.power_watts[:, seats]
        )
        if smears(self.air):
            shares = shares * pulse_of(self.air).pilot_gain(draw_offsets(self.gains.draws.some(seats)))
        return (shares[:, None, :].to(gains.dtype) @ gains)[:, 0].to(torch.complex128)

    def _divisor(self, mean: torch.Tensor) -> torch.Tensor:
        """Return what the server divides each piece by, given sum_i q_i g_i at each pilot; slots x pieces, or x 1."""
        setting, frame, device = self.setting, self.frame, self.index.device
        if not setting.pilot_energy:
            # How many tossed heads must not be divided out, and shows in a pilot as a gain does.
            return torch.ones((len(self.slots), 1), dtype=torch.complex128, device=device)
        error = _deviation(setting, self.drawn) / math.sqrt(setting.pilot_energy / frame.pilot_count)
        noise = self._normals(2 * frame.pilot_count, _PILOT).reshape(len(self.slots), 2, -1)
        seen = mean + error[:, None] * torch.complex(noise[:, 0], noise[:, 1])
        at_pilots = _trusted_gain(seen, 2.0 * error.square()[:, None])
        drift = torch.from_numpy(expected_drift(setting.scenario, frame)).to(device)
        return at_pilots[:, torch.tensor(frame.pilots, device=device)] * drift

    def _add_residual(self, seats: slice, gains: torch.Tensor) -> None:
        """Tell the residual noise how the noise and masks of some seats arrive: slots x seats x pieces."""
        assert self.residual is not None
        assert self.drawn.planned_ratios is not None
        planned = self.drawn.planned_ratios[:, seats]
        kept = (self.drawn.ratios[:, seats] / planned).nan_to_num(nan=0.0)  # in a fade nobody sends, as planned
        offsets = draw_offsets(self.gains.draws.some(seats)) if smears(self.air) else None
        self.residual.add(kept[:, :, None] * gains, planned, kept > 0.0, offsets)

    def _mean_square(self, seats: slice) -> torch.Tensor | float:
        """Return the largest mean square of a worker's symbols, own noise and masks included; slots x seats, or all."""
        of_data, drawn = self.payload.largest_norm**2 / self.setting.signal.symbols, self.drawn
        if self.residual is None:
            return of_data
        received_watts = drawn.power_watts[:, seats] * drawn.magnitude[:, seats].square()
        share = drawn.ratios[:, seats].square() * drawn.power_scale_watts[:, None]
        return of_data * (received_watts / share).nan_to_num(nan=0.0, posinf=0.0)

    def _add(self, sent: Payload, samples: torch.Tensor, gains: torch.Tensor, draws: SeatDraws) -> None:
        """Add what workers with these samples send with gains of 2 x slots x workers x pieces, both parts."""
        for part, weights in zip(("real", "imag"), gains, strict=True):
            if (part == "imag" or self._sums) and not (weights[:, :, 0].any() or weights.any()):
                continue  # nothing arrives a quarter turn off where phases are right
            if smears(self.air):
                factors = pulse_of(self.air).factors(draw_offsets(draws))
                some = sent.weighted_sums(samples, weights, factors, self._places)
            else:
                some = sent.weighted_sum(samples, weights, self._places)
            self._sums[part] = self._sums[part] + some if part in self._sums else some

    def _over(self, divisor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the real and imaginary part of what arrives over the mean gain of its piece; slots x symbols each."""
        parts = self._sums
        if smears(self.air):
            parts = {part: pulse_of(self.air).smear(each, self.frame) for part, each in parts.items()}
        along, across = parts["real"], parts.get("imag")
        by = self._on_symbols(1.0 / divisor)
        real, imag = by.real.to(along.dtype), by.imag.to(along.dtype)
        if self._carriers is not None:
            carriers = self._on_symbols(self._carriers)
            along = along + carriers.real.to(along.dtype)
            across = carriers.imag.to(along.dtype) if across is None else across + carriers.imag.to(along.dtype)
        if across is None:
            return along * real, along * imag
        return along * real - across * imag, along * imag + across * real

    def _on_symbols(self, of_pieces: torch.Tensor) -> torch.Tensor:
        """Return what each symbol has of the pieces, slots x pieces or x 1; slots x symbols."""
        lengths = torch.tensor(self.frame.lengths, device=of_pieces.device)
        return of_pieces.expand(-1, self.frame.pieces).repeat_interleave(lengths, dim=1)

    def _normals(self, per_slot: int, sequence: int) -> torch.Tensor:
        """Return independent standard normal values; slots x per_slot, float64."""
        words = self.source.words(self.slots, -(-per_slot // 2), sequence)
        return torch.cat(normal_pairs(words), dim=1)[:, :per_slot]

    def _left(self, drawn: PowerControl, sequence: int) -> torch.Tensor | float:
        """Return what is left of workers' noise and masks on every symbol; slots x symbols, or 0 without."""
        if self.residual is None:
            return 0.0
        symbols, terms = sum(self.frame.lengths), self.residual.terms
        normals = self._normals(terms * symbols, sequence).reshape(len(self.slots), terms, symbols)
        return self.residual.receive(normals, drawn.power_scale_watts, self.frame)

    def receive(
        self, setting: AirSetting, drawn: PowerControl, normals: torch.Tensor, place: torch.Tensor | None
    ) -> Reception:
        """Return mixtures through the server's converters and equaliser, and the noise that it measures."""
        air, frame, clean, symbols = self.air, self.frame, self.clean, setting.signal.symbols
        scales: Sequence[torch.Tensor] = self.errors.with_noise(_deviation(setting, drawn)[:, None], self.divisor)
        if frame.pieces > 1:
            scales = [self._on_symbols(each) for each in scales]
        received = torch.addcmul(clean, normals.to(clean.dtype), scales[0].to(clean.dtype), out=place)
        left = self._left(drawn, _RESIDUAL)
        if isinstance(left, torch.Tensor):
            received = received + left.to(received.dtype)
        across = self.across + scales[1] * self._normals(symbols, _QUADRATURE)
        levels = None
        if air.adc_bits and air.adc_gain == "causal":
            start = first_level(self.payload.largest_norm, symbols, scales[0][:, 0])
            levels = causal_levels(received, frame, start, air.adc_range or HEADROOM)
        received, across, least = convert_received(air, received, across, levels)
        if smears(air):
            clean, received, across = (pulse_of(air).equalise(each, frame) for each in (clean, received, across))
            least = pulse_of(air).noise_gain * least
        variance, snr = across[:, : setting.signal.input_symbols].square().mean(dim=1).clamp(min=least), None
        if self.residual is not None:
            # Noise probes are drawn as a slot of the same gains without data, of which only so many symbols are sent.
            heard = scales[0] * self._normals(symbols, _NOISE_ON_PROBES) + self._left(drawn, _PROBES)
            if smears(air):
                heard = pulse_of(air).equalise(heard, frame)
            probes = setting.noise.probes(setting.scenario, symbols)
            variance = heard[:, :: -(-symbols // probes)].square().mean(dim=1)
            snr = signal_power(clean, setting.signal.input_symbols) / variance
        return Reception(clean=clean, received=received, noise_variance=variance, snr=snr, divisor=self.divisor)


def _deviation(setting: AirSetting, drawn: PowerControl) -> torch.Tensor:
    """Return the deviation of the receiver's noise on the real part, over sqrt(beta); slots."""
    noise_watts = setting.noise.drawn_watts(setting.scenario)
    return torch.sqrt(noise_watts / 2.0 / drawn.power_scale_watts)


def _trusted_gain(seen: torch.Tensor, squared_error: torch.Tensor) -> torch.Tensor:
    """Return the mean gain that the server assumes, given that of pilots and their noise e^2; same shape.

    It trusts a pilot as far as that differs from the planned gain of 1 by more than its noise: 1 + (g - 1) max(0, 1 - 4
    e^2 / |g - 1|^2). A block whose pilot shows that nobody sends is divided by 1e30: it counts for nothing, and neither
    does its noise.
    """
    off = seen - 1.0
    trusted = (1.0 - _DOUBT * squared_error / off.abs().square().clamp(min=1e-300)).clamp(min=0.0)
    estimate = 1.0 + trusted * off
    # Where all are in a fade, absent or late the pilot is noise, and to divide by it would make noise of any size.
    empty = estimate.abs().square() < (_DOUBT * squared_error).clamp(max=_CLEARLY_LESS)
    return torch.where(empty, _NOTHING, estimate)


def convert_received(
    air: Air, along: torch.Tensor, across: torch.Tensor, levels: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | float]:
    """Return what the server's converters make of real and imaginary parts, and the least noise they can show; slots.

    Both parts are slots x symbols. The gain is set once per slot so that ``air.adc_range`` times the root mean square
    of what arrives is the outermost level, or its largest symbol, if that is 0; or ``levels`` are the outermost of
    every symbol. Both parts go through equal converters, so that the noise measured on the second holds that of
    rounding; where all of it is rounded to zero, step^2 / 12 is left. Noise is on all of it already: rounding it is
    post-processing, and costs no privacy.
    """
    if not air.adc_bits:
        return along, across, 0.0
    if levels is not None:
        along, across = (round_to_levels(each, levels, air.adc_bits) for each in (along, across))
        return along, across, rounding_variance(levels, air.adc_bits).mean(dim=1)
    if air.adc_range:
        square = along.double().square().mean(dim=1) + across.double().square().mean(dim=1)
        largest = air.adc_range * square.sqrt()
    else:
        largest = torch.maximum(along.abs().amax(dim=1).double(), across.abs().amax(dim=1).double())
    along, across = (round_to_levels(each, largest[:, None], air.adc_bits) for each in (along, across))
    return along, across, rounding_variance(largest, air.adc_bits)
