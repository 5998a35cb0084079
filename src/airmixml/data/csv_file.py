"""A user's own samples in a CSV file with a header row."""

import csv
import math
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from airmixml.data.dataset import RawData
from airmixml.data.labels import DeclaredClasses, check_outputs, number_classes, number_holders, read_yes_and_no
from airmixml.errors import DataError, private
from airmixml.reading import open_lines
from airmixml.wording import did_you_mean, reason, shown


@dataclass(frozen=True)
class Columns:
    """Places of the columns wanted, counted from 0, and all names."""

    names: tuple[str, ...]
    features: tuple[int, ...]
    labels: tuple[int, ...]
    worker: int | None = None


def choose_columns(
    header: Sequence[str],
    feature_columns: Sequence[str],
    label_columns: Sequence[str],
    source: str,
    *,
    worker_column: str = "",
) -> Columns:
    """Find the columns that the scenario names; no feature columns means all but the labels and the worker."""
    names = tuple(name.strip() for name in header)
    places: dict[str, int] = {}
    for place, name in enumerate(names):
        if name in places:
            raise DataError(
                f"{source}: row 1: columns {places[name] + 1} and {place + 1} are both called "
                f"{private(shown(name), 'the same')}; give each column a name of its own"
            )
        places[name] = place
    if len(names) == 1 and any(separator in names[0] for separator in ";\t"):
        only = private(f" {shown(names[0])}")
        raise DataError(f"{source}: row 1 is a single column{only}; separate the columns by commas")
    key = "workers.label_column" if len(label_columns) == 1 else "workers.label_columns"
    labels = tuple(_find(name, key, places, source) for name in label_columns)
    worker = _find(worker_column, "workers.worker_column", places, source) if worker_column else None
    if not feature_columns:
        features = tuple(place for place in range(len(names)) if place not in (*labels, worker))
    else:
        features = tuple(_find(name, "workers.feature_columns", places, source) for name in feature_columns)
    if worker in labels or len(set(labels)) != len(labels):
        raise DataError(f"{source}: {key} and workers.worker_column name a column twice; name each column once")
    _check_features(features, labels, worker, names, source)
    return Columns(names, features, labels, worker)


def _find(name: str, key: str, places: dict[str, int], source: str) -> int:
    if name.strip() not in places:
        near = private(did_you_mean(name, list(map(shown, places)), after=" ").removeprefix("; "))
        raise DataError(
            f"{source}: row 1 names no column {shown(name)}; {near}{key} must name columns as the header row does"
        )
    return places[name.strip()]


def _check_features(
    features: Sequence[int], labels: Sequence[int], worker: int | None, names: Sequence[str], source: str
) -> None:
    if not features:
        label = shown(names[labels[0]])
        raise DataError(f"{source}: the only column is the label {label}; add at least one input column")
    for place in features:
        if place in labels or place == worker:
            role = "the label" if place in labels else "the worker"
            raise DataError(
                f"{source}: column {shown(names[place])} is {role}, so it cannot be an input too; "
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


def load_csv(
    path: Path,
    *,
    feature_columns: Sequence[str] = (),
    label_column: str = "label",
    label_columns: Sequence[str] = (),
    task: str = "classification",
    worker_column: str = "",
    declared: DeclaredClasses | None = None,
) -> RawData:
    """Read inputs and labels; complaints name the file, the row (the header is row 1) and the column.

    Without ``declared`` classes they are those that the rows hold.
    """
    source = str(path)
    try:
        with open_lines(path) as lines:
            rows = numbered_rows(lines, source)
            first = next(rows, None)
            if first is None:
                raise DataError(f"{source}: is empty; give a header row and one row per sample")
            wanted = label_columns or (label_column,)
            columns = choose_columns(first[1], feature_columns, wanted, source, worker_column=worker_column)
            return _read_samples(rows, columns, path, task, declared)
    except OSError as problem:
        raise DataError(f"{source}: cannot be read ({reason(problem)}); workers.dataset must name a CSV file") from None
    except UnicodeDecodeError:
        raise DataError(f"{source}: not UTF-8 text; save it as CSV in UTF-8") from None


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


def _read_samples(
    rows: Iterable[tuple[int, list[str]]], columns: Columns, path: Path, task: str, declared: DeclaredClasses | None
) -> RawData:
    # One flat array of doubles: lists of lists of strings would take ten times the memory.
    values = array("d")
    labels: list[str] = []
    outputs = array("d")
    holders: list[str] = []
    for row_number, row in rows:
        if len(row) != len(columns.names):
            raise DataError(
                f"{path}: {private(f'row {row_number}: has {len(row)} values', 'a row has more or fewer values')}, but "
                f"the header names {len(columns.names)} columns; give one value per column"
            )
        picked = [row[place] for place in columns.features]
        numbers = finite_numbers(picked)
        if numbers is None:
            raise _bad_value(picked, row_number, columns, path)
        values.extend(numbers)
        texts = [row[place].strip() for place in columns.labels]
        if declared is None:  # else a missing label is one that is not among them
            for text, place in zip(texts, columns.labels, strict=True):
                _check_there(text, "label", row_number, place, columns, path)
        if task == "classification":
            labels.append(texts[0])
        else:
            outputs.extend(_outputs(texts, task, row_number, columns, path))
        if columns.worker is not None:
            holder = row[columns.worker].strip()
            _check_there(holder, "worker", row_number, columns.worker, columns, path)
            holders.append(holder)
    numbered: dict[str, Any] = {}
    if task == "classification":
        numbered["labels"], numbered["class_names"] = number_classes(labels, str(path), declared)
    else:
        table = np.frombuffer(outputs, dtype=np.float64).reshape(-1, len(columns.labels))
        numbered["labels"] = check_outputs(table, task, str(path))
        numbered["class_names"] = tuple(columns.names[place] for place in columns.labels)
    if holders:
        numbered["holders"], numbered["holder_names"] = number_holders(holders, str(path))
    return RawData(
        name=path.name,
        inputs=np.frombuffer(values, dtype=np.float64).reshape(-1, len(columns.features)),
        feature_names=tuple(columns.names[place] for place in columns.features),
        **numbered,
    )


def _check_there(text: str, what: str, row_number: int, place: int, columns: Columns, path: Path) -> None:
    if text.lower() in ("", "nan"):
        raise DataError(
            f"{_where(path, row_number, columns.names[place])}: the {what} is missing; fill it in or remove the row"
        )


def _outputs(texts: Sequence[str], task: str, row_number: int, columns: Columns, path: Path) -> list[float]:
    """Return the targets of a row, or 0 and 1 for its labels."""
    read, wanted = (
        (finite_numbers, "a finite number") if task == "regression" else (read_yes_and_no, "0 or 1, or yes or no")
    )
    numbers = read(texts)
    if numbers is None:
        text, place = next(pair for pair in zip(texts, columns.labels, strict=True) if read([pair[0]]) is None)
        raise DataError(
            f"{_where(path, row_number, columns.names[place])}: {private(shown(text), 'a value')} is not {wanted}, as "
            f'workers.task = "{task}" needs it; correct it or use another task'
        )
    return numbers


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


def _bad_value(texts: Sequence[str], row_number: int, columns: Columns, path: Path) -> DataError:
    """Return the error for the first value of a row that is no finite number."""
    text, place = next(pair for pair in zip(texts, columns.features, strict=True) if finite_numbers([pair[0]]) is None)
    where = _where(path, row_number, columns.names[place])
    if text.strip().lower() in _MISSING:
        written = private(f" ({shown(text)})")
        return DataError(f"{where}: {private('the', 'a')} value is missing{written}; fill it in or remove the row")
    return DataError(
        f"{where}: {private(shown(text), 'a value')} is not a finite number; inputs must be numbers: correct it, or "
        "leave the column out by listing the others in workers.feature_columns"
    )


def _where(path: Path, row_number: int, column: str) -> str:
    """Return where a fault is, as messages begin; the row is private."""
    return f"{path}: {private(f'row {row_number}, ')}column {shown(column)}"
