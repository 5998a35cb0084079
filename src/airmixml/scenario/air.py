"""The table ``[air]``: what is not ideal between a worker's memory and the server's. All of it is off by default."""

import math
import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from airmixml.errors import ScenarioError
from airmixml.registries import IMPAIRMENTS
from airmixml.scenario.rules import Choice, Items, Named, Real, Table, Whole, check_fields, key
from airmixml.scenario.waveform import SYMBOLS_PER_SECOND, SubcarrierGrid, ringing_symbols
from airmixml.wording import did_you_mean, shown

_FILES = Path(__file__).parents[1] / "airs"

AIR_PRESETS: Final = tuple(
    sorted(
        (entry.name.removesuffix(".toml") for entry in _FILES.iterdir() if entry.name.endswith(".toml")),
        key=lambda name: (name != "ideal", name),
    )
)
"""Names of the airs that come with the package, each a file of keys of this table and of others; the ideal first."""


def air_text(name: object) -> str:
    """Return the TOML file of an air, as shipped."""
    if name not in AIR_PRESETS:
        near = did_you_mean(name, AIR_PRESETS) if isinstance(name, str) else ""
        raise ScenarioError(f"air.preset = {shown(name)}: must be one of {', '.join(AIR_PRESETS)}{near}")
    return (_FILES / f"{name}.toml").read_text(encoding="utf-8")


def air_tables(name: object) -> dict[str, dict[str, Any]]:
    """Return what an air sets: keys of ``[air]``, and those that its file has below the name of another table.

    A cell has its own path loss and fading, which are keys of ``[radio]``: the air gives their defaults.
    """
    keys = tomllib.loads(air_text(name))
    others = {table: part for table, part in keys.items() if isinstance(part, dict)}
    return {"air": {key: value for key, value in keys.items() if key not in others}, **others}


def air_summary(name: str) -> str:
    """Return the first comment line of an air."""
    return air_text(name).partition("\n")[0].lstrip("# ")


SPEED_OF_LIGHT: Final = 299_792_458.0
# Coherence time times Doppler shift, sqrt(9 / (16 pi)): Rappaport 2002, Wireless Communications, Eq. 5.40.c.
_COHERENCE: Final = 0.423
# Keys that say how something is done, and do nothing by themselves.
_MANNERS: Final = (
    *("preset", "roll_off", "pilot_symbols", "pilot_share", "guard_symbols", "carrier_hz", "coherence_share"),
    *("subcarriers", "cyclic_prefix", "cluster_subcarriers", "profile", "adc_range", "adc_gain", "gain_failure"),
    *("estimation_power_dbm", "fading_renewal", "switching_seconds", "amplifier_smoothness", "amplifier_turn_degrees"),
    *("attenuator_db", "acquisition_symbols"),
)


@dataclass(frozen=True, kw_only=True)
class Air(Table):
    """What is not ideal between workers and server; with all defaults the air is the paper's."""

    preset: str = key("ideal", Choice(AIR_PRESETS), "the air whose numbers are the defaults of this table")
    phase_error_radians: float = key(
        0.0, Real(low=0, high=1e3), "standard deviation of a worker's phase after each resynchronisation"
    )
    frequency_offset_hz: float = key(
        0.0, Real(low=0, high=1e9), "standard deviation of a worker's carrier frequency, as far as it is not corrected"
    )
    resync_seconds: float = key(
        0.0, Real(low=0, high=1e6), "time between resynchronisations of the phase (0: once, at the start of a slot)"
    )
    phase_noise_hz: float = key(
        0.0, Real(low=0, high=1e9), "linewidth of an oscillator, whose phase is a Wiener process from each resync on"
    )
    timing_offset_symbols: float = key(
        0.0, Real(low=0, high=0.5), "largest time by which a worker is early or late, in symbols; uniform"
    )
    roll_off: float = key(0.25, Real(low=0.05, high=1), "of the root-raised-cosine pulse, at both ends")
    pilot_symbols: int = key(
        1, Whole(low=1, high=10**6), "known symbols at the start of a block, from which its mean gain follows"
    )
    pilot_share: float = key(
        0.05,
        Real(low=1e-12, high=1),
        "energy of all pilots of a slot over the largest of what is sent in it",
    )
    guard_symbols: int = key(0, Whole(low=0, high=10**6), "symbols of silence after each block")
    switching_seconds: float = key(
        0.0, Real(low=0, high=1), "silence after each block besides, while both ends turn from receiving to sending"
    )
    acquisition_symbols: int = key(
        0,
        Whole(low=0, high=10**9),
        "symbols that each worker takes to be acquired, once per run and one after the other, at P_max",
    )
    estimation_nmse_db: float = key(
        -math.inf, Real(high=0, off=-math.inf), "mean square error of a worker's channel estimate, of the channel's own"
    )
    estimation_pilots: int = key(
        0,
        Whole(low=0, high=10**6),
        "symbols of each block from which a worker estimates its channel; they decide the error (0: as above)",
    )
    estimation_power_dbm: float = key(23.0, Real(low=-300, high=100), "power that the server sends these symbols with")
    amplitude_error_db: float = key(
        0.0, Real(low=0, high=40), "largest error of a transmitter's amplitude, above or below; uniform in dB"
    )
    reciprocity_nmse_db: float = key(
        -math.inf, Real(high=0, off=-math.inf), "mean square difference of uplink and downlink, of the channel's own"
    )
    truncation_db: float = key(
        -math.inf,
        Real(high=20, off=-math.inf),
        "a worker whose fading is below this stays silent (relative to its mean)",
    )
    fading_renewal: str = key(
        "slot", Choice(("slot", "coherence")), "fading is drawn anew for every slot, or after each coherence time too"
    )
    shadowing_db: float = key(
        0.0, Real(low=0, high=20), "standard deviation of a worker's path loss, log-normal, cut at three of them"
    )
    speed_metres_per_second: float = key(0.0, Real(low=0, high=1e4), "of the workers; Doppler after Jakes follows")
    carrier_hz: float = key(2.4e9, Real(low=1e3, high=1e12), "carrier frequency")
    coherence_share: float = key(
        0.05, Real(low=0, open_low=True, high=1), "length of a block over the coherence time, where workers move"
    )
    waveform: str = key("single-carrier", Choice(("single-carrier", "ofdm")), "how symbols share time and frequency")
    subcarriers: int = key(64, Whole(low=2, high=10**5), "ofdm: symbols that are sent side by side")
    cyclic_prefix: float = key(0.07, Real(low=0, high=1), "ofdm: length of the prefix over that of a symbol")
    cluster_subcarriers: int = key(12, Whole(low=1, high=10**5), "ofdm: neighbours that share one channel estimate")
    delay_spread_seconds: float = key(
        0.0, Real(low=0, high=1e-2), "ofdm: root mean square delay of the echoes; 0 leaves the channel flat"
    )
    profile: str = key(
        "exponential",
        Choice(
            ("exponential", "tdl-a", "tdl-b", "tdl-c", "tdl-d", "tdl-e", "cdl-a", "cdl-b", "cdl-c", "cdl-d", "cdl-e")
        ),
        "ofdm: echoes of a channel; those of 3GPP need the extra `sionna`",
    )
    min_power_dbm: float = key(
        -math.inf,
        Real(high=100, off=-math.inf),
        "lowest power that a transmitter can send with; who needs less stays silent",
    )
    attenuator_db: float = key(
        0.0, Real(low=0, high=200), "of attenuators before workers' antennas, which lower min_power_dbm by as much"
    )
    power_step_db: float = key(0.0, Real(low=0, high=40), "step of the power control; powers are rounded down")
    peak_power_dbm: float = key(
        math.inf, Real(low=-300, high=100, off=math.inf), "power above which a transmitter clips what it sends"
    )
    amplifier_saturation_dbm: float = key(
        math.inf,
        Real(low=-300, high=100, off=math.inf),
        "power at which a transmitter's amplifier saturates; it compresses smoothly below (Rapp)",
    )
    amplifier_smoothness: float = key(
        2.0, Real(low=0.5, high=100), "p of the Rapp model: small = soft, large = linear up to saturation"
    )
    amplifier_turn_degrees: float = key(
        0.0, Real(low=0, high=90), "by which an amplifier far in saturation turns the phase (AM/PM)"
    )
    carrier_leakage_db: float = key(
        -math.inf,
        Real(high=0, off=-math.inf),
        "unmodulated carrier that leaks from a transmitter, over the largest power that it radiates on average",
    )
    dac_bits: int = key(0, Whole(low=0, high=24), "bits of a transmitter's converter (0: exact)")
    adc_bits: int = key(0, Whole(low=0, high=24), "bits of the server's converter (0: exact)")
    adc_range: float = key(
        0.0,
        Real(low=0, high=1e4),
        "largest level of the server's converter, in root mean squares of what it receives (0: its largest symbol); "
        "with a causal gain, in largest symbols of earlier blocks (0: eight)",
    )
    adc_gain: str = key(
        "slot",
        Choice(("slot", "causal")),
        "the server sets its converter's gain from all of a slot, or for each block from what came before",
    )
    interference_dbm: float = key(
        -math.inf,
        Real(high=100, off=-math.inf),
        "power of other transmitters per complex symbol at the server; never counts as protection",
    )
    noise_uncertainty_db: float = key(
        0.0, Real(low=0, high=60), "the noise floor is known only within so many dB; statements assume the lowest"
    )
    absent: float = key(0.0, Real(low=0, high=1, open_high=True), "probability that a scheduled worker does not send")
    late: float = key(
        0.0, Real(low=0, high=1, open_high=True), "probability that a worker joins late, at a random time of the slot"
    )
    antennas: int = key(1, Whole(low=1, high=10**4), "antennas of the server, which listens with the best of them")
    also: tuple[str, ...] = key((), Items(rule=Named(IMPAIRMENTS)), "impairments of other packages or your own")
    gain_failure: float = key(
        0.0,
        Real(low=0, high=0.1),
        "probability with which some gain of a run may exceed its bound; delta contains a worker's share "
        "(0: 0.01, or what takes a fiftieth of delta)",
    )

    def __post_init__(self) -> None:
        check_fields(self, "air.")

    @property
    def is_ideal(self) -> bool:
        """Whether nothing is impaired, whatever the keys that only say how."""
        return all(getattr(self, entry.name) == entry.default for entry in fields(self) if entry.name not in _MANNERS)

    @property
    def doppler_hz(self) -> float:
        """Largest Doppler shift, v f / c."""
        return self.speed_metres_per_second * self.carrier_hz / SPEED_OF_LIGHT

    def squared_drift(self, seconds: float) -> float:
        """Return the mean square by which phases drift in so long, in rad^2; independent causes add up."""
        offset, moved = (2.0 * math.pi * hertz * seconds for hertz in (self.frequency_offset_hz, self.doppler_hz))
        return offset**2 + 2.0 * math.pi * self.phase_noise_hz * seconds + moved**2

    def mean_drift_seconds(self, begin: float, end: float) -> float:
        """Return the time between two at which the mean square drift is its mean over them; the middle without drift.

        With a t^2 + b t as the mean square drift that is the positive root of a t^2 + b t = m.
        """
        linear = 2.0 * math.pi * self.phase_noise_hz
        quadratic = self.squared_drift(1.0) - linear
        mean = quadratic * (begin**2 + begin * end + end**2) / 3.0 + linear * (begin + end) / 2.0
        root = linear + math.sqrt(linear**2 + 4.0 * quadratic * mean)
        return 2.0 * mean / root if root > 0.0 else (begin + end) / 2.0

    @property
    def block_overhead_symbols(self) -> int:
        """Symbols of a block that carry no data: from which workers and server estimate, guard, silence around data."""
        return self.estimation_pilots + self.pilot_symbols + self.silence_symbols + 2 * self.ringing_symbols

    @property
    def silence_symbols(self) -> int:
        """Silence after each block: the guard, and while both ends switch."""
        return self.guard_symbols + math.ceil(self.switching_seconds * SYMBOLS_PER_SECOND)

    @property
    def coherence_seconds(self) -> float:
        """Time over which the channel of a moving worker stays about the same; infinite where nobody moves."""
        return _COHERENCE / self.doppler_hz if self.doppler_hz else math.inf

    @property
    def blocks_per_fading(self) -> int:
        """Blocks of a slot that share one fading; 0: all of them."""
        if self.fading_renewal == "slot" or not self.doppler_hz:
            return 0
        return max(1, int(self.coherence_seconds / self.block_seconds))

    @property
    def lowest_power_dbm(self) -> float:
        """Least power that leaves a worker's antenna: that of its transmitter behind an attenuator."""
        return self.min_power_dbm - self.attenuator_db

    @property
    def block_seconds(self) -> float:
        """Longest block with one pilot: up to the next resynchronisation, or a share of the coherence time."""
        limits = [self.resync_seconds or math.inf]
        if self.doppler_hz:
            limits.append(self.coherence_share * self.coherence_seconds)
        return min(limits)

    @property
    def ringing_symbols(self) -> int:
        """Silence on both sides of a block's data, where symbols of workers that are off time ring into others."""
        return ringing_symbols(self.roll_off, self.timing_offset_symbols) if self.waveform == "single-carrier" else 0

    @property
    def grid(self) -> SubcarrierGrid:
        """What its keys make of time and frequency with OFDM."""
        count, width = self.subcarriers, min(self.cluster_subcarriers, self.subcarriers)
        return SubcarrierGrid(
            subcarriers=count,
            prefix=math.ceil(self.cyclic_prefix * count),
            widths=tuple(min(width, count - first) for first in range(0, count, width)),
            pilots=-(-self.pilot_symbols // count) + -(-self.estimation_pilots // count),
            server_pilots=-(-self.pilot_symbols // count),
            guard=self.silence_symbols,
        )
