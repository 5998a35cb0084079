"""What the server receives on an air that is not ideal, and what it does about it without knowing any gain.

In each block all workers send a known symbol first. It arrives as the mean gain sum_i q_i g_i with noise on it, and the
server divides the block by that, and by what drifting phases are expected to take of it from there on. What it must
reckon with as noise it measures where no signal should be: workers send real numbers in phase, so whatever arrives a
quarter turn off is noise, or a signal whose phase is wrong. Noise and masks of the workers are in phase: those it
measures on symbols without data.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Final

import torch

from airmixml.impairments.converters import round_to_levels, rounding_variance
from airmixml.impairments.expected_drift import expected_drift
from airmixml.impairments.frame import Frame, frame_of
from airmixml.impairments.gains import SeatGains
from airmixml.impairments.noise_floor import true_noise_watts
from airmixml.impairments.timing import draw_offsets, expansion_softness, pilot_gain, smears
from airmixml.radio.draws import AirSetting, SlotTensors
from airmixml.radio.equaliser import equalise, noise_gain
from airmixml.radio.leftover import Leftover
from airmixml.radio.off_time import in_runs, mix_off_time
from airmixml.radio.recoverable import check_recoverable
from airmixml.radio.silent_symbols import silent_symbols
from airmixml.radio.transmitters import TransmitterErrors, kept_of_pilots
from airmixml.randomness.distributions import normal_pairs
from airmixml.randomness.slot_words import SlotWords, slot_words
from airmixml.scenario import Air
from airmixml.streams import Streams
from airmixml.workers.payloads import Payload, Places

_DOUBT: Final = 4.0  # noise alone passes for a gain with probability exp(-4)
_CLEARLY_LESS: Final = 0.25  # |g|^2 below which a pilot may be that of nobody
_NOTHING: Final = complex(1e30)
_PILOT, _QUADRATURE, _MASKS, _SILENT, _SILENT_NOISE = (
    1,
    2,
    3,
    4,
    5,
)  # sequences of the stream "air" that no impairment draws from


@dataclass(frozen=True, kw_only=True)
class ImpairedReception:
    """Mixtures of consecutive slots as the server has them.

    Attributes:
        clean: without noise, which no receiver ever sees; slots x symbols.
        received: with it; slots x symbols.
        noise_variance: what the server measures of noise and distortion on a symbol; slots.
        snr: signal over noise energy of inputs and labels, 2 x slots, where it does not follow from the power scale.
        divisor: mean gain that the server divided by, complex; slots x pieces, or x 1. None: by none.
    """

    clean: torch.Tensor
    received: torch.Tensor
    noise_variance: torch.Tensor
    snr: torch.Tensor | None = None
    divisor: torch.Tensor | None = None


def receive_impaired(
    setting: AirSetting,
    payload: Payload,
    sample_index: torch.Tensor,
    drawn: SlotTensors,
    noise: torch.Tensor,
    slots: range,
) -> ImpairedReception:
    """Return what arrives of workers with these samples (slots x scheduled), with standard noise (slots x symbols)."""
    gains = drawn.gains
    assert gains is not None
    scenario, device = setting.scenario, noise.device
    frame = frame_of(scenario.air, setting.signal.symbols)
    source = slot_words(Streams(scenario.seed, setting.secret), "air", device)
    deviation = torch.sqrt(true_noise_watts(scenario) / 2.0 / drawn.power_scale_watts)
    divisor = _divisor(setting, frame, drawn, deviation, slots, source)
    probed = payload.probed_symbols().to(device)
    if smears(scenario.air) and not setting.signal.moments:
        probed = in_runs(probed)
    clean = across = torch.zeros(())
    errors, masking = TransmitterErrors(setting, payload), setting.masking
    leftover = None if masking is None else Leftover(scenario, masking)
    if masking is not None:
        check_recoverable(scenario, masking, drawn.ratios > 0.0, slots)
    for seats in gains.parts:
        turned = drawn.ratios[:, seats, None] * gains.of(seats) / divisor[:, None, :]
        if leftover is not None:
            _add_added(leftover, drawn, gains, seats, divisor)
        samples, in_slot = sample_index[:, seats], sample_index.shape[1]
        turned, sent = errors.add(turned, samples, drawn.power_watts[:, seats])
        mixed = partial(sent.weighted_sum, samples, in_slot=in_slot)
        if smears(scenario.air):
            on_time = partial(sent.weighted_sums, samples, in_slot=in_slot)
            offsets = draw_offsets(gains.draws.some(seats))
            mixed = partial(mix_off_time, on_time, offsets=offsets, air=scenario.air, frame=frame)
        some_clean = mixed(weights=turned.real, places=Places(frame.lengths))
        some_across = torch.zeros((len(slots), len(probed)), device=device)
        if bool(turned.imag.any()):  # nothing arrives a quarter turn off where phases are right
            some_across = mixed(weights=turned.imag, places=Places(frame.lengths, probed))
        clean, across = (some_clean, some_across) if seats.start == 0 else (clean + some_clean, across + some_across)
    noise_scales = [errors.with_noise(deviation[:, None] / divisor.abs(), part) for part in ("real", "imag")]
    if frame.pieces > 1:
        lengths = torch.tensor(frame.lengths, device=device)
        noise_scales = [each.expand(-1, frame.pieces).repeat_interleave(lengths, dim=1) for each in noise_scales]
    # In the memory of the noise where that fits: fresh memory costs as much as the sum.
    place = noise if noise.dtype == clean.dtype else None
    received = torch.addcmul(clean, noise.to(clean.dtype), noise_scales[0].to(clean.dtype), out=place)
    probed_scale = noise_scales[1] if frame.pieces == 1 else noise_scales[1][:, probed]
    if leftover is not None:
        received = received + _leftover(leftover, drawn, frame, slots, source, _MASKS).to(received.dtype)
    across = across + probed_scale * _normals(source, slots, len(probed), _QUADRATURE)
    received, across, least = convert_received(scenario.air, received, across)
    snr = None
    noise_variance = across.square().mean(dim=1).clamp(min=least)
    if smears(scenario.air):
        clean, received = (equalise(each, scenario.air, frame) for each in (clean, received))
        noise_variance = noise_gain(scenario.air) * noise_variance
    if leftover is not None:
        noise_variance = _without_data(setting, leftover, drawn, frame, noise_scales[0], slots, source)
        snr = _signal(clean, setting.signal.input_symbols) / noise_variance
    return ImpairedReception(clean=clean, received=received, noise_variance=noise_variance, snr=snr, divisor=divisor)


def _divisor(
    setting: AirSetting, frame: Frame, drawn: SlotTensors, deviation: torch.Tensor, slots: range, source: SlotWords
) -> torch.Tensor:
    """Return what the server divides each piece by; slots x pieces, or x 1."""
    if setting.scenario.radio.schedule == "poisson":
        # How many tossed heads must not be divided out, and shows in a pilot as a gain does.
        return torch.ones((len(slots), 1), dtype=torch.complex128, device=deviation.device)
    at_pilots = estimate_mean_gain(setting, frame, drawn, deviation, slots, source)
    if frame.pieces == 1:
        return at_pilots
    drift = torch.from_numpy(expected_drift(setting.scenario, frame)).to(deviation.device)
    return at_pilots[:, torch.tensor(frame.pilots, device=deviation.device)] * drift


def _add_added(leftover: Leftover, drawn: SlotTensors, gains: SeatGains, seats: slice, divisor: torch.Tensor) -> None:
    """Take into account how the noise and masks of some seats arrive, over the mean gain; slots x pieces."""
    assert drawn.planned_ratios is not None
    planned = drawn.planned_ratios[:, seats]
    kept = (drawn.ratios[:, seats] / planned).nan_to_num(nan=0.0)  # in a fade nobody sends, as planned
    offsets = draw_offsets(gains.draws.some(seats)) if smears(leftover.air) else None
    leftover.add(kept[:, :, None] * gains.of(seats) / divisor[:, None, :], planned, kept > 0.0, offsets)


def _signal(clean: torch.Tensor, inputs: int) -> torch.Tensor:
    """Return the mean square of a symbol of the inputs and of the labels; 2 x slots."""
    parts = (clean[:, :inputs], clean[:, inputs:])
    return torch.stack([part.double().square().mean(dim=1) for part in parts])


def _leftover(
    leftover: Leftover, drawn: SlotTensors, frame: Frame, slots: range, source: SlotWords, sequence: int
) -> torch.Tensor:
    """Return what is left of workers' noise and masks on every symbol; slots x symbols."""
    symbols = sum(frame.lengths)
    normals = _normals(source, slots, leftover.terms * symbols, sequence).reshape(len(slots), leftover.terms, symbols)
    return leftover.receive(normals, drawn.power_scale_watts, frame)


def _without_data(
    setting: AirSetting,
    leftover: Leftover,
    drawn: SlotTensors,
    frame: Frame,
    noise_scale: torch.Tensor,
    slots: range,
    source: SlotWords,
) -> torch.Tensor:
    """Return what the server measures of noise on symbols without data, spread over the slot; shape slots.

    They are drawn as a slot of the same gains in which nobody has data, of which only so many symbols are sent.
    """
    symbols = setting.signal.symbols
    heard = noise_scale * _normals(source, slots, symbols, _SILENT_NOISE)
    heard = heard + _leftover(leftover, drawn, frame, slots, source, _SILENT)
    if smears(setting.scenario.air):
        heard = equalise(heard, setting.scenario.air, frame)
    return heard[:, :: -(-symbols // silent_symbols(setting.scenario, symbols))].square().mean(dim=1)


def estimate_mean_gain(
    setting: AirSetting, frame: Frame, drawn: SlotTensors, deviation: torch.Tensor, slots: range, source: SlotWords
) -> torch.Tensor:
    """Return what the server takes for sum_i q_i g_i for each pilot; slots x pilots, complex.

    Pilots share the energy ``air.pilot_share`` of what is sent. Their noise is known; see ``trusted_gain``.
    """
    gains, air = drawn.gains, setting.scenario.air
    assert gains is not None
    mean = torch.zeros((), dtype=torch.complex128, device=source.device)
    for seats in gains.parts:
        beside_pilots = gains.of(seats).expand(-1, -1, frame.pieces)[:, :, frame.pilot_pieces]
        shares = drawn.ratios[:, seats] * kept_of_pilots(setting, frame, drawn.power_watts[:, seats])
        if smears(air):
            softness = expansion_softness(air.roll_off, air.timing_offset_symbols)
            shares = softness * shares * pilot_gain(air, draw_offsets(gains.draws.some(seats)))
        mean = mean + (shares[:, :, None] * beside_pilots).sum(dim=1)
    error = deviation / math.sqrt(setting.pilot_energy / frame.pilot_count)
    seen = mean + error[:, None] * pilot_normals(source, slots, frame.pilot_count)
    return trusted_gain(seen, 2.0 * error.square()[:, None])


def trusted_gain(seen: torch.Tensor, squared_error: torch.Tensor) -> torch.Tensor:
    """Return the mean gain that the server reckons with, given that of pilots and their noise e^2; same shape.

    It trusts a pilot as far as that differs from the planned gain of 1 by more than its noise:
    1 + (g - 1) max(0, 1 - 4 e^2 / |g - 1|^2). A pilot that drowns in noise then spoils nothing. A block whose pilot
    shows that nobody sends is divided by 1e30: it counts for nothing, and neither does its noise.
    """
    off = seen - 1.0
    trusted = (1.0 - _DOUBT * squared_error / off.abs().square().clamp(min=1e-300)).clamp(min=0.0)
    estimate = 1.0 + trusted * off
    # Where all are in a fade, absent or late the pilot is noise, and to divide by it would make noise of any size.
    empty = estimate.abs().square() < (_DOUBT * squared_error).clamp(max=_CLEARLY_LESS)
    return torch.where(empty, _NOTHING, estimate)


def pilot_normals(source: SlotWords, slots: range, blocks: int) -> torch.Tensor:
    """Return the standard noise on the pilots of so many blocks, both quadratures; slots x blocks, complex."""
    noise = _normals(source, slots, 2 * blocks, _PILOT).reshape(len(slots), 2, -1)
    return torch.complex(noise[:, 0], noise[:, 1])


def _normals(source: SlotWords, slots: range, per_slot: int, sequence: int) -> torch.Tensor:
    """Return independent standard normal values; slots x per_slot, float64."""
    words = source.words(slots, -(-per_slot // 2), sequence)
    return torch.cat(normal_pairs(words), dim=1)[:, :per_slot]


def convert_received(
    air: Air, along: torch.Tensor, across: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | float]:
    """Return what the server's converters make of real and imaginary parts, and the least noise they can show; slots.

    Both parts are slots x symbols, of any number each. The gain is set once per slot so that ``air.adc_range`` times
    the root mean square of what arrives is the outermost level; or its largest symbol, if that is 0, since moments have
    symbols of 30 root mean squares and more. Phases are turned back and blocks brought to one level before. Both parts
    go through equal converters, so that the noise which is measured on the second holds that of rounding; where it is
    so little that all of it is rounded to zero, step^2 / 12 is left. Pilots are received with a gain of their own, at
    which rounding does not matter. Noise is on all of it already: rounding it is post-processing, and costs no privacy.
    """
    if not air.adc_bits:
        return along, across, 0.0
    if air.adc_range:
        square = along.double().square().mean(dim=1) + across.double().square().mean(dim=1)
        largest = air.adc_range * square.sqrt()
    else:
        largest = torch.maximum(along.abs().amax(dim=1).double(), across.abs().amax(dim=1).double())
    along, across = (round_to_levels(each, largest[:, None], air.adc_bits) for each in (along, across))
    return along, across, rounding_variance(largest, air.adc_bits)
