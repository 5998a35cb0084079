"""How vectors get from workers to the server: a class for each kind of link, behind the registry ``LINKS``.

A link knows what of the air it meets, who is absent, how long a slot takes and what a worker spends, and what it
refuses. This one is analog: all workers of a slot send at once, and their signals add up on the air.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from airmixml.arrays import Doubles, db_to_ratio, dbm_to_watts, ratio_to_db, watts_to_dbm
from airmixml.errors import ScenarioError
from airmixml.radio.air import prefix_bound
from airmixml.scenario import Air, Radio, Scenario
from airmixml.scenario.air import SYMBOLS_PER_SECOND
from airmixml.wording import duration

if TYPE_CHECKING:
    from airmixml.radio.draws import AirSetting, SlotTensors
    from airmixml.radio.integer_sums import IntegerSums
    from airmixml.radio.system import System

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

    def acquisition_seconds(self, scenario: Scenario) -> float:
        """Return how long it takes to acquire all workers before the first slot."""
        of_each = scenario.air.acquisition_symbols / SYMBOLS_PER_SECOND
        return scenario.workers.count * of_each / self.side_by_side(scenario)

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
        from scipy.special import ndtri  # here: it takes a while to import

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


ANALOG: Final = AnalogLink()


def acquisition_rows(scenario: Scenario) -> list[tuple[str, str]]:
    """Return what it takes to acquire workers, as a row of a table; none where that is not counted."""
    symbols, seconds = scenario.air.acquisition_symbols, scenario.radio.link_kind.acquisition_seconds(scenario.met)
    if not symbols:
        return []
    return [("acquisition", f"{symbols:,} symbols of each worker before the first slot, {duration(seconds)} of it")]
