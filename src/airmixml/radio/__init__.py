"""From scheduled workers to received mixtures: channel, ratios, power, air."""

from airmixml.radio.mixtures import Mixtures, simulate
from airmixml.radio.report import AirReport
from airmixml.radio.transmission import MixtureBlock, simulate_blocks

__all__ = ["AirReport", "MixtureBlock", "Mixtures", "simulate", "simulate_blocks"]
