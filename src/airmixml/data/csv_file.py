"""A user's own samples in a CSV file with a header row."""

import csv
import math
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from airmixml.data.dataset import RawData
from airmixml.data.labels import number_classes
from airmixml.errors import DataError
from airmixml.wording import did_you_mean, reason, shown


@dataclass(frozen=True)
class Columns:
    """Places of the columns wanted, counted from 0, and all names."""

    names: tuple[str, ...]
    features: tuple[int, ...]
    label: int


def choose_columns(header: Sequence[str], feature_columns: Sequence[str], label_column: str, source: str) -> Columns:
    """Find the columns that the scenario names; no feature columns means all but the label."""
    names = tuple(name.strip() for name in header)
    places: dict[str, int] = {}
    for place, name in enumerate(names):
        if name in places:
            raise DataError(
                f"{source}: row 1: columns {places[name] + 1} and {place + 1} are both called {shown(name)}; "
                "give each column a name of its own"
            )
        places[name] = place
    if len(names) == 1 and any(separator in names[0] for separator in ";\t"):
        raise DataError(f"{source}: row 1 is a single column {shown(names[0])}; separate the columns by commas")
    label = _find(label_column, "workers.label_column", places, source)
    if not feature_columns:
        features = tuple(place for place in range(len(names)) if place != label)
    else:
        features = tuple(_find(name, "workers.feature_columns", places, source) for name in feature_columns)
    _check_features(features, label, names, source)
    return Columns(names, features, label)


def _find(name: str, key: str, places: dict[str, int], source: str) -> int:
    if name.strip() not in places:
        raise DataError(
            f"{source}: row 1 names no column {shown(name)}"
            f"{did_you_mean(name, list(map(shown, places))) or ';'} {key} must name columns as the header row does"
        )
    return places[name.strip()]


def _check_features(features: Sequence[int], label: int, names: Sequence[str], source: str) -> None:
    if not features:
        raise DataError(f"{source}: the only column is the label {shown(names[label])}; add at least one input column")
    for place in features:
        if place == label:
            raise DataError(
                f"{source}: column {shown(names[label])} is the label, so it cannot be an input too; "
                "take it out of workers.feature_columns"
            )
        if not names[place]:
            raise DataError(
                f"{source}: row 1, column {place + 1} has no name; name it, or list the inputs in "
                "workers.feature_columns"
            )
    if len(set(features)) != len(features):
        twice = next(names[place] for place in features if list(features).count(place) > 1)
        raise DataError(f"workers.feature_columns names {shown(twice)} twice; name each input column once")


_MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?", "-"})


def load_csv(path: Path, *, feature_columns: Sequence[str] = (), label_column: str = "label") -> RawData:
    """Read inputs and labels; complaints name the file, the row (the header is row 1) and the column."""
    source = str(path)
    try:
        # utf-8-sig: spreadsheet programs put a byte-order mark before the first column name.
        with path.open(encoding="utf-8-sig", newline="") as lines:
            rows = _numbered_rows(lines, source)
            first = next(rows, None)
            if first is None:
                raise DataError(f"{source}: is empty; give a header row and one row per sample")
            columns = choose_columns(first[1], feature_columns, label_column, source)
            return _read_samples(rows, columns, path)
    except OSError as problem:
        raise DataError(f"{source}: cannot be read ({reason(problem)}); workers.dataset must name a CSV file") from None
    except UnicodeDecodeError:
        raise DataError(f"{source}: not UTF-8 text; save it as CSV in UTF-8") from None


def _numbered_rows(lines: Iterable[str], source: str) -> Iterator[tuple[int, list[str]]]:
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
        raise DataError(f"{source}: row {row_number + 1}: not valid CSV: {reason(problem)}") from None


def _read_samples(rows: Iterable[tuple[int, list[str]]], columns: Columns, path: Path) -> RawData:
    # One flat array of doubles: lists of lists of strings would take ten times the memory.
    values = array("d")
    labels: list[str] = []
    for row_number, row in rows:
        if len(row) != len(columns.names):
            raise DataError(
                f"{path}: row {row_number}: has {len(row)} values, but the header names {len(columns.names)} "
                "columns; give one value per column"
            )
        picked = [row[place] for place in columns.features]
        numbers = _numbers(picked)
        if numbers is None:
            raise _bad_value(picked, row_number, columns, path)
        values.extend(numbers)
        label = row[columns.label].strip()
        if label.lower() in ("", "nan"):
            raise DataError(
                f"{path}: row {row_number}, column {shown(columns.names[columns.label])}: the label is "
                "missing; fill it in or remove the row"
            )
        labels.append(label)
    class_numbers, class_names = number_classes(labels, str(path))
    return RawData(
        name=path.name,
        inputs=np.frombuffer(values, dtype=np.float64).reshape(len(labels), len(columns.features)),
        labels=class_numbers,
        class_names=class_names,
    )


def _numbers(texts: Sequence[str]) -> list[float] | None:
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


def _bad_value(texts: Sequence[str], row_number: int, columns: Columns, path: Path) -> DataError:
    """Return the error for the first value of a row that is no finite number."""
    text, place = next(pair for pair in zip(texts, columns.features, strict=True) if _numbers([pair[0]]) is None)
    where = f"{path}: row {row_number}, column {shown(columns.names[place])}"
    if text.strip().lower() in _MISSING:
        return DataError(f"{where}: the value is missing ({shown(text)}); fill it in or remove the row")
    return DataError(
        f"{where}: {shown(text)} is not a finite number; inputs must be numbers: correct it, or leave the "
        "column out by listing the others in workers.feature_columns"
    )
