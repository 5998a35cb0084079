"""The air between workers and server, as one stage of a slot: its gains, what arrives, what it says of privacy.

The ideal air is one piece of gain 1 for everybody. ``impaired_air`` overrides what impairments change; ``air_of``
decides between the two, so that an ideal air never asks an impairment. ``receive`` puts noise on what arrives: as the
scenario's ``Noise`` does it, or one that is known beforehand (the receiver's, and on the ideal air that of the workers,
whose masks cancel), or one which the server must measure.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from airmixml.privacy import Sensitivity
from airmixml.privacy.evaluation import MANY_ANTENNAS
from airmixml.privacy.facts import Antennas, Fact

if TYPE_CHECKING:
    import torch

    from airmixml.radio.mixing import PowerControl
    from airmixml.randomness.slot_words import SlotWords
    from airmixml.scenario import Air, Scenario
    from airmixml.workers.payloads import Payload


class Channels(NamedTuple):
    """Channels of scheduled workers; each is slots x scheduled."""

    magnitude: torch.Tensor  # abs(h)
    antenna_gain: torch.Tensor | None = None  # sum_a |h_a|^2 / |h|^2 over the server's antennas
    reached: torch.Tensor | None = None  # who is in no fade; None: all
    weakest: torch.Tensor | None = None  # the least abs(h) of a slot that has several
    seats: Any = None  # what impairments are drawn from


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """Consecutive slots before any noise: who sent what, and the sum over the mean gain, slots x symbols."""

    slots: range
    payload: Payload
    index: torch.Tensor
    clean: torch.Tensor

    def receive(
        self, setting: Any, drawn: PowerControl, normals: torch.Tensor, place: torch.Tensor | None
    ) -> Reception:
        """Return the sums with noise on them, of exact gains: sum_i q_i v_i + n / sqrt(beta), where masks cancel."""
        noise_watts = setting.noise.in_sum_watts(setting.scenario)
        received = receive_mixtures(self.clean, normals, drawn.power_scale_watts, noise_watts, place)
        return Reception(clean=self.clean, received=received)


@dataclass(frozen=True, kw_only=True)
class Reception:
    """Mixtures of consecutive slots as the server has them."""

    clean: torch.Tensor  # without noise, which no receiver ever sees; slots x symbols
    received: torch.Tensor  # with it; slots x symbols
    # Of noise and distortion on a symbol as measured, or of noise and rounding; slots. None: that of the powers.
    noise_variance: torch.Tensor | None = None
    # Signal over noise energy of inputs and labels, 2 x slots, where it does not follow from the power scale.
    snr: torch.Tensor | None = None
    divisor: torch.Tensor | None = None  # mean gain that was divided by, complex; slots x pieces, or x 1. None: none


def receive(setting: Any, arrival: Arrival, drawn: Any, normals: torch.Tensor, place: torch.Tensor | None) -> Reception:
    """Return the sums with noise on them, from standard normal values (slots x symbols), in ``place`` if it fits."""
    own: Reception | None = setting.noise.receive(setting, arrival, drawn, normals, place)
    if own is not None:
        return own
    return arrival.receive(setting, drawn, normals, place if arrival.clean.dtype == normals.dtype else None)


def receive_mixtures(
    clean: torch.Tensor,
    standard_noise: torch.Tensor,
    power_scale_watts: torch.Tensor,
    noise_watts: float,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return sum_i q_i s_i + n / sqrt(beta), Eqs. (DirPC_input_sample) and (DirPC_label_sample); slots x symbols.

    The real part of the noise has variance sigma_n^2 / 2, per complex symbol sigma_n^2, so this is equal in
    distribution to the real part of Eq. (1), divided by b_t.
    """
    import torch  # here and below: an account needs none

    deviation = torch.sqrt(noise_watts / 2.0 / power_scale_watts).to(clean.dtype)
    return torch.addcmul(clean, standard_noise, deviation[:, None], out=out)


def signal_power(clean: torch.Tensor, inputs: int) -> torch.Tensor:
    """Return the mean square of a symbol of the inputs and of the labels; 2 x slots."""
    import torch

    parts = (clean[:, :inputs], clean[:, inputs:] if inputs < clean.shape[1] else clean)
    return torch.stack([part.double().square().mean(dim=1) for part in parts])


class IdealAir:
    """One piece of gain 1: everybody arrives as planned, and nothing is drawn."""

    exact = True  # whether all gains are 1
    nobody_sent = (
        "radio.scheduled: nobody tossed heads in any slot; schedule more workers on average, run more slots, or use "
        "another seed"
    )

    def symbols(self, scenario: Scenario, data_symbols: int) -> int:
        """Return the symbols of a slot on the air, with pilots and guards."""
        return data_symbols

    def probes(self, data_symbols: int) -> int:
        """Return the symbols without data on which the server must measure what workers' noise leaves in a sum."""
        return 0

    def drawn_gains(self, setting: Any) -> int:
        """Return how many gains each seat has that are drawn."""
        return 0

    def pilot_share(self, scenario: Scenario) -> float:
        """Return the energy of a slot's pilots over the largest of its data."""
        return 0.0

    def sensitivity(self, system: Any, of_data: Sensitivity) -> Sensitivity:
        """Return what one worker can move as it is received, where its data move so much."""
        return of_data

    def gain_bound(self, scenario: Scenario, symbols: int) -> float:
        """Return what no worker's power gain exceeds in a slot of so many symbols, except with ``gain_failure``."""
        return 1.0

    def gain_failure(self, scenario: Scenario) -> float:
        """Return the probability with which ``gain_bound`` fails for some worker; 0 where it cannot."""
        return 0.0

    def sent_failure(self, scenario: Scenario) -> float:
        """Return the same of gains to one antenna, where what arrived does not tell what was sent."""
        return 0.0

    def gains_tell_schedule(self, scenario: Scenario) -> bool:
        """Return whether what happens to a seat may depend on who sits there; see ``privacy.adversaries``."""
        return False

    def facts(self, system: Any) -> Iterator[Fact]:
        """Yield what it says of privacy, such as what all antennas have of a worker over what the chosen one has."""
        steady = system.scenario.radio.fading == "none"
        many = 1.0 if system.noise.brought else float(MANY_ANTENNAS) if steady else math.inf
        yield Antennas(count=1, many=many)

    def spread(self, scenario: Scenario) -> tuple[float, float]:
        """Return by how much gains differ (variance over the square of the mean), and which share is silent."""
        return 0.0, 0.0

    def channels(
        self, setting: Any, workers: torch.Tensor, gain: torch.Tensor, slots: range, source: SlotWords
    ) -> Channels:
        """Draw the channels of scheduled workers, slots x scheduled, from the path gain of each worker."""
        from airmixml.impairments.fading import draw_magnitude

        return Channels(draw_magnitude(setting.scenario.radio, gain, workers, slots, source))

    def sent(self, setting: Any, planned: Any, channels: Channels, slots: range) -> Any:
        """Return ``SlotTensors`` as they happen: what the link loses is lost, all else arrives."""
        return setting.scenario.radio.link_kind.sent(setting, planned, slots)

    def arrive(self, setting: Any, payload: Payload, index: torch.Tensor, drawn: Any, slots: range) -> Arrival:
        """Return the ``Arrival`` of what workers with these samples, slots x scheduled, send."""
        return Arrival(slots=slots, payload=payload, index=index, clean=payload.weighted_sum(index, drawn.ratios))

    def converted(self, scenario: Scenario, payload: Payload) -> Payload:
        """Return the payload as it leaves the workers' converters."""
        return payload


IDEAL: Final = IdealAir()


def air_of(scenario: Any) -> IdealAir:
    """Return the air of a scenario, or of its tables."""
    if scenario.air.is_ideal:
        return IDEAL
    # By name: both other stages know settings and systems, which ask for their air.
    stages = import_module("airmixml.radio.impaired_air")
    air: IdealAir = stages.CARRYING_NOISE if scenario.privacy.noise_kind.brought else stages.IMPAIRED
    return air


def prefix_bound(air: Air) -> float:
    """Return how many times the energy of its symbols a worker may be received with, where OFDM has a cyclic prefix.

    The prefix is the end of an OFDM symbol once more, with noise of its own, and a server may listen to it. The energy
    of a vector can lie all in what is repeated, so that it is sent twice; without a prefix nothing is.
    """
    return 2.0 if air.waveform == "ofdm" and air.cyclic_prefix else 1.0
