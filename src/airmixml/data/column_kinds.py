"""What the columns of a user's table seem to hold, for its owner to check: numbers, categories, or who a row is of."""

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from airmixml.data.columns import is_missing
from airmixml.data.csv_file import Dialect, finite_numbers, open_table
from airmixml.data.labels import look_measured
from airmixml.errors import DataError
from airmixml.wording import shown

_MOST_CATEGORIES: Final = 30
_ROWS_TO_TELL: Final = 10  # in fewer rows all values may differ by chance
_MOST_REMEMBERED: Final = 1_000_000
_OF_A_PERSON: Final = re.compile(
    r"(^|[\W_])(id|uuid|person|patient|user|subject|participant|customer|client|worker|household|member|employee)s?"
    r"([\W_]*(id|no|nr|number|name|code))?$",
    re.IGNORECASE,
)


@dataclass
class ColumnSeen:
    """What all rows together have in one column."""

    name: str
    values: int = 0
    missing: int = 0
    reads: dict[str, bool] = field(default_factory=lambda: {"point": True, "comma": True})  # as numbers, so written
    whole: bool = True  # whether all numbers are whole
    texts: Counter[str] = field(default_factory=Counter)  # how often each occurs, as far as they are remembered

    def add(self, text: str) -> None:
        """Take in the value of one more row."""
        if is_missing(text):
            self.missing += 1
            return
        self.values += 1
        for decimal, reads in self.reads.items():
            self.reads[decimal] = reads and finite_numbers([text], decimal) is not None
        self.whole = self.whole and text.lstrip("+-").isdecimal()
        if len(self.texts) < _MOST_REMEMBERED or text in self.texts:
            self.texts[text] += 1

    @property
    def categories(self) -> tuple[str, ...]:
        """Different texts, whatever their case, each as it is written most often."""
        found: dict[str, str] = {}
        for text in self.texts:
            best = found.setdefault(text.casefold(), text)
            found[text.casefold()] = max(best, text, key=lambda each: self.texts[each])
        return tuple(found.values())

    def is_number(self, decimal: str) -> bool:
        """Whether every value is a number."""
        return self.values > 0 and self.reads[decimal]

    def odd_text(self, decimal: str) -> str:
        """Return the first text that is no number; empty where all are."""
        return next((text for text in self.texts if finite_numbers([text], decimal) is None), "")

    def measured_kinds(self, decimal: str) -> int:
        """Return how many different numbers it has, where these look measured; 0 where they may be classes."""
        numbers = finite_numbers([*self.texts.elements()], decimal) if self.is_number(decimal) else None
        different, counts = np.unique(numbers or [0.0], return_counts=True)
        fractional = bool((different != np.floor(different)).any())
        return len(different) if look_measured(counts, numeric=True, fractional=fractional) else 0

    def why_left_out(self, decimal: str) -> str:
        """Return why it is no input by default; empty where it is one."""
        number, different = self.is_number(decimal), len(self.texts)
        person = f"--person {json.dumps(self.name, ensure_ascii=False)} makes epsilon one per person"
        if not self.values:
            return "has no values"
        if _OF_A_PERSON.search(self.name):
            return f"is named like who a row is of ({person})"
        if different == self.values >= _ROWS_TO_TELL and (self.whole or not number):
            return f"has another value in every row, as a name or a number of each has ({person})"
        if number or different <= _MOST_CATEGORIES:
            return ""
        return f"holds text of more than {_MOST_CATEGORIES} kinds"


@dataclass(frozen=True, kw_only=True)
class TableSeen:
    """A table as its header and rows show it."""

    columns: dict[str, ColumnSeen]
    dialect: Dialect
    decimal: str

    def __str__(self) -> str:
        mark = ", decimal commas" if self.decimal == "comma" else ""
        return f"{self.dialect}{mark}"


def look_at(path: Path) -> TableSeen:
    """Read a table once and return what its columns seem to hold; refuse one without a header."""
    with open_table(path, "give a CSV or NPZ file") as file:
        if len(file.names) < 2 or not all(file.names):
            raise DataError(f"{path}: must have a header that names each of at least 2 columns, and rows")
        if finite_numbers(file.names) is not None:
            raise DataError(f"{path}: row 1 has numbers where the names of columns must be; add a header row")
        columns = [ColumnSeen(name) for name in file.names]
        for _, row in file.rows():
            for column, text in zip(columns, row, strict=True):
                column.add(text.strip())
    if not columns[0].values + columns[0].missing:
        raise DataError(f"{path}: has a header, {shown(columns[0].name)} and so on, but no rows")
    read = {mark: sum(column.is_number(mark) for column in columns) for mark in ("point", "comma")}
    decimal = "comma" if read["comma"] > read["point"] else "point"
    return TableSeen(columns={each.name: each for each in columns}, dialect=file.dialect, decimal=decimal)
