"""Results as JSON has them, as tables: a unit in the name of a number decides how it looks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from airmixml.output.page import Part
from airmixml.output.tables import Table
from airmixml.wording import NONE, duration, epsilon_text, joules, plural

_MOST_ROWS: Final = 500
_UNITS: Final[dict[str, Callable[[float], str]]] = {
    "joules": joules,
    "seconds": duration,
    "epsilon": epsilon_text,
    "_dbm": lambda value: f"{value:.1f} dBm",
    "_db": lambda value: f"{value:.1f} dB",
    "epoch": lambda value: f"{value:g}",
    "accuracy": lambda value: f"{100 * value:.2f} %",
}
_MEAN: Final = {"mean", "deviation"}


def shown(name: str, value: Any) -> str:
    """Return a value of that name as a reader wants it."""
    if isinstance(value, Mapping):  # mean and deviation
        spread = "" if value.get("deviation") is None else f" ± {shown(name, value['deviation'])}"
        return f"{shown(name, value.get('mean'))}{spread}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        unit = next((unit for part in reversed(re.split(r"[. ]", name)) for unit in _UNITS if unit in part), "")
        return _UNITS[unit](value) if unit else f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
    return NONE if value is None else str(value) or NONE


def _flat(record: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield names and values, those of parts with the part's name before them; lists are left out."""
    for key, value in record.items():
        if isinstance(value, Mapping) and not _MEAN & value.keys():
            yield from _flat(value, f"{before}{key} ")
        elif not isinstance(value, list):
            yield f"{before}{key}", value


def table_of(title: str, records: Sequence[Mapping[str, Any]], file: str) -> tuple[Part, ...]:
    """Return a table with a row for each record, without columns that nobody fills.

    The rows that would make a page too large to open are left in the ``file``. Without records there is no table.
    """
    flat = [dict(_flat(record)) for record in records]
    names = [
        name
        for name in dict.fromkeys(name for record in flat for name in record)
        if any(record.get(name) not in (None, "") for record in flat)
    ]
    if not names:
        return ()
    rows = tuple(tuple(shown(name, record.get(name)) for name in names) for record in flat[:_MOST_ROWS])
    table = Table(title=title, columns=tuple(map(_in_words, names)), rows=rows)
    more = len(records) - _MOST_ROWS
    return (table, f"{plural(more, 'more row')} in {file}.") if more > 0 else (table,)


def _in_words(name: str) -> str:
    """Return a name without underscores, and without the unit that stands beside the number."""
    return re.sub(r"_(joules|seconds|dbm|db)\b", "", name).replace("_", " ")
