"""How vectors get from workers to the server: a class for each kind of link, behind the registry ``LINKS``.

A link knows what of the air it meets, who is absent, how long a slot takes, what a worker spends, and what it refuses.
On the analog one all workers of a slot send at once, and their signals add up on the air.

On a digital one (docs/trust.md#digital-links) workers send integers modulo 2^b as packets, one after the other, to
untrusted access points. Of the air a link has what its rate and its packet errors stand for; phases, timing and fading
change no bit that arrives. A worker with a packet that never arrives is absent for the whole slot: half a vector would
leave half of its masks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy.special import ndtri

from airmixml.arrays import Doubles, db_to_ratio, dbm_to_watts, ratio_to_db, torch, watts_to_dbm
from airmixml.messages import ScenarioError, duration, plural
from airmixml.radio.air import prefix_bound
from airmixml.randomness.slot_words import slot_words
from airmixml.scenario import Air, Link, Radio, Scenario
from airmixml.scenario.air import SYMBOLS_PER_SECOND

if TYPE_CHECKING:
    from airmixml.radio.draws import AirSetting, SlotTensors
    from airmixml.radio.system import System
    from airmixml.radio.workers_noise import IntegerSums

WRONG_NUMBERS: Final = 0.01
"""Expected numbers of all sums of a run that are wrong because a bit plane was heard wrongly."""


class AnalogLink:
    """Signals of all workers of a slot add up on the air."""

    about = "all workers of a slot at once: their signals add up on the air"
    on_air = True  # whether what a worker sends depends on its channel: its power, and so whether the limit binds
    unit = "symbols"  # what a slot is counted in

    def meets(self, air: Air, radio: Radio) -> tuple[Air, Radio]:
        """Return what of the air and of the channels what is sent meets: all of both."""
        return air, radio

    def side_by_side(self, scenario: Scenario) -> int:
        """Return how many workers are acquired at the same time."""
        return 1

    def check(self, tables: Any) -> None:
        """Refuse what it cannot carry; the tables are those of a scenario, and of its air all."""
        if not (tables.privacy.noise_kind.real or tables.air.is_ideal):
            raise ScenarioError(
                'privacy.arithmetic = "integers": needs the ideal air: residues must arrive exactly, and one wrong bit '
                'spoils a number; use radio.link = "digital", which carries them on any air, privacy.arithmetic = '
                '"real", or air.preset = "ideal"'
            )

    def received_watts(self, scenario: Scenario, planes: int) -> float:
        """Return the power of a worker's bit at the server, where a run has so many bit planes of integers.

        Bits are sent as +-1/2: with G = (1/4) / (noise variance of the real part) a plane fails at 2 Phi(-sqrt(G)).
        """
        snr = db_to_ratio(float(ratio_to_db(ndtri(WRONG_NUMBERS / planes / 2.0) ** 2)))
        return snr * dbm_to_watts(scenario.radio.noise_dbm) / 2.0

    def check_sums(self, scenario: Scenario, sums: IntegerSums, floor: float) -> None:
        """Refuse bit planes that take more than the power limit of the worker with the weakest channel."""
        limit_dbm, needed_dbm = scenario.radio.max_power_dbm, float(watts_to_dbm(sums.received_watts / floor))
        if needed_dbm > limit_dbm:
            raise ScenarioError(
                f"radio.max_power_dbm = {limit_dbm:g}: the bits of the farthest worker take {needed_dbm:.1f} dBm where "
                'privacy.arithmetic = "integers"; must be at least that, or use a smaller workers.side_metres'
            )

    def slot_seconds(self, system: System) -> float:
        """Return how long a slot lasts: tau, or what all its symbols need where that is longer."""
        of_signal = system.signal.slot_seconds(system.scenario.radio)
        return max(of_signal, system.symbols_on_air / SYMBOLS_PER_SECOND)

    def joules_per_watt(self, system: System) -> float:
        """Return the energy that a worker spends in a slot per watt of P.

        With a given slot length that is tau, the paper's count; else the time of one symbol times the largest ||v||^2,
        what can really be radiated. A cyclic prefix repeats its share of that.
        """
        if not system.noise.real:  # every bit is sent with full power
            return system.symbols_on_air / SYMBOLS_PER_SECOND
        if system.scenario.radio.slot_seconds:
            return system.slot_seconds
        air = system.scenario.air
        radiated = min(system.sensitivity.removal / prefix_bound(air), float(system.signal.symbols))
        return radiated * (air.grid.length / air.subcarriers if air.waveform == "ofdm" else 1.0) / SYMBOLS_PER_SECOND

    def planned_watts(self, scenario: Scenario, received_watts: float, power_gain: Doubles) -> Doubles:
        """Return P of workers that are received with so much, by the power gain of their channels; same shape."""
        return np.asarray(received_watts / power_gain)

    def told_share(self, system: System) -> float:
        """Return what powers are told as over what they are: with noise and masks, as radiated on average."""
        return system.joules_per_watt / system.slot_seconds if system.noise.brought else 1.0

    def energy_in_words(self, scenario: Scenario) -> str:
        """Return how the energy of a worker in a slot follows from its power, as tables state both."""
        tau = scenario.radio.slot_seconds
        if scenario.privacy.noise_kind.brought or tau:
            return f"mean power x {duration(tau) if tau else 'the length of a slot'}, per worker and slot"
        symbol = duration(1.0 / SYMBOLS_PER_SECOND)
        told = f"mean power x {symbol} x the largest squared norm sent, per worker and slot"
        return f"{told}; power is that of a symbol of value 1"

    def lost_share(self, system: System) -> float:
        """Return the probability that what a worker sends in a slot does not arrive."""
        return 0.0

    def sent(self, setting: AirSetting, planned: SlotTensors, slots: range) -> SlotTensors:
        """Return what is sent in slots on an air without impairments, as planned: on the air nothing is lost."""
        return planned

    def to_dict(self, system: System) -> dict[str, Any] | None:
        """Return what a slot takes besides symbols, as plain values for JSON; None: nothing."""
        return None

    def bandwidth_hz(self, scenario: Scenario) -> float:
        """Return the spectrum that it takes."""
        return SYMBOLS_PER_SECOND * (1.0 + scenario.air.roll_off)


class AbsentWorkers(Air):
    """What a digital link leaves of an air: workers that do not answer."""

    is_ideal = True


class Traffic:
    """What vectors of so many bits take in a slot of so many workers."""

    def __init__(self, link: Link, bits: int, workers: int) -> None:
        error, self.bits = link.packet_error, bits
        self.packets = -(-bits // (8 * link.packet_bytes))  # of one vector
        # Probability that some packet of a vector never arrives: 1 - (1 - p^tries)^packets.
        self.lost = -math.expm1(self.packets * math.log1p(-(error**link.tries)))
        # How often a packet is sent on average: (1 - p^tries) / (1 - p).
        self.expected_tries = (1.0 - error**link.tries) / (1.0 - error)
        # What a worker sends on average, headers and repeated packets included, and for how long.
        self.worker_bits = (bits + 8 * self.packets * link.header_bytes) * self.expected_tries
        self.worker_seconds = self.worker_bits / (1e6 * link.rate_mbps)
        self.busiest = -(-workers // link.access_points)  # workers of the busiest access point: divided evenly
        # A slot takes as long as the busiest access point, or as a worker's duty allows.
        self.air_seconds = self.worker_seconds * max(float(self.busiest), 1.0 / link.duty)
        self.backhaul_bits = min(link.access_points, workers) * bits  # one vector from each access point
        self.backhaul_seconds = bits / (1e6 * link.backhaul_mbps)


class DigitalLink(AnalogLink):
    """Packets with integers, one worker of an access point after the other."""

    about = "packets, one worker of an access point after the other: integers modulo 2^b, on any air"
    on_air = False
    unit = "bits"

    def meets(self, air: Air, radio: Radio) -> tuple[Air, Radio]:
        if isinstance(air, AbsentWorkers):
            return air, radio
        kept = {name: getattr(air, name) for name in ("preset", "absent", "acquisition_symbols")}
        return AbsentWorkers(**kept), replace(radio, fading="none")

    def side_by_side(self, scenario: Scenario) -> int:
        return min(scenario.link.access_points, scenario.workers.count)

    def check(self, tables: Any) -> None:
        privacy, digital = tables.privacy, 'for radio.link = "digital"'
        if privacy.noise_kind.real:
            raise ScenarioError(
                f'privacy.arithmetic = "real": must be "integers" {digital}, whose packets carry them; with '
                'privacy.noise = "masked" or "workers"'
            )
        if tables.link.power_dbm > tables.radio.max_power_dbm:
            raise ScenarioError(
                f"link.power_dbm = {tables.link.power_dbm:g}: must be at most radio.max_power_dbm = "
                f"{tables.radio.max_power_dbm:g}"
            )

    def received_watts(self, scenario: Scenario, planes: int) -> float:
        """Return a unit: no epsilon follows from the power of a packet."""
        return 1.0

    def check_sums(self, scenario: Scenario, sums: IntegerSums, floor: float) -> None:
        """Refuse masks of absent workers that would not be recovered: one missing mask spoils the sum."""
        if not sums.masked:
            return
        from airmixml.radio.masking import enough_absent  # here: an analog run needs no masks

        lost = Traffic(scenario.link, sums.symbols, scenario.radio.scheduled).lost
        absent = 1.0 - (1.0 - scenario.air.absent) * (1.0 - lost)
        enough = enough_absent(scenario, chance=absent)
        if enough > scenario.privacy.most_absent:
            more = "" if enough < 0.5 else ", but masks of fewer than half are recovered: schedule more workers"
            raise ScenarioError(
                f"privacy.most_absent = {scenario.privacy.most_absent:g}: {absent:.3g} of the workers are absent on "
                f"average, who do not answer (air.absent = {scenario.air.absent:g}) or lose a packet, and one mask "
                f"that is not recovered spoils a sum of integers; must be at least {enough:g}{more}"
            )

    def traffic(self, system: System) -> Traffic:
        """Return what a slot takes."""
        assert system.integers is not None
        return Traffic(system.scenario.link, system.integers.symbols, system.scenario.radio.scheduled)

    def slot_seconds(self, system: System) -> float:
        return max(system.scenario.radio.slot_seconds, self.traffic(system).air_seconds)

    def joules_per_watt(self, system: System) -> float:
        return self.traffic(system).worker_seconds

    def planned_watts(self, scenario: Scenario, received_watts: float, power_gain: Doubles) -> Doubles:
        return np.full_like(power_gain, dbm_to_watts(scenario.link.power_dbm))

    def told_share(self, system: System) -> float:
        return 1.0

    def energy_in_words(self, scenario: Scenario) -> str:
        return "power x how long a worker's packets last, per slot"

    def lost_share(self, system: System) -> float:
        return self.traffic(system).lost

    def sent(self, setting: AirSetting, planned: SlotTensors, slots: range) -> SlotTensors:
        """Return who sends and who arrives: the server has the mean over the latter."""
        scenario, device = setting.scenario, planned.ratios.device
        seats = planned.ratios.shape[1]
        chance = slot_words(setting.streams, "air", device).uniforms(slots, seats)
        silent = scenario.air.absent
        arrives = chance >= 1.0 - (1.0 - silent) * (1.0 - self.lost_share(setting))
        power_watts = dbm_to_watts(scenario.link.power_dbm) * (chance >= silent).double()
        counts = arrives.sum(dim=1, keepdim=True).clamp(min=1)
        return replace(
            planned,
            ratios=arrives / counts.double(),
            power_watts=power_watts,
            power_scale_watts=torch.full_like(planned.power_scale_watts, setting.private_received_watts * seats**2),
            limited=torch.zeros_like(planned.limited),
        )

    def to_dict(self, system: System) -> dict[str, Any] | None:
        scenario, traffic = system.scenario, self.traffic(system)
        every = [(scenario.radio.slots, traffic)]
        if system.rounds:
            every.append((system.rounds, self.traffic(system.of_rounds)))
        totals = ("worker_bits", "worker_seconds", "backhaul_bits", "backhaul_seconds")
        return {
            "access_points": scenario.link.access_points,
            "rate_mbps": scenario.link.rate_mbps,
            "bits_per_vector": traffic.bits,
            "packets_per_vector": traffic.packets,
            "expected_tries": traffic.expected_tries,
            "lost_share": traffic.lost,
            "absent_share": scenario.air.absent,
            "workers_of_busiest": traffic.busiest,
            **{name: sum(slots * getattr(each, name) for slots, each in every) for name in totals},
        }

    def bandwidth_hz(self, scenario: Scenario) -> float:
        return scenario.link.bandwidth_hz


def link_rows(link: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what a digital link takes, from the plain values of ``DigitalLink.to_dict``, as rows of a table."""
    points = plural(int(link["access_points"]), "untrusted access point")
    sent = f"{link['worker_bits'] / 1e6:,.4g} Mbit in {duration(link['worker_seconds'])}"
    return [
        ("digital link", f"{points} at {link['rate_mbps']:g} Mb/s, {link['lost_share']:.2g} of the vectors lost"),
        ("a worker sends", f"{sent}; backhaul {link['backhaul_bits'] / 1e6:,.4g} Mbit"),
    ]
