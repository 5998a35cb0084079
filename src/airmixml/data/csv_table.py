"""Tables in CSV files with a header row: the columns that are asked for, as numbers or as texts."""

import csv
import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from airmixml.arrays import Doubles, Integers
from airmixml.errors import DataError, private
from airmixml.reading import open_lines
from airmixml.wording import reason, shown

_MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?", "-"})


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Places of the columns to read, counted from 0.

    Attributes:
        numbers: columns of finite numbers.
        texts: columns that are taken as they are written.
        advice: what to do about a value that is no number.
    """

    numbers: tuple[int, ...]
    texts: tuple[int, ...]
    advice: str


@dataclass(frozen=True, kw_only=True, eq=False)
class CsvTable:
    """The columns that were asked for.

    Attributes:
        path: of the file.
        names: what the header calls all columns.
        numbers: rows x columns of numbers.
        texts: of each column of texts, by its place.
        row_numbers: where each row stands in the file; the header is row 1.
    """

    path: Path
    names: tuple[str, ...]
    numbers: Doubles
    texts: dict[int, list[str]]
    row_numbers: Integers

    def where(self, row: int, place: int) -> str:
        """Return where a value stands, as complaints begin; the row is private."""
        return _where(self.path, int(self.row_numbers[row]), self.names[place])

    def filled(self, place: int, what: str) -> list[str]:
        """Return a column of texts without blanks around them; refuse a missing one."""
        texts = [text.strip() for text in self.texts[place]]
        for row, text in enumerate(texts):
            if text.lower() in ("", "nan"):
                raise DataError(f"{self.where(row, place)}: the {what} is missing; fill it in or remove the row")
        return texts


def read_table(
    path: Path, choose: Callable[[tuple[str, ...]], Wanted], *, one_row: str = "sample", needed: str
) -> CsvTable:
    """Read the columns that ``choose`` picks from the header; complaints name file, row and column.

    ``one_row`` is what a row is, and ``needed`` what the user should name, both for complaints.
    """
    try:
        with open_lines(path) as lines:
            rows = numbered_rows(lines, str(path))
            first = next(rows, None)
            if first is None:
                raise DataError(f"{path}: is empty; give a header row and one row per {one_row}")
            names = _checked_header(first[1], path)
            return _read_rows(rows, names, choose(names), path)
    except OSError as problem:
        raise DataError(f"{path}: cannot be read ({reason(problem)}); {needed}") from None
    except UnicodeDecodeError:
        raise DataError(f"{path}: not UTF-8 text; save it as CSV in UTF-8") from None


def numbered_rows(lines: Iterable[str], source: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows that are not blank with their numbers in the file."""
    # strict: a quotation mark in the wrong place is an error; else it would swallow the rows up to the next.
    reader = csv.reader(lines, skipinitialspace=True, strict=True)
    row_number = 0
    try:
        for row in reader:
            row_number += 1
            if row:
                yield row_number, row
    except csv.Error as problem:
        where = private(f" row {row_number + 1}:")
        raise DataError(f"{source}:{where} not valid CSV: {reason(problem)}") from None


def finite_numbers(texts: Sequence[str]) -> list[float] | None:
    """Return the texts as finite numbers, or None if one of them is not."""
    if "_" in "".join(texts):  # Python reads 1_000 as a number, nobody else does
        return None
    try:
        numbers = list(map(float, texts))
    except ValueError:
        return None
    # The sum is finite if all are; the second look is for large numbers whose sum overflows.
    if math.isfinite(sum(numbers)) or all(math.isfinite(number) for number in numbers):
        return numbers
    return None


def _checked_header(header: Sequence[str], path: Path) -> tuple[str, ...]:
    names = tuple(name.strip() for name in header)
    places: dict[str, int] = {}
    for place, name in enumerate(names):
        if name in places:
            raise DataError(
                f"{path}: row 1: columns {places[name] + 1} and {place + 1} are both called "
                f"{private(shown(name), 'the same')}; give each column a name of its own"
            )
        places[name] = place
    if len(names) == 1 and any(separator in names[0] for separator in ";\t"):
        only = private(f" {shown(names[0])}")
        raise DataError(f"{path}: row 1 is a single column{only}; separate the columns by commas")
    return names


def _read_rows(rows: Iterable[tuple[int, list[str]]], names: tuple[str, ...], wanted: Wanted, path: Path) -> CsvTable:
    # One flat array of doubles: lists of lists of strings would take ten times the memory.
    values, row_numbers = array("d"), array("q")
    texts: dict[int, list[str]] = {place: [] for place in wanted.texts}
    for row_number, row in rows:
        if len(row) != len(names):
            raise DataError(
                f"{path}: {private(f'row {row_number}: has {len(row)} values', 'a row has more or fewer values')}, but "
                f"the header names {len(names)} columns; give one value per column"
            )
        numbers = finite_numbers([row[place] for place in wanted.numbers])
        if numbers is None:
            place = next(place for place in wanted.numbers if finite_numbers([row[place]]) is None)
            raise _no_number(row[place], _where(path, row_number, names[place]), wanted.advice)
        values.extend(numbers)
        row_numbers.append(row_number)
        for place, column in texts.items():
            column.append(row[place])
    table = np.frombuffer(values, dtype=np.float64).reshape(len(row_numbers), len(wanted.numbers))
    return CsvTable(
        path=path, names=names, numbers=table, texts=texts, row_numbers=np.frombuffer(row_numbers, dtype=np.int64)
    )


def _no_number(text: str, where: str, advice: str) -> DataError:
    if text.strip().lower() in _MISSING:
        written = private(f" ({shown(text)})")
        return DataError(f"{where}: {private('the', 'a')} value is missing{written}; fill it in or remove the row")
    return DataError(f"{where}: {private(shown(text), 'a value')} is not a finite number; {advice}")


def _where(path: Path, row_number: int, column: str) -> str:
    return f"{path}: {private(f'row {row_number}, ')}column {shown(column)}"
