"""Transmitters and receiver of a slot: what their converters and peak limits do on the way through the air."""

import math
from typing import Literal

import torch

from airmixml.impairments.converters import round_to_levels, rounding_variance
from airmixml.impairments.frame import Frame
from airmixml.impairments.peaks import peak_amplitude
from airmixml.radio.draws import AirSetting
from airmixml.radio.senders import PoolSender, Sender
from airmixml.radio.transmitters import distort
from airmixml.scenario import Air


class TransmitterErrors:
    """Adds up, seats by seats, the variance that transmitters' errors have in the sum of a slot.

    Errors that are computed symbol by symbol are none of these. A sender of somebody else's is taken for exact.
    """

    def __init__(self, setting: AirSetting, sender: Sender) -> None:
        self._setting = setting
        self._sender = sender if isinstance(sender, PoolSender) else None
        self._variance: dict[str, torch.Tensor] = {}  # on the real and imaginary part; slots x pieces

    def add(
        self, gains: torch.Tensor, samples: torch.Tensor, power_watts: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Take workers into account; return their gains, and the amplitudes to which their symbols are clipped.

        Gains are slots x seats x pieces, shares included; samples, powers and amplitudes are slots x seats.
        """
        sender, scenario = self._sender, self._setting.scenario
        distorts = scenario.air.dac_bits or math.isfinite(scenario.air.peak_power_dbm)
        if sender is None or not distorts or scenario.privacy.noise != "receiver":
            return gains, None
        distortion = distort(
            scenario,
            self._setting.signal.symbols,
            sender.squared_lengths[samples],
            sender.largest_symbols[samples],
            power_watts,
            models_rounding=sender.models_rounding,
            largest_norm=math.sqrt(sender.signal.largest_squared_norm(sender.norm**2)),
        )
        limits = peak_amplitude(scenario, power_watts) if scenario.air.waveform == "single-carrier" else None
        if distortion is None:
            return gains, limits
        along, across = gains.real.square(), gains.imag.square()
        if distortion.circular:
            along = across = along + across
        for part, squares in (("real", along), ("imag", across)):
            more = (squares * distortion.variance[:, :, None]).sum(dim=1)
            self._variance[part] = more + self._variance[part] if part in self._variance else more
        return gains * distortion.factor[:, :, None], limits

    def with_noise(self, deviation: torch.Tensor, part: Literal["real", "imag"]) -> torch.Tensor:
        """Return the deviation of noise and errors together; slots x pieces (or x 1).

        Both are Gaussian and independent, so that one draw serves.
        """
        return (deviation.square() + self._variance[part]).sqrt() if part in self._variance else deviation


def kept_of_pilots(setting: AirSetting, frame: Frame, power_watts: torch.Tensor) -> torch.Tensor | float:
    """Return what is left of the amplitude of pilots, which a peak limit clips too; slots x seats."""
    limits = peak_amplitude(setting.scenario, power_watts)
    if limits is None or not setting.pilot_energy:
        return 1.0
    amplitude = math.sqrt(setting.pilot_energy / (frame.pilot_count * setting.scenario.air.pilot_symbols))
    return (limits / amplitude).clamp(max=1.0)


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
