"""Bounds of many columns, each beside its name: ``[workers.bounds]`` in a scenario, or a file of its own."""

from collections.abc import Mapping, Sequence
from typing import Any

from airmixml.errors import ScenarioError
from airmixml.scenario.rules import Items, Real
from airmixml.wording import shown

BOUNDS = "bounds"
_PAIR = Items(rule=Real(), least=2)


def bounded_columns(bounds: object, feature_columns: Sequence[str] = ()) -> dict[str, Any]:
    """Return the keys of ``[workers]`` that a table of ``COLUMN = [lower, upper]`` stands for.

    The input columns are those that the table names, or the given ones; of those it must then name every one.
    """
    if not isinstance(bounds, Mapping) or not bounds:
        raise ScenarioError(f"workers.bounds = {shown(bounds)}: must be a table with a line COLUMN = [lower, upper]")
    pairs = {name: _PAIR.check(f"workers.bounds.{shown(name)}", pair) for name, pair in bounds.items()}
    for name, pair in pairs.items():
        if len(pair) != 2:
            raise ScenarioError(f"workers.bounds.{shown(name)} has {len(pair)} numbers: must be [lower, upper]")
    columns = list(feature_columns or pairs)
    for name in columns:
        if name not in pairs:
            raise ScenarioError(
                f"workers.bounds: has no line for the input column {shown(name)}; write {shown(name)} = [lower, upper] "
                "with numbers that you know beforehand, or take the column out of workers.feature_columns"
            )
    for name in pairs:
        if name not in columns:
            raise ScenarioError(
                f"workers.bounds: {shown(name)} is none of the input columns; take its line out, or add it to "
                "workers.feature_columns"
            )
    lower, upper = zip(*(pairs[name] for name in columns), strict=True)
    return {"feature_columns": columns, "input_lower": list(lower), "input_upper": list(upper)}
