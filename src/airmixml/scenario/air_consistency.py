"""What must hold between the table ``[air]`` and the others."""

import math

from airmixml.errors import ScenarioError
from airmixml.scenario.air import SYMBOLS_PER_SECOND, Air
from airmixml.scenario.ofdm_consistency import check_ofdm
from airmixml.scenario.tables import Mixing, Privacy, Radio
from airmixml.wording import shown


def check_air(air: Air, radio: Radio, mixing: Mixing, privacy: Privacy) -> None:
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
    if privacy.noise != "receiver":
        _check_workers_noise(air, radio, privacy)


def _check_workers_noise(air: Air, radio: Radio, privacy: Privacy) -> None:
    """What noise and masks that the workers bring allow."""
    noise = f'privacy.noise = "{privacy.noise}"'
    for name, off in (("waveform", "single-carrier"), ("peak_power_dbm", math.inf)):
        value = getattr(air, name)
        if value != off:
            raise ScenarioError(f"air.{name} = {shown(value)}: must be {shown(off)} for {noise}")
    if air.antennas > 1:
        raise ScenarioError(
            f"air.antennas = {air.antennas}: must be 1 for {noise}: all antennas hear the same noise of the workers, "
            'and privacy.adversary = "everyone" has any number of them'
        )
    if radio.fading != "none" and math.isinf(air.truncation_db):
        raise ScenarioError(
            f'radio.fading = "{radio.fading}": needs air.truncation_db for {noise}, which would take any power in a '
            "fade; -10, say"
        )


def _check_channel(air: Air, radio: Radio, mixing: Mixing) -> None:
    """What fading allows."""
    if radio.fading == "none" and air.truncation_db > 0.0:
        raise ScenarioError(
            f'air.truncation_db = {air.truncation_db:g}: must be at most 0 for radio.fading = "none", where every '
            "channel has its mean and would be below that: nobody would send"
        )
    if radio.fading == "none" or air.truncation_db > -math.inf or mixing.power != "dp":
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
