"""An air with impairments: gains that are drawn, bounds on them, and what they cost in symbols, power and privacy.

A worker's converter rounds what it sends. Let it send Q(v), shortened to the declared norm R. Its removal moves a
mixture by at most R, as before. Shortening is the projection on a ball, which sets no two vectors farther apart, and
rounding moves a vector by at most r = sqrt(d) step / 2. So a replacement moves it by at most
min(2 R, ||v - v'|| + 2 r); the step is that of the largest symbol that can be sent. The waveform of OFDM saturates at
a level that depends on v: there 2 R is all that is known.

Nobody's data decide who of the scheduled workers sends, and with which power. A transmitter has powers that it can send
with: none below its lowest, and those between in steps. A worker that cannot send with the power it should takes the
next lower one, or stays silent: it is never louder than planned. How soft a seat is depends on who sits in it; a hidden
schedule still hides, since its vector keeps within the same bounds.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import torch

from airmixml.arrays import db_to_ratio, dbm_to_watts
from airmixml.impairments.fading import choose_antenna, draw_magnitude, fades, silent_share
from airmixml.impairments.frame import frame_of
from airmixml.impairments.gain_bound import (
    GainsInRounds,
    antenna_gain_bound,
    gain_spread,
    gains_in_rounds,
    largest_power_gain,
    never_exceeded,
)
from airmixml.impairments.gain_laws import gain_failure_of
from airmixml.impairments.gains import OwnWords, SeatDraws, SeatGains, follows_worker, phases_stay, staying_errors
from airmixml.impairments.hardware import expansion, removal_factor
from airmixml.impairments.renewal import echoes_of, inverted_amplitude, renew
from airmixml.messages import PrivacyError
from airmixml.privacy import Sensitivity
from airmixml.privacy.evaluation import MANY_ANTENNAS
from airmixml.privacy.facts import Antennas, Fact, GainsTell, ImperfectAir, OthersInSeats
from airmixml.radio.air import Arrival, Channels, IdealAir, prefix_bound
from airmixml.radio.draws import AirSetting, SlotTensors
from airmixml.radio.impaired_reception import ImpairedArrival
from airmixml.radio.system import System
from airmixml.randomness.slot_words import SlotWords, slot_words
from airmixml.scenario import Air, Scenario
from airmixml.workers import Signal, declared_bounds, sends_inputs_unchanged
from airmixml.workers.payloads import steps_to_end
from airmixml.workers.signal import Payload

_MOST_PROBES: Final = 512  # which tell a variance within 6 %
_MOST_SILENT: Final = 0.999


class _ImpairedAir(IdealAir):
    """Every worker has a gain in each piece of a slot: the product of what the air's impairments do to it."""

    exact = False
    nobody_sent = (
        "air: nobody sent in any slot; lower air.truncation_db, air.min_power_dbm or air.absent, schedule more "
        "workers, or run more slots"
    )

    def symbols(self, scenario: Scenario, data_symbols: int) -> int:
        return frame_of(scenario.air, data_symbols).symbols

    def probes(self, data_symbols: int) -> int:
        """Return no more than data symbols: how far those are from what was meant, only the data could tell."""
        return min(_MOST_PROBES, data_symbols)

    def drawn_gains(self, setting: AirSetting) -> int:
        return frame_of(setting.scenario.air, setting.signal.symbols).pieces

    def sensitivity(self, system: System, of_data: Sensitivity) -> Sensitivity:
        scenario, signal = system.scenario, system.signal
        removal, replacement = self._moves(system, of_data)
        repeated = prefix_bound(scenario.air)
        # How strongly a worker may be received depends on how many symbols it sends.
        in_rounds = system.of_rounds.signal.symbols if system.rounds else 0
        return Sensitivity(
            removal=repeated * removal,
            replacement=repeated * replacement * expansion(scenario.air),
            numbers=max(signal.symbols, in_rounds),
            in_rounds=in_rounds,
        )

    def _moves(self, system: System, of_data: Sensitivity) -> tuple[float, float]:
        """Return squared moves with what a worker sends besides its data, and with rounding."""
        # A worker that falls silent takes its share of the pilots along; they are the same for any sample.
        removal = (of_data.removal + system.pilot_energy) * removal_factor(system.scenario.air)
        return removal, _with_rounding(system.scenario, of_data.replacement, system.signal)

    def gain_bound(self, scenario: Scenario, symbols: int) -> float:
        seats = scenario.slots_on_air * scenario.radio.schedule_kind.seats_with_gains(scenario)
        bound = largest_power_gain(scenario, seats, symbols)
        if not math.isfinite(bound):
            raise PrivacyError(
                "air: nothing bounds how strongly a worker may be received, so that no epsilon holds; keep workers in "
                "deep fades silent (air.truncation_db), or estimate channels better"
            )
        return bound

    def gain_failure(self, scenario: Scenario) -> float:
        return gain_failure_of(scenario) if _antennas_differ(scenario) else self.sent_failure(scenario)

    def sent_failure(self, scenario: Scenario) -> float:
        return 0.0 if never_exceeded(scenario) else gain_failure_of(scenario)

    def gains_tell_schedule(self, scenario: Scenario) -> bool:
        """Return whether antennas, clipping, or some gain follows from who is scheduled.

        Which of several antennas is listened to depends on all who are scheduled, and so does everybody's fading. A
        peak limit clips the more the weaker a channel, and two workers that clip differently may be farther apart than
        their samples are; so do amplifiers. Errors that stay with a worker have credit within bounds that always
        hold (``OthersInSeats``): one that may fail is one on the gains of those who did sit in a seat.
        """
        if _antennas_differ(scenario):
            return True
        if scenario.radio.schedule_kind.by_coin:
            return False
        clips = math.isfinite(scenario.air.peak_power_dbm) or math.isfinite(scenario.air.amplifier_saturation_dbm)
        if staying_errors(scenario) and not scenario.all_send and not never_exceeded(scenario):
            return True
        return clips or scenario.mixing.assignment_kind.follows_channels or follows_worker(scenario)

    def facts(self, system: System) -> Iterator[Fact]:
        scenario, gains, rounds = system.scenario, self._in_rounds(system), range(1, system.rounds + 1)
        tells = self.gains_tell_schedule(scenario)
        if tells:
            yield GainsTell()
        in_rounds = () if gains is None else tuple(gains.mean(each) for each in rounds)
        yield ImperfectAir(gain_bound=system.gain_bound, in_rounds=in_rounds, gain_failure=self.gain_failure(scenario))
        hidden = not (tells or scenario.all_send or scenario.radio.schedule_kind.by_coin)
        if staying_errors(scenario) and hidden:
            yield OthersInSeats(loudest=system.gain_bound, turned=phases_stay(scenario))
        elif _sends_softly(scenario.air):
            yield OthersInSeats()
        yield Antennas(
            gain=self._antenna_gain(system),
            in_rounds=()
            if gains is None
            else tuple(gains.mean(each, at_server=True) / gains.mean(each) for each in rounds),
            count=scenario.air.antennas,
            many=self._antenna_gain(system, MANY_ANTENNAS),
        )

    def _in_rounds(self, system: System) -> GainsInRounds | None:
        """Return what gains in rounds add up to; None where no more than the bound on each is known."""
        return gains_in_rounds(
            system.scenario, system.gain_bound, self._antenna_gain(system), system.sensitivity.in_rounds
        )

    def _antenna_gain(self, system: System, antennas: int = 0) -> float:
        """Return what all antennas have of a worker at most, over what the chosen one has; or so many antennas."""
        seats = system.scenario.radio.schedule_kind.seats_with_gains(system.scenario)
        return antenna_gain_bound(system.scenario, seats, system.sensitivity.numbers, antennas)

    def spread(self, scenario: Scenario) -> tuple[float, float]:
        return gain_spread(scenario), min(silent_share(scenario), _MOST_SILENT)

    def channels(
        self, setting: AirSetting, workers: torch.Tensor, gain: torch.Tensor, slots: range, source: SlotWords
    ) -> Channels:
        """Draw channels, and who is in a fade below ``air.truncation_db``: truncated inversion.

        (Goldsmith and Varaiya 1997, IEEE Trans. Inf. Theory 43(6); over the air Zhu, Wang and Huang 2020, IEEE Trans.
        Wireless Commun. 19(1).) The server, which knows who is silent, does not lower the power scale of a slot for
        them. Fading has one law for every worker, and is compared with the worker's own mean: so which seats are silent
        is independent of who sits in them, and a hidden schedule hides as before.
        """
        scenario, unfaded = setting.scenario, gain[workers]
        seats = SeatDraws(
            slots=slots,
            frame=frame_of(scenario.air, setting.signal.symbols),
            workers=workers,
            magnitude=unfaded,
            path_gain=unfaded,
            source=slot_words(setting.streams, "air", workers.device),
            in_slot=workers.shape[1],
            own=_own_words(setting, workers.device),
        )
        echoes, renewed, several = echoes_of(scenario), renew(scenario, seats), scenario.air.antennas > 1
        antenna_gain = weakest = None
        if renewed is not None:
            magnitude, weakest = unfaded * renewed.inverted, unfaded * renewed.weakest
            antenna_gain = renewed.antenna_gain if several else None
        elif echoes is not None:
            magnitude = unfaded * inverted_amplitude(scenario, echoes, seats)
        else:
            magnitude = draw_magnitude(scenario.radio, gain, workers, slots, source)
        if renewed is None and several:
            magnitude, antenna_gain = choose_antenna(scenario, magnitude, unfaded, slots, source)
        truncates = scenario.air.truncation_db > -math.inf and fades(scenario)
        reached = (magnitude / unfaded).square() >= db_to_ratio(scenario.air.truncation_db) if truncates else None
        return Channels(magnitude, antenna_gain, reached, weakest, replace(seats, magnitude=magnitude))

    def sent(self, setting: AirSetting, planned: SlotTensors, channels: Channels, slots: range) -> SlotTensors:
        """Return what happens: who is absent has share and power 0, who sends more softly than planned a smaller share.

        The power scale of the slot was set before anybody knew.
        """
        scenario, seats = setting.scenario, channels.seats
        ratios, power_watts = planned.ratios, planned.power_watts
        if scenario.air.absent:
            there = seats.uniforms("absent")[:, :, 0] >= scenario.air.absent
            ratios, power_watts = ratios * there, power_watts * there
        if _sends_softly(scenario.air):
            possible = possible_power(scenario, power_watts, setting.radiated_share)
            kept = (possible / power_watts).nan_to_num_(nan=0.0)
            ratios, power_watts = ratios * kept.sqrt_(), possible
        return replace(planned, ratios=ratios, power_watts=power_watts, gains=SeatGains(scenario=scenario, draws=seats))

    def arrive(
        self, setting: AirSetting, payload: Payload, index: torch.Tensor, drawn: SlotTensors, slots: range
    ) -> Arrival:
        return ImpairedArrival(setting, payload, index, drawn, slots)


class _AirCarryingNoise(_ImpairedAir):
    """The same where workers bring noise: it takes the way of their data, so that no gain tells more of them.

    Who brings it is heard to take part whatever it sends.
    """

    gain_bound, gain_failure = IdealAir.gain_bound, IdealAir.sent_failure

    def _moves(self, system: System, of_data: Sensitivity) -> tuple[float, float]:
        return of_data.removal, of_data.replacement

    def _in_rounds(self, system: System) -> GainsInRounds | None:
        return None

    def _antenna_gain(self, system: System, antennas: int = 0) -> float:
        return 1.0


IMPAIRED: Final = _ImpairedAir()
CARRYING_NOISE: Final = _AirCarryingNoise()


def _antennas_differ(scenario: Scenario) -> bool:
    return scenario.air.antennas > 1 and scenario.radio.fading != "none"


def _with_rounding(scenario: Scenario, replacement: float, signal: Signal) -> float:
    """Return the squared move of a replacement where symbols go through the workers' converters.

    The paper's bound is on samples in [0, 1]. Their levels lie in [0, 1] as well, so that it holds unchanged.
    """
    air, of_paper = scenario.air, scenario.privacy.sensitivity == "paper"
    if not air.dac_bits or (of_paper and air.waveform != "ofdm"):
        return replacement
    squared_norm, squared_distance = declared_bounds(scenario.workers, signal.features)
    longest = 4.0 * signal.largest_squared_norm(squared_norm)
    if air.waveform == "ofdm":
        return max(replacement, longest)
    # Rounding moves a vector by half a step in each symbol at most.
    radius = math.sqrt(signal.symbols) * _largest_symbol(scenario, signal) / (2.0 * steps_to_end(air.dac_bits))
    apart = math.sqrt(signal.largest_squared_distance(squared_norm, squared_distance)) + 2.0 * radius
    return max(replacement, min(longest, apart**2))


def _largest_symbol(scenario: Scenario, signal: Signal) -> float:
    """Return the largest symbol that any sample can be sent with.

    Of several rows and rounded numbers it is known only that the whole vector has its norm.
    """
    workers = scenario.workers
    squared_norm, _ = declared_bounds(workers, signal.features)
    if signal.several_rows or signal.bits:
        return math.sqrt(signal.largest_squared_norm(squared_norm))
    if signal.moments:
        return max(squared_norm, signal.label_weight * math.sqrt(squared_norm))
    return max(1.0 if sends_inputs_unchanged(workers) else math.sqrt(squared_norm), signal.label_weight)


def _sends_softly(air: Air) -> bool:
    """Return whether some worker may be unable to send with the power that it should."""
    return air.power_step_db > 0.0 or math.isfinite(air.min_power_dbm)


def possible_power(scenario: Scenario, power_watts: torch.Tensor, radiated_share: float) -> torch.Tensor:
    """Return the power that each worker sends with instead of P: the next on the grid at or below it, or 0; same shape.

    The grid is P_max less whole steps of ``air.power_step_db``. What is radiated on average over a slot, P times
    ``radiated_share``, must be at least ``air.min_power_dbm``, less attenuators. Nobody's data decide who is silent.
    """
    air, limit_watts = scenario.air, dbm_to_watts(scenario.radio.max_power_dbm)
    possible = power_watts
    if air.power_step_db:
        step = 10.0 ** (air.power_step_db / 10.0)
        # A hair less than a whole number of steps is rounding.
        steps = torch.ceil(torch.log(limit_watts / power_watts) / math.log(step) - 1e-9)
        possible = torch.minimum(limit_watts * step**-steps, power_watts)
    return possible * (possible * radiated_share >= dbm_to_watts(air.lowest_power_dbm))


def _own_words(setting: AirSetting, device: torch.device) -> OwnWords:
    """Return the words that stay with workers: the same in all slots of a run, rounds or not, so made once."""
    if (OwnWords, device) not in setting.kept:
        source = slot_words(replace(setting.streams, kind=0), "air", device)
        setting.kept[OwnWords, device] = OwnWords.of(setting.scenario, source)
    own: OwnWords = setting.kept[OwnWords, device]
    return own
