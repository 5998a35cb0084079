"""What a scenario means: everything that follows from it and the data's dimensions, derived once and handed on."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from airmixml.arrays import Doubles, dbm_to_watts
from airmixml.errors import PrivacyError
from airmixml.impairments.antennas import antenna_gain_bound
from airmixml.impairments.gain_laws import gain_failure_of
from airmixml.impairments.leakage import removal_factor
from airmixml.privacy import Adversary, Design, Sensitivity, facts
from airmixml.privacy.design import slots_per_round
from airmixml.privacy.evaluation import MANY_ANTENNAS
from airmixml.privacy.rounded_noise import Rounding
from airmixml.radio.integer_sums import IntegerSums
from airmixml.radio.masking import Masking
from airmixml.radio.noise import Noise
from airmixml.radio.path_loss import best_power_gain, weakest_gain
from airmixml.radio.rounded_sensitivity import with_rounding
from airmixml.registries import ADVERSARIES, ENCODERS, PAYLOADS
from airmixml.scenario import Air, Scenario
from airmixml.workers import Signal, declared_bounds

if TYPE_CHECKING:
    from airmixml.impairments.gain_bound import GainsInRounds


@dataclass(frozen=True, kw_only=True)
class System:
    """A scenario with all that follows from it; each fact is derived when it is first asked for, and kept."""

    scenario: Scenario  # as its link meets the air
    dimensions: tuple[int, int] | None = None  # of encoded inputs and of labels; None where only privacy is asked for
    moves: Sensitivity | None = None  # what one worker can move, where that does not follow from the dimensions
    farthest_metres: float = 0.0  # distance of the farthest worker, where they are placed; 0: the square's corner

    @staticmethod
    def of(scenario: Scenario, input_dim: int, label_dim: int, distance_metres: Doubles | None = None) -> "System":
        """Return the system of a scenario whose encoded data have these dimensions; distances are workers'."""
        farthest = 0.0 if distance_metres is None else float(distance_metres.max())
        return _shared(scenario=scenario, dimensions=(input_dim, label_dim), farthest_metres=farthest)

    @staticmethod
    def moving(scenario: Scenario, moves: Sensitivity, distance_metres: Doubles | None = None) -> "System":
        """Return the system of a scenario whose workers can move a mixture so far."""
        farthest = 0.0 if distance_metres is None else float(distance_metres.max())
        return _shared(scenario=scenario, moves=moves, farthest_metres=farthest)

    def __getstate__(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}  # the rest is derived again

    @cached_property
    def signal(self) -> Signal:
        """What a worker sends in a slot."""
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

    def counted_in_rounds(self, received_watts: float) -> float:
        """Return what a round's received power counts as beside other slots: of integers it is that of bits."""
        sums = self.of_rounds.integers
        if self.integers is None or sums is None:
            return received_watts
        return received_watts * self.round_strength * self.integers.received_watts / sums.received_watts

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

    @property
    def uplink_symbols(self) -> int:
        """Symbols of all slots and rounds on the air."""
        slots = self.scenario.radio.slots * self.symbols_on_air
        return slots + (self.rounds * self.of_rounds.symbols_on_air if self.rounds else 0)

    @property
    def air_seconds(self) -> float:
        """How long all slots and rounds take together."""
        slots = self.scenario.radio.slots * self.slot_seconds + self.acquisition_seconds
        return slots + (self.rounds * self.of_rounds.slot_seconds if self.rounds else 0.0)

    @property
    def acquisition_seconds(self) -> float:
        """How long it takes to acquire all workers, one after the other, before the first slot."""
        return float(self.link.acquisition_seconds(self.scenario))

    @property
    def acquisition_joules(self) -> float:
        """What all workers spend together while they are acquired, each at its power limit in its own time."""
        seconds = self.acquisition_seconds * self.link.side_by_side(self.scenario)
        return float(dbm_to_watts(self.scenario.radio.max_power_dbm) * seconds)

    @cached_property
    def of_rounds(self) -> "System":
        """The same system in its rounds: workers send gradients."""
        scenario = replace(self.scenario, workers=replace(self.scenario.workers, sends="gradients"))
        return replace(self, scenario=scenario)

    @cached_property
    def noise(self) -> Noise:
        """What hides a worker."""
        noise: Noise = self.scenario.privacy.noise_kind
        return noise

    @cached_property
    def masking(self) -> Masking | None:
        """What workers add to hide themselves; None where other noise does."""
        return self.noise.masking(self.scenario)

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
        of_data, repeated = self._data_sensitivity, prefix_bound(self.scenario.air)
        # A worker that falls silent takes its share of the pilots along; they are the same for any sample. Who brings
        # its own noise is heard to take part whatever it sends.
        removal = of_data.removal + (0.0 if self.noise.brought else self.pilot_energy)
        if not self.noise.brought:
            removal *= removal_factor(self.scenario.air)
        # How strongly a worker may be received depends on how many symbols it sends.
        in_rounds = self.of_rounds.signal.symbols if self.rounds and not self.scenario.air.is_ideal else 0
        numbers = 0 if self.scenario.air.is_ideal else max(self.signal.symbols, in_rounds)
        replacement = repeated * of_data.replacement * amplified(self.scenario.air)
        moves = Sensitivity(removal=repeated * removal, replacement=replacement, numbers=numbers, in_rounds=in_rounds)
        return self.noise.rounded(moves, self.signal.symbols)

    @cached_property
    def gain_bound(self) -> float:
        """What no worker's power gain exceeds; see ``gain_bound``."""
        return gain_bound(self.scenario, self.sensitivity.numbers)

    @cached_property
    def gains_in_rounds(self) -> "GainsInRounds | None":
        """What gains in rounds add up to; None where no more than ``gain_bound`` is known of each."""
        if self.scenario.air.is_ideal or self.noise.brought:
            return None
        from airmixml.impairments.gain_bound import gains_in_rounds  # here: it needs torch

        return gains_in_rounds(self.scenario, self.gain_bound, self.antenna_gain_bound, self.sensitivity.in_rounds)

    @cached_property
    def antenna_gain_bound(self) -> float:
        """What all antennas have of a worker at most, over what the chosen one has; see ``antenna_gain_bound``."""
        if self.noise.brought:  # all antennas hear the same noise of a worker as they hear its data
            return 1.0
        return antenna_gain_bound(self.scenario, self._seats, self.sensitivity.numbers)

    @cached_property
    def _data_sensitivity(self) -> Sensitivity:
        scenario, signal = self.scenario, self.signal
        if scenario.privacy.sensitivity == "paper":
            # Label weights are at most 1.
            return with_rounding(scenario, Sensitivity.paper(signal.features, signal.classes), signal)
        squared_norm, squared_distance = declared_bounds(scenario.workers, signal.features)
        sensitivity = Sensitivity(
            removal=signal.largest_squared_norm(squared_norm),
            replacement=signal.largest_squared_distance(squared_norm, squared_distance),
        )
        if self.rounds:  # gradients may point to opposite sides
            sensitivity = replace(sensitivity, replacement=4.0 * sensitivity.removal)
        return with_rounding(scenario, sensitivity, signal)

    @property
    def _seats(self) -> int:
        """Seats of a slot whose gains must be bounded."""
        seats: int = self.scenario.radio.schedule_kind.seats_with_gains(self.scenario)
        return seats

    @property
    def pilot_energy(self) -> float:
        """Energy of all pilots of a slot, where a symbol of amplitude 1 has energy 1; 0 on the ideal air.

        A Poisson schedule has none: how many workers tossed heads shows in a pilot as a gain does.
        """
        air = self.scenario.air
        without = air.is_ideal or self.scenario.radio.schedule_kind.by_coin
        return 0.0 if without else air.pilot_share * self._data_sensitivity.removal

    @cached_property
    def symbols_on_air(self) -> int:
        """Symbols that a slot takes: with data and without, pilots, guards; of integers one for each bit."""
        return self.symbols_of(self.signal)

    def symbols_of(self, signal: Signal) -> int:
        """Return the same of a signal that may be another than the system's own."""
        return self.noise.symbols_on_air(self.scenario, self.sensitivity, signal.symbols)

    @property
    def slot_seconds(self) -> float:
        """How long a slot lasts: tau, or what all that is sent in it needs where that is longer."""
        seconds: float = self.link.slot_seconds(self)
        return seconds

    @property
    def joules_per_watt(self) -> float:
        """The energy that a worker spends in a slot per watt of P."""
        joules: float = self.link.joules_per_watt(self)
        return joules

    @property
    def strengths(self) -> tuple[float, ...]:
        """Of each kind of slot, over that of the scenario's own."""
        return (1.0, self.round_strength) if self.rounds else (1.0,)

    def power_may_tell_schedule(self, received_watts: float, floor: float | None = None) -> bool:
        """Return whether the power limit can bind in a slot, which makes its noise level depend on who was scheduled.

        What counts is whether it can, not whether it did: that it did not in any slot would tell of the schedule too.
        """
        if not self.link.on_air:
            return False
        policy, weakest = self.scenario.mixing.power_policy, self.floor if floor is None else floor
        if policy.follows_channels or weakest == 0.0:
            return True
        limit_watts = dbm_to_watts(self.scenario.radio.max_power_dbm)
        return bool(
            max(self.strengths) * policy.largest_received_watts(self.scenario, received_watts) / weakest > limit_watts
        )

    def design(self, received_watts: float, floor: float | None = None) -> Design:
        """Return the slots, all equal, each planned to be received with beta max q^2 = ``received_watts``.

        The bound on how much more strongly a worker may be received is in it. ``floor`` may be another than the
        system's.
        """
        scenario, radio = self.scenario, self.scenario.radio
        stated = tuple(self._facts(received_watts, self.floor if floor is None else floor))
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
            noise_watts=assumed_noise_watts(scenario),
            max_participations=radio.max_participations,
            slots_per_round=round_length_of(scenario),
            sampling=radio.schedule_kind.sampling,
            facts=stated,
        )

    def _facts(self, received_watts: float, floor: float) -> Iterator[facts.Fact]:
        """Yield what each stage says of privacy: power, air, noise, ratios, transmitters, antennas."""
        scenario, radio, air = self.scenario, self.scenario.radio, self.scenario.air
        gains, rounds = self.gains_in_rounds, range(1, self.rounds + 1)
        in_rounds = () if gains is None else tuple(gains.mean(count) for count in rounds)
        if self.power_may_tell_schedule(received_watts, floor):
            yield facts.PowerTells()
        if gains_tell_schedule(scenario):
            yield facts.GainsTell()
        yield from map(self._of_both, self.noise.facts(scenario, self.sensitivity, received_watts))
        yield from scenario.mixing.assignment_kind.facts()
        yield from radio.schedule_kind.facts(scenario)
        if not air.is_ideal:
            yield facts.ImperfectAir(
                gain_bound=self.gain_bound, in_rounds=in_rounds, gain_failure=gain_failure(scenario)
            )
        if air.power_step_db > 0.0 or math.isfinite(air.min_power_dbm):
            yield facts.SofterShares()
        at_server = () if gains is None else (gains.mean_at_server(count) for count in rounds)
        of_antennas = tuple(both / one for both, one in zip(at_server, in_rounds, strict=True))
        symbols = self.sensitivity.numbers
        many = 1.0 if self.noise.brought else antenna_gain_bound(scenario, self._seats, symbols, MANY_ANTENNAS)
        yield facts.Antennas(gain=self.antenna_gain_bound, in_rounds=of_antennas, count=air.antennas, many=many)
        yield facts.Transmitters(weakest_gain=floor, limit_watts=dbm_to_watts(radio.max_power_dbm))

    def _of_both(self, fact: facts.Fact) -> facts.Fact:
        """Return what noise says of slots of both kinds: of sums of integers, the coarser and longer of each."""
        sums = self.of_rounds.integers if self.rounds else None
        if sums is None or not isinstance(fact, facts.SumsOfIntegers) or fact.rounding is None:
            return fact
        both = fact.rounding, sums.rounding
        coarser = Rounding(step_mu=max(each.step_mu for each in both), numbers=max(each.numbers for each in both))
        return replace(fact, rounding=coarser)


def _shared(scenario: Scenario, **given: Any) -> System:
    scenario = scenario.met
    # A name may stand for another object later: an encoder's class that is written anew in a notebook.
    objects = _Objects(
        ENCODERS.load(scenario.workers.encoder),
        PAYLOADS.load(scenario.workers.sends),
        scenario.privacy.noise_kind,
        scenario.mixing.power_policy,
        scenario.radio.link_kind,
        scenario.radio.path_loss_kind,
        scenario.radio.schedule_kind,
    )
    return _cached(objects, scenario=scenario, **given)


@lru_cache(maxsize=8)  # a graph of masks may take 40 MB
def _cached(_objects: "_Objects", **given: Any) -> System:
    return System(**given)


class _Objects:
    """Equal where all objects are the same, whatever their own equality says."""

    def __init__(self, *objects: object) -> None:
        self._objects = objects  # held, so that no other object gets their identity

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Objects) and [*map(id, self._objects)] == [*map(id, other._objects)]

    def __hash__(self) -> int:
        return hash(tuple(map(id, self._objects)))


def sensitivity_of(scenario: Scenario, input_dim: int, label_dim: int) -> Sensitivity:
    """Return what one worker can move, by the paper's bound or by what its encoder declares."""
    return System.of(scenario, input_dim, label_dim).sensitivity


def planned_design(
    scenario: Scenario, sensitivity: Sensitivity, *, received_watts: float, floor: float | None = None
) -> Design:
    """Return the scenario as equal slots; see ``System.design``."""
    return System.moving(scenario, sensitivity).design(received_watts, floor)


def adversary_named(name: str, scenario: Scenario) -> Adversary:
    """Return the adversary of that name, as the scenario describes it."""
    adversary: Adversary = ADVERSARIES.load(name).of(scenario.met, partial(best_power_gain, scenario))
    return adversary


def round_length_of(scenario: Scenario) -> int:
    """Return the length of the rounds in which no worker sends twice; 0 without a limit on participations."""
    radio = scenario.radio
    return slots_per_round(radio.slots, radio.max_participations) if radio.max_participations else 0


def assumed_noise_watts(scenario: Scenario) -> float:
    """Return the noise power per complex symbol that statements assume: the least that the receiver may have."""
    watts: float = scenario.privacy.noise_kind.stated_watts(scenario)
    return watts


def amplified(air: Air) -> float:
    """Return by how much amplifiers may set two vectors of a worker farther apart, squared."""
    if math.isinf(air.amplifier_saturation_dbm):
        return 1.0
    from airmixml.impairments.amplifier import expansion  # here: it needs torch

    return expansion(air)


def prefix_bound(air: Air) -> float:
    """Return how many times the energy of its symbols a worker may be received with, where OFDM has a cyclic prefix.

    The prefix is the end of an OFDM symbol once more, with noise of its own, and a server may listen to it. The energy
    of a vector can lie all in what is repeated, so that it is sent twice; without a prefix nothing is.
    """
    return 2.0 if air.waveform == "ofdm" and air.cyclic_prefix else 1.0


def gain_bound(scenario: Scenario, symbols: int, seats: int = 0) -> float:
    """Return what no worker's power gain exceeds, except with probability ``gain_failure``; 1 on the ideal air.

    Of a worker's symbols in a slot (0: not known), and of so many seats together (0: of all slots).
    """
    if scenario.air.is_ideal or scenario.privacy.noise_kind.brought:  # their own noise grows with the gain
        return 1.0

    from airmixml.impairments.gain_bound import largest_power_gain  # here: it needs torch

    seats = seats or scenario.slots_on_air * scenario.radio.schedule_kind.seats_with_gains(scenario)
    bound = largest_power_gain(scenario, seats, symbols)
    if not math.isfinite(bound):
        raise PrivacyError(
            "air: nothing bounds how strongly a worker may be received, so that no epsilon holds; keep workers in deep "
            "fades silent (air.truncation_db), or estimate channels better"
        )
    return bound


def gain_failure(scenario: Scenario) -> float:
    """Return the probability with which ``gain_bound`` fails for some worker; 0 where it cannot."""
    if scenario.air.is_ideal or scenario.privacy.noise_kind.brought:
        return 0.0
    from airmixml.impairments.gain_bound import never_exceeded  # here: it needs torch

    of_antennas = scenario.air.antennas > 1 and scenario.radio.fading != "none"
    return gain_failure_of(scenario) if of_antennas or not never_exceeded(scenario) else 0.0


def gains_tell_schedule(scenario: Scenario) -> bool:
    """Return whether what an imperfect air does to a seat may depend on who sits there; see ``privacy.views``.

    Which of several antennas is listened to depends on all who are scheduled, and so does everybody's fading. A peak
    limit clips the more the weaker a channel, and two workers that clip differently may be farther apart than their
    samples are; so do amplifiers.
    """
    if scenario.air.is_ideal:
        return False
    if scenario.air.antennas > 1 and scenario.radio.fading != "none":
        return True
    if scenario.radio.schedule_kind.by_coin:
        return False
    from airmixml.impairments.gains import follows_worker  # here: it needs torch

    clips = math.isfinite(scenario.air.peak_power_dbm) or math.isfinite(scenario.air.amplifier_saturation_dbm)
    return clips or scenario.mixing.assignment_kind.follows_channels or follows_worker(scenario)
