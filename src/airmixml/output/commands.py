"""The command that makes a result again, as its files tell it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from airmixml.errors import AirMixError
from airmixml.scenario import Scenario, preset_names
from airmixml.scenario.toml import value_text

_FROM_FILE: Final = "scenario.toml"
_MOST_CHANGES: Final = 12


def command_for(command: str, scenario: Scenario, *options: str) -> tuple[str, ...]:
    """Return an ``airmix`` command of a scenario: a preset with changes, or a file where those are too many."""
    return ("airmix", command, *_chosen(scenario), *options)


def seeds_option(count: int) -> tuple[str, ...]:
    """Return the option for so many seeds."""
    return ("--seeds", str(count)) if count > 1 else ()


def values_option(option: str, key: str, values: Iterable[Any]) -> tuple[str, str]:
    """Return an option that gives several values of a key."""
    return option, f"{key}={','.join(value_text(tuple(each) if isinstance(each, list) else each) for each in values)}"


def _chosen(scenario: Scenario) -> Sequence[str]:
    if scenario.name in preset_names():
        preset = Scenario.preset(scenario.name)
        try:
            changes = _changes(preset, scenario)
            if len(changes) <= _MOST_CHANGES and preset.with_overrides(*changes) == scenario:
                return ("--preset", scenario.name, *(word for each in changes for word in ("--set", each)))
        except AirMixError:
            pass  # such as an air that no longer comes with the package
    return (_FROM_FILE,)


def _changes(preset: Scenario, scenario: Scenario) -> list[str]:
    """Return what makes a preset the scenario; another air is named first, since it brings keys of its own."""
    chosen = scenario.air.preset
    before = [] if chosen == preset.air.preset else [f"air.preset={chosen}"]
    changed = changed_keys(preset.on_air(chosen) if before else preset, scenario)
    return before + [f"{key}={shown_value(value)}" for key, value in changed.items()]


def needs_file(command: Sequence[str]) -> bool:
    """Whether the command reads the scenario that the report shows."""
    return _FROM_FILE in command


def flat(scenario: Scenario) -> dict[str, Any]:
    """Return every key as it is written after ``--set``, with its value."""
    tables = scenario.to_dict()
    top = {name: value for name, value in tables.items() if not isinstance(value, dict)}
    below = {
        f"{table}.{key}": value
        for table, keys in tables.items()
        if isinstance(keys, dict)
        for key, value in keys.items()
    }
    return top | below


def changed_keys(before: Scenario, after: Scenario) -> dict[str, Any]:
    """Return the keys of the second scenario that differ from the first, with their values there."""
    was = flat(before)
    return {key: value for key, value in flat(after).items() if value != was[key]}


def shown_value(value: Any) -> str:
    """Return a value of a key as ``--set`` takes it."""
    return json.dumps(value) if isinstance(value, list | bool) else value_text(value)
