"""Scenarios as TOML, in files and presets, and single keys as ``--set table.key=value`` gives them; airs in words.

Errors name the key and the nearest valid one; what is written reads back equal.
"""

import json
import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from airmixml.files import read_regular
from airmixml.messages import ScenarioError, did_you_mean, shown, shown_name
from airmixml.scenario.air import Air, named_air
from airmixml.scenario.rules import Choice, Items, Real, Rule, Text, Whole
from airmixml.scenario.tables import OWN_FILES, SEPARATED, TABLES

BOUNDS = "bounds"
_PAIR = Items(rule=Real(), least=2, most=2)


def bounded_columns(
    bounds: object, feature_columns: Sequence[str] = (), categories: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the keys of ``[workers]`` that a table of ``COLUMN = [lower, upper]`` stands for.

    The input columns are those that the table names, or the given ones; of those it must then name every one but the
    columns of categories, which have no bounds.
    """
    if not isinstance(bounds, Mapping) or not bounds:
        raise ScenarioError(f"workers.bounds = {shown(bounds)}: must be a table with a line COLUMN = [lower, upper]")
    pairs = {name: _PAIR.check(f"workers.bounds.{shown(name)}", pair) for name, pair in bounds.items()}
    columns = list(feature_columns or [*pairs, *categories])
    numbers = [name for name in columns if name not in categories]
    for name in (*numbers, *pairs):
        if name not in numbers:
            raise ScenarioError(f"workers.bounds: {shown(name)} is not an input column of numbers; remove its line")
        if name not in pairs:
            raise ScenarioError(
                f"workers.bounds: {shown(name)} must have a line {shown(name)} = [lower, upper]; add the line, with "
                "numbers that you know beforehand, or change workers.feature_columns"
            )
    lower, upper = zip(*(pairs[name] for name in numbers), strict=True)
    return {"feature_columns": columns, "input_lower": list(lower), "input_upper": list(upper)}


TOP_LEVEL: Final[dict[str, Rule]] = {"name": Text(forbidden='/\\:*?"<>|'), "seed": Whole()}
EXTENDS = "extends"
_LARGEST_FILE_BYTES = 1_000_000
_PRESETS = Path(__file__).parents[1] / "presets"


def all_keys() -> list[str]:
    """Return every valid key as it is written after ``--set``."""
    return [*TOP_LEVEL, *(f"{table}.{entry.name}" for table, kind in TABLES.items() for entry in fields(kind))]


def unknown_key(name: str) -> ScenarioError:
    """Return the error for a key that does not exist, with the nearest that does."""
    if name in TABLES:
        return ScenarioError(f"{name}: a table, not a key; name one, such as {name}.{fields(TABLES[name])[0].name}")
    if name == EXTENDS:
        return ScenarioError(f"{EXTENDS}: belongs at the top of a scenario file; on the command line use --preset")
    last = name.rpartition(".")[2]
    same_last = [key for key in all_keys() if key.rpartition(".")[2] == last]
    near = f"; did you mean {same_last[0]}?" if same_last else did_you_mean(name, [*all_keys(), *TABLES])
    return ScenarioError(f"{shown_name(name)}: unknown key{near or '; `airmix show digits` prints all keys'}")


def checked_keys(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables; refuse a key that does not exist, or a table that is none."""
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
    return dict(tables)


def parse_toml(text: str, *, source: str) -> dict[str, Any]:
    """Return the tables of TOML text; ``extends``, if there, names a preset."""
    try:
        tables = tomllib.loads(text)
    except (RecursionError, ValueError) as problem:
        known = isinstance(problem, tomllib.TOMLDecodeError)
        why = problem if known else "nested too deeply, or a number of too many digits"
        raise ScenarioError(f"{source}: not valid TOML: {why}") from None
    if not isinstance(parent := tables.get(EXTENDS, ""), str) or parent.endswith(".toml"):
        raise ScenarioError(f"{EXTENDS} = {shown(parent)}: must name a preset, not a file; `airmix presets` lists them")
    return tables


def read_scenario_file(path: Path, kind: str = "scenario file or --preset NAME") -> str:
    """Return the text of a scenario file, or of another TOML file of that kind."""
    if path.suffix.lower() in OWN_FILES:
        how = f"`airmix init {path}` writes a scenario for it"
        if path.suffix.lower() not in SEPARATED:
            how = f"use --preset private-table (or private-images) with --set workers.dataset={path}"
        raise ScenarioError(f"{path}: holds data, not a scenario; {how}")
    try:
        content = read_regular(path, _LARGEST_FILE_BYTES + 1)
    except OSError as problem:
        raise ScenarioError(f"{path}: cannot be read ({problem.strerror}); give a {kind}") from None
    except ValueError:
        raise ScenarioError(f"{shown(str(path))}: not a file name; give a {kind}") from None
    if len(content) > _LARGEST_FILE_BYTES:
        raise ScenarioError(f"{path}: larger than 1 MB, so not a scenario; give a TOML file (`airmix show` prints one)")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ScenarioError(f"{path}: not UTF-8 text; give a TOML scenario file (`airmix show` prints one)") from None


def preset_names() -> list[str]:
    """Return the names of all presets."""
    return sorted(file.stem for file in _PRESETS.glob("*.toml"))


def preset_text(name: str) -> str:
    """Return the TOML file of a preset, as shipped."""
    if name not in preset_names():
        near = did_you_mean(name, preset_names())
        raise ScenarioError(f"preset {shown(name)}: there is none of that name{near} (`airmix presets` lists them)")
    return (_PRESETS / f"{name}.toml").read_text(encoding="utf-8")


def preset_summary(name: str) -> str:
    """Return the first comment line of a preset."""
    return preset_text(name).partition("\n")[0].lstrip("# ")


def parse_assignments(assignments: Iterable[str]) -> dict[str, Any]:
    """Return each ``key=value`` as an entry of its table; values are checked when a scenario is made of them."""
    tables: dict[str, Any] = {}
    for assignment in assignments:
        if not isinstance(assignment, str):
            raise ScenarioError(
                f"override {shown(assignment)}: must be text of the form key=value, each an argument of its own, such "
                'as with_overrides("radio.slots=1000", "mixing.alpha=0.1")'
            )
        name, equals, text = assignment.partition("=")
        name = name.strip()
        if not equals or not name:
            raise ScenarioError(f"--set {shown_name(assignment)}: must be key=value, such as radio.slots=1000")
        if name not in all_keys():
            raise unknown_key(name)
        table, dot, entry = name.rpartition(".")
        target = tables.setdefault(table, {}) if dot else tables
        target[entry] = _parse(name, text.strip())
    return tables


def _parse(name: str, text: str) -> Any:
    """Read a value as TOML; words need no quotes, and a list no brackets."""
    rule = rule_of(name)
    if isinstance(rule, Items):
        value = _toml_or_word(text)
        texts = isinstance(rule.rule, Text)
        if isinstance(value, list) and (not texts or all(isinstance(entry, str) for entry in value)):
            return value
        parts = text.removeprefix("[").removesuffix("]")
        return [_parse_one(rule.rule, part.strip()) for part in parts.split(",")] if parts.strip() else []
    return _parse_one(rule, text)


def _parse_one(rule: object, text: str) -> Any:
    value = _toml_or_word(text)
    return text if isinstance(rule, (Text, Choice)) and not isinstance(value, str) else value


def _toml_or_word(text: str) -> Any:
    try:
        tables = tomllib.loads(f"value = {text}")
        too_large = tables["value"] in (math.inf, -math.inf) and "inf" not in text  # 1e400 is shown as it is typed
        return tables["value"] if len(tables) == 1 and not too_large else text
    except (tomllib.TOMLDecodeError, RecursionError, ValueError):
        return text


def rule_of(name: str) -> Any:
    """Return what the values of a key must be."""
    table, _, entry = name.rpartition(".")
    return TABLES[table].__dataclass_fields__[entry].metadata["rule"] if table else TOP_LEVEL[name]


def table_lines(table: Any, *, comments: bool = True) -> list[str]:
    """Return a line for each key of a table, with what it means."""
    lines = []
    for entry in fields(table):
        line = f"{entry.name} = {toml_value(getattr(table, entry.name))}"
        rule, meaning = entry.metadata.get("rule"), entry.metadata.get("doc", "")
        if isinstance(rule, Choice) and len(rule.options) > 1:
            meaning += f" ({' | '.join(rule.words)})"
        lines.append(f"{line:<34} # {meaning}" if comments else line)
    return lines


def toml_value(value: object) -> str:
    """Return a value as TOML has it."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, tuple):
        return "[" + ", ".join(toml_value(entry) for entry in value) + "]"
    return repr(value)


def value_text(value: Any) -> str:
    """Return a value as tables and pictures show it: short, but never the same for two values."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(value_text, value))}]"
    if isinstance(value, float):
        text = f"{value:g}"
        return text if float(text) == value else repr(value)
    return str(value)


Plain = int | float | str | list[str] | None
"""A value of a key as JSON has it; None: infinite, which is off."""


def finite(value: Any) -> Any:
    """Return plain values as JSON has them: lists for tuples, None for what is not finite, as a key is that is off."""
    if isinstance(value, Mapping):
        return {str(name): finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def keys_in_force(air: Air) -> dict[str, Plain]:
    """Return the name of the air's preset, and each key that is not as on the ideal air."""
    others = [entry for entry in fields(air) if entry.name != "preset"]
    changed = {entry.name: getattr(air, entry.name) for entry in others if getattr(air, entry.name) != entry.default}
    return {"preset": air.preset, **finite(changed)}


def titled(name: str, air: Air) -> str:
    """Return "private-mnist on campus", or "on a changed campus"; the name alone for the ideal air."""
    if air.is_ideal:
        return name
    shipped = air == named_air(air.preset)
    return f"{name} on {air.preset if shipped else 'a changed ' + air.preset.replace('ideal', 'air')}"


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
    values = (f"{key} = {value:g}" if isinstance(value, float) else f"{key} = {value}" for key, value in keys.items())
    return f"{'changed' if name == 'ideal' else name}: {', '.join(values)}"
