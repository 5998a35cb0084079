"""The table ``[air]``: what is not ideal between a worker's memory and the server's. All of it is off by default.

A worker on a single carrier sends sum_n v_n p(t - n), p the root-raised cosine of energy 1, and the server filters with
p again. Between the two ends stands rc = p * p, which is 0 at every whole number but 0 (Nyquist): on time, symbols do
not disturb each other. J. G. Proakis and M. Salehi, Digital Communications, 5th ed., section 9.2-1. With OFDM, symbols
go out at the same rate, N of them at once for N times as long, and the cyclic prefix before. The same band is then N
subcarriers wide, with frequencies (k - (N - 1) / 2) R / N for a rate R.
"""

import math
import tomllib
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from airmixml.messages import ScenarioError, did_you_mean, shown
from airmixml.registries import IMPAIRMENTS
from airmixml.scenario.rules import DBM, SHARE, Choice, Items, Named, Real, Table, Whole

SYMBOLS_PER_SECOND: Final = 794_000.0
"""The paper's 1 ms carries a whole MNIST sample, 784 pixels and 10 label symbols."""

PULSE_ERROR: Final = 1e-3
"""Root mean square of what is left out of a unit symbol that arrives off time."""

_MOST_SYMBOLS: Final = 1000


def raised_cosine(symbols: float, roll_off: float) -> float:
    """Return rc(t) = sinc(t) cos(pi r t) / (1 - (2 r t)^2), t in symbols, r the roll-off."""
    below = 1.0 - (2.0 * roll_off * symbols) ** 2
    if abs(below) < 1e-9:  # its limit there
        return math.pi / 4.0 * _sinc(0.5 / roll_off)
    return _sinc(symbols) * math.cos(math.pi * roll_off * symbols) / below


@lru_cache(maxsize=64)
def ringing_symbols(roll_off: float, largest_offset: float) -> int:
    """Return for how many symbols a symbol that is that much off time is heard before and after its own.

    The energy of all that follows is below ``PULSE_ERROR``^2. Blocks keep that much silence on both sides of their
    data, so that neither pilots nor other blocks are heard in them.
    """
    if not largest_offset:
        return 0
    # Not the largest offset alone: with some roll-offs the pulse is 0 at whole numbers and a half as well.
    return max(_reach(roll_off, share * largest_offset) for share in (0.25, 0.5, 0.75, 1.0))


def _reach(roll_off: float, offset: float) -> int:
    beyond = 0.0
    for symbol in range(_MOST_SYMBOLS, 0, -1):
        beyond += sum(raised_cosine(side * symbol + offset, roll_off) ** 2 for side in (-1, 1))
        if beyond > PULSE_ERROR**2:
            return symbol
    return 1


def _sinc(x: float) -> float:
    return math.sin(math.pi * x) / (math.pi * x) if x else 1.0


@dataclass(frozen=True, kw_only=True)
class SubcarrierGrid:
    """What the keys of the table ``[air]`` make of time and frequency; all lengths in symbols of a single carrier."""

    subcarriers: int  # N
    prefix: int  # length of the cyclic prefix, a whole number
    widths: tuple[int, ...]  # subcarriers of each cluster; the last may have fewer
    pilots: int  # OFDM symbols at the start of a block that carry pilots, for the workers and then for the server
    server_pilots: int  # those for the server
    guard: int  # silence after a block

    @property
    def length(self) -> int:
        """Of one OFDM symbol with its prefix."""
        return self.subcarriers + self.prefix

    @property
    def seconds(self) -> float:
        """The same in seconds."""
        return self.length / SYMBOLS_PER_SECOND

    @property
    def firsts(self) -> tuple[int, ...]:
        """The first subcarrier of each cluster."""
        return tuple(sum(self.widths[:cluster]) for cluster in range(len(self.widths)))

    @property
    def centres_hz(self) -> tuple[float, ...]:
        """Middle of each cluster, from the carrier."""
        pairs = zip(self.firsts, self.widths, strict=True)
        return tuple(self.hertz(first + (width - 1) / 2.0) for first, width in pairs)

    def hertz(self, subcarrier: float) -> float:
        """Return the frequency of a subcarrier, from the carrier."""
        return (subcarrier - (self.subcarriers - 1) / 2.0) * SYMBOLS_PER_SECOND / self.subcarriers

    def fitting(self, block_seconds: float) -> float:
        """Return how many OFDM symbols of data fit into a block; infinity without an end."""
        length = block_seconds * SYMBOLS_PER_SECOND
        return length if math.isinf(length) else float((length - self.guard) // self.length - self.pilots)


_FILES = Path(__file__).parents[1] / "airs"

AIR_PRESETS: Final = tuple(
    sorted((file.stem for file in _FILES.glob("*.toml")), key=lambda name: (name != "ideal", name))
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
STAYING: Final = {
    "amplitude_error_db": "amplitude-error",
    "reciprocity_nmse_db": "reciprocity-error",
    "frequency_offset_hz": "frequency-offset",
    "timing_offset_symbols": "timing-offset",
    "carrier_leakage_db": "carrier-leakage",
    "speed_metres_per_second": "doppler-direction",
}
"""Errors of a device, which stay with a worker for a run unless ``renewed_errors`` names them, and their draws."""

# Keys that say how something is done, and do nothing by themselves.
_MANNERS: Final = (
    *("preset", "roll_off", "pilot_symbols", "pilot_share", "guard_symbols", "carrier_hz", "coherence_share"),
    *("subcarriers", "cyclic_prefix", "cluster_subcarriers", "profile", "adc_range", "adc_gain", "gain_failure"),
    *("estimation_power_dbm", "fading_renewal", "switching_seconds", "amplifier_smoothness", "amplifier_turn_degrees"),
    *("attenuator_db", "acquisition_symbols", "renewed_errors"),
)


@dataclass(frozen=True, kw_only=True)
class Air(Table):
    """What is not ideal between workers and server; with all defaults the air is the paper's."""

    preset: str = Choice(AIR_PRESETS).key("ideal", "the air whose numbers are the defaults of this table")
    phase_error_radians: float = Real(0, 1e3).key(0.0, "standard deviation of a worker's phase after each resync")
    frequency_offset_hz: float = Real(0, 1e9).key(0.0, "standard deviation of a worker's uncorrected carrier frequency")
    resync_seconds: float = Real(0, 1e6).key(0.0, "time between resyncs of the phase (0: once, when a slot starts)")
    phase_noise_hz: float = Real(0, 1e9).key(0.0, "oscillator linewidth: phase is a Wiener process from each resync")
    timing_offset_symbols: float = Real(0, 0.5).key(0.0, "most that a worker is early or late, in symbols; uniform")
    roll_off: float = Real(0.05, 1).key(0.25, "of the root-raised-cosine pulse, at both ends")
    pilot_symbols: int = Whole(1, 10**6).key(1, "known symbols at the start of a block, for its mean gain")
    pilot_share: float = Real(1e-12, 1).key(0.05, "energy of a slot's pilots over the largest of what is sent in it")
    guard_symbols: int = Whole(0, 10**6).key(0, "symbols of silence after each block")
    switching_seconds: float = Real(0, 1).key(0.0, "further silence after each block, while both ends switch direction")
    acquisition_symbols: int = Whole(0, 10**9).key(0, "symbols to acquire each worker, once per run in turn, at P_max")
    estimation_nmse_db: float = Real(high=0, off=-math.inf).key(
        -math.inf, "mean square error of a worker's channel estimate, of the channel's own"
    )
    estimation_pilots: int = Whole(0, 10**6).key(
        0, "symbols of each block from which a worker estimates its channel; they decide the error (0: as above)"
    )
    estimation_power_dbm: float = DBM.key(23.0, "power that the server sends these symbols with")
    amplitude_error_db: float = Real(0, 40).key(0.0, "largest error of a transmitter's amplitude; uniform in dB")
    reciprocity_nmse_db: float = Real(high=0, off=-math.inf).key(
        -math.inf, "mean square difference of uplink and downlink, of the channel's own"
    )
    truncation_db: float = Real(high=20, off=-math.inf).key(
        -math.inf, "fading over its mean below which workers are silent"
    )
    fading_renewal: str = Choice(("slot", "coherence")).key("slot", "new fading per slot, or per coherence time too")
    shadowing_db: float = Real(0, 20).key(0.0, "standard deviation of path loss, log-normal, cut at three of them")
    speed_metres_per_second: float = Real(0, 1e4).key(0.0, "of the workers; Doppler after Jakes follows")
    carrier_hz: float = Real(1e3, 1e12).key(2.4e9, "carrier frequency")
    coherence_share: float = Real(0, 1, open_low=True).key(0.05, "block over coherence time, where workers move")
    waveform: str = Choice(("single-carrier", "ofdm")).key("single-carrier", "how symbols share time and frequency")
    subcarriers: int = Whole(2, 10**5).key(64, "ofdm: symbols that are sent side by side")
    cyclic_prefix: float = Real(0, 1).key(0.07, "ofdm: length of the prefix over that of a symbol")
    cluster_subcarriers: int = Whole(1, 10**5).key(12, "ofdm: neighbours that share one channel estimate")
    delay_spread_seconds: float = Real(0, 1e-2).key(0.0, "ofdm: root mean square delay of echoes (0: flat)")
    profile: str = Choice(
        ("exponential", "tdl-a", "tdl-b", "tdl-c", "tdl-d", "tdl-e", "cdl-a", "cdl-b", "cdl-c", "cdl-d", "cdl-e")
    ).key("exponential", "ofdm: echoes of a channel; those of 3GPP need the extra `sionna`")
    min_power_dbm: float = Real(high=100, off=-math.inf).key(
        -math.inf, "lowest transmit power; who needs less is silent"
    )
    attenuator_db: float = Real(0, 200).key(0.0, "attenuation before a worker's antenna; lowers min_power_dbm")
    power_step_db: float = Real(0, 40).key(0.0, "step of the power control; powers are rounded down")
    peak_power_dbm: float = Real(-300, 100, off=math.inf).key(math.inf, "power above which a transmitter clips")
    amplifier_saturation_dbm: float = Real(-300, 100, off=math.inf).key(
        math.inf, "power at which a transmitter's amplifier saturates; it compresses smoothly below (Rapp)"
    )
    amplifier_smoothness: float = Real(0.5, 100).key(2.0, "Rapp model's p: small = soft, large = linear to saturation")
    amplifier_turn_degrees: float = Real(0, 90).key(0.0, "phase turn of an amplifier far in saturation (AM/PM)")
    carrier_leakage_db: float = Real(high=0, off=-math.inf).key(
        -math.inf,
        "unmodulated carrier that leaks from a transmitter, over the largest power that it radiates on average",
    )
    dac_bits: int = Whole(0, 24).key(0, "bits of a transmitter's converter (0: exact)")
    adc_bits: int = Whole(0, 24).key(0, "bits of the server's converter (0: exact)")
    adc_range: float = Real(0, 1e4).key(
        0.0,
        "largest level of the server's converter, in root mean squares of what it receives (0: its largest symbol); "
        "with a causal gain, in largest symbols of earlier blocks (0: eight)",
    )
    adc_gain: str = Choice(("slot", "causal")).key(
        "slot", "the server sets its converter's gain from all of a slot, or for each block from what came before"
    )
    interference_dbm: float = Real(high=100, off=-math.inf).key(
        -math.inf, "power of other transmitters per complex symbol at the server; never counts as protection"
    )
    noise_uncertainty_db: float = Real(0, 60).key(0.0, "uncertainty of the noise floor; statements assume the lowest")
    absent: float = SHARE.key(0.0, "probability that a scheduled worker does not send")
    late: float = SHARE.key(0.0, "probability that a worker joins late, at a random time of the slot")
    antennas: int = Whole(1, 10**4).key(1, "antennas of the server, which listens with the best of them")
    renewed_errors: tuple[str, ...] = Items(Choice(tuple(STAYING))).key(
        (), "errors of a device that are drawn anew in every slot; all others stay with a worker for the whole run"
    )
    also: tuple[str, ...] = Items(Named(IMPAIRMENTS)).key((), "impairments of other packages or your own")
    gain_failure: float = Real(0, 0.1).key(
        0.0,
        "probability with which some gain of a run may exceed its bound; delta contains a worker's share "
        "(0: 0.01, or what takes a fiftieth of delta)",
    )

    @property
    def is_ideal(self) -> bool:
        """Whether nothing is impaired, whatever the keys that only say how."""
        return all(getattr(self, entry.name) == entry.default for entry in fields(self) if entry.name not in _MANNERS)

    @property
    def staying(self) -> frozenset[str]:
        """Keys of the errors that a worker has for the whole run, the same in every slot."""
        found = {entry.name for entry in fields(self) if getattr(self, entry.name) != entry.default}
        return frozenset(found & STAYING.keys() - set(self.renewed_errors))

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


def named_air(name: str) -> Air:
    """Return an air that comes with the package."""
    return Air(preset=name, **air_tables(name)["air"])
