"""Symbols of a slot in which workers send nothing but noise and masks, so that the server hears what is left of them.

Where gains are exact that is known beforehand. Elsewhere the server must measure it, and not on symbols with data: how
far those are from what was meant, only the data themselves could tell.
"""

from typing import Final

from airmixml.scenario import Scenario

_ENOUGH: Final = 512  # which tell a variance within 6 %


def silent_symbols(scenario: Scenario, data_symbols: int) -> int:
    """Return how many a slot has: as many as carry data, and no more than are enough."""
    if scenario.privacy.noise == "receiver" or scenario.air.is_ideal:
        return 0
    return min(_ENOUGH, data_symbols)


def noisy_symbols(scenario: Scenario, data_symbols: int) -> int:
    """Return the symbols of a slot on which workers bring noise and masks: with data and without."""
    return data_symbols + silent_symbols(scenario, data_symbols)
