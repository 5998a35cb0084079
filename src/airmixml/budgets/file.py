"""The file of a ledger: SQLite, one transaction per change, so that a killed process or a full disk loses nothing.

Losses are kept as arrays over workers, compressed, not as a row for each: a million workers take milliseconds, and a
run that costs everybody the same takes a few bytes. What is spent for good is added up once; reservations are added to
that when somebody asks, so that replacing one never subtracts.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from airmixml.errors import LedgerError
from airmixml.wording import reason

APPLICATION: Final = 0x41694D78  # "AiMx", as SQLite's header has it
VERSION: Final = 1
_SECONDS_TO_WAIT: Final = 60.0
_TRIED_BYTES: Final = 1 << 16
_PAYS_BELOW: Final = 0.8
_CREATES: Final = f"""
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {VERSION};
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


def packed(values: NDArray[Any]) -> bytes:
    """Return the numbers as bytes behind a checksum, compressed where the first of them show that it pays."""
    content = np.ascontiguousarray(values).astype(values.dtype.newbyteorder("<")).tobytes()
    first = content[:_TRIED_BYTES]
    pays = len(zlib.compress(first, 1)) < _PAYS_BELOW * len(first)
    check = zlib.crc32(content).to_bytes(4, "little")
    return check + (b"z" + zlib.compress(content, 1) if pays else b"-" + content)


def unpacked(content: bytes, kind: type = np.float64) -> NDArray[Any]:
    """Return the numbers that ``packed`` was given; a changed byte is a ``zlib.error``."""
    plain = zlib.decompress(content[5:]) if content[4:5] == b"z" else content[5:]
    if zlib.crc32(plain).to_bytes(4, "little") != content[:4] or len(plain) % 8:
        raise zlib.error("a checksum is wrong")
    return np.frombuffer(plain, dtype=np.dtype(kind).newbyteorder("<")).astype(kind)


def create_file(path: Path, fill: Callable[[sqlite3.Connection], None]) -> None:
    """Create a ledger with what ``fill`` writes into it, whole or not at all; refuse a name that is taken."""
    if os.path.lexists(path):
        raise LedgerError(f"{path}: exists already; a ledger is never overwritten: choose another name")
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.airmix-unfinished")
    try:
        with contextlib.closing(sqlite3.connect(temporary)) as connection:
            connection.executescript(f"BEGIN;{_CREATES}")
            fill(connection)
            connection.commit()
        try:
            os.link(temporary, path)  # fails where another process was faster
        except FileExistsError:
            raise LedgerError(f"{path}: exists already; a ledger is never overwritten: choose another name") from None
        except OSError:  # a file system without links
            temporary.rename(path)
    except (sqlite3.Error, OSError) as problem:
        raise LedgerError(
            f"{path}: cannot be written ({reason(problem)}); free space or choose another place"
        ) from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


@contextmanager
def transaction(path: Path, *, write: bool) -> Iterator[sqlite3.Connection]:
    """Open the file for one transaction, alone if it is to ``write``; what goes wrong is one line, and undone."""
    if not path.is_file():
        what = "is not a file" if os.path.lexists(path) else "there is no such ledger"
        raise LedgerError(f"{path}: {what}; `airmix ledger create` makes one")
    try:
        with contextlib.closing(_connect(path)) as connection:
            connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            _check_kind(connection, path)
            try:
                yield connection
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
    except (sqlite3.Error, zlib.error) as problem:
        raise _in_words(path, problem) from None


def _connect(path: Path) -> sqlite3.Connection:
    place = f"{path.absolute().as_uri()}?mode=rw"
    connection = sqlite3.connect(place, uri=True, timeout=_SECONDS_TO_WAIT, isolation_level=None)
    connection.row_factory = sqlite3.Row
    # A promise not to send is worth nothing if it is lost with the power.
    connection.execute("PRAGMA synchronous = EXTRA")
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


def _check_kind(connection: sqlite3.Connection, path: Path) -> None:
    (application,), (version,) = (
        connection.execute(f"PRAGMA {name}").fetchone() for name in ("application_id", "user_version")
    )
    if application != APPLICATION:
        raise LedgerError(f"{path}: not a ledger of airmix, but another program's file; give one made by ledger create")
    # Damage that leaves a page readable would let spent budgets look unspent.
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise sqlite3.DatabaseError(f"malformed: {found.splitlines()[-1]}")
    if version > VERSION:
        raise LedgerError(f"{path}: made by a newer airmixml (format {version}, not {VERSION}); update airmixml")


def _in_words(path: Path, problem: BaseException) -> LedgerError:
    text = reason(problem)
    if isinstance(problem, zlib.error) or "malformed" in text or "not a database" in text:
        return LedgerError(f"{path}: broken or not a ledger ({text}); restore it from a copy: nothing was changed")
    if "locked" in text:
        return LedgerError(f"{path}: another process has been writing it for {_SECONDS_TO_WAIT:.0f} s; try again later")
    return LedgerError(f"{path}: cannot be used ({text}); nothing was changed: free space, or check who may write it")
