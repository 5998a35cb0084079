"""Tables in CSV files with a header row; a user's own samples in one: inputs, labels, and who holds each row."""

import csv
import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from airmixml.arrays import Doubles, Integers
from airmixml.data.columns import THOUSANDS, Column, is_missing, plain_number, unit_of
from airmixml.data.dataset import RawData
from airmixml.data.labels import DeclaredClasses, check_outputs, number_classes, number_holders, read_yes_and_no
from airmixml.errors import DataError, private
from airmixml.reading import open_lines, open_regular
from airmixml.wording import did_you_mean, reason, shown

_ADVICE = (
    "inputs must be numbers: correct it, declare its column in [workers.categories], or leave it out by listing "
    "the others in workers.feature_columns"
)
_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
"""How the name of a table ends."""


class Dialect(NamedTuple):
    """How a table is written, as its first bytes and its header tell."""

    encoding: str
    separator: str

    def __str__(self) -> str:
        named = {"utf-8-sig": "UTF-8", "utf-16": "UTF-16", "cp1252": "Windows-1252"}
        return f"{named[self.encoding]} text, columns separated by {_SEPARATORS[self.separator]}"


class Wanted(NamedTuple):
    """Places of the columns to read, counted from 0."""

    numbers: tuple[int, ...]  # columns of finite numbers
    texts: tuple[int, ...]  # columns that are taken as they are written
    advice: str  # what to do about a value that is no number
    missing: bool = False  # whether a number may be missing: it is NaN then
    decimal: str = "point"  # the decimal mark
    other_mark: str = 'set workers.decimal = "{mark}"'  # what to do where its decimal mark is another one


@dataclass(frozen=True, eq=False)
class CsvTable:
    """The columns that were asked for."""

    path: Path
    names: tuple[str, ...]  # what the header calls all columns
    wanted: Wanted
    numbers: Doubles  # rows x columns of numbers
    texts: dict[int, list[str]]  # of each column of texts, by its place
    row_numbers: Integers  # where each row stands in the file; the header is row 1

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


def load_csv(
    path: Path,
    *,
    feature_columns: Sequence[str] = (),
    label_column: str = "label",
    label_columns: Sequence[str] = (),
    task: str = "classification",
    worker_column: str = "",
    declared: DeclaredClasses | None = None,
    decimal: str = "point",
    columns_of: Callable[[Sequence[str]], tuple[Column, ...]] = lambda names: (),
) -> RawData:
    """Read inputs and labels; by default of all columns but labels and worker, with the classes that the rows hold.

    ``columns_of`` says what the input columns of given names are; empty: numbers, of which none may be missing.
    """
    label_names = tuple(label_columns or (label_column,))
    columns: tuple[Column, ...] = ()

    def choose(names: tuple[str, ...]) -> Wanted:
        nonlocal columns
        wanted = _samples_in(names, str(path), feature_columns, label_names, worker_column)
        columns = columns_of([names[place] for place in wanted.numbers])
        return as_declared(wanted._replace(decimal=decimal), columns)

    table = read_table(path, choose, needed="workers.dataset must name a CSV file")
    labels = table.wanted.texts[: len(label_names)]
    numbered: dict[str, Any] = {}
    if task == "classification":
        there = declared is None  # else a missing label is one that is not among them
        classes = table.filled(labels[0], "label") if there else [text.strip() for text in table.texts[labels[0]]]
        numbered["labels"], numbered["class_names"] = number_classes(classes, str(path), declared)
    else:
        outputs = np.stack([_outputs(table, place, task) for place in labels], axis=1)
        numbered["labels"] = check_outputs(outputs, task, str(path))
        numbered["class_names"] = tuple(table.names[place] for place in labels)
    if worker_column:
        holders = table.filled(table.wanted.texts[len(label_names)], "worker")
        numbered["holders"], numbered["holder_names"] = number_holders(holders, str(path))
    if not columns:
        features = tuple(table.names[place] for place in table.wanted.numbers)
        return RawData(name=path.name, inputs=table.numbers, feature_names=features, **numbered)
    lower, upper = (tuple(chain(*each)) for each in zip(*(column.bounds for column in columns), strict=True))
    features = tuple(feature for column in columns for feature in column.features)
    inputs = features_of(table, columns)
    return RawData(
        name=path.name, inputs=inputs, feature_names=features, columns=columns, lower=lower, upper=upper, **numbered
    )


def as_declared(wanted: Wanted, columns: Sequence[Column]) -> Wanted:
    """Return what to read where columns are declared: categories as texts, missing numbers where one may be."""
    texts = [place for place, column in zip(wanted.numbers, columns, strict=False) if column.categories]
    numbers = tuple(place for place in wanted.numbers if place not in texts)
    missing = any(column.fill is not None for column in columns)
    return wanted._replace(numbers=numbers, texts=(*wanted.texts, *texts), missing=missing)


def features_of(table: CsvTable, columns: Sequence[Column]) -> Doubles:
    """Return the features of the declared columns, in their order; rows x features."""
    names = [table.names[place] for place in table.wanted.numbers]
    parts = [
        column.of_texts(table.texts[table.names.index(column.name)])
        if column.categories
        else column.of_numbers(table.numbers[:, names.index(column.name)])
        for column in columns
    ]
    return np.concatenate(parts, axis=1)


def _samples_in(
    names: tuple[str, ...], source: str, features: Sequence[str], labels: Sequence[str], worker: str
) -> Wanted:
    """Find the columns of samples in the header: inputs as numbers; labels, and at last the worker, as texts."""

    def find(name: str, key: str) -> int:
        if name.strip() not in names:
            near = private(did_you_mean(name, list(map(shown, names)), after=" ").removeprefix("; "))
            missing = f"row 1 names no column {shown(name)}; {near}{key} must name columns as the header row does"
            raise DataError(f"{source}: {missing}")
        return names.index(name.strip())

    key = "workers.label_column" if len(labels) == 1 else "workers.label_columns"
    others = [find(name, key) for name in labels]
    others += [find(worker, "workers.worker_column")] if worker else []
    if len(set(others)) != len(others):
        raise DataError(f"{source}: {key} and workers.worker_column name a column twice; name each column once")
    inputs = [find(name, "workers.feature_columns") for name in features]
    inputs = inputs or [place for place in range(len(names)) if place not in others]
    if not inputs:
        label = shown(names[others[0]])
        raise DataError(f"{source}: the only column is the label {label}; add at least one input column")
    for place in inputs:
        if place in others:
            role = "the label" if place in others[: len(labels)] else "the worker"
            raise DataError(
                f"{source}: column {shown(names[place])} is {role}, so it cannot be an input too; "
                "take it out of workers.feature_columns"
            )
        if not names[place]:
            mend = "name it, or list the inputs in workers.feature_columns"
            raise DataError(f"{source}: row 1, column {place + 1} has no name; {mend}")
        if inputs.count(place) > 1:
            raise DataError(f"workers.feature_columns names {shown(names[place])} twice; name each input column once")
    return Wanted(tuple(inputs), tuple(others), _ADVICE)


def _outputs(table: CsvTable, place: int, task: str) -> Doubles:
    """Return the targets of a column, or 0 and 1 for its labels; rows."""
    decimal = table.wanted.decimal
    read, wanted = (
        (lambda texts: finite_numbers(texts, decimal), "a finite number")
        if task == "regression"
        else (read_yes_and_no, "0 or 1, or yes or no")
    )
    texts = table.filled(place, "label")
    numbers = read(texts)
    if numbers is None:
        row = next(row for row, text in enumerate(texts) if read([text]) is None)
        raise DataError(
            f"{table.where(row, place)}: {private(shown(texts[row]), 'a value')} is not {wanted}, as "
            f'workers.task = "{task}" needs it; correct it or use another task'
        )
    return np.asarray(numbers, dtype=np.float64)


def read_table(
    path: Path, choose: Callable[[tuple[str, ...]], Wanted], *, one_row: str = "sample", needed: str
) -> CsvTable:
    """Read the columns that ``choose`` picks from the header; complaints name file, row and column."""
    with table_rows(path, needed) as (rows, _):
        first = next(rows, None)
        if first is None:
            raise DataError(f"{path}: is empty; give a header row and one row per {one_row}")
        names = checked_header(first[1], path)
        return _read_rows(rows, names, choose(names), path)


@contextmanager
def table_rows(path: Path, needed: str) -> Iterator[tuple[Iterator[tuple[int, list[str]]], Dialect]]:
    """Open a table and yield its rows, numbered, with how it is written; complaints end in what is ``needed``."""
    try:
        dialect = _dialect_of(path)
        with open_lines(path, dialect.encoding) as lines:
            yield _numbered_rows(lines, str(path), dialect.separator), dialect
    except OSError as problem:
        raise DataError(f"{path}: cannot be read ({reason(problem)}); {needed}") from None
    except UnicodeError:
        raise DataError(f"{path}: not text in UTF-8, UTF-16 or Windows-1252; save it as CSV in UTF-8") from None


def _dialect_of(path: Path) -> Dialect:
    """Return how a table is written: its encoding by its bytes, its separator by the one that gives most columns."""
    encoding = "utf-8-sig"
    with open_regular(path) as file:
        if file.read(2) in (b"\xff\xfe", b"\xfe\xff"):
            encoding = "utf-16"
    if encoding != "utf-16":
        try:
            with open_lines(path) as lines:
                while lines.read(1 << 20):
                    pass
        except UnicodeDecodeError:
            encoding = "cp1252"
    with open_lines(path, encoding) as lines:
        header = next((line for line in lines if line.strip()), "")
    columns = {mark: len(next(csv.reader([header], delimiter=mark, skipinitialspace=True), ())) for mark in _SEPARATORS}
    return Dialect(encoding, max(columns, key=lambda mark: columns[mark]))


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


def finite_numbers(texts: Sequence[str], decimal: str = "point") -> list[float] | None:
    """Return the texts as finite numbers, or None if one of them is not; the decimal mark is a point or a comma."""
    joined = "".join(texts)
    if decimal == "comma" or not THOUSANDS.isdisjoint(joined):
        texts = [plain_number(text, decimal) for text in texts]
    if "_" in joined:  # Python reads 1_000 as a number, nobody else does
        return None
    try:
        numbers = list(map(float, texts))
    except ValueError:
        return None
    # The sum is finite if all are; the second look is for large numbers whose sum overflows.
    if math.isfinite(sum(numbers)) or all(math.isfinite(number) for number in numbers):
        return numbers
    return None


def checked_header(header: Sequence[str], path: Path) -> tuple[str, ...]:
    """Return the names of the columns; refuse a name that two of them have."""
    names = tuple(name.strip() for name in header)
    places: dict[str, int] = {}
    for place, name in enumerate(names):
        if name in places:
            raise DataError(
                f"{path}: row 1: columns {places[name] + 1} and {place + 1} are both called "
                f"{private(shown(name), 'the same')}; give each column a name of its own"
            )
        places[name] = place
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
        cells = [row[place] for place in wanted.numbers]
        numbers = finite_numbers(cells, wanted.decimal)
        if numbers is None and wanted.missing:
            cells = ["0" if is_missing(text) else text for text in cells]
            numbers = finite_numbers(cells, wanted.decimal)
            if numbers is not None:
                gone = [is_missing(row[place]) for place in wanted.numbers]
                numbers = [math.nan if each else number for each, number in zip(gone, numbers, strict=True)]
        if numbers is None:
            bad = next(place for place, text in enumerate(cells) if finite_numbers([text], wanted.decimal) is None)
            raise _no_number(cells[bad], _where(path, row_number, names[wanted.numbers[bad]]), wanted)
        values.extend(numbers)
        row_numbers.append(row_number)
        for place, column in texts.items():
            column.append(row[place])
    table = np.frombuffer(values, dtype=np.float64).reshape(len(row_numbers), len(wanted.numbers))
    return CsvTable(path, names, wanted, table, texts, np.frombuffer(row_numbers, dtype=np.int64))


def _no_number(text: str, where: str, wanted: Wanted) -> DataError:
    if is_missing(text):
        written = private(f" ({shown(text)})")
        what = 'fill it in, remove the row, or say in workers.missing what it counts as ("fill" or "indicator")'
        return DataError(f"{where}: {private('the', 'a')} value is missing{written}; {what}")
    other = {"point": "comma", "comma": "point"}[wanted.decimal]
    advice = wanted.advice
    if finite_numbers([text], other) is not None:
        advice = f"if its {other} is a decimal mark, {wanted.other_mark.format(mark=other)}"
    elif unit_of(text):
        advice = "write numbers without a unit in this column"
    return DataError(f"{where}: {private(shown(text), 'a value')} is not a finite number; {advice}")


def _where(path: Path, row_number: int, column: str) -> str:
    return f"{path}: {private(f'row {row_number}, ')}column {shown(column)}"
