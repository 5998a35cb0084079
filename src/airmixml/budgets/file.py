"""The file of a ledger: SQLite, one transaction per change, so that a killed process or a full disk loses nothing.

Losses are kept as arrays over workers, compressed, not as a row for each: a million workers take milliseconds, and a
run that costs everybody the same takes a few bytes. What is spent for good is added up once; reservations are added to
that when a balance is asked for, so that replacing one never subtracts.
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
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from airmixml.budgets.schema import CREATES, UnsoundError, check_sound
from airmixml.errors import LedgerError, private
from airmixml.wording import reason, shown

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
            raise LedgerError(
                f"{beside}: is left of another file and would be read with the ledger; choose another name"
            )
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
        raise _no_text(path, problem) from None
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
    except UnicodeEncodeError as problem:
        raise _no_text(path, problem) from None
    except (sqlite3.Error, UnsoundError) as problem:
        raise _in_words(path, problem) from None


def _no_text(path: Path, problem: UnicodeEncodeError) -> LedgerError:
    what = private(shown(problem.object), "a name or text")
    return LedgerError(f"{path}: {what} is not UTF-8 text; nothing was written: spell it otherwise")


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


def _in_words(path: Path, problem: sqlite3.Error | UnsoundError) -> LedgerError:
    text = reason(problem)
    if isinstance(problem, UnsoundError) or any(each in text for each in ("malformed", "not a database", "decode")):
        return LedgerError(f"{path}: broken or not a ledger ({text}); restore it from a copy: nothing was changed")
    if "locked" in text:
        return LedgerError(f"{path}: another process has been writing it for {_SECONDS_TO_WAIT:.0f} s; try again later")
    return LedgerError(f"{path}: cannot be used ({text}); nothing was changed: free space, or check who may write it")
