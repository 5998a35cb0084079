"""What a scenario means: everything that follows from it and the data's dimensions, derived once and handed on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from airmixml.arrays import Doubles, dbm_to_watts
from airmixml.impairments.fading import best_power_gain, weakest_gain
from airmixml.privacy import Adversary, Design, Sensitivity, facts
from airmixml.privacy.design import slots_per_round
from airmixml.radio.air import IdealAir, Noise, air_of
from airmixml.registries import ADVERSARIES
from airmixml.scenario import Scenario
from airmixml.scenario.air import SYMBOLS_PER_SECOND
from airmixml.workers import Signal, declared_bounds

if TYPE_CHECKING:
    from airmixml.radio.workers_noise import IntegerSums


@dataclass(frozen=True, kw_only=True)
class System:
    """A scenario with all that follows from it; each fact is derived when it is first asked for, and kept."""

    scenario: Scenario  # as its link meets the air
    dimensions: tuple[int, int] | None = None  # of encoded inputs and of labels; None where only privacy is asked for
    moves: Sensitivity | None = None  # what one worker can move, where that does not follow from the dimensions
    farthest_metres: float = 0.0  # distance of the farthest worker, where they are placed; 0: the square's corner
    before: System | None = None  # of rounds, the system of the slots before them

    @staticmethod
    def of(scenario: Scenario, input_dim: int, label_dim: int, distance_metres: Doubles | None = None) -> System:
        """Return the system of a scenario whose encoded data have these dimensions; distances are workers'."""
        system = System(scenario=scenario.met, dimensions=(input_dim, label_dim))
        return system if distance_metres is None else replace(system, farthest_metres=float(distance_metres.max()))

    @staticmethod
    def moving(scenario: Scenario, moves: Sensitivity) -> System:
        """Return the system of a scenario whose workers can move a mixture so far."""
        return System(scenario=scenario.met, moves=moves)

    def __getstate__(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}  # the rest is derived again

    @cached_property
    def signal(self) -> Signal:
        assert self.dimensions is not None
        return Signal.of(self.scenario.workers, *self.dimensions)

    @property
    def link(self) -> Any:
        """How what is sent gets to the server."""
        return self.scenario.radio.link_kind

    @property
    def rounds(self) -> int:
        """How many slots of gradients follow the scenario's own."""
        return self.scenario.learner.rounds if self.scenario.workers.sends == "moments" else 0

    @property
    def round_strength(self) -> float:
        """How strongly a worker is received in a round, over how strongly it is in another slot, squared.

        Vectors of both are as long at most, so received powers are as the shares of mu^2 that the scenario gives them.
        """
        if not (self.rounds and self.scenario.mixing.power_policy.keeps_target):
            return 1.0
        share = self.scenario.rounds_share
        if self.integers is not None and self.of_rounds.integers is not None:
            return self.integers.hidden_variance / self.of_rounds.integers.hidden_variance
        return share / self.rounds / ((1.0 - share) / self.scenario.radio.slots)

    @property
    def counted_in_rounds(self) -> float:
        """What a watt received in a round counts as beside other slots: of integers it is the power of bits."""
        sums = self.of_rounds.integers
        if self.integers is None or sums is None:
            return 1.0
        return self.round_strength * self.integers.received_watts / sums.received_watts

    @property
    def about_rounds(self) -> dict[str, Any]:
        """What rounds take: uplink symbols and seconds, downlink bits, a worker's work; empty where there are none."""
        if not self.rounds and self.scenario.workers.sends != "gradients":
            return {}
        slots, signal = self.scenario.radio.slots, self.of_rounds.signal
        loss = self.rounds * self.round_strength
        return {
            "count": self.rounds or slots,
            "share": loss / (slots + loss) if self.rounds else 1.0,
            "clip": self.scenario.learner.gradient_clip,
            "symbols_per_round": self.of_rounds.symbols_on_air,
            "seconds_per_round": self.of_rounds.slot_seconds,
            "downlink_bits_per_round": signal.downlink_bits,
            "multiply_accumulates_per_round": signal.operations,
        }

    def in_all(self, of_slot: Callable[[System], Any], slots: int, rounds: int) -> Any:
        """Return what so many slots and rounds take together, of which each takes ``of_slot``."""
        return slots * of_slot(self) + (rounds * of_slot(self.of_rounds) if rounds else 0)

    @property
    def uplink_symbols(self) -> int:
        """Symbols of all slots and rounds on the air."""
        return int(self.in_all(lambda each: each.symbols_on_air, self.scenario.radio.slots, self.rounds))

    @property
    def air_seconds(self) -> float:
        """How long all slots and rounds take together."""
        slots = self.in_all(lambda each: each.slot_seconds, self.scenario.radio.slots, self.rounds)
        return float(slots + self.acquisition_seconds)

    @property
    def acquisition_seconds(self) -> float:
        """How long it takes to acquire all workers, one after the other, before the first slot."""
        of_each = self.scenario.air.acquisition_symbols / SYMBOLS_PER_SECOND
        return float(self.scenario.workers.count * of_each / self.link.side_by_side(self.scenario))

    @property
    def acquisition_joules(self) -> float:
        """What all workers spend together while they are acquired, each at its power limit in its own time."""
        seconds = self.acquisition_seconds * self.link.side_by_side(self.scenario)
        return float(dbm_to_watts(self.scenario.radio.max_power_dbm) * seconds)

    @cached_property
    def of_rounds(self) -> System:
        """The same system in its rounds: workers send gradients."""
        scenario = replace(self.scenario, workers=replace(self.scenario.workers, sends="gradients"))
        return replace(self, scenario=scenario, before=self)

    @cached_property
    def air(self) -> IdealAir:
        return air_of(self.scenario)

    @cached_property
    def noise(self) -> Noise:
        noise: Noise = self.scenario.privacy.noise_kind
        return noise

    @cached_property
    def integers(self) -> IntegerSums | None:
        """The sums that workers send integers for; None where they send real numbers."""
        return self.noise.sums(self.scenario, self.sensitivity)

    @cached_property
    def floor(self) -> float:
        """Power gain of the weakest channel that a sending worker may have; 0 where fading has no floor."""
        return weakest_gain(self.scenario, np.array([self.farthest_metres]))

    @cached_property
    def sensitivity(self) -> Sensitivity:
        """What one worker can move, by the paper's bound or by what its encoder declares."""
        if self.moves is not None:
            return self.moves
        if self.before is not None and not self.noise.real:  # integers of both kinds keep one target together
            return self.before.sensitivity
        moves = self.air.sensitivity(self, self._data_sensitivity)
        return self.noise.rounded(moves, self.signal.symbols, self.of_rounds.signal.symbols if self.rounds else 0)

    @cached_property
    def gain_bound(self) -> float:
        """What no worker's power gain exceeds; see ``IdealAir.gain_bound``."""
        return self.air.gain_bound(self.scenario, self.sensitivity.numbers)

    @cached_property
    def _data_sensitivity(self) -> Sensitivity:
        scenario, signal = self.scenario, self.signal
        if scenario.privacy.sensitivity == "paper":
            # Label weights are at most 1.
            return Sensitivity.paper(signal.features, signal.classes)
        squared_norm, squared_distance = declared_bounds(scenario.workers, signal.features)
        sensitivity = Sensitivity(
            removal=signal.largest_squared_norm(squared_norm),
            replacement=signal.largest_squared_distance(squared_norm, squared_distance),
        )
        if self.rounds:  # gradients may point to opposite sides
            sensitivity = replace(sensitivity, replacement=4.0 * sensitivity.removal)
        return sensitivity

    @property
    def pilot_energy(self) -> float:
        """Energy of all pilots of a slot, where a symbol of amplitude 1 has energy 1.

        A Poisson schedule has none: how many workers tossed heads shows in a pilot as a gain does.
        """
        without = self.air.exact or self.scenario.radio.schedule_kind.by_coin
        return 0.0 if without else self.scenario.air.pilot_share * self._data_sensitivity.removal

    @cached_property
    def symbols_on_air(self) -> int:
        """Symbols that a slot takes: with data and without, pilots, guards; of integers one for each bit."""
        return self.noise.symbols_on_air(self.scenario, self.sensitivity, self.signal.symbols)

    @property
    def slot_seconds(self) -> float:
        """How long a slot lasts: tau, or what all that is sent in it needs where that is longer."""
        return float(self.link.slot_seconds(self))

    @property
    def joules_per_watt(self) -> float:
        """The energy that a worker spends in a slot per watt of P."""
        return float(self.link.joules_per_watt(self))

    @property
    def strengths(self) -> tuple[float, ...]:
        """Of each kind of slot, over that of the scenario's own."""
        return (1.0, self.round_strength) if self.rounds else (1.0,)

    def power_may_tell_schedule(self, received_watts: float) -> bool:
        """Return whether the power limit can bind in a slot, which makes its noise level depend on who was scheduled.

        What counts is whether it can, not whether it did: that it did not in any slot would tell of the schedule too.
        """
        if not self.link.on_air:
            return False
        policy = self.scenario.mixing.power_policy
        if policy.follows_channels or self.floor == 0.0:
            return True
        largest_watts = policy.largest_received_watts(self.scenario, received_watts)
        limit_watts = dbm_to_watts(self.scenario.radio.max_power_dbm)
        return bool(max(self.strengths) * largest_watts / self.floor > limit_watts)

    def design(self, received_watts: float) -> Design:
        """Return the slots, all equal, each planned to be received with beta max q^2 = ``received_watts``.

        The bound on how much more strongly a worker may be received is in it.
        """
        scenario, radio, most = self.scenario, self.scenario.radio, self.scenario.radio.max_participations
        stated = tuple(self._facts(received_watts))
        air = next((each for each in stated if isinstance(each, facts.ImperfectAir)), facts.ImperfectAir())
        bounds = air.of_kinds(len(self.strengths))
        return Design(
            workers=scenario.workers.count,
            scheduled=radio.scheduled,
            received_watts=tuple(
                each * received_watts * bound for each, bound in zip(self.strengths, bounds, strict=True)
            ),
            counts=(radio.slots, self.rounds) if self.rounds else (radio.slots,),
            sensitivity=self.sensitivity,
            noise_watts=scenario.privacy.noise_kind.stated_watts(scenario),
            max_participations=most,
            slots_per_round=slots_per_round(radio.slots, most) if most else 0,
            sampling=radio.schedule_kind.sampling,
            facts=stated,
        )

    def _facts(self, received_watts: float) -> Iterator[facts.Fact]:
        """Yield what each stage says of privacy: power, air, noise, ratios, schedule, transmitters."""
        scenario, radio = self.scenario, self.scenario.radio
        if self.power_may_tell_schedule(received_watts):
            yield facts.PowerTells()
        yield from self.air.facts(self)
        yield from self.noise.facts(scenario, self.sensitivity, received_watts)
        yield from scenario.mixing.assignment_kind.facts()
        yield from radio.schedule_kind.facts(scenario)
        yield facts.Transmitters(weakest_gain=self.floor, limit_watts=dbm_to_watts(radio.max_power_dbm))


def sensitivity_of(scenario: Scenario, input_dim: int, label_dim: int) -> Sensitivity:
    """Return what one worker can move, by the paper's bound or by what its encoder declares."""
    return System.of(scenario, input_dim, label_dim).sensitivity


def planned_design(scenario: Scenario, sensitivity: Sensitivity, *, received_watts: float) -> Design:
    """Return the scenario as equal slots; see ``System.design``."""
    return System.moving(scenario, sensitivity).design(received_watts)


def adversary_named(name: str, scenario: Scenario) -> Adversary:
    """Return the adversary of that name, as the scenario describes it."""
    adversary: Adversary = ADVERSARIES.load(name).of(scenario.met, partial(best_power_gain, scenario))
    return adversary
