"""Rows of a CSV or NPZ file as a finished run takes them: to predict, or as a worker of a deployment sends them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from airmixml.data.columns import Column
from airmixml.data.csv_file import find_column, open_table
from airmixml.data.dataset import RowFormat
from airmixml.data.npz_file import read_arrays
from airmixml.errors import DataError
from airmixml.scenario.tables import OWN_FILES
from airmixml.wording import shown


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
        raise DataError(f"{path}: has no rows; give one row per prediction")
    return rows


def _read_csv(path: Path, row_format: RowFormat, label_column: str, with_labels: bool, keep: Sequence[str]) -> RowsFile:
    with open_table(path, "give a CSV or NPZ file of rows") as file:
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
        needed = f"must have the {len(columns)} input columns that the model was trained on, in any order"
        raise DataError(f"{path}: row 1 lacks the column {shown(missing[0])}{more}: {needed}")
    columns = columns or [Column(name=name) for name in header if name not in others]
    if not row_format.feature_names and not row_format.columns and len(columns) != row_format.width:
        ordered = "in the order of the training data, since the model knows no names"
        raise DataError(f"{path}: has {len(columns)} columns of inputs: must have {row_format.width}, {ordered}")
    return columns


def _read_npz(path: Path, row_format: RowFormat, with_labels: bool) -> RowsFile:
    inputs, _, arrays = read_arrays(path, ("labels",) if with_labels else (), key="the file of rows")
    if inputs.shape[1] != row_format.width:
        raise DataError(f"{path}: inputs have {inputs.shape[1]} numbers in a row: must have {row_format.width}")
    if not with_labels:
        return RowsFile(inputs=inputs)
    labels = arrays["labels"]
    if labels.shape != (len(inputs),):
        raise DataError(f"{path}: labels have the shape {shown(labels.shape)}: must be {shown((len(inputs),))}")
    return RowsFile(inputs=inputs, labels=[str(label).strip() for label in labels.tolist()])
