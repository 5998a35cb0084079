"""Rows of a user's own CSV or NPZ file: as a data set, and as a finished run takes them to predict or to send.

A CSV file has a header row. An NPZ file has the arrays ``inputs`` and ``labels``.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airmixml.arrays import Doubles
from airmixml.data.csv_file import CsvFile, CsvTable, declared_columns, find_column, finite_numbers, open_table
from airmixml.data.dataset import Column, RawData, RowFormat
from airmixml.data.labels import DeclaredClasses, check_outputs, number_classes, number_holders, read_yes_and_no
from airmixml.data.npz_file import label_texts, read_arrays
from airmixml.messages import DataError, private, shown
from airmixml.scenario import Workers
from airmixml.scenario.tables import OWN_FILES

_NO_ROWS = "has no rows; give one row per prediction"
_ADVICE = (
    "inputs must be numbers: correct it, declare its column in [workers.categories], or leave it out by listing "
    "the others in workers.feature_columns"
)


def load_own_file(path: Path, workers: Workers) -> RawData:
    """Read the inputs and labels that a scenario declares, and who holds each row where it says."""
    known, labels, holders = (_read_arrays if path.suffix.lower() == ".npz" else _read_columns)(path, workers)
    if workers.task == "classification":
        declared = DeclaredClasses.of(workers)
        known["labels"], known["class_names"] = number_classes(labels, str(path), declared)
    else:
        known["labels"] = check_outputs(labels, workers.task, str(path))
    if holders is not None:
        known["holders"], known["holder_names"] = number_holders(holders, str(path))
    return RawData(name=path.name, **known)


def _needed(path: Path) -> str:
    """Return what to do where the file that a scenario names cannot be read; no folders above, which a sweep keeps."""
    if path.is_absolute() or path.exists():
        return "workers.dataset must name a CSV or NPZ file that can be read"
    here = Path.cwd().name or os.sep
    return f"relative paths start from the working folder, {here}; change the folder, or workers.dataset"


def _read_columns(path: Path, workers: Workers) -> tuple[dict[str, Any], Any, list[str] | None]:
    """Return what a CSV file says of inputs, labels as texts or numbers, and holders; other columns are inputs."""
    with open_table(path, _needed(path)) as file:

        def find(key: str, *names: str) -> list[str]:
            return [find_column(name, file.names, path, f"workers.{key}") for name in names if name]

        key = "label_columns" if len(workers.label_columns) > 1 else "label_column"
        labels = find(key, *(workers.label_columns or [workers.label_column]))
        worker = find("worker_column", workers.worker_column)
        features = find("feature_columns and bounds", *workers.feature_columns)
        features = features or [name for name in file.names if name not in (*labels, *worker)]
        _check_roles(features, [*labels, *worker], file)
        columns = declared_columns(workers, features)
        wanted = columns or [Column(name=name) for name in features]
        table = file.read(wanted, [*labels, *worker], advice=_ADVICE, decimal=workers.decimal)
    known: dict[str, Any] = {"inputs": table.inputs, "columns": columns}
    known["feature_names"] = tuple(chain(*(column.features for column in wanted)))
    if columns:
        bounds = zip(*(column.bounds for column in columns), strict=True)
        known["lower"], known["upper"] = (tuple(chain(*each)) for each in bounds)
    holders = table.filled(worker[0], "worker") if worker else None
    if workers.task != "classification":
        known["class_names"] = tuple(labels)
        return known, np.stack([_outputs(table, name, workers) for name in labels], axis=1), holders
    if workers.classes:  # a missing label is one that is not among them
        return known, [text.strip() for text in table.texts[labels[0]]], holders
    return known, table.filled(labels[0], "label"), holders


def _check_roles(features: Sequence[str], others: Sequence[str], file: CsvFile) -> None:
    """Refuse columns that are two things at once, or have no name."""
    if not features:
        label = shown(others[0])
        raise DataError(f"{file.path}: the only column is the label {label}; add at least one input column")
    named = [*others, *features]
    for name in named:
        if named.count(name) > 1:
            raise DataError(f"{file.path}: column {shown(name)} is named twice in [workers]; name each column once")
        if not name:
            mend = "name it, or list the inputs in workers.feature_columns"
            raise DataError(f"{file.path}: row 1, column {file.names.index(name) + 1} has no name; {mend}")


def _outputs(table: CsvTable, name: str, workers: Workers) -> Doubles:
    """Return the targets of a column, or 0 and 1 for its labels; rows."""
    read: Callable[[Sequence[str]], list[float] | None] = partial(finite_numbers, decimal=workers.decimal)
    wanted = "a finite number"
    if workers.task != "regression":
        read, wanted = read_yes_and_no, "0 or 1, or yes or no"
    texts = table.filled(name, "label")
    numbers = read(texts)
    if numbers is None:
        row = next(row for row, text in enumerate(texts) if read([text]) is None)
        value, task_needs = private(shown(texts[row]), "a value"), f'as workers.task = "{workers.task}" needs it'
        raise DataError(f"{table.where(row, name)}: {value} is not {wanted}, {task_needs}; correct it")
    return np.asarray(numbers, dtype=np.float64)


def _read_arrays(path: Path, workers: Workers) -> tuple[dict[str, Any], Any, NDArray[Any] | None]:
    """Return what an NPZ file says of inputs, labels as texts or numbers (samples x outputs), and holders."""
    task, worker_array = workers.task, workers.worker_column
    names = ("labels", worker_array) if worker_array else ("labels",)
    inputs, image_shape, arrays = read_arrays(path, names, _needed(path))
    labels, holders, samples = arrays["labels"], arrays.get(worker_array), (len(inputs),)
    if labels.shape[:1] != samples or labels.ndim > (1 if task == "classification" else 2):
        several = "one class per row of inputs (for one-hot labels give labels.argmax(axis=1), for labels of which "
        several += 'several may hold use workers.task = "multi-label")'
        wanted = several if task == "classification" else "one row of targets or labels per row of inputs"
        raise DataError(f"{path}: labels have the shape {shown(labels.shape)}: must be {shown(samples)}, {wanted}")
    if holders is not None and holders.shape != samples:
        raise DataError(f"{path}: {worker_array} has the shape {shown(holders.shape)}: must be {shown(samples)}")
    known: dict[str, Any] = {"inputs": inputs, "image_shape": image_shape}
    if inputs.dtype == np.uint8:  # bytes are from 0 to 255, as everybody knows
        known["lower"], known["upper"] = (0.0,), (255.0,)
    if task == "classification":
        return known, label_texts(labels, path, missing=bool(workers.classes)), holders
    if labels.dtype.kind not in "biuf":
        raise DataError(f"{path}: labels are of type {shown(str(labels.dtype))}: must be numbers for task {task}")
    outputs, word = labels.reshape(len(labels), -1).astype(np.float64), "target" if task == "regression" else "label"
    known["class_names"] = tuple(f"{word} {number + 1}" for number in range(outputs.shape[1]))
    return known, outputs, holders


@dataclass(frozen=True, kw_only=True, eq=False)
class RowsFile:
    """Raw rows, and what else was asked for."""

    inputs: NDArray[Any]  # rows x numbers, in the order of the run
    labels: list[str] | None = None  # the class of each row, where they were asked for
    kept: dict[str, list[str]] = field(default_factory=dict)  # columns that go into the output as they are, by name


def read_rows(
    path: Path,
    row_format: RowFormat,
    *,
    label_column: str = "label",
    with_labels: bool = False,
    keep: Sequence[str] = (),
) -> RowsFile:
    """Read the rows of a file; complaints name the file, the row (a header is row 1) and the column.

    Columns of a CSV file are found by their names where the run has names; else all but the label's and those to
    ``keep``, which are copied, are taken in their order. An NPZ file has the arrays ``inputs`` and ``labels``.
    """
    if path.suffix.lower() not in OWN_FILES:
        raise DataError(f"{path}: must be a file of rows that ends in .csv, .tsv or .npz")
    if path.suffix.lower() != ".npz":
        rows = _read_csv(path, row_format, label_column, with_labels, keep)
    elif keep:
        raise DataError(f"--keep {keep[0]}: names a column of a CSV file, but {path} is an NPZ file; leave it out")
    else:
        rows = _read_npz(path, row_format, with_labels)
    if not len(rows.inputs):
        raise DataError(f"{path}: {_NO_ROWS}")
    return rows


def _read_csv(path: Path, row_format: RowFormat, label_column: str, with_labels: bool, keep: Sequence[str]) -> RowsFile:
    with open_table(path, "give a CSV or NPZ file of rows") as opened:
        if (first := next(opened.numbered_rows, None)) is None:  # before its columns are looked at
            raise DataError(f"{path}: {_NO_ROWS}")
        file = replace(opened, numbered_rows=chain([first], opened.numbered_rows))
        columns = _columns(file.names, path, row_format, {label_column, *keep})
        labels = [find_column(label_column, file.names, path, "--score")] if with_labels else []
        kept = [find_column(name, file.names, path, "--keep") for name in keep]
        advice = "correct it or remove the row"
        table = file.read(columns, [*kept, *labels], advice=advice, decimal=row_format.decimal)
    texts = [text.strip() for text in table.texts[labels[0]]] if labels else None
    return RowsFile(inputs=table.inputs, labels=texts, kept={name: table.texts[name] for name in kept})


def _columns(header: tuple[str, ...], path: Path, row_format: RowFormat, others: set[str]) -> Sequence[Column]:
    columns = row_format.columns or [Column(name=name) for name in row_format.feature_names]
    missing = [column.name for column in columns if column.name not in header]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        every = shown(", ".join(column.name for column in columns))
        needed = f"must have the {len(columns)} input columns of the run in any order: {every}"
        raise DataError(f"{path}: row 1 lacks the column {shown(missing[0])}{more}: {needed}")
    columns = columns or [Column(name=name) for name in header if name not in others]
    if not row_format.feature_names and not row_format.columns and len(columns) != row_format.width:
        ordered = "besides the label, in the order of the run's data (their names are not known here)"
        raise DataError(f"{path}: has {len(columns)} columns of inputs: must have {row_format.width}, {ordered}")
    return columns


def _read_npz(path: Path, row_format: RowFormat, with_labels: bool) -> RowsFile:
    inputs, _, arrays = read_arrays(path, ("labels",) if with_labels else (), needed="give a CSV or NPZ file of rows")
    if inputs.shape[1] != row_format.width:
        raise DataError(f"{path}: inputs have {inputs.shape[1]} numbers in a row: must have {row_format.width}")
    if not with_labels:
        return RowsFile(inputs=inputs)
    labels = arrays["labels"]
    if labels.shape != (len(inputs),):
        raise DataError(f"{path}: labels have the shape {shown(labels.shape)}: must be {shown((len(inputs),))}")
    return RowsFile(inputs=inputs, labels=[str(label).strip() for label in labels.tolist()])
