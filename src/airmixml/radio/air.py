"""The air between workers and server and the noise on it, as stages of a slot: gains, what arrives, what is received.

The ideal air is one piece of gain 1 for everybody. ``impaired_air`` overrides what impairments change; ``air_of``
decides between the two, so that an ideal air never asks an impairment. Noise that hides workers has a class for each
kind, behind the registry ``NOISES``: it knows what lies on the sum of a slot, what it says of privacy, which power and
symbols it takes, and what it refuses. ``Noise.receive`` puts it on what arrives: one that is known beforehand (the
receiver's, and on the ideal air that of the workers, whose masks cancel), or one which the server must measure.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, NamedTuple

from airmixml.arrays import dbm_to_watts, torch
from airmixml.impairments.fading import draw_magnitude
from airmixml.messages import ScenarioError
from airmixml.privacy import Sensitivity
from airmixml.privacy.evaluation import MANY_ANTENNAS
from airmixml.privacy.facts import Antennas, Fact
from airmixml.radio.mixing import PowerControl
from airmixml.randomness.slot_words import SlotWords
from airmixml.scenario import Air, Mixing, Privacy, Radio, Scenario, Workers
from airmixml.streams import Secret, Streams
from airmixml.workers.signal import Payload


class Channels(NamedTuple):
    """Channels of scheduled workers; each is slots x scheduled."""

    magnitude: torch.Tensor  # abs(h)
    antenna_gain: torch.Tensor | None = None  # sum_a |h_a|^2 / |h|^2 over the server's antennas
    reached: torch.Tensor | None = None  # who is in no fade; None: all
    weakest: torch.Tensor | None = None  # the least abs(h) of a slot that has several
    seats: Any = None  # what impairments are drawn from


@dataclass(kw_only=True)
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
    deviation = torch.sqrt(noise_watts / 2.0 / power_scale_watts).to(clean.dtype)
    return torch.addcmul(clean, standard_noise, deviation[:, None], out=out)


def signal_power(clean: torch.Tensor, inputs: int) -> torch.Tensor:
    """Return the mean square of a symbol of the inputs and of the labels; 2 x slots."""
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

    def sensitivity(self, system: Any, of_data: Sensitivity) -> Sensitivity:
        """Return what one worker can move as it is received, where its data move so much."""
        return of_data

    def gain_bound(self, scenario: Scenario, symbols: int) -> float:
        """Return what no worker's power gain exceeds in a slot of so many symbols, but for a stated probability."""
        return 1.0

    def sent_failure(self, scenario: Scenario) -> float:
        """Return the probability of a larger gain to one antenna, where what arrived does not tell what was sent."""
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
        return Channels(draw_magnitude(setting.scenario.radio, gain, workers, slots, source))

    def sent(self, setting: Any, planned: Any, channels: Channels, slots: range) -> Any:
        """Return ``SlotTensors`` as they happen: what the link loses is lost, all else arrives."""
        return setting.scenario.radio.link_kind.sent(setting, planned, slots)

    def arrive(self, setting: Any, payload: Payload, index: torch.Tensor, drawn: Any, slots: range) -> Arrival:
        """Return the ``Arrival`` of what workers with these samples, slots x scheduled, send."""
        return Arrival(slots=slots, payload=payload, index=index, clean=payload.weighted_sum(index, drawn.ratios))


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


_FLOOR_CHAPTER: Final = 1  # of the stream "air"


class Noise:
    """The receiver's noise alone; other kinds inherit from it and change what differs."""

    about = "the receiver's noise"
    rests_on = "receiver noise"  # what hides a worker, for a table
    trusted = "the stated receiver noise, and that nobody listens nearer"  # what must be true for an epsilon to hold
    brought = False  # whether workers bring it, which hides them from an isolating listener as well
    masked = False  # whether they share masks that cancel in the sum
    real = True  # whether it lies on real numbers; integers are rounded before they are added up

    def on_integers(self, privacy: Privacy) -> Noise:
        """Return the same noise on integers, or refuse (``privacy.arithmetic``)."""
        raise ScenarioError(
            f'privacy.noise = "{privacy.noise}": must be "masked" or "workers" for privacy.arithmetic = "integers": '
            "workers bring integer noise"
        )

    def check(self, workers: Workers, radio: Radio, air: Air, mixing: Mixing, privacy: Privacy) -> None:
        """Refuse what does not go with it, and name the key to change."""
        for name in ("modulus_bits", "sum_range"):
            if self.real and getattr(privacy, name):
                raise ScenarioError(
                    f'privacy.{name} = {getattr(privacy, name):g}: must be 0 for privacy.arithmetic = "real"; it is '
                    'for "integers"'
                )
        if privacy.adversary == "everyone" and not self.brought:
            raise ScenarioError(
                'privacy.adversary = "everyone": needs privacy.noise = "masked" or "workers"; the noise of a receiver '
                "hides no worker from an adversary who hears each worker alone"
            )

    def trust(self, privacy: Privacy, adversary: str) -> str:
        """Return what must be true for an epsilon against an adversary to hold."""
        if adversary != "eavesdropper":
            return "the stated receiver noise"
        nearest = f"that nobody listens nearer than {privacy.eavesdropper_distance_metres:g} m"
        return f"the stated receiver noise ({privacy.eavesdropper_noise_dbm:g} dBm), and {nearest}"

    def receiver_watts(self, scenario: Scenario, thermal_watts: float) -> float:
        """Return the noise power per complex symbol of a server's receiver whose own is ``thermal_watts``."""
        return thermal_watts

    def stated_watts(self, scenario: Scenario) -> float:
        """Return the same where the receiver's own is the least that it may have: statements assume it."""
        least_dbm = scenario.radio.noise_dbm - scenario.air.noise_uncertainty_db
        return self.receiver_watts(scenario, dbm_to_watts(least_dbm))

    def drawn_watts(self, scenario: Scenario) -> float:
        """Return the same as a run draws the receiver's own, with interference.

        Where it is known only within so many dB, a run draws it once, uniform in dB: no server knows what it really is.
        Statements assume the lowest, and learners measure it. Interference disturbs learners like noise, and protects
        nobody: a server may know what others send, and take it off.
        """
        floor_dbm, within_db = scenario.radio.noise_dbm, scenario.air.noise_uncertainty_db
        if within_db:
            floor_dbm += float(Streams(scenario.seed).generator("air", _FLOOR_CHAPTER).uniform(-within_db, within_db))
        return self.receiver_watts(scenario, dbm_to_watts(floor_dbm) + dbm_to_watts(scenario.air.interference_dbm))

    def in_sum_watts(self, scenario: Scenario) -> float:
        """Return the noise power per complex symbol in the sum of a slot whose workers all send as planned."""
        return self.drawn_watts(scenario)

    def masking(self, scenario: Scenario, secret: Secret | None = None) -> Any | None:
        """Return the ``Masking`` that workers add to real numbers to hide themselves; None: nothing."""
        return None

    def sums(self, scenario: Scenario, sensitivity: Sensitivity) -> Any | None:
        """Return the ``IntegerSums`` that workers send integers for; None where they send none."""
        of_kinds = self.all_sums(scenario, sensitivity)
        return of_kinds[-1 if scenario.workers.sends == "gradients" else 0] if of_kinds else None

    def all_sums(self, scenario: Scenario, sensitivity: Sensitivity) -> tuple[Any, ...]:
        """Return those of each kind of slots: the scenario's own, and rounds that follow."""
        return ()

    def check_secret(self, scenario: Scenario, secret: Secret) -> None:
        """Refuse a protected run whose draws may leave workers unhidden."""

    def rounded(self, moves: Sensitivity, symbols: int, in_rounds: int = 0) -> Sensitivity:
        """Return what one worker can move in so many symbols, and so many of a round, where this noise rounds them."""
        return moves

    def probes(self, scenario: Scenario, data_symbols: int) -> int:
        """Return the symbols of a slot without data on which the server measures noise."""
        return 0

    def symbols_on_air(self, scenario: Scenario, sensitivity: Sensitivity, data_symbols: int) -> int:
        """Return the symbols that a slot takes: with data and without, pilots, guards."""
        return air_of(scenario).symbols(scenario, data_symbols) + self.probes(scenario, data_symbols)

    def needed_watts(self, scenario: Scenario, sensitivity: Sensitivity, floor: float | None = None) -> float | None:
        """Return the beta max q^2 that it needs, refused if above the limit; None: the privacy target decides."""
        return None

    def facts(self, scenario: Scenario, sensitivity: Sensitivity, received_watts: float) -> Iterator[Fact]:
        """Yield what it says of privacy, besides the noise of the receiver (``stated_watts``)."""
        return iter(())

    def receive(
        self, setting: Any, arrival: Any, drawn: Any, normals: torch.Tensor, place: torch.Tensor | None
    ) -> Reception:
        """Return the sums with noise on them, from standard normal values (slots x symbols), in ``place`` if given."""
        received: Reception = arrival.receive(setting, drawn, normals, place)
        return received


@dataclass(frozen=True, kw_only=True)
class ExpectedNoise:
    """Noise in the sum of a slot before anything is drawn, by where it comes from, in watts per complex symbol.

    All are over the power of the mean gain that the server divides by: compare them with beta. With gains that differ
    by g (``IdealAir.spread``), a share a of the workers absent, own noise s^2, k masks of e^2 and a self mask of b^2
    per worker, what ``radio.transmitters`` draws is on average

        2 N s^2 (1 + g^2) / (1 - a)     own noise
        2 N (k e^2 + b^2) g^2 / (1 - a) what errors of the gains leave of masks
        2 N k e^2 a / (1 - a)           masks shared with absent workers, where nobody recovers them
    """

    receiver_watts: float  # at the receiver, as stated, with interference
    own_watts: float = 0.0  # that of the workers, which is there on any air
    gains_watts: float = 0.0  # what errors of the gains, and converters, leave of masks
    absent_watts: float = 0.0  # masks that absent workers leave behind

    @property
    def total_watts(self) -> float:
        return self.receiver_watts + self.own_watts + self.gains_watts + self.absent_watts

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "total_watts": self.total_watts}


def expected_noise(scenario: Scenario, signal_loss: float = 1.0) -> ExpectedNoise:
    """Return the noise in the sum of a slot; ``signal_loss`` is what the air takes from the power of the signal."""
    noise: Noise = scenario.privacy.noise_kind
    masking = noise.masking(scenario)
    nominal_watts = dbm_to_watts(scenario.radio.noise_dbm) + dbm_to_watts(scenario.air.interference_dbm)
    receiver_watts = noise.receiver_watts(scenario, nominal_watts) * signal_loss
    if masking is None:
        return ExpectedNoise(receiver_watts=receiver_watts)
    air = air_of(scenario)
    spread, silent = air.spread(scenario)
    rounded_watts = masking.rounded_watts(scenario.air.dac_bits)
    each = 2.0 * scenario.radio.scheduled / (1.0 - silent)
    pairs_watts = 0.0 if masking.graph is None else masking.graph.degree * masking.pair_watts
    return ExpectedNoise(
        receiver_watts=receiver_watts,
        own_watts=each * masking.own_watts * (1.0 + spread),
        gains_watts=each * ((pairs_watts + masking.self_watts) * spread + rounded_watts),
        absent_watts=0.0 if scenario.privacy.most_absent else each * pairs_watts * silent,
    )
