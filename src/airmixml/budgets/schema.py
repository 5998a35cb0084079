"""What the file of a ledger must be: its tables to the letter, and what holds of every row in them.

A trigger, a missing row or a number of another kind would make a spent budget look unspent: such a file is refused.
"""

from __future__ import annotations

import sqlite3
from functools import cache
from pathlib import Path
from typing import Final

from airmixml.errors import LedgerError
from airmixml.privacy.mechanism import ADJACENCIES

PROTECTION: Final = "protection"
MODES: Final = (PROTECTION, "simulation")
MOST_WORKERS: Final = 10**9
_APPLICATION: Final = 0x41694D78  # "AiMx", as SQLite's header has it
_VERSION: Final = 1
_TABLES: Final = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE workers (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE budgets (
    adversary TEXT PRIMARY KEY, epsilon REAL NOT NULL, delta REAL NOT NULL,
    squared_mu BLOB NOT NULL, spent_epsilon BLOB NOT NULL, spent_delta BLOB NOT NULL
);
CREATE TABLE entries (
    number INTEGER PRIMARY KEY AUTOINCREMENT, state TEXT NOT NULL CHECK (state IN ('reserved', 'spent', 'released')),
    about TEXT NOT NULL, key TEXT NOT NULL, details TEXT NOT NULL,
    reserved_at TEXT NOT NULL, ended_at TEXT NOT NULL DEFAULT '', reason TEXT NOT NULL DEFAULT '', who BLOB
);
CREATE INDEX open_entries ON entries (state, key);
CREATE TABLE losses (
    entry INTEGER NOT NULL REFERENCES entries, adversary TEXT NOT NULL,
    squared_mu BLOB NOT NULL, epsilon BLOB NOT NULL, delta BLOB NOT NULL, PRIMARY KEY (entry, adversary)
);
"""
CREATES: Final = f"PRAGMA application_id = {_APPLICATION}; PRAGMA user_version = {_VERSION}; {_TABLES}"


def _are(kind: str, *columns: str) -> str:
    return " AND ".join(f"typeof({each}) = '{kind}'" for each in columns)


_ROWS: Final = {  # what is true of each row of a table
    "facts": f"""CASE name
        WHEN 'mode' THEN value IN {MODES} WHEN 'adjacency' THEN value IN {tuple(ADJACENCIES)}
        WHEN 'count' THEN {_are("integer", "value")} AND value BETWEEN 0 AND {MOST_WORKERS}
        WHEN 'strict_names' THEN value IN (0, 1)
        WHEN 'created_at' THEN {_are("text", "value")} WHEN 'label' THEN {_are("text", "value")} END""",
    "workers": f"{_are('text', 'name')} AND number BETWEEN 0 AND (SELECT COUNT(*) FROM workers) - 1",
    "budgets": f"""{_are("text", "adversary")} AND {_are("blob", "squared_mu", "spent_epsilon", "spent_delta")}
        AND {_are("real", "epsilon", "delta")} AND epsilon > 0 AND epsilon < 9e999 AND delta > 0 AND delta < 1""",
    "entries": f"""{_are("text", "about", "key", "details", "reserved_at", "ended_at", "reason")}
        AND typeof(who) IN ('null', 'blob') AND (state = 'reserved') = (ended_at = '')
        AND number BETWEEN 1 AND (SELECT COUNT(*) FROM entries)
        AND 1 = (SELECT MIN(adversary IN (SELECT adversary FROM losses WHERE entry = number)) FROM budgets)""",
    "losses": f"""{_are("blob", "squared_mu", "epsilon", "delta")} AND entry IN (SELECT number FROM entries)
        AND adversary IN (SELECT adversary FROM budgets)""",
}
_WHOLE: Final = {  # what is true of all rows of a table together
    "facts": """3 = (SELECT COUNT(*) FROM facts WHERE name IN ('mode', 'adjacency', 'created_at'))
        AND (SELECT COUNT(*) FROM facts WHERE name IN ('label', 'count'))
            IN (2, CASE WHEN EXISTS (SELECT * FROM entries) THEN 2 ELSE 0 END)""",
    "workers": "NOT EXISTS (SELECT * FROM workers, facts WHERE facts.name = 'count' AND value > 0)",
    "budgets": "EXISTS (SELECT * FROM budgets)",
    "entries": """(SELECT COUNT(*) FROM entries)
        = COALESCE((SELECT MAX(seq) FROM sqlite_sequence WHERE name = 'entries'), 0)""",
}


class UnsoundError(Exception):
    """A ledger holds what airmix never writes."""


def check_sound(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a file that is another program's, a newer version's or damaged, or that was changed by other means."""
    application, version = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
    )
    if application != _APPLICATION:
        raise LedgerError(f"{path}: not a ledger of airmix, but another program's file; give one made by ledger create")
    if version > _VERSION:
        raise LedgerError(f"{path}: made by a newer airmixml (format {version}, not {_VERSION}); update airmixml")
    changed = sorted(name for _, name, _ in _schema(connection) ^ _expected_schema())
    if version != _VERSION or changed:
        what = f"{changed[0]} is not as airmix made it" if changed else f"there is no format {version}"
        raise UnsoundError(f"{what}")
    (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if found != "ok":
        raise UnsoundError(f"{found.splitlines()[-1]}")
    for table, rule in _ROWS.items():
        if connection.execute(f"SELECT EXISTS (SELECT * FROM {table} WHERE ({rule}) IS NOT 1)").fetchone()[0]:
            raise UnsoundError(f"a row of the table {table} is not as airmix writes it")
    for table, rule in _WHOLE.items():
        if not connection.execute(f"SELECT {rule}").fetchone()[0]:
            raise UnsoundError(f"rows of the table {table} are missing or too many")


def _schema(connection: sqlite3.Connection) -> set[tuple[str, str, str]]:
    """Return kind, name and text of everything in the file but what SQLite notes for its own searches (ANALYZE)."""
    notes = "type = 'table' AND name IN ('sqlite_stat1', 'sqlite_stat4')"
    rows = connection.execute(f"SELECT type, name, sql FROM sqlite_master WHERE NOT ({notes})")
    return {(kind, name, " ".join((text or "").split())) for kind, name, text in rows.fetchall()}


@cache
def _expected_schema() -> frozenset[tuple[str, str, str]]:
    connection = sqlite3.connect(":memory:")
    connection.executescript(_TABLES)
    found = frozenset(_schema(connection))
    connection.close()
    return found
