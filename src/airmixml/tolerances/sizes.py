"""The impairments whose size is varied: in which unit, over which range, and what real hardware has.

One entry for each numeric key of the table ``[air]`` that impairs anything by itself. Sizes are listed from mild to
severe: a search starts from the most severe and halves what is left of the list.
"""

from dataclasses import dataclass, field
from typing import Any, Final

from airmixml.errors import ScenarioError
from airmixml.wording import did_you_mean, shown_name

_STEPS: Final = (1.0, 2.0, 5.0)
_FINE_STEPS: Final = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
# What decides how far phases drift between two pilots.
_RESYNC: Final = ("resync_seconds", "pilot_symbols", "guard_symbols", "pilot_share")


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """One impairment and the sizes that are tried.

    Attributes:
        key: of the table ``[air]``.
        name: what it is, in a few words.
        unit: of its size.
        ladder: sizes from mild to severe.
        hardware: what real devices have.
        log: whether equal steps are equal factors.
        needs: other keys without which it does nothing, and their values.
        along: keys that belong to it: the value of a class of hardware is judged together with that class's own.
        tells: whether it can raise epsilon above what was planned.
        limits: what a class of hardware has where its air leaves the key out, so that designs can be compared on it.
    """

    key: str
    name: str
    unit: str
    ladder: tuple[float, ...]
    hardware: str
    log: bool = True
    needs: dict[str, Any] = field(default_factory=dict)
    along: tuple[str, ...] = ()
    tells: bool = False
    limits: dict[str, float] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """Name and unit."""
        return f"{self.name} [{self.unit}]" if self.unit else self.name

    @property
    def fewer_is_worse(self) -> bool:
        """Whether small sizes are the severe ones."""
        return self.ladder[0] > self.ladder[-1]

    def is_milder(self, size: float, other: float) -> bool:
        """Return whether a size is milder than another, or as mild."""
        return size >= other if self.fewer_is_worse else size <= other


def _decades(low: float, high: float, steps: tuple[float, ...] = _STEPS) -> tuple[float, ...]:
    """Return round numbers from low to high, so many in each decade."""
    tens = range(-12, 12)
    return tuple(size for ten in tens for step in steps if low <= (size := float(f"{step}e{ten}")) <= high)


def _steps(first: float, last: float, step: float) -> tuple[float, ...]:
    """Return numbers at equal steps, from first to last."""
    count = round(abs(last - first) / step)
    return tuple(first + (last - first) * place / count for place in range(count + 1))


SIZES: Final = (
    Sizes(
        key="phase_error_radians",
        name="phase error",
        unit="rad",
        ladder=_decades(0.05, 3.0, _FINE_STEPS),
        hardware="0.1 rad with a shared clock, 0.2 to 0.5 rad after resynchronising over the air",
    ),
    Sizes(
        key="frequency_offset_hz",
        name="frequency offset",
        unit="Hz",
        ladder=_decades(1e-2, 1e4),
        hardware="0.1 ppm of a phone is 240 Hz at 2.4 GHz before correction; a shared clock has none",
        along=_RESYNC,
    ),
    Sizes(
        key="phase_noise_hz",
        name="phase noise",
        unit="Hz",
        ladder=_decades(1e-3, 1e4),
        hardware="a good synthesiser has well below 1 Hz, a free-running oscillator of a cheap radio 10 to 1000 Hz",
        along=_RESYNC,
    ),
    Sizes(
        key="timing_offset_symbols",
        name="timing offset",
        unit="symbols",
        ladder=(0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5),
        hardware="NR timing advance has steps of 0.5 us, 0.4 symbols here; a shared clock keeps below 0.05",
        log=False,
        along=("roll_off",),
    ),
    Sizes(
        key="estimation_nmse_db",
        name="estimation error",
        unit="dB",
        ladder=_steps(-40.0, 0.0, 2.5),
        hardware="-20 dB is usual; -30 dB takes long pilots",
        log=False,
        tells=True,
    ),
    Sizes(
        key="estimation_pilots",
        name="estimation pilots",
        unit="symbols",
        ladder=(1000.0, 500.0, 200.0, 100.0, 50.0, 20.0, 10.0, 5.0, 2.0, 1.0),
        hardware="a downlink slot of NR has some hundred pilot symbols",
        along=("estimation_power_dbm",),
        tells=True,
    ),
    Sizes(
        key="amplitude_error_db",
        name="amplitude error",
        unit="dB",
        ladder=_decades(0.01, 20.0),
        hardware="0.1 to 0.5 dB calibrated, 1 to 2 dB relative and up to 9 dB absolute in a phone",
        tells=True,
    ),
    Sizes(
        key="reciprocity_nmse_db",
        name="reciprocity error",
        unit="dB",
        ladder=_steps(-60.0, 0.0, 2.5),
        hardware="-30 dB calibrated, -15 to -20 dB otherwise; -40 dB is a gain error of 1 %, which masks feel",
        log=False,
        tells=True,
    ),
    Sizes(
        key="truncation_db",
        name="truncated inversion",
        unit="dB",
        ladder=_steps(-40.0, 20.0, 2.5),
        hardware="chosen by the designer: it bounds what a fade costs",
        log=False,
    ),
    Sizes(
        key="speed_metres_per_second",
        name="speed",
        unit="m/s",
        ladder=_decades(0.01, 20.0),
        hardware="fixed sensors 0, somebody who walks 1.4 m/s, a car 14 m/s",
        along=("carrier_hz", "coherence_share", *_RESYNC),
        tells=True,
    ),
    Sizes(
        key="delay_spread_seconds",
        name="delay spread, OFDM",
        unit="s",
        ladder=_decades(1e-8, 1e-4),
        hardware="30 ns in a room, 100 ns indoors, 300 ns to 1 us outdoors",
        needs={"waveform": "ofdm"},
        along=("waveform", "subcarriers", "cyclic_prefix", "cluster_subcarriers", "profile"),
        tells=True,
    ),
    Sizes(
        key="min_power_dbm",
        name="lowest power",
        unit="dBm",
        ladder=_steps(-130.0, 20.0, 5.0),
        hardware="-40 dBm in a phone (3GPP TS 38.101-1, 6.3.1), -20 dBm in an nRF52840, -100 dBm with an attenuator",
        log=False,
        limits={"lab": -100.0, "campus": -40.0, "low-cost": -20.0},
    ),
    Sizes(
        key="power_step_db",
        name="power control step",
        unit="dB",
        ladder=_decades(0.1, 20.0, _FINE_STEPS),
        hardware="1 dB in a phone, 2 to 4 dB in a cheap radio",
    ),
    Sizes(
        key="peak_power_dbm",
        name="peak power",
        unit="dBm",
        ladder=_steps(40.0, -130.0, 5.0),
        hardware="an amplifier clips 3 to 10 dB above its mean power of 0 to 23 dBm",
        log=False,
    ),
    Sizes(
        key="dac_bits",
        name="sender's converter",
        unit="bits",
        ladder=(12.0, 10.0, 9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0),
        hardware="8 to 14 bits",
        log=False,
    ),
    Sizes(
        key="adc_bits",
        name="server's converter",
        unit="bits",
        ladder=(16.0, 14.0, 12.0, 10.0, 9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0),
        hardware="12 to 16 bits",
        log=False,
        along=("adc_range",),
    ),
    Sizes(
        key="noise_uncertainty_db",
        name="noise uncertainty",
        unit="dB",
        ladder=_decades(0.05, 20.0),
        hardware="0.5 dB calibrated, 1 to 3 dB over temperature and time",
        tells=True,
    ),
    Sizes(
        key="absent",
        name="absent workers",
        unit="share",
        ladder=(0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99),
        hardware="5 % in a cell, 10 % or more with cheap radios",
        log=False,
    ),
    Sizes(
        key="late",
        name="late workers",
        unit="share",
        ladder=(0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99),
        hardware="rare where slots are scheduled, 5 to 10 % where devices wake up by themselves",
        log=False,
    ),
    Sizes(
        key="antennas",
        name="server antennas",
        unit="",
        ladder=(2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0),
        hardware="1 to 4 in a gateway, 64 and more in a cell; they help the learner and the adversary",
        tells=True,
    ),
)

NOT_ALONE: Final = {
    "resync_seconds": "does nothing by itself: how often phases are put right, which the base air says (--set)",
}
"""Numeric keys that are no entry, and why."""


def chosen_sizes(only: str | None) -> tuple[Sizes, ...]:
    """Return the entries that ``--only KEY,KEY`` names, in the order of the table; all without it."""
    if only is None:
        return SIZES
    known = {each.key: each for each in SIZES}
    asked = [name.strip().removeprefix("air.") for name in only.split(",")]
    for name in asked:
        if name in NOT_ALONE:
            raise ScenarioError(f"--only {name}: {NOT_ALONE[name]}; leave it out")
        if name not in known:
            raise ScenarioError(
                f"--only {shown_name(name)}: must be numeric keys of the table [air], such as "
                f"phase_error_radians,absent{did_you_mean(name, list(known))}"
            )
    return tuple(each for each in SIZES if each.key in asked)
