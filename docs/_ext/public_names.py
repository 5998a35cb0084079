"""Which names are public, and which page of the reference describes each, from every ``__all__`` of the package."""

from __future__ import annotations

import pkgutil
import re
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import airmixml

_DOTTED = re.compile(r"`(airmixml(?:\.\w+)+)`")


@dataclass(frozen=True)
class PublicName:
    """A name that users may import."""

    room: str  # dotted name of the module whose ``__all__`` has it
    name: str
    thing: Any

    @property
    def path(self) -> str:
        """The name with its module, as it is imported."""
        return f"{self.room}.{self.name}"


@cache
def rooms() -> dict[str, ModuleType]:
    """Return the package and each of its modules that has an ``__all__``, by dotted name; the package comes first."""
    names = ["airmixml", *(f"airmixml.{each.name}" for each in pkgutil.iter_modules(airmixml.__path__))]
    modules = {name: import_module(name) for name in names if not name.endswith("__main__")}
    return {name: module for name, module in modules.items() if hasattr(module, "__all__")}


@cache
def public_names() -> tuple[PublicName, ...]:
    """Return every name of every ``__all__``."""
    return tuple(
        PublicName(room, name, getattr(module, name))
        for room, module in rooms().items()
        for name in sorted(module.__all__, key=str.lower)
        if name != "__version__"
    )


@cache
def homes() -> dict[str, PublicName]:
    """Return where each public path is described: a thing with several paths is described once, under the first."""
    described: dict[int, PublicName] = {}
    found = {}
    for each in public_names():
        # Small constants may be one object by chance; only what has an identity is told apart by it.
        key = id(each.thing) if callable(each.thing) or hasattr(each.thing, "__dict__") else hash(each.path)
        found[each.path] = described.setdefault(key, each)
    return found


def own_names(room: str) -> list[PublicName]:
    """Return the names that are described on the page of a room."""
    return [each for each in public_names() if each.room == room and homes()[each.path] is each]


def borrowed_names(room: str) -> list[PublicName]:
    """Return the names of a room that are described on the page of another."""
    return [each for each in public_names() if each.room == room and homes()[each.path] is not each]


def named_in(documents: list[Path]) -> dict[str, list[str]]:
    """Return the functions and classes that documents name in full and no ``__all__`` has, by room."""
    known = {id(each.thing) for each in public_names() if callable(each.thing)}
    found: dict[str, list[str]] = {}
    for path in sorted({path for document in documents for path in _DOTTED.findall(document.read_text("utf-8"))}):
        thing = resolve(path)
        if thing is not None and not isinstance(thing, ModuleType) and id(thing) not in known:
            known.add(id(thing))
            found.setdefault(".".join(path.split(".")[:2]), []).append(path)
    return found


def resolve(path: str) -> Any:
    """Return what a dotted path names, or None."""
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        try:
            thing: Any = import_module(".".join(parts[:length]))
        except ImportError:
            continue
        for part in parts[length:]:
            thing = getattr(thing, part, None)
        return thing
    return None
