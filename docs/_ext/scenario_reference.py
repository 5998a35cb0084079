"""The scenario reference: every key with its default, its rule and its meaning, as the package declares them."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from typing import Any

from airmixml.scenario import AIR_PRESETS, Scenario, air_summary, preset_names, preset_summary
from airmixml.scenario.tables import TABLES
from airmixml.scenario.toml import TOP_LEVEL, toml_value

_LONG_NUMBER = re.compile(r"\b\d{5,}\b")
_NO_LIMIT = f" and at most {2**63 - 1}"


def scenario_reference() -> str:
    """Return the reference as Markdown."""
    parts = [_section("Top level", "What a scenario is called, and what decides its draws.", _rows(Scenario, ""))]
    parts += [
        _section(f"[{name}]", inspect.getdoc(table) or "", _rows(table, f"{name}.")) for name, table in TABLES.items()
    ]
    presets = [f"| `{name}` | {_cell(preset_summary(name))} |" for name in preset_names()]
    airs = [f"| `{name}` | {_cell(air_summary(name))} |" for name in AIR_PRESETS]
    parts += ["\n".join(["## Presets", "", "| `--preset` | |", "|---|---|", *presets])]
    parts += ["\n".join(["## Channel profiles", "", "| `--air` | |", "|---|---|", *airs])]
    return "\n\n".join(parts) + "\n"


def _section(title: str, about: str, rows: list[str]) -> str:
    head = ["| key = default | meaning | must be |", "|---|---|---|"]
    return "\n".join([f"## {title}", "", about.partition("\n\n")[0], "", *head, *rows])


def _rows(table: type[Any], prefix: str) -> list[str]:
    rows = []
    for each in fields(table):
        rule = each.metadata.get("rule") or TOP_LEVEL.get(each.name)
        if rule is not None and (prefix or each.name in TOP_LEVEL):
            must_be = _LONG_NUMBER.sub(lambda found: f"{int(found[0]):,}", rule.must_be().replace(_NO_LIMIT, ""))
            cells = _cell(each.metadata["doc"]), _cell(must_be)
            rows.append(f"| `{prefix}{each.name} = {toml_value(each.default)}` | {' | '.join(cells)} |")
    return rows


def _cell(text: str) -> str:
    """Return text for a cell of a table, with angle brackets and bars as themselves."""
    return text.replace("|", "\\|").replace("<", "\\<").replace("_", "\\_").replace("*", "\\*")
