"""What must hold between the table ``[air]`` and the others."""

import math
from typing import Final

from airmixml.errors import ScenarioError
from airmixml.scenario.air import Air
from airmixml.scenario.tables import Mixing, Radio
from airmixml.scenario.waveform import SYMBOLS_PER_SECOND, SubcarrierGrid


def check_air(air: Air, radio: Radio, mixing: Mixing) -> None:
    """Raise a ScenarioError that names the key to change where an air cannot be, or cannot carry the scenario."""
    check_ofdm(air, radio)
    overhead, block_symbols = air.block_overhead_symbols, air.block_seconds * SYMBOLS_PER_SECOND
    if block_symbols < overhead + 1:
        told = (
            f"air.resync_seconds = {air.resync_seconds:g}"
            if air.resync_seconds == air.block_seconds
            else f"air.speed_metres_per_second = {air.speed_metres_per_second:g}"
        )
        raise ScenarioError(
            f"{told}: leaves blocks of {block_symbols:.3g} symbols, and pilots and guard take {overhead}: no symbol is "
            "left for data; resynchronise less often, move more slowly, or shorten air.pilot_symbols "
            "and air.estimation_pilots"
        )
    _check_channel(air, radio, mixing)


def _check_channel(air: Air, radio: Radio, mixing: Mixing) -> None:
    """What fading allows."""
    if radio.fading == "none" and air.truncation_db > 0.0:
        raise ScenarioError(
            f'air.truncation_db = {air.truncation_db:g}: must be at most 0 for radio.fading = "none", where every '
            "channel has its mean and would be below that: nobody would send"
        )
    if radio.fading == "none" or air.truncation_db > -math.inf or not mixing.power_policy.keeps_target:
        return
    for name, value, off in (
        ("estimation_nmse_db", air.estimation_nmse_db, -math.inf),
        ("estimation_pilots", air.estimation_pilots, 0),
        ("speed_metres_per_second", air.speed_metres_per_second, 0.0),
    ):
        if value != off:
            raise ScenarioError(
                f'air.{name} = {value:g}: needs air.truncation_db for radio.fading = "{radio.fading}" and mixing.power '
                '= "dp": who inverts a channel of any weakness may be received with any power; let workers in a fade '
                "stay silent with air.truncation_db = -10, say"
            )


_BEYOND_PREFIX: Final = 0.01  # energy of the echoes that may arrive after the prefix
_TURN_RADIANS: Final = 0.2  # within one OFDM symbol; subcarriers then disturb each other by 0.3 % of their power
# 2 pi (width of a cluster) (delay spread): estimates at the middles then tell what lies between them within -33 dB.
_WIDEST: Final = 0.5


def check_ofdm(air: Air, radio: Radio) -> None:
    """Raise a ScenarioError that names the key to change where subcarriers, prefix, echoes and clocks do not fit."""
    if air.waveform != "ofdm":
        if air.delay_spread_seconds:
            raise ScenarioError(
                f"air.delay_spread_seconds = {air.delay_spread_seconds:g}: must be 0 on a single carrier, which would "
                "need an equaliser against echoes; set air.waveform = 'ofdm'"
            )
        return
    grid = air.grid
    if grid.fitting(air.block_seconds) < 1:
        raise ScenarioError(
            f"air.subcarriers = {air.subcarriers}: an OFDM symbol takes {grid.seconds:.3g} s, and a block of "
            f"{air.block_seconds:.3g} s has no room for {grid.pilots} of pilots and one of data; take fewer "
            "subcarriers, resynchronise less often, or move more slowly"
        )
    prefix_seconds = (grid.prefix - 2.0 * air.timing_offset_symbols) / SYMBOLS_PER_SECOND
    if prefix_seconds < 0.0:
        raise ScenarioError(
            f"air.timing_offset_symbols = {air.timing_offset_symbols:g}: must be at most half the cyclic prefix, which "
            f"has {grid.prefix} symbols; lengthen air.cyclic_prefix, or take more subcarriers"
        )
    turn = math.sqrt(
        (2.0 * math.pi * air.frequency_offset_hz * grid.seconds) ** 2
        + 2.0 * math.pi * air.phase_noise_hz * grid.seconds
        + (2.0 * math.pi * air.doppler_hz * grid.seconds) ** 2
    )
    if turn > _TURN_RADIANS:
        raise ScenarioError(
            f"air.subcarriers = {air.subcarriers}: phases turn by {turn:.2g} rad within an OFDM symbol of "
            f"{grid.seconds:.3g} s, and subcarriers disturb each other beyond {_TURN_RADIANS} rad; take fewer "
            "subcarriers, or better clocks"
        )
    if air.delay_spread_seconds:
        _check_echoes(air, radio, grid, prefix_seconds)


def _check_echoes(air: Air, radio: Radio, grid: SubcarrierGrid, prefix_seconds: float) -> None:
    told = f"air.delay_spread_seconds = {air.delay_spread_seconds:g}"
    if radio.fading == "none":
        raise ScenarioError(
            f"{told}: echoes are fading, and radio.fading is 'none'; set radio.fading = 'rayleigh' or 'rician', which "
            "says whether there is a direct path besides"
        )
    if radio.fading == "rician" and air.profile != "exponential":
        raise ScenarioError(
            f"air.profile = {air.profile!r}: says itself how strong the direct path is, and radio.fading is 'rician'; "
            "set radio.fading = 'rayleigh'"
        )
    for name, told_value, allowed in (
        ("speed_metres_per_second", air.speed_metres_per_second, 0.0),
        ("antennas", air.antennas, 1),
    ):
        if told_value != allowed:
            raise ScenarioError(
                f"air.{name} = {told_value:g}: must be {allowed:g} with air.delay_spread_seconds, since echoes are "
                "drawn for one antenna and for channels that last as long as a slot; set one of them alone"
            )
    longest = prefix_seconds / -math.log(_BEYOND_PREFIX)
    if air.delay_spread_seconds > longest:
        raise ScenarioError(
            f"{told}: echoes outlast the cyclic prefix of {grid.prefix} symbols: must be at most {longest:.3g} s; "
            "lengthen air.cyclic_prefix, or take more subcarriers"
        )
    width_hz = grid.widths[0] * SYMBOLS_PER_SECOND / grid.subcarriers
    if 2.0 * math.pi * width_hz * air.delay_spread_seconds > _WIDEST and grid.widths[0] > 1:
        fitting = int(_WIDEST / (2.0 * math.pi * air.delay_spread_seconds) / SYMBOLS_PER_SECOND * grid.subcarriers)
        raise ScenarioError(
            f"air.cluster_subcarriers = {air.cluster_subcarriers}: the channel changes within {width_hz / 1e3:.3g} kHz "
            f"with echoes of {air.delay_spread_seconds:g} s; must be at most {max(1, fitting)}"
        )
