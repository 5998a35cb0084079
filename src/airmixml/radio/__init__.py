"""From scheduled workers to received mixtures: channel, ratios, power, air."""

from airmixml.radio.mixtures import Mixtures, simulate
from airmixml.radio.power import check_privacy_target
from airmixml.radio.report import AirReport
from airmixml.radio.transmission import MixtureBlock, simulate_blocks

__all__ = ["AirReport", "MixtureBlock", "Mixtures", "check_privacy_target", "simulate", "simulate_blocks"]
