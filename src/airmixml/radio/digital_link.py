"""Digital links: workers send integers modulo 2^b as packets, one after the other, to untrusted access points.

An access point adds up what its workers send and forwards one vector. A sum of masked integers is masked, so it learns
what an isolating listener does. Of the air a link has what its rate and its packet errors stand for, which are stated
and follow from no path loss; phases, timing and fading change no bit that arrives. Absent workers stay absent, and so
is a worker with a packet that never arrives, for the whole slot: half a vector would leave half of its masks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from airmixml.arrays import Doubles, dbm_to_watts
from airmixml.errors import ScenarioError
from airmixml.radio.analog_link import AnalogLink
from airmixml.radio.masking import enough_absent, recovery_in_words
from airmixml.scenario import Air, Radio, Scenario
from airmixml.wording import duration, plural

if TYPE_CHECKING:
    from airmixml.radio.draws import AirSetting, SlotTensors
    from airmixml.radio.integer_sums import IntegerSums
    from airmixml.radio.system import System
    from airmixml.scenario.tables import Link


class AbsentWorkers(Air):
    """What a digital link leaves of an air: workers that do not answer."""

    is_ideal = True


@dataclass(frozen=True)
class Traffic:
    """What vectors of so many bits take in a slot."""

    link: Link
    bits: int  # of a worker's vector
    workers: int  # of a slot

    @cached_property
    def packets(self) -> int:
        """Of one vector."""
        return -(-self.bits // (8 * self.link.packet_bytes))

    @cached_property
    def lost(self) -> float:
        """Probability that some packet of a vector never arrives: 1 - (1 - p^tries)^packets."""
        return -math.expm1(self.packets * math.log1p(-(self.link.packet_error**self.link.tries)))

    @cached_property
    def expected_tries(self) -> float:
        """How often a packet is sent on average: (1 - p^tries) / (1 - p)."""
        error = self.link.packet_error
        return (1.0 - error**self.link.tries) / (1.0 - error)

    @cached_property
    def worker_bits(self) -> float:
        """What a worker sends on average, headers and repeated packets included."""
        return (self.bits + 8 * self.packets * self.link.header_bytes) * self.expected_tries

    @cached_property
    def worker_seconds(self) -> float:
        """For how long a worker sends."""
        return self.worker_bits / (1e6 * self.link.rate_mbps)

    @cached_property
    def busiest(self) -> int:
        """Workers of the busiest access point; they are divided evenly."""
        return -(-self.workers // self.link.access_points)

    @cached_property
    def air_seconds(self) -> float:
        """How long a slot takes: as long as the busiest access point, or as a worker's duty allows."""
        return self.worker_seconds * max(float(self.busiest), 1.0 / self.link.duty)

    @cached_property
    def backhaul_bits(self) -> int:
        """One vector from each access point."""
        return min(self.link.access_points, self.workers) * self.bits

    @cached_property
    def backhaul_seconds(self) -> float:
        """How long an access point takes to forward it."""
        return self.bits / (1e6 * self.link.backhaul_mbps)


class DigitalLink(AnalogLink):
    """Packets with integers, one worker of an access point after the other."""

    about = "packets, one worker of an access point after the other: integers modulo 2^b, on any air"
    on_air = False
    unit = "bits"

    def meets(self, air: Air, radio: Radio) -> tuple[Air, Radio]:
        """Return an air that has nothing but absent workers, who have to be acquired, and no fading."""
        if isinstance(air, AbsentWorkers):
            return air, radio
        kept = {name: getattr(air, name) for name in ("preset", "absent", "acquisition_symbols")}
        return AbsentWorkers(**kept), replace(radio, fading="none")

    def side_by_side(self, scenario: Scenario) -> int:
        """Return how many access points acquire workers at the same time."""
        return min(scenario.link.access_points, scenario.workers.count)

    def check(self, tables: Any) -> None:
        """Refuse real numbers, and a power above the limit."""
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
        absent = 1.0 - (1.0 - scenario.air.absent) * (1.0 - self._traffic(scenario, sums).lost)
        if enough_absent(scenario, chance=absent) > scenario.privacy.most_absent:
            mend = recovery_in_words(scenario, chance=absent)
            raise ScenarioError(
                f"privacy.most_absent = {scenario.privacy.most_absent:g}: {absent:.3g} of the workers are absent on "
                f"average, who do not answer (air.absent = {scenario.air.absent:g}) or lose a packet, and one mask "
                f"that is not recovered spoils a sum of integers; {mend}"
            )

    def traffic(self, system: System) -> Traffic:
        """Return what a slot takes."""
        assert system.integers is not None
        return self._traffic(system.scenario, system.integers)

    def _traffic(self, scenario: Scenario, sums: IntegerSums) -> Traffic:
        return Traffic(scenario.link, sums.symbols, scenario.radio.scheduled)

    def slot_seconds(self, system: System) -> float:
        """Return how long a slot lasts: tau, or what its packets need where that is longer."""
        return max(system.scenario.radio.slot_seconds, self.traffic(system).air_seconds)

    def joules_per_watt(self, system: System) -> float:
        """Return for how long a worker sends."""
        return self.traffic(system).worker_seconds

    def planned_watts(self, scenario: Scenario, received_watts: float, power_gain: Doubles) -> Doubles:
        """Return the power of a packet for each."""
        return np.full_like(power_gain, dbm_to_watts(scenario.link.power_dbm))

    def told_share(self, system: System) -> float:
        """Return 1: a worker sends with its power, or not at all."""
        return 1.0

    def energy_in_words(self, scenario: Scenario) -> str:
        """Return what a packet takes."""
        return "power x how long a worker's packets last, per slot"

    def lost_share(self, system: System) -> float:
        """Return the probability that a packet of a worker never arrives."""
        return self.traffic(system).lost

    def sent(self, setting: AirSetting, planned: SlotTensors, slots: range) -> SlotTensors:
        """Return who sends and who arrives: the server has the mean over the latter."""
        import torch

        from airmixml.randomness.slot_words import slot_words, uniforms

        scenario, device = setting.scenario, planned.ratios.device
        seats = planned.ratios.shape[1]
        chance = uniforms(slot_words(setting.streams, "air", device).words(slots, seats))
        silent = scenario.air.absent
        arrives = chance >= 1.0 - (1.0 - silent) * (1.0 - setting.lost)
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
        """Return what a vector is, and what all slots and rounds take of a worker and behind the access points."""
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
        """Return what is stated."""
        return scenario.link.bandwidth_hz


def link_rows(link: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what a digital link takes, from the plain values of ``DigitalLink.to_dict``, as rows of a table."""
    points, rate = plural(int(link["access_points"]), "untrusted access point"), f"{link['rate_mbps']:g} Mb/s"
    packets = f"{link['packets_per_vector']:,.0f} packets per vector, each sent {link['expected_tries']:.3g} times"
    lost = (
        f"{link['lost_share']:.2g} of the vectors lost, {link['absent_share']:g} never sent: whole workers are absent"
    )
    return [
        ("digital link", f"{points} at {rate}, up to {link['workers_of_busiest']:,.0f} workers at each"),
        ("packets", f"{packets}; {lost}"),
        ("a worker sends", f"{link['worker_bits'] / 1e6:,.4g} Mbit in {duration(link['worker_seconds'])}"),
        ("backhaul", f"{link['backhaul_bits'] / 1e6:,.4g} Mbit, {duration(link['backhaul_seconds'])} besides"),
    ]


DIGITAL: Final = DigitalLink()
