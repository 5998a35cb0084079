"""From scheduled workers to received mixtures: channel, ratios, power, air."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airmixml.radio.design import check_privacy_target
    from airmixml.radio.mixtures import Mixtures, simulate
    from airmixml.radio.report import AirReport
    from airmixml.radio.transmission import MixtureBlock, simulate_blocks

__all__ = ["AirReport", "MixtureBlock", "Mixtures", "check_privacy_target", "simulate", "simulate_blocks"]

# Imported at first use: planning needs the channel and the power, but no torch.
_LATE = {
    "AirReport": "airmixml.radio.report",
    "MixtureBlock": "airmixml.radio.transmission",
    "Mixtures": "airmixml.radio.mixtures",
    "check_privacy_target": "airmixml.radio.design",
    "simulate": "airmixml.radio.mixtures",
    "simulate_blocks": "airmixml.radio.transmission",
}


def __getattr__(name: str) -> Any:
    if name in _LATE:
        return getattr(import_module(_LATE[name]), name)
    raise AttributeError(f"module 'airmixml.radio' has no attribute {name!r}")
