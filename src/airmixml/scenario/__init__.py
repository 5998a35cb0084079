"""What is asked: one validated description of a run, read from and written to TOML."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airmixml.registry import import_late

if TYPE_CHECKING:
    from airmixml.scenario.air import AIR_PRESETS, Air, air_summary, air_text
    from airmixml.scenario.scenario import RunContext, Scenario, Speed
    from airmixml.scenario.tables import Learner, Link, Mixing, Privacy, Radio, Workers
    from airmixml.scenario.toml import air_in_words, keys_in_force, preset_names, preset_summary, preset_text

__all__ = ["AIR_PRESETS", "Air", "Learner", "Link", "Mixing", "Privacy", "Radio", "RunContext", "Scenario", "Speed"]
__all__ += ["Workers", "air_in_words", "air_summary", "air_text", "keys_in_force", "preset_names", "preset_summary"]
__all__ += ["preset_text"]

__getattr__ = import_late(__name__)
