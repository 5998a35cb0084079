"""The file of a ledger: SQLite, one transaction per change, so that a killed process or a full disk loses nothing.

Losses are kept as arrays over workers, compressed, not as a row for each: a million workers take milliseconds, and a
run that costs everybody the same takes a few bytes. What is spent for good is added up once; reservations are added to
that when a balance is asked for, so that replacing one never subtracts.

The tables are checked to the letter, and what holds of every row in them: a trigger, a missing row or a number of
another kind would make a spent budget look unspent, so such a file is refused.
"""

from __future__ import annotations

import contextlib
import glob
import os
import secrets
import sqlite3
import stat
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from airmixml.messages import LedgerError, private, reason, shown
from airmixml.privacy.gaussian import ADJACENCIES

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


_SECONDS_TO_WAIT: Final = 60.0
_TRIED_BYTES: Final = 1 << 16
_PAYS_BELOW: Final = 0.8
_UNFINISHED: Final = ".airmix-unfinished"
_BESIDE: Final = ("-journal", "-wal", "-shm")  # files that SQLite would open with a ledger


def packed(values: NDArray[Any]) -> bytes:
    """Return the numbers as bytes behind a checksum, compressed where the first of them show that it pays."""
    content = np.ascontiguousarray(values).astype(values.dtype.newbyteorder("<")).tobytes()
    first = content[:_TRIED_BYTES]
    pays = len(zlib.compress(first, 1)) < _PAYS_BELOW * len(first)
    check = zlib.crc32(content).to_bytes(4, "little")
    return check + (b"z" + zlib.compress(content, 1) if pays else b"-" + content)


def unpacked(content: bytes, kind: type = np.float64) -> NDArray[Any]:
    """Return the numbers that ``packed`` was given; a changed byte is an ``UnsoundError``."""
    try:
        plain = zlib.decompress(content[5:]) if content[4:5] == b"z" else content[5:]
    except zlib.error as problem:
        raise UnsoundError(reason(problem)) from None
    if zlib.crc32(plain).to_bytes(4, "little") != content[:4] or content[4:5] not in (b"z", b"-") or len(plain) % 8:
        raise UnsoundError("a checksum is wrong")
    return np.frombuffer(plain, dtype=np.dtype(kind).newbyteorder("<")).astype(kind)


def create_file(path: Path, fill: Callable[[sqlite3.Connection], None]) -> None:
    """Create a ledger with what ``fill`` writes into it, whole or not at all; refuse a name that is taken."""
    if os.path.lexists(path):
        raise LedgerError(f"{path}: exists already; a ledger is never overwritten: choose another name")
    for beside in _beside(path):
        if os.path.lexists(beside):
            raise LedgerError(f"{beside}: is left of another file, and would be read with it; choose another name")
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}{_UNFINISHED}")
    try:
        with contextlib.closing(sqlite3.connect(temporary)) as connection:
            connection.executescript(f"BEGIN;{CREATES}")
            fill(connection)
            connection.commit()
        try:
            os.link(temporary, path)  # fails where another process was faster
        except FileExistsError:
            raise LedgerError(f"{path}: exists already; a ledger is never overwritten: choose another name") from None
        except OSError:  # a file system without links
            temporary.rename(path)
    except UnicodeEncodeError as problem:
        raise _in_words(path, problem) from None
    except (sqlite3.Error, OSError) as problem:
        raise LedgerError(f"{path}: cannot be written ({reason(problem)}); free space or use another folder") from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


@contextmanager
def transaction(path: Path, *, write: bool) -> Iterator[sqlite3.Connection]:
    """Open the file for one transaction, alone if it is to ``write``; what goes wrong is one line, and undone."""
    _check_place(path)
    try:
        with contextlib.closing(_connect(path)) as connection:
            connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            check_sound(connection, path)
            try:
                yield connection
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
    except (sqlite3.Error, UnsoundError, UnicodeEncodeError) as problem:
        raise _in_words(path, problem) from None


def _check_place(path: Path) -> None:
    """Refuse what is no file: SQLite would wait for ever for a pipe to speak."""
    try:
        found = path.stat()
        path = path.resolve()  # where SQLite looks for what lies beside it
        if found.st_nlink > 1:
            _finish(path)
            found = path.stat()
    except (OSError, ValueError) as problem:
        what = "there is no such ledger" if isinstance(problem, FileNotFoundError) else f"not found ({reason(problem)})"
        raise LedgerError(f"{path}: {what}; `airmix ledger create` makes one") from None
    if not stat.S_ISREG(found.st_mode):
        raise LedgerError(f"{path}: is not a file; `airmix ledger create` makes one")
    if found.st_nlink > 1:
        raise LedgerError(
            f"{path}: has another name too (a hard link), under which SQLite would not find what a killed process left "
            "to undo; remove that name, and use a symbolic link"
        )
    for beside in _beside(path):
        if os.path.lexists(beside) and not beside.is_file():
            raise LedgerError(f"{beside}: is not a file, and SQLite would open it with the ledger; remove it")


def _beside(path: Path) -> list[Path]:
    return [path.with_name(path.name + ending) for ending in _BESIDE]


def _finish(path: Path) -> None:
    """Remove the first name of a ledger, where the process that created it was killed before it did."""
    for other in path.parent.glob(f".{glob.escape(path.name)}.*{_UNFINISHED}"):
        if other.samefile(path):
            other.unlink()


def _connect(path: Path) -> sqlite3.Connection:
    place = f"{path.absolute().as_uri()}?mode=rw"
    connection = sqlite3.connect(place, uri=True, timeout=_SECONDS_TO_WAIT, isolation_level=None)
    connection.row_factory = sqlite3.Row
    # A promise not to send is worth nothing if it is lost with the power.
    settings = {"synchronous": "EXTRA", "foreign_keys": "ON", "trusted_schema": "OFF", "cell_size_check": "ON"}
    for name, value in settings.items():
        connection.execute(f"PRAGMA {name} = {value}")
    return connection


def _in_words(path: Path, problem: sqlite3.Error | UnsoundError | UnicodeEncodeError) -> LedgerError:
    if isinstance(problem, UnicodeEncodeError):
        what = private(shown(problem.object), "a name or text")
        return LedgerError(f"{path}: {what} is not UTF-8 text; nothing was written: spell it otherwise")
    text = reason(problem)
    if isinstance(problem, UnsoundError) or any(each in text for each in ("malformed", "not a database", "decode")):
        return LedgerError(f"{path}: broken or not a ledger ({text}); restore it from a copy: nothing was changed")
    if "locked" in text:
        return LedgerError(f"{path}: another process has been writing it for {_SECONDS_TO_WAIT:.0f} s; try again later")
    return LedgerError(f"{path}: cannot be used ({text}); nothing was changed: free space, or check who may write it")
