"""An air that comes with the package, with what its file says of each number."""

import tomllib
from dataclasses import dataclass, fields
from typing import Any

from airmixml.scenario.air import Air
from airmixml.scenario.air_presets import air_text
from airmixml.scenario.air_words import finite
from airmixml.scenario.toml import table_lines


@dataclass(frozen=True, kw_only=True)
class DescribedAir:
    """An air that comes with the package, and what its file says about it.

    Attributes:
        about: the comment at the top of the file.
        air: all keys.
        notes: what the file says of a key, such as where its number is from; by key.
    """

    about: str
    air: Air
    notes: dict[str, str]

    def to_toml(self) -> str:
        """Return the table as TOML: what the file says of a key above it, and what the key means beside it."""
        lines = [f"# {line}".rstrip() for line in self.about.splitlines()] + ["", "[air]"]
        for entry, line in zip(fields(Air), table_lines(self.air), strict=True):
            lines += [f"# {note}" for note in self.notes.get(entry.name, "").splitlines()]
            lines.append(line)
        return "\n".join(lines) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; a number that is infinite, by which a key says "off", is null."""
        return {
            "name": self.air.preset,
            "about": self.about,
            "air": finite({entry.name: getattr(self.air, entry.name) for entry in fields(Air)}),
            "meanings": {entry.name: entry.metadata["doc"] for entry in fields(Air)},
            "notes": self.notes,
        }


def describe_air(name: str) -> DescribedAir:
    """Return an air with the comments of its file: those before the first key, and those above or behind a key."""
    text = air_text(name)
    about: list[str] = []
    above: list[str] = []
    notes: dict[str, str] = {}
    for line in map(str.strip, text.splitlines()):
        if line.startswith("#"):
            (above if notes else about).append(line.lstrip("# "))
        elif line:
            key, _, rest = line.partition("=")
            behind = rest.partition("#")[2].strip()
            notes[key.strip()] = "\n".join([*above, behind]).strip()
            above = []
    told = {key: note for key, note in notes.items() if note}
    return DescribedAir(about="\n".join(about), air=Air(preset=name, **tomllib.loads(text)), notes=told)
