"""From scheduled workers to received mixtures: channel, ratios, power, air."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airmixml.registry import import_late

if TYPE_CHECKING:
    from airmixml.radio.draws import MixtureBlock
    from airmixml.radio.privacy_target import check_privacy_target
    from airmixml.radio.tally import AirReport
    from airmixml.radio.transmission import Mixtures, simulate_blocks

__all__ = ["AirReport", "MixtureBlock", "Mixtures", "check_privacy_target", "simulate_blocks"]

__getattr__ = import_late(__name__)
