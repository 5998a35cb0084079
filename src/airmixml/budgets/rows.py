"""What the rows of a ledger say: whose losses it keeps, its entries, and what each worker has lost by them.

What no ledger can hold is an ``UnsoundError``.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np

from airmixml.arrays import Doubles, Integers
from airmixml.budgets.file import MOST_WORKERS, UnsoundError, packed, transaction, unpacked
from airmixml.budgets.rules import PARTS, Budget, Loss, loss_to
from airmixml.messages import LedgerError, PrivacyError, in_plain_words, private, shown, shown_name
from airmixml.names import normal_name

RESERVED, SPENT, RELEASED = "reserved", "spent", "released"
_COLUMNS: Final = ("squared_mu", "spent_epsilon", "spent_delta")  # of the table budgets, in the order of PARTS
_NOBODY: Final = packed(np.zeros(0, dtype=np.int64)).hex()


@dataclass(frozen=True, kw_only=True)
class People:
    """Whose losses a ledger keeps."""

    label: str  #: what the numbers or names are of: a data set, a file, a column of names
    count: int = 0  #: how many there are, numbered from 0; 0 where they have names, of which new ones may come

    def __post_init__(self) -> None:
        if not 0 <= self.count <= MOST_WORKERS:
            raise LedgerError(f"count = {shown(self.count)} of people: must be from 0 (names) to {MOST_WORKERS:,}")

    @property
    def named(self) -> bool:
        """Whether they have names."""
        return not self.count

    def __str__(self) -> str:
        return f"workers by name, {self.label}" if self.named else f"{self.count:,} workers by number, {self.label}"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A line of the history; ``workers`` is None where all of a ledger by number took part."""

    number: int
    state: str
    about: str
    reserved_at: str
    ended_at: str
    reason: str
    workers: int | None
    details: dict[str, Any]
    largest: dict[str, dict[str, float]]  # adversary to the largest of each part of the loss


class Rows:
    """The rows of a ledger inside one transaction."""

    def __init__(self, file: sqlite3.Connection) -> None:
        self._file = file

    def undo(self) -> None:
        """Take back all that was written since the transaction began."""
        self._file.execute("ROLLBACK")
        self._file.execute("BEGIN")

    def create(self, budget: Budget, adversaries: Sequence[str], **facts: Any) -> None:
        """Write what a new ledger is about, and nobody's losses."""
        self.set_facts(**facts, created_at=now())
        nothing = packed(np.zeros(0))
        rows = [(name, budget.epsilon, budget.delta, *3 * (nothing,)) for name in dict.fromkeys(adversaries)]
        self._file.executemany("INSERT INTO budgets VALUES (?, ?, ?, ?, ?, ?)", rows)

    def set_facts(self, **facts: Any) -> None:
        self._file.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", facts.items())

    def facts(self) -> dict[str, Any]:
        """Return mode, adjacency, people (None where the first run will say), and budgets."""
        facts: dict[str, Any] = dict(self._file.execute("SELECT * FROM facts").fetchall())
        label, count = facts.pop("label", None), facts.pop("count", 0)
        people = None if label is None else People(label=label, count=count)
        strict = bool(facts.get("strict_names"))
        return {**facts, "strict_names": strict, "people": people, "budgets": self.budgets()}

    @property
    def workers(self) -> int:
        """How many workers the arrays of a ledger are over."""
        row = self._file.execute("SELECT value FROM facts WHERE name = 'count'").fetchone()
        return int((row and row["value"]) or self._file.execute("SELECT COUNT(*) FROM workers").fetchone()[0])

    def budgets(self) -> dict[str, Budget]:
        rows = self._file.execute("SELECT adversary, epsilon, delta FROM budgets ORDER BY adversary")
        return {row["adversary"]: Budget(epsilon=row["epsilon"], delta=row["delta"]) for row in rows}

    def entry_with(self, key: str) -> tuple[int, str] | None:
        """Return number and state of the entry of repeatable work that is spent, or else reserved; None if none is."""
        query = "SELECT number, state FROM entries WHERE state IN (?, ?) AND key = ? ORDER BY state DESC"
        found = self._file.execute(query, (SPENT, RESERVED, key)).fetchone()
        return None if found is None else (int(found["number"]), found["state"])

    def texts_of(self, number: int) -> tuple[str, str, str]:
        """Return state, key and reason of an entry; nothing where there is none."""
        known = 0 < number < 2**63  # SQLite has no others
        query = "SELECT state, key, reason FROM entries WHERE number = ?"
        row = self._file.execute(query, (number,)).fetchone() if known else None
        return ("", "", "") if row is None else (row["state"], row["key"], row["reason"])

    @cached_property
    def names(self) -> dict[str, int]:
        """The number of each worker that has a name, as ``normal_name`` spells it."""
        rows = self._file.execute("SELECT number, name FROM workers ORDER BY number").fetchall()
        numbers = {normal_name(name): number for number, name in rows}
        if len(numbers) < len(rows):  # airmixml 0.1 kept names as they were typed
            raise LedgerError("names: a person is in the ledger in several spellings of one name; begin another ledger")
        return numbers

    def name_of(self, number: int) -> str:
        """Return what a worker is called; its number where it has no name."""
        return next((name for name, each in self.names.items() if each == number), str(number))

    def places(self, who: Any, people: People) -> Integers | None:
        """Return the numbers of these workers, None for all of a ledger by number; new names get the next ones."""
        if people.named:
            if who is None or not len(who) or not all(isinstance(each, str) for each in who):
                raise LedgerError("who: workers of this ledger have names; give those that take part, at least one")
            names = [normal_name(each) for each in who]
            if "" in names:
                which = private(shown(who[names.index("")]), "of one")
                raise LedgerError(f"who: the name {which} is empty; give every worker a name")
            _check_once(names)
            new = [name for name in names if name not in self.names]
            added = dict(zip(new, range(len(self.names), len(self.names) + len(new)), strict=True))
            self._file.executemany("INSERT INTO workers (name, number) VALUES (?, ?)", added.items())
            self.names.update(added)
            return np.array([self.names[name] for name in names], dtype=np.int64)
        if who is None:
            return None
        numbers, workers = np.asarray(who), people.count
        if len(np.unique(numbers)) < numbers.size:
            _check_once(numbers.tolist())
        if not (numbers.dtype.kind in "iu" and len(numbers) and numbers.min() >= 0 and numbers.max() < workers):
            raise LedgerError(f"who: workers must be numbers from 0 to {workers - 1:,} of the ledger, at least one")
        everybody = len(numbers) == workers and bool((numbers == np.arange(workers)).all())
        return None if everybody else numbers.astype(np.int64)

    def write_entry(self, who: Integers | None, **texts: str) -> int:
        """Write a new reservation and return its number."""
        columns = {"state": RESERVED, "reserved_at": now(), "who": None if who is None else packed(who), **texts}
        query = f"INSERT INTO entries ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
        made = self._file.execute(query, tuple(columns.values()))
        return int(made.lastrowid or 0)

    def end_entry(self, number: int, state: str, reason: str) -> None:
        ended = (state, now(), reason, number)
        self._file.execute("UPDATE entries SET state = ?, ended_at = ?, reason = ? WHERE number = ?", ended)

    def entries(self) -> list[Entry]:
        workers = self.workers
        return [self._entry(row, workers) for row in self._file.execute("SELECT * FROM entries ORDER BY number")]

    def _entry(self, row: sqlite3.Row, workers: int) -> Entry:
        who = _who(row, workers)
        losses = self._losses("number = ?", row["number"])
        largest = {each["adversary"]: _loss(each, workers).worst().parts for each in losses}
        return Entry(
            **{name: row[name] for name in ("number", "state", "about", "reserved_at", "ended_at", "reason")},
            workers=None if who is None else len(who),
            details=_plain(row["details"]),
            largest={name: {part: float(value[0]) for part, value in parts.items()} for name, parts in largest.items()},
        )

    def write_losses(self, number: int, losses: Mapping[str, Loss | None]) -> None:
        """Write what an entry costs against each adversary of the ledger, in place of what is there."""
        found = {name: loss_to(name, losses).parts for name in self.budgets()}
        rows = [(number, name, *(packed(parts[part]) for part in PARTS)) for name, parts in found.items()]
        self._file.executemany("INSERT OR REPLACE INTO losses VALUES (?, ?, ?, ?, ?)", rows)

    def spend(self, number: int, reason: str) -> None:
        """Add an entry to what is spent for good."""
        workers = self.workers
        for row in self._losses("number = ?", number):
            total = added(self._spent_for_good(row["adversary"], workers), _loss(row, workers), _who(row, workers))
            values = (*(packed(total.parts[part]) for part in PARTS), row["adversary"])
            columns = ", ".join(f"{each} = ?" for each in _COLUMNS)
            self._file.execute(f"UPDATE budgets SET {columns} WHERE adversary = ?", values)
        self.end_entry(number, SPENT, reason)

    def spent(self, adversary: str, without: Sequence[int] = ()) -> Loss:
        """Return what each worker has spent, with all that is reserved but for the entries that are left out."""
        workers = self.workers
        total = self._spent_for_good(adversary, workers)
        for row in self._losses("state = 'reserved' AND adversary = ?", adversary):
            if row["entry"] not in without:
                total = added(total, _loss(row, workers), _who(row, workers))
        return total

    def who_of(self, number: int) -> Integers | None:
        """Return the workers of an entry; None for all."""
        return _who(self._file.execute("SELECT who FROM entries WHERE number = ?", (number,)).fetchone(), self.workers)

    def _losses(self, where: str, value: Any) -> sqlite3.Cursor:
        query = (
            f"SELECT losses.*, who FROM losses JOIN entries ON entry = number WHERE {where} ORDER BY entry, adversary"
        )
        return self._file.execute(query, (value,))

    def _spent_for_good(self, adversary: str, workers: int) -> Loss:
        row = self._file.execute("SELECT * FROM budgets WHERE adversary = ?", (adversary,)).fetchone()
        named, anything = (
            self._file.execute(f"SELECT EXISTS (SELECT * FROM {table})").fetchone()[0]
            for table in ("workers", f"entries WHERE state = 'spent' AND (who IS NULL OR who != x'{_NOBODY}')")
        )
        parts = {}
        for name, column in zip(PARTS, _COLUMNS, strict=True):
            parts[name] = np.zeros(workers)
            values = unpacked(row[column])
            least = min(1, workers) if named else workers
            if not (least <= len(values) <= workers if anything else not len(values)):
                raise UnsoundError(f"{column} of the budget {shown(adversary)}: {len(values):,} numbers")
            parts[name][: len(values)] = values  # those who came by name since then have spent nothing
        return _sound(parts)


@contextmanager
def open_rows(path: Path, *, write: bool) -> Iterator[Rows]:
    """Open a ledger for one transaction."""
    with transaction(path, write=write) as file:
        yield Rows(file)


def now() -> str:
    """Return the time, as it is written."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _plain(text: str) -> dict[str, Any]:
    """Return the values that an entry came with."""
    try:
        found = json.loads(text, parse_constant=lambda _: None, parse_float=finite)
    except (ValueError, RecursionError) as problem:
        raise UnsoundError(f"details of an entry: {in_plain_words(problem)}") from None
    if not isinstance(found, dict):
        raise UnsoundError("details of an entry: no table of values")
    return found


def finite(number: str | float) -> float | None:
    """Return a number for JSON, which has no infinity: None in place of it, as where delta is used up."""
    return float(number) if math.isfinite(float(number)) else None


def _check_once(who: Sequence[Any]) -> None:
    if len(set(who)) < len(who):
        (twice, times), *_ = Counter(who).most_common(1)
        which = private(f"worker {shown_name(str(twice))} is named {times} times", "a worker is named twice or more")
        raise LedgerError(f"who: {which}; name each once")


def added(spent: Loss, loss: Loss, who: Integers | None) -> Loss:
    """Return what all have lost once those in ``who`` lose this too."""
    if who is None:
        return spent + loss
    parts = {name: part.copy() for name, part in spent.parts.items()}
    more = spent.of_workers(who) + loss
    for name in PARTS:
        parts[name][who] = more.parts[name]
    return Loss(**parts)


def _who(row: sqlite3.Row, workers: int) -> Integers | None:
    if row["who"] is None:
        return None
    who = unpacked(row["who"], np.int64)
    if len(who) and not (who.min() >= 0 and who.max() < workers and np.bincount(who).max() == 1):
        raise UnsoundError("an entry is about workers who are not in it, or about one twice")
    return who


def _loss(row: sqlite3.Row, workers: int) -> Loss:
    loss, who = _sound({part: unpacked(row[part]) for part in PARTS}), _who(row, workers)
    if any(len(part) not in (1, workers if who is None else len(who)) for part in loss.parts.values()):
        raise UnsoundError("a loss has another number of workers than its entry")
    return loss


def _sound(parts: Mapping[str, Doubles]) -> Loss:
    try:
        return Loss(**parts)
    except PrivacyError as problem:
        raise UnsoundError(str(problem)) from None
