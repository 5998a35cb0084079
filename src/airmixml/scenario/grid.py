"""Grids of scenarios: keys with several values each, all combinations."""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from airmixml.messages import ScenarioError, plural, shown, shown_name
from airmixml.scenario.rules import Items
from airmixml.scenario.scenario import Scenario
from airmixml.scenario.toml import TOP_LEVEL, all_keys, parse_assignments, rule_of, unknown_key

_EXAMPLE: Final = "privacy.epsilon=0.5,1,5"
_MOST_RUNS: Final = 100_000
_OPEN, _CLOSE, _QUOTES = "[", "]", "\"'"

Point = dict[str, Any]
"""One value of each key."""


@dataclass(frozen=True)
class Grid:
    """Keys in the order they were given, with their values: each value once, as a scenario stores it."""

    axes: dict[str, tuple[Any, ...]]

    @classmethod
    def parse(cls, asked: Iterable[str]) -> Self:
        """Read ``KEY=V1,V2,...`` of each key; lists are in brackets, and what holds a comma in quotes."""
        texts: dict[str, list[str]] = {}
        for each in asked:
            key, equals, listed = (part.strip() for part in each.partition("="))
            values = _split(listed)
            if not equals or not all(values):
                raise ScenarioError(f"--grid {shown_name(each)}: must be KEY=V1,V2,..., such as {_EXAMPLE}")
            if key in texts:
                raise ScenarioError(f"--grid {shown_name(key)}: given twice; put all its values into one --grid")
            texts[key] = values
        return cls.of({key: [_parsed(key, value) for value in values] for key, values in texts.items()})

    @classmethod
    def of(cls, values: Mapping[str, Iterable[Any]]) -> Self:
        """Check the values of each key; equal ones count once."""
        if not values:
            raise ScenarioError(f"--grid: give at least one key with its values, such as --grid {_EXAMPLE}")
        axes: dict[str, tuple[Any, ...]] = {}
        for key, several in values.items():
            if isinstance(several, str) or not isinstance(several, Iterable):
                raise ScenarioError(f"grid {shown_name(key)} = {shown(several)}: must be a list of values")
            axes[key] = tuple(dict.fromkeys(_rule(key).check(key, value) for value in several))
            if not axes[key]:
                raise ScenarioError(f"grid {shown_name(key)}: has no value: must have at least one")
        return cls(axes)

    def __len__(self) -> int:
        return math.prod(map(len, self.axes.values()))

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys in the order they were given."""
        return tuple(self.axes)

    @property
    def points(self) -> Iterator[Point]:
        """All combinations; the last key changes fastest."""
        return (dict(zip(self.axes, values, strict=True)) for values in itertools.product(*self.axes.values()))

    def check_size(self, seeds: int) -> None:
        """Refuse more runs than finish in any reasonable time."""
        runs = len(self) * seeds
        if runs > _MOST_RUNS:
            raise ScenarioError(
                f"--grid: {plural(len(self), 'cell')} with {plural(seeds, 'seed')} are {runs:,} runs: must be at most "
                f"{_MOST_RUNS:,}; give fewer values or seeds, or sweep parts of the grid into separate folders"
            )


def scenario_at(base: Scenario, point: Point) -> Scenario:
    """Return the scenario with the values of one point; refused where they do not fit each other."""
    if "air.preset" in point:  # it stands for all keys of that air
        base = base.on_air(point["air.preset"])
    tables: dict[str, dict[str, Any]] = {}
    for key, value in point.items():
        table, _, entry = key.rpartition(".")
        tables.setdefault(table, {})[entry] = value
    return replace(base, **{name: replace(getattr(base, name), **entries) for name, entries in tables.items()})


def _rule(key: str) -> Any:
    if key in TOP_LEVEL:
        advice = "for several seeds use --seeds N" if key == "seed" else "it changes no result"
        raise ScenarioError(f"--grid {key}: must be a key of a table, such as privacy.epsilon; {advice}")
    if key not in all_keys():
        raise unknown_key(key)
    return rule_of(key)


def _parsed(key: str, text: str) -> Any:
    if isinstance(_rule(key), Items) and not text.startswith(_OPEN):
        raise ScenarioError(f"--grid {key}: holds a list; write each in brackets, such as {key}=[32,16],[64]")
    table, _, entry = key.rpartition(".")
    return parse_assignments([f"{key}={text}"])[table][entry]


def _split(text: str) -> list[str]:
    """Split at commas that are in no brackets and no quotes."""
    parts, depth, quote = [""], 0, ""
    for character in text:
        if character == "," and not depth and not quote:
            parts.append("")
            continue
        if quote:
            quote = "" if character == quote else quote
        elif character in _QUOTES:
            quote = character
        else:
            depth += (character == _OPEN) - (character == _CLOSE)
        parts[-1] += character
    return [part.strip() for part in parts]
