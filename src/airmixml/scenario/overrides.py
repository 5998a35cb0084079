"""``--set table.key=value``."""

import tomllib
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from airmixml.errors import ScenarioError
from airmixml.scenario.rules import Choice, Items, Text, rule_of
from airmixml.scenario.tables import TABLES
from airmixml.scenario.toml import all_keys, unknown_key
from airmixml.wording import shown_name


def parse_assignments(assignments: Iterable[str]) -> dict[str, Any]:
    """Return each ``key=value`` as an entry of its table; values are checked when a scenario is made of them."""
    tables: dict[str, Any] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        name = name.strip()
        if not equals:
            raise ScenarioError(f"--set {shown_name(assignment)}: must be key=value, such as radio.slots=1000")
        if name not in all_keys():
            raise unknown_key(name)
        table, dot, entry = name.rpartition(".")
        target = tables.setdefault(table, {}) if dot else tables
        target[entry] = _parse(name, text.strip())
    return tables


def _parse(name: str, text: str) -> Any:
    """Read a value as TOML; words need no quotes, and a list no brackets."""
    rule = _rule(name)
    if isinstance(rule, Items):
        value = _toml_or_word(text)
        if isinstance(value, list) and not isinstance(rule.rule, Text):
            return value
        if isinstance(value, list) and all(isinstance(entry, str) for entry in value):
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
        return tables["value"] if len(tables) == 1 else text
    except (tomllib.TOMLDecodeError, RecursionError, ValueError):
        return text


def _rule(name: str) -> object:
    table, dot, entry = name.rpartition(".")
    if not dot:
        return Text() if name == "name" else None
    return next(rule_of(declared) for declared in fields(TABLES[table]) if declared.name == entry)
