"""Whose losses a ledger keeps: workers by number or by name, and which of them take part."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from airmixml.arrays import Integers
from airmixml.budgets.file import MOST_WORKERS
from airmixml.errors import LedgerError, private
from airmixml.names import normal_name
from airmixml.wording import shown, shown_name


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


def places_of(file: sqlite3.Connection, who: Any, people: People, roll: Roll) -> Integers | None:
    """Return the numbers of these workers, None for all of a ledger by number; names that are new get the next ones."""
    if people.named:
        if who is None or not len(who) or not all(isinstance(each, str) for each in who):
            raise LedgerError("who: workers of this ledger have names; give those that take part, at least one")
        names = [normal_name(each) for each in who]
        if "" in names:
            raise LedgerError(
                f"who: the name {private(shown(who[names.index('')]), 'of one')} is empty; give every worker a name"
            )
        _check_once(names)
        return roll.join(file, names)
    if who is None:
        return None
    numbers, workers = np.asarray(who), people.count
    if len(np.unique(numbers)) < numbers.size:
        _check_once(numbers.tolist())
    if not (numbers.dtype.kind in "iu" and len(numbers) and numbers.min() >= 0 and numbers.max() < workers):
        raise LedgerError(f"who: workers must be numbers from 0 to {workers - 1:,} of the ledger, at least one")
    everybody = len(numbers) == workers and bool((numbers == np.arange(workers)).all())
    return None if everybody else numbers.astype(np.int64)


def _check_once(who: Sequence[Any]) -> None:
    if len(set(who)) < len(who):
        (twice, times), *_ = Counter(who).most_common(1)
        which = private(f"worker {shown_name(str(twice))} is named {times} times", "a worker is named twice or more")
        raise LedgerError(f"who: {which}; name each once")
