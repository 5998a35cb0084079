"""Slots: all that is random in them (schedule, channel, ratios, assignment, power, noise), and blocks of mixtures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import torch
from numpy.typing import NDArray

from airmixml.arrays import Doubles, Integers, check_finite
from airmixml.impairments.fading import worker_path_gain
from airmixml.messages import ScenarioError
from airmixml.radio.air import air_of
from airmixml.radio.mixing import PowerControl, check_added_power, check_lowest_power, control_power
from airmixml.radio.privacy_target import asked_received_watts
from airmixml.radio.system import System
from airmixml.randomness.slot_words import slot_words
from airmixml.scenario import Air, Mixing, Scenario
from airmixml.streams import Secret, StreamName, Streams
from airmixml.workers import SYMBOLS_PER_SECOND

if TYPE_CHECKING:
    from airmixml.impairments.gains import SeatGains
    from airmixml.radio.masking import Masking

_CPU: Final = torch.device("cpu")
_CPU_BLOCK_SLOTS: Final = 2048
_GPU_BLOCK_SLOTS: Final = 1 << 17
_CPU_BLOCK_NUMBERS: Final = 1 << 22
_GPU_BYTES_PER_NUMBER: Final = 256  # of its memory: what a block takes, and room for mixtures and a model
_NUMBERS_PER_SEAT: Final = 16  # what drawing a seat takes for a while
_NUMBERS_PER_GAIN: Final = 8  # the same for the gain of a seat in a piece
_STREAMS_OF_SLOTS: Final[tuple[StreamName, ...]] = ("schedule", "fading", "ratios", "assignment")


@dataclass(frozen=True, kw_only=True)
class AirSetting(System):
    """A system whose workers are placed and whose power is set: what stays the same over all slots."""

    given: Scenario  # as it was asked for
    distance_metres: Doubles  # of each worker from the server; shape workers
    private_received_watts: float  # beta max q^2 that keeps the privacy target; 0 where power follows from none
    secret: Secret | None = None  # what hides the data is drawn from; None: from the seed
    in_rounds: bool = False  # whether these slots follow others, of another length

    @cached_property
    def worker_path_gain(self) -> Doubles:
        """sqrt(beta_U) d^(-n/2) of each worker, with its shadow; shape workers."""
        return worker_path_gain(self.scenario, self.distance_metres)

    @cached_property
    def kept(self) -> dict[Any, Any]:
        """What a stage makes once for all slots, by a key of its own."""
        return {}

    @property
    def streams(self) -> Streams:
        """What slots are drawn from; slots of another length must not share a sequence, whatever their numbers."""
        return Streams(self.scenario.seed, self.secret, kind=int(self.in_rounds))

    @cached_property
    def masking(self) -> Masking | None:
        """What workers add to hide themselves, on the graph of this run."""
        return self.noise.masking(self.scenario, self.secret)

    @property
    def hiding(self) -> Masking | None:
        """What hides a worker from an isolating listener; None where nothing does."""
        return self.masking if self.integers is None else self.integers.as_masking(self.scenario)

    @cached_property
    def radiated_share(self) -> float:
        """What a worker radiates on average over a slot per watt of transmit power."""
        return self.joules_per_watt / self.slot_seconds

    @cached_property
    def added_watts(self) -> float:
        """What a worker's own noise and masks add to beta q^2, as planned, as energy over all symbols."""
        planned = self.noise.masking(self.scenario)
        if planned is None:
            return 0.0
        noisy = self.signal.symbols + self.noise.probes(self.scenario, self.signal.symbols)
        return float(planned.added_watts * noisy / SYMBOLS_PER_SECOND / self.joules_per_watt)

    @classmethod
    def of(  # type: ignore[override]
        cls, scenario: Scenario, input_dim: int, label_dim: int, distance_metres: Doubles, *, in_rounds: bool = False
    ) -> Self:
        """Gather the setting of a scenario's slots, or of the rounds that follow; distances are workers'."""
        system = System.of(scenario, input_dim, label_dim, distance_metres)
        received_watts = asked_received_watts(scenario, system.sensitivity, distance_metres)
        if in_rounds:
            sums = system.of_rounds.integers
            received_watts = received_watts * system.round_strength if sums is None else sums.received_watts
            system = system.of_rounds
        setting = cls(
            **system.__getstate__(),
            given=scenario,
            distance_metres=distance_metres,
            private_received_watts=received_watts,
            in_rounds=in_rounds,
        )
        if setting.masking is not None:
            check_added_power(system.scenario, setting.masking.added_watts, distance_metres)
        if system.floor:
            radiated = setting.radiated_share / system.floor
            check_lowest_power(system.scenario, received_watts, setting.added_watts, radiated)
        return setting


@dataclass(frozen=True, kw_only=True)
class SlotDraws:
    """Draws of consecutive slots, and their power; every array has the slots as its first axis."""

    scheduled_workers: Integers  # who transmits; slots x scheduled
    magnitude: Doubles  # |h|; slots x scheduled
    ratios: Doubles  # q, dealt out to the workers; slots x scheduled
    power_scale_watts: Doubles  # beta of each slot; slots
    power_watts: Doubles  # P of each scheduled worker; slots x scheduled
    limited: NDArray[np.bool_]  # slots in which P_max forced beta below what was asked; slots

    def __len__(self) -> int:
        return len(self.limited)


@dataclass(frozen=True, kw_only=True)
class SlotTensors(PowerControl):
    """The same on the device that the slots are simulated on; see ``SlotDraws``."""

    scheduled_workers: torch.Tensor
    magnitude: torch.Tensor
    ratios: torch.Tensor
    gains: SeatGains | None = None  # of an air that is not ideal
    planned_ratios: torch.Tensor | None = None  # q as planned, where workers bring noise; slots x scheduled
    antenna_gain: torch.Tensor | None = None  # sum_a |h_a|^2 / |h|^2 over the server's antennas; slots x scheduled

    def __len__(self) -> int:
        return len(self.limited)

    def numpy(self) -> SlotDraws:
        """Return the draws as arrays in the machine's memory; where they lie there already nothing is copied."""
        return SlotDraws(**{name: value.cpu().numpy() for name, value in self._tensors().items()})

    def head(self, slots: int) -> Self:
        """Return copies of the first slots in the machine's memory."""
        return type(self)(**{name: value[:slots].cpu().clone() for name, value in self._tensors().items()})

    def _tensors(self) -> dict[str, Any]:
        return {
            name: value for name, value in vars(self).items() if name not in ("gains", "planned_ratios", "antenna_gain")
        }

    def powered_as(self, setting: AirSetting) -> Self:
        """Return the same draws with the powers that another setting would give, where they follow from channels.

        Who sends on an air that is not ideal may depend on power: there scenarios of a family have the same.
        """
        if self.gains is not None or not setting.scenario.radio.link_kind.on_air:
            return self
        power = control_power(setting.scenario, setting.private_received_watts, self.ratios, self.magnitude)
        return replace(self, **vars(_with_added(setting, power, self.ratios, self.magnitude)))


@dataclass(frozen=True, kw_only=True)
class MixtureBlock:
    """What the edge server receives in consecutive slots, and what went into it; all tensors are on the device."""

    first_slot: int
    inputs: torch.Tensor  #: received mixtures y_I / b; slots x input symbols
    labels: torch.Tensor  #: received label mixtures y_L / b, their weight taken off; slots x label symbols
    clean_inputs: torch.Tensor  #: the same without noise, which no receiver ever sees
    clean_labels: torch.Tensor
    drawn: SlotTensors  #: schedule, channel, ratios and powers
    snr: torch.Tensor  #: beta |sum q i|^2 / (d_X sigma_n^2 / 2) of inputs, the same of labels; 2 x slots
    joules_per_watt: float  #: energy that a worker spends in a slot per watt of transmit power
    #: Variance of noise and distortion on a symbol: as the server measures it on an air that is not ideal, of noise and
    #: rounding of integers, or else of the powers; slots
    noise_variance: torch.Tensor
    divisor: torch.Tensor | None = None  #: mean gain that was divided by there, complex; slots x pieces, or x 1

    def head(self, slots: int) -> Self:
        """Return copies of the first slots in the machine's memory, so that the rest of the block can be freed."""
        few = slice(0, slots)
        return replace(
            self,
            **{name: getattr(self, name)[few].clone() for name in ("inputs", "labels", "clean_inputs", "clean_labels")},
            drawn=self.drawn.head(slots),
            snr=self.snr[:, few].cpu().clone(),
            noise_variance=self.noise_variance[few].cpu().clone(),
            divisor=None if self.divisor is None else self.divisor[few].cpu().clone(),
        )

    @cached_property
    def draws(self) -> SlotDraws:
        """Schedule, channel, ratios and powers as arrays."""
        return self.drawn.numpy()

    @property
    def slots(self) -> int:
        return len(self.drawn)

    @property
    def ratios(self) -> Doubles:
        """Mixing ratios q; slots x scheduled."""
        return self.draws.ratios


def draws_key(scenario: Scenario) -> tuple[object, ...]:
    """Return what decides all draws; equal for scenarios that differ only in name, power, target and learner.

    On an air that is not ideal, and of integers, power and target decide them too.
    """
    rounds = (scenario.learner.rounds, scenario.rounds_share) if scenario.learner.rounds else (0, 0.0)
    who, radio, air = (scenario.seed, scenario.workers), scenario.radio, scenario.air
    if not air_of(scenario).exact:
        return *who, radio, scenario.link, air, scenario.mixing, scenario.privacy, rounds
    blank = Mixing()
    mixing = replace(scenario.mixing, power=blank.power, power_scale_watts=blank.power_scale_watts)
    rounded = None if scenario.privacy.noise_kind.real else scenario.privacy
    return *who, radio, scenario.link, Air(), mixing, rounded, rounds


def check_family(scenarios: Sequence[Scenario]) -> None:
    """Refuse scenarios that do not share all their draws."""
    first = scenarios[0]
    for scenario in scenarios[1:]:
        if draws_key(scenario) != draws_key(first):
            raise ScenarioError(
                f"{scenario.name}: differs from {first.name} in more than power, privacy and learner; simulate it apart"
            )


def draw_slots(setting: AirSetting, slots: range, device: torch.device = _CPU) -> SlotTensors:
    """Draw consecutive slots up to the noise (Algorithm 1, lines 5 to 12); they depend on their numbers alone."""
    scenario = setting.scenario
    sending = scenario.radio.schedule_kind
    schedule, fading, ratio_words, dealing = (slot_words(setting.streams, name, device) for name in _STREAMS_OF_SLOTS)
    scheduled_workers: torch.Tensor = sending.draw(scenario, slots, schedule)
    gain = torch.from_numpy(setting.worker_path_gain).to(device)
    air = air_of(scenario)
    channels = air.channels(setting, scheduled_workers, gain, slots, fading)
    magnitude, reached = channels.magnitude, channels.reached
    ratios: torch.Tensor = sending.shares(scenario, magnitude, slots, ratio_words, dealing)
    power = control_power(scenario, setting.private_received_watts, ratios, magnitude, reached, channels.weakest)
    ratios = ratios if reached is None else ratios * reached
    power = _with_added(setting, power, ratios, magnitude)
    brought = setting.noise.brought
    planned = SlotTensors(
        scheduled_workers=scheduled_workers,
        magnitude=magnitude,
        ratios=ratios,
        planned_ratios=ratios if brought else None,
        antenna_gain=None if brought else channels.antenna_gain,
        **vars(power),
    )
    sent: SlotTensors = air.sent(setting, planned, channels, slots)
    # A share that is no number makes a power that is none.
    drawn = {name: getattr(sent, name) for name in ("magnitude", "power_scale_watts", "power_watts")}
    check_finite("draws of slots", **drawn)
    return sent


def _with_added(
    setting: AirSetting, power: PowerControl, ratios: torch.Tensor, magnitude: torch.Tensor
) -> PowerControl:
    """Return the powers with what the own noise and masks of those who send take, whatever a worker's share."""
    if not setting.added_watts:
        return power
    added_watts = setting.added_watts / magnitude.square() * (ratios > 0.0)
    return replace(power, power_watts=power.power_watts + added_watts)


def slots_of_rounds(scenario: Scenario) -> range:
    """Return the numbers of the slots of rounds: after the others, and after the one that estimates a mean."""
    first = scenario.radio.slots + 1
    return range(first, first + scenario.learner.rounds)


def draw_noise(setting: AirSetting, slots: range, device: torch.device = _CPU) -> torch.Tensor:
    """Draw the noise of consecutive slots: independent standard normal values; slots x symbols."""
    source = slot_words(setting.streams, "noise", device)
    return source.normals(slots, setting.signal.symbols)


def in_blocks(slots: range, block_slots: int) -> list[range]:
    """Cut slots into blocks; the last may be shorter."""
    return [slots[first : first + block_slots] for first in range(0, len(slots), block_slots)]


def suitable_block(setting: AirSetting, device: torch.device = _CPU) -> int:
    """Return how many slots to draw at a time: many on a GPU, where launching a kernel costs more than its work."""
    per_seat = _NUMBERS_PER_SEAT + _NUMBERS_PER_GAIN * air_of(setting.scenario).drawn_gains(setting)
    per_slot = setting.signal.symbols + per_seat * setting.scenario.seats
    if device.type == "cuda":
        fitting_numbers = torch.cuda.mem_get_info(device)[1] // _GPU_BYTES_PER_NUMBER
        return max(1, min(_GPU_BLOCK_SLOTS, fitting_numbers // per_slot))
    fitting = max(1, min(_CPU_BLOCK_SLOTS, _CPU_BLOCK_NUMBERS // per_slot))
    return 1 << (fitting.bit_length() - 1)  # a power of 2: whole chapters
