"""Scenarios as TOML: errors name the key and the nearest valid one; what is written reads back equal."""

import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import Field, fields, is_dataclass
from pathlib import Path
from typing import Any

from airmixml.errors import ScenarioError
from airmixml.scenario.rules import Choice
from airmixml.scenario.tables import TABLES
from airmixml.wording import nearest, shown, shown_name

TOP_LEVEL = ("name", "seed")
EXTENDS = "extends"
_LARGEST_FILE_BYTES = 1_000_000


def all_keys() -> list[str]:
    """Return every valid key as it is written after ``--set``."""
    return [*TOP_LEVEL, *(f"{table}.{entry.name}" for table, kind in TABLES.items() for entry in fields(kind))]


def unknown_key(name: str) -> ScenarioError:
    """Return the error for a key that does not exist, with the nearest that does."""
    if name in TABLES:
        return ScenarioError(
            f"{name}: a table, not a key; name a key of it, such as {name}.{fields(TABLES[name])[0].name}"
        )
    if name == EXTENDS:
        return ScenarioError(f"{EXTENDS}: belongs at the top of a scenario file; on the command line use --preset")
    last = name.rpartition(".")[2]
    same_last = [key for key in all_keys() if key.rpartition(".")[2] == last]
    near = same_last[0] if same_last else nearest(name, all_keys())
    return ScenarioError(f"{shown_name(name)}: unknown key; did you mean {near}?")


def check_keys(tables: Mapping[str, Any]) -> None:
    """Refuse a key that does not exist, or a table that is none."""
    for name, value in tables.items():
        if name in TOP_LEVEL:
            continue
        if name not in TABLES:
            raise unknown_key(name)
        if not isinstance(value, Mapping):
            raise ScenarioError(f"{name} = {shown(value)}: must be a table; write [{name}] with its keys below")
        valid = {entry.name for entry in fields(TABLES[name])}
        for entry in value:
            if entry not in valid:
                raise unknown_key(f"{name}.{entry}")


def parse_toml(text: str, *, source: str) -> dict[str, Any]:
    """Return the tables of TOML text; ``extends``, if there, names a preset."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise ScenarioError(f"{source}: not valid TOML: {problem}") from None
    except (RecursionError, ValueError) as problem:
        raise ScenarioError(f"{source}: not valid TOML: {type(problem).__name__}: {problem}") from None
    if not isinstance(tables.get(EXTENDS, ""), str):
        raise ScenarioError(
            f"{EXTENDS} = {shown(tables[EXTENDS])}: must be the name of a preset; `airmix presets` lists them"
        )
    return tables


def read_scenario_file(path: Path) -> str:
    """Return the text of a scenario file."""
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST_FILE_BYTES + 1)
    except OSError as problem:
        raise ScenarioError(
            f"{path}: cannot be read ({problem.strerror}); give a scenario file or --preset NAME"
        ) from None
    except ValueError:
        raise ScenarioError(f"{shown(str(path))}: not a file name; give a scenario file or --preset NAME") from None
    if len(content) > _LARGEST_FILE_BYTES:
        raise ScenarioError(f"{path}: larger than 1 MB, so not a scenario; give a TOML file (`airmix show` prints one)")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ScenarioError(f"{path}: not UTF-8 text; give a TOML scenario file (`airmix show` prints one)") from None


def write_toml(top_level: Any, tables: Mapping[str, Any], *, comments: bool) -> str:
    """Write every key of the top level and of the tables; ``comments`` adds what each means."""
    lines = list(_table_lines(top_level, TOP_LEVEL, comments))
    for name, table in tables.items():
        lines += ["", f"[{name}]", *_table_lines(table, [entry.name for entry in fields(table)], comments)]
    return "\n".join(lines) + "\n"


def _table_lines(table: Any, names: Iterable[str], comments: bool) -> Iterable[str]:
    assert is_dataclass(table)
    docs = {entry.name: _meaning(entry) for entry in fields(table)}
    for name in names:
        line = f"{name} = {_toml_value(getattr(table, name))}"
        yield f"{line:<34} # {docs[name]}" if comments else line


def _meaning(entry: Field[Any]) -> str:
    doc: str = entry.metadata.get("doc", "")
    rule = entry.metadata.get("rule")
    return f"{doc} ({' | '.join(rule.options)})" if isinstance(rule, Choice) and len(rule.options) > 1 else doc


def _toml_value(value: object) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, tuple):
        return "[" + ", ".join(_toml_value(entry) for entry in value) + "]"
    return repr(value)
