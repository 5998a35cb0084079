"""An air in words, for tables and titles, and in plain values, for JSON; empty where it is ideal."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, Final

from airmixml.scenario.air import Air, air_tables, air_text
from airmixml.scenario.toml import declared, table_lines, toml_value

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
    named = Air(preset=air.preset, **air_tables(air.preset)["air"])
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


def folder_stem(name: str, air: Air) -> str:
    """Return "private-mnist-campus" for the name of a folder; the name alone for the ideal air."""
    if air.is_ideal:
        return name
    return f"{name}-{'air' if air.preset == 'ideal' else air.preset}"


def air_in_words(air: Air) -> str:
    """Return "campus: absent = 0.05, resync_seconds = 0.005, ..." with all keys; empty for the ideal air."""
    if air.is_ideal:
        return ""
    keys = keys_in_force(air)
    name = keys.pop("preset")
    return f"{'changed' if name == 'ideal' else name}: {', '.join(_texts(keys.items()))}"


def _texts(keys: Iterable[tuple[str, Any]]) -> list[str]:
    return [f"{name} = {value:g}" if isinstance(value, float) else f"{name} = {value}" for name, value in keys]


@dataclass(frozen=True, kw_only=True)
class DescribedAir:
    """An air that comes with the package, and what its file says about it."""

    about: str  # the comment at the top of the file
    air: Air  # all keys
    notes: dict[str, str]  # what the file says of a key, such as where its number is from; by key
    others: dict[str, dict[str, Any]]  # keys of other tables whose defaults it sets, by table

    def to_toml(self) -> str:
        """Return the table as TOML: what the file says of a key above it, and what the key means beside it."""
        lines = [f"# {line}".rstrip() for line in self.about.splitlines()] + ["", "[air]"]
        for entry, line in zip(fields(Air), table_lines(self.air), strict=True):
            lines += [f"# {note}" for note in self.notes.get(entry.name, "").splitlines()]
            lines.append(line)
        for table, keys in self.others.items():
            lines += ["", f"[{table}]"]
            for key, value in keys.items():
                lines += [f"# {note}" for note in self.notes.get(f"{table}.{key}", "").splitlines()]
                lines.append(f"{key} = {toml_value(value):<20} # {declared(f'{table}.{key}')['doc']}")
        return "\n".join(lines) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; a number that is infinite, by which a key says "off", is null."""
        return {
            "name": self.air.preset,
            "about": self.about,
            "air": finite({entry.name: getattr(self.air, entry.name) for entry in fields(Air)}),
            "others": self.others,
            "meanings": {entry.name: entry.metadata["doc"] for entry in fields(Air)},
            "notes": self.notes,
        }


def describe_air(name: str) -> DescribedAir:
    """Return an air with the comments of its file: those before the first key, and those above or behind a key."""
    text = air_text(name)
    about: list[str] = []
    above: list[str] = []
    notes: dict[str, str] = {}
    table = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("#"):
            (above if notes else about).append(line.lstrip("# "))
        elif line.startswith("["):
            table = line.strip("[] ") + "."
        elif line:
            key, _, rest = line.partition("=")
            behind = rest.partition("#")[2].strip()
            notes[table + key.strip()] = "\n".join([*above, behind]).strip()
            above = []
    told = {key: note for key, note in notes.items() if note}
    others = air_tables(name)
    air = Air(preset=name, **others.pop("air"))
    return DescribedAir(about="\n".join(about), air=air, notes=told, others=others)
