"""An air in words, for tables and titles, and in plain values, for JSON; empty where it is ideal."""

import math
import tomllib
from collections.abc import Iterable
from dataclasses import fields
from typing import Any, Final

from airmixml.scenario.air import Air
from airmixml.scenario.air_presets import air_text

_MOST_NAMED: Final = 2  # keys in a title

Plain = int | float | str | list[str] | None
"""A value of a key as JSON has it; None: infinite, which is off."""


def finite(value: Any) -> Any:
    """Return plain values as JSON has them: lists for tuples, None for an infinite number, which means "off"."""
    if isinstance(value, dict):
        return {name: finite(each) for name, each in value.items()}
    if isinstance(value, tuple):
        return list(value)
    return None if isinstance(value, float) and math.isinf(value) else value


def keys_in_force(air: Air) -> dict[str, Plain]:
    """Return the name of the air's preset, and each key that is not as on the ideal air."""
    others = [entry for entry in fields(air) if entry.name != "preset"]
    changed = {entry.name: getattr(air, entry.name) for entry in others if getattr(air, entry.name) != entry.default}
    return {"preset": air.preset, **finite(changed)}


def air_label(air: Air) -> str:
    """Return "campus", "campus with absent = 0.2", "air with absent = 0.2"; empty for the ideal air."""
    if air.is_ideal:
        return ""
    named = Air(preset=air.preset, **tomllib.loads(air_text(air.preset)))
    changed = _texts(
        (entry.name, getattr(air, entry.name))
        for entry in fields(air)
        if getattr(air, entry.name) != getattr(named, entry.name)
    )
    name = "air" if air.preset == "ideal" else air.preset
    if not changed:
        return name
    return f"{name} with {', '.join(changed) if len(changed) <= _MOST_NAMED else f'{len(changed)} keys changed'}"


def titled(name: str, air: Air) -> str:
    """Return "private-mnist on campus"; the name alone for the ideal air."""
    label = air_label(air)
    return f"{name} on {label}" if label else name


def air_in_words(air: Air) -> str:
    """Return "campus: absent = 0.05, resync_seconds = 0.005, ..." with all keys; empty for the ideal air."""
    if air.is_ideal:
        return ""
    keys = keys_in_force(air)
    name = keys.pop("preset")
    return f"{'changed' if name == 'ideal' else name}: {', '.join(_texts(keys.items()))}"


def _texts(keys: Iterable[tuple[str, Any]]) -> list[str]:
    return [f"{name} = {value:g}" if isinstance(value, float) else f"{name} = {value}" for name, value in keys]
