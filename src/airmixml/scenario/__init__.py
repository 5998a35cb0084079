"""What is asked: one validated description of a run, read from and written to TOML."""

from airmixml.scenario.scenario import Scenario
from airmixml.scenario.speed import RunContext, Speed
from airmixml.scenario.tables import Learner, Mixing, Privacy, Radio, Workers
from airmixml.scenario.toml import preset_names, preset_summary, preset_text

__all__ = ["Learner", "Mixing", "Privacy", "Radio", "RunContext", "Scenario", "Speed", "Workers"]
__all__ += ["preset_names", "preset_summary", "preset_text"]
