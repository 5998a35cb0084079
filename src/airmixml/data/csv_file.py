"""Tables in CSV files with a header row, and the numbers that a worker makes of the texts in their input columns.

A number is one feature. A category is one feature for each declared value, of which at most one is 1. What stands in
for a missing value is declared too: nothing here is measured on rows.
"""

import csv
import math
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from airmixml.arrays import Doubles, Integers
from airmixml.data.dataset import Column, declare_bounds
from airmixml.files import open_lines, open_regular
from airmixml.messages import DataError, ScenarioError, did_you_mean, private, reason, shown
from airmixml.scenario import Workers

_SEPARATORS = (",", ";", "\t", "|")
_MISSING: Final = frozenset({"", "na", "n/a", "nan", "null", "none", "?", "-", "."})
_SPACES: Final = " '\u2019\u00a0\u202f"  # what separates thousands besides the other mark
_THOUSANDS: Final = frozenset(_SPACES + ",")  # characters of a number that Python does not read as it is written
_MARKS: Final = {"point": (".", ","), "comma": (",", ".")}
_GROUPED: Final = {
    name: re.compile(rf"[+-]?\d{{1,3}}(?:[{_SPACES}{other}]\d{{3}})+(?:\{mark}\d*)?")
    for name, (mark, other) in _MARKS.items()
}


def is_missing(text: str) -> bool:
    """Return whether a text says that there is no value."""
    return text.strip().lower() in _MISSING


def plain_number(text: str, decimal: str) -> str:
    """Return a number as Python writes it: without marks between thousands, with a decimal point."""
    text = text.strip()
    mark, other = _MARKS[decimal]
    if _GROUPED[decimal].fullmatch(text):
        text = re.sub(rf"[{_SPACES}{other}]", "", text)
    elif other in text:
        return ""  # 1.5 where a comma is the decimal mark, or 1,5 where a point is
    return text.replace(mark, ".")


def declared_columns(workers: Workers, names: Sequence[str]) -> tuple[Column, ...]:
    """Return the input columns of these names as the scenario declares them; empty where all are plain numbers."""
    categories, fills = dict(workers.categories), dict(workers.fill)
    if not categories and workers.missing == "refuse":
        return ()
    for key, declared in (("categories", categories), ("fill", fills)):
        for name in declared:
            if name not in names:
                near = did_you_mean(name, [shown(each) for each in names])
                raise ScenarioError(f"workers.{key}: {shown(name)} is none of the input columns{near}")
    columns = [Column(name=name, categories=found) for name, found in categories.items()]
    if numbers := [name for name in names if name not in categories]:
        given, what = (workers.input_lower, workers.input_upper), "number column"
        bounds = declare_bounds(*given, count=len(numbers), columns=numbers, what=what)
        for name, lower, upper in zip(numbers, *(each.tolist() for each in bounds), strict=True):
            fill = None if workers.missing == "refuse" else fills.get(name, (lower + upper) / 2.0)
            indicator = workers.missing == "indicator"
            columns.append(Column(name=name, lower=lower, upper=upper, fill=fill, indicator=indicator))
    return tuple(sorted(columns, key=lambda column: names.index(column.name)))


@dataclass(frozen=True, eq=False)
class CsvTable:
    """The columns that were asked for."""

    path: Path
    inputs: Doubles  # rows x features of the input columns
    texts: dict[str, list[str]]  # other columns as they are written, by name
    row_numbers: Integers  # where each row stands in the file; the header is row 1

    def where(self, row: int, name: str) -> str:
        """Return where a value stands, as complaints begin; the row is private."""
        return _where(self.path, int(self.row_numbers[row]), name)

    def filled(self, name: str, what: str) -> list[str]:
        """Return a column of texts without blanks around them; refuse a missing one."""
        texts = [text.strip() for text in self.texts[name]]
        for row, text in enumerate(texts):
            if text.lower() in ("", "nan"):
                raise DataError(f"{self.where(row, name)}: the {what} is missing; fill it in or remove the row")
        return texts


@dataclass(frozen=True, eq=False)
class CsvFile:
    """An open table, whose rows can be read once; complaints name file, row and column."""

    path: Path
    names: tuple[str, ...]  # what the header calls all columns
    numbered_rows: Iterator[tuple[int, list[str]]]

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yield each row, of one value per column, with its number in the file."""
        for number, row in self.numbered_rows:
            if len(row) != len(self.names):
                which = private(f"row {number}: has {len(row)} values", "a row has more or fewer values")
                many = f"but the header names {len(self.names)} columns; give one value per column"
                raise DataError(f"{self.path}: {which}, {many}")
            yield number, row

    def read(self, columns: Sequence[Column], texts: Sequence[str], *, advice: str, decimal: str = "point") -> CsvTable:
        """Read inputs as features, other columns as texts; ``advice`` is for an input that is no number."""
        numbers = [column for column in columns if not column.categories]
        places = [self.names.index(column.name) for column in numbers]
        as_texts = (*texts, *(column.name for column in columns if column.categories))
        kept: dict[str, list[str]] = {name: [] for name in as_texts}
        kept_places = [(self.names.index(name), column) for name, column in kept.items()]
        # One flat array of doubles: lists of lists of strings would take ten times the memory.
        values, row_numbers = array("d"), array("q")
        for row_number, row in self.rows():
            cells = [row[place] for place in places]
            found = finite_numbers(cells, decimal)
            if found is None:
                pairs = zip(numbers, cells, strict=True)
                found = [self._number(text, column, row_number, decimal, advice) for column, text in pairs]
            values.extend(found)
            row_numbers.append(row_number)
            for place, column_texts in kept_places:
                column_texts.append(row[place])
        table = np.frombuffer(values, dtype=np.float64).reshape(len(row_numbers), len(numbers))
        by_name = dict(zip((column.name for column in numbers), table.T, strict=True))
        parts = [
            column.of_texts(kept[column.name]) if column.categories else column.of_numbers(by_name[column.name])
            for column in columns
        ]
        inputs = np.concatenate(parts, axis=1)
        return CsvTable(self.path, inputs, kept, np.frombuffer(row_numbers, dtype=np.int64))

    def _number(self, text: str, column: Column, row_number: int, decimal: str, advice: str) -> float:
        """Return a cell as a number, NaN where it may be missing, or say what is wrong with it."""
        if found := finite_numbers([text], decimal):
            return found[0]
        where = _where(self.path, row_number, column.name)
        if is_missing(text):
            if column.fill is not None:
                return math.nan
            written = private(f" ({shown(text)})")
            what = 'fill it in, remove the row, or say in workers.missing what it counts as ("fill" or "indicator")'
            raise DataError(f"{where}: {private('the', 'a')} value is missing{written}; {what}")
        other = {"point": "comma", "comma": "point"}[decimal]
        if finite_numbers([text], other) is not None:
            advice = f'if its {other} is a decimal mark, set workers.decimal = "{other}" before training'
        raise DataError(f"{where}: {private(shown(text), 'a value')} is not a finite number; {advice}")


@contextmanager
def open_table(path: Path, needed: str) -> Iterator[CsvFile]:
    """Open a table; complaints about the file itself end in what is ``needed``."""
    try:
        encoding, separator = _dialect_of(path)
        with open_lines(path, encoding) as lines:
            rows = _numbered_rows(lines, str(path), separator)
            header = next(rows, None)
            if header is None:
                raise DataError(f"{path}: is empty; give a header row, and rows below it")
            yield CsvFile(path, _checked_header(header[1], path), rows)
    except OSError as problem:
        raise DataError(f"{path}: cannot be read ({reason(problem)}); {needed}") from None
    except UnicodeError:
        raise DataError(f"{path}: not text in UTF-8, UTF-16 or Windows-1252; save it as CSV in UTF-8") from None


def find_column(name: str, names: Sequence[str], path: Path, key: str) -> str:
    """Return the name that the header has for a column that ``key`` names; refuse another."""
    if name.strip() not in names:
        near = private(did_you_mean(name, list(map(shown, names)), after=" ").removeprefix("; "))
        missing = f"row 1 names no column {shown(name)}; {near}{key} must name columns as the header row does"
        raise DataError(f"{path}: {missing}")
    return name.strip()


def _dialect_of(path: Path) -> tuple[str, str]:
    """Return the encoding of a table by its bytes, and its separator, the one that gives most columns."""
    encoding = "utf-8-sig"
    with open_regular(path) as file:
        if file.read(2) in (b"\xff\xfe", b"\xfe\xff"):
            encoding = "utf-16"
    try:
        with open_lines(path, encoding) as lines:
            while lines.read(1 << 20):
                pass
    except UnicodeDecodeError:
        if encoding == "utf-16":
            raise
        encoding = "cp1252"
    with open_lines(path, encoding) as lines:
        header = next((line for line in lines if line.strip()), "")
    columns = {mark: len(next(csv.reader([header], delimiter=mark, skipinitialspace=True), ())) for mark in _SEPARATORS}
    return encoding, max(columns, key=lambda mark: columns[mark])


def _numbered_rows(lines: Iterable[str], source: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows that are not blank with their numbers in the file."""
    # strict: a quotation mark in the wrong place is an error; else it would swallow the rows up to the next.
    reader = csv.reader(lines, delimiter=separator, skipinitialspace=separator != "\t", strict=True)
    row_number = 0
    try:
        for row in reader:
            row_number += 1
            if row:
                yield row_number, row
    except csv.Error as problem:
        where = private(f" row {row_number + 1}:")
        raise DataError(f"{source}:{where} not valid CSV: {reason(problem)}") from None


def _checked_header(header: Sequence[str], path: Path) -> tuple[str, ...]:
    """Return the names of the columns; refuse a name that two of them have."""
    names = tuple(name.strip() for name in header)
    for place, name in enumerate(names):
        if (first := names.index(name)) < place:
            which = f"columns {first + 1} and {place + 1} are both called {private(shown(name), 'the same')}"
            raise DataError(f"{path}: row 1: {which}; give each column a name of its own")
    return names


def finite_numbers(texts: Sequence[str], decimal: str = "point") -> list[float] | None:
    """Return the texts as finite numbers, or None if one of them is not; the decimal mark is a point or a comma."""
    joined = "".join(texts)
    if decimal == "comma" or not _THOUSANDS.isdisjoint(joined):
        texts = [plain_number(text, decimal) for text in texts]
    if "_" in joined:  # Python reads 1_000 as a number, nobody else does
        return None
    try:
        numbers = list(map(float, texts))
    except ValueError:
        return None
    return numbers if all(map(math.isfinite, numbers)) else None


def _where(path: Path, row_number: int, column: str) -> str:
    return f"{path}: {private(f'row {row_number}, ')}column {shown(column)}"
