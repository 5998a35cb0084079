"""What the rows of a ledger say: its people and their names, its entries, and what each worker has lost by them.

Every function works inside a transaction. What no ledger can hold is an ``UnsoundError``.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np

from airmixml.arrays import Doubles, Integers
from airmixml.budgets.file import packed, unpacked
from airmixml.budgets.rules import PARTS, Budget, Loss
from airmixml.budgets.schema import MOST_WORKERS, UnsoundError
from airmixml.errors import LedgerError, PrivacyError
from airmixml.names import normal_name
from airmixml.wording import in_plain_words, shown

RESERVED, SPENT, RELEASED = "reserved", "spent", "released"
_COLUMNS: Final = ("squared_mu", "spent_epsilon", "spent_delta")  # of the table budgets, in the order of PARTS
_NONE: Final = np.zeros(0, dtype=np.int64)
_UP: Final = 1.0 + 2.0**-40  # roundings of a square root, a sum over a few spellings, and a square


@dataclass(frozen=True, kw_only=True)
class People:
    """Whose losses a ledger keeps.

    Attributes:
        label: what the numbers or names are of: a data set, a file, a column of names.
        count: how many there are, numbered from 0; 0 where they have names, of which new ones may come.
    """

    label: str
    count: int = 0

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


@dataclass(kw_only=True, eq=False)
class Roll:
    """The names of a ledger.

    Attributes:
        numbers: each name, as ``normal_name`` spells it, and the number of the first worker that has it.
        first: for each worker the number of the first with the same name; others are in old ledgers alone, which kept
            names as they were typed. Shape workers; empty in a ledger by number.
        new: names that have joined since the ledger was opened, in order.
    """

    numbers: dict[str, int]
    first: Integers
    new: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, file: sqlite3.Connection) -> Roll:
        """Return the names that a ledger holds."""
        numbers: dict[str, int] = {}
        rows = file.execute("SELECT number, name FROM workers ORDER BY number")
        first = [numbers.setdefault(normal_name(name), number) for number, name in rows]
        return cls(numbers=numbers, first=np.array(first, dtype=np.int64))

    @property
    def respelt(self) -> Integers:
        """Numbers of workers whose names an earlier one has, spelt otherwise."""
        return np.flatnonzero(self.first != np.arange(len(self.first)))

    def join(self, file: sqlite3.Connection, names: Sequence[str]) -> Integers:
        """Return the numbers of these names; new ones get the next."""
        before = len(self.first)
        new = [name for name in names if name not in self.numbers]
        added = dict(zip(new, range(before, before + len(new)), strict=True))
        file.executemany("INSERT INTO workers (name, number) VALUES (?, ?)", added.items())
        self.numbers |= added
        self.first = np.append(self.first, np.arange(before, before + len(new)))
        self.new += new
        return np.array([self.numbers[name] for name in names], dtype=np.int64)

    def name(self, number: int) -> str:
        """Return what a worker is called; its number where it has no name."""
        return next((name for name, each in self.numbers.items() if each == number), str(number))


def now() -> str:
    """Return the time, as it is written."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def set_facts(file: sqlite3.Connection, **facts: Any) -> None:
    """Write what the ledger is about."""
    file.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", facts.items())


def read_facts(file: sqlite3.Connection) -> dict[str, Any]:
    """Return mode, adjacency, people (None where the first run will say), and budgets."""
    facts = {row["name"]: row["value"] for row in file.execute("SELECT * FROM facts")}
    people = People(label=facts["label"], count=facts["count"]) if "label" in facts else None
    return {
        "mode": facts["mode"],
        "adjacency": facts["adjacency"],
        "created_at": facts["created_at"],
        "strict_names": bool(facts.get("strict_names")),
        "people": people,
        "budgets": read_budgets(file),
    }


def count_workers(file: sqlite3.Connection) -> int:
    """Return how many workers the arrays of a ledger are over."""
    row = file.execute("SELECT value FROM facts WHERE name = 'count'").fetchone()
    return int((row and row["value"]) or file.execute("SELECT COUNT(*) FROM workers").fetchone()[0])


def read_budgets(file: sqlite3.Connection) -> dict[str, Budget]:
    """Return adversary to budget."""
    rows = file.execute("SELECT adversary, epsilon, delta FROM budgets ORDER BY adversary")
    return {row["adversary"]: Budget(epsilon=row["epsilon"], delta=row["delta"]) for row in rows}


def entry_with(file: sqlite3.Connection, key: str) -> tuple[int, str] | None:
    """Return number and state of the entry of repeatable work that is spent, or else reserved; None where none is."""
    for state in (SPENT, RESERVED) if key else ():
        found = file.execute("SELECT number FROM entries WHERE state = ? AND key = ?", (state, key)).fetchone()
        if found is not None:
            return int(found["number"]), state
    return None


def texts_of(file: sqlite3.Connection, number: int) -> tuple[str, str, str]:
    """Return state, key and reason of an entry; nothing where there is none."""
    known = 0 < number < 2**63  # SQLite has no others
    query = "SELECT state, key, reason FROM entries WHERE number = ?"
    row = file.execute(query, (number,)).fetchone() if known else None
    return ("", "", "") if row is None else (row["state"], row["key"], row["reason"])


def write_entry(file: sqlite3.Connection, who: Integers | None, **texts: str) -> int:
    """Write a new reservation and return its number."""
    columns = {"state": RESERVED, "reserved_at": now(), "who": None if who is None else packed(who), **texts}
    marks = ", ".join("?" * len(columns))
    made = file.execute(f"INSERT INTO entries ({', '.join(columns)}) VALUES ({marks})", tuple(columns.values()))
    return int(made.lastrowid or 0)


def end_entry(file: sqlite3.Connection, number: int, state: str, reason: str) -> None:
    """Write that an entry is spent or released."""
    ended = (state, now(), reason, number)
    file.execute("UPDATE entries SET state = ?, ended_at = ?, reason = ? WHERE number = ?", ended)


def read_entry(file: sqlite3.Connection, row: sqlite3.Row, workers: int) -> Entry:
    """Return a line of the history."""
    losses = file.execute(
        "SELECT losses.*, ? AS who FROM losses WHERE entry = ? ORDER BY adversary", (row["who"], row["number"])
    )
    who = _who(row, workers)
    return Entry(
        **{name: row[name] for name in ("number", "state", "about", "reserved_at", "ended_at", "reason")},
        workers=None if who is None else len(who),
        details=_plain(row["details"]),
        largest={
            each["adversary"]: {name: float(part.max(initial=0.0)) for name, part in _loss(each, workers).parts.items()}
            for each in losses
        },
    )


def _plain(text: str) -> dict[str, Any]:
    """Return the values that an entry came with; JSON has no infinity, so that infinite ones are None."""
    try:
        found = json.loads(text, parse_constant=lambda _: None, parse_float=_finite)
    except (ValueError, RecursionError) as problem:
        raise UnsoundError(f"details of an entry: {in_plain_words(problem)}") from None
    if not isinstance(found, dict):
        raise UnsoundError("details of an entry: no table of values")
    return found


def _finite(text: str) -> float | None:
    return float(text) if math.isfinite(float(text)) else None


def write_losses(file: sqlite3.Connection, number: int, losses: Mapping[str, Loss]) -> None:
    """Write what an entry costs, in place of what is there."""
    rows = [(number, name, *(packed(loss.parts[part]) for part in PARTS)) for name, loss in losses.items()]
    file.executemany("INSERT OR REPLACE INTO losses VALUES (?, ?, ?, ?, ?)", rows)


def spend(file: sqlite3.Connection, number: int, reason: str) -> None:
    """Add an entry to what is spent for good."""
    workers = count_workers(file)
    for row in _losses(file, "number = ?", number):
        total = added(_spent_for_good(file, row["adversary"], workers), _loss(row, workers), _who(row, workers))
        values = (*(packed(total.parts[part]) for part in PARTS), row["adversary"])
        file.execute(f"UPDATE budgets SET {', '.join(f'{each} = ?' for each in _COLUMNS)} WHERE adversary = ?", values)
    end_entry(file, number, SPENT, reason)


def read_spent(file: sqlite3.Connection, adversary: str, roll: Roll, without: Sequence[int] = ()) -> Loss:
    """Return what each worker has spent, with all that is reserved but for the entries that are left out.

    What a person lost under several spellings stands under the first, and nothing under the others.
    """
    workers = count_workers(file)
    total = _spent_for_good(file, adversary, workers)
    for row in _losses(file, "state = 'reserved' AND adversary = ?", adversary):
        if row["entry"] not in without:
            total = added(total, _loss(row, workers), _who(row, workers))
    if not len(roll.respelt):
        return total
    together = Loss.nothing(workers)
    for row in _losses(file, "state != 'released' AND adversary = ?", adversary):
        if row["entry"] not in without:
            together += _of_people(_loss(row, workers), _who(row, workers), roll.first)
    several = np.isin(roll.first, roll.first[roll.respelt])
    return Loss(**{name: np.where(several, together.parts[name], total.parts[name]) for name in PARTS})


def _of_people(loss: Loss, who: Integers | None, first: Integers) -> Loss:
    """Return what each person loses who is on a worker under each of several spellings: at worst the shifts add up."""
    workers = len(first)
    who = np.arange(workers) if who is None else who
    loss = loss.spread(len(who))

    def of_each(values: Doubles) -> Doubles:
        return np.asarray(np.bincount(first[who], values, minlength=workers) * _UP, dtype=np.float64)

    return Loss(
        squared_mu=of_each(np.sqrt(loss.squared_mu)) ** 2, epsilon=of_each(loss.epsilon), delta=of_each(loss.delta)
    )


def added(spent: Loss, loss: Loss, who: Integers | None) -> Loss:
    """Return what all have lost once those in ``who`` lose this too."""
    if who is None:
        return spent + loss
    parts = {name: part.copy() for name, part in spent.parts.items()}
    more = spent.of_workers(who) + loss
    for name in PARTS:
        parts[name][who] = more.parts[name]
    return Loss(**parts)


def who_of(file: sqlite3.Connection, number: int) -> Integers | None:
    """Return the workers of an entry; None for all."""
    return _who(file.execute("SELECT who FROM entries WHERE number = ?", (number,)).fetchone(), count_workers(file))


def _losses(file: sqlite3.Connection, where: str, value: Any) -> sqlite3.Cursor:
    query = f"SELECT losses.*, who FROM losses JOIN entries ON entry = number WHERE {where} ORDER BY entry"
    return file.execute(query, (value,))


def _spent_for_good(file: sqlite3.Connection, adversary: str, workers: int) -> Loss:
    row = file.execute("SELECT * FROM budgets WHERE adversary = ?", (adversary,)).fetchone()
    named, anything = (
        file.execute(f"SELECT EXISTS (SELECT * FROM {table})").fetchone()[0]
        for table in ("workers", f"entries WHERE state = 'spent' AND (who IS NULL OR who != x'{packed(_NONE).hex()}')")
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
