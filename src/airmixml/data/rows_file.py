"""Rows to predict, in a CSV or NPZ file: the columns of a run by name, whatever else the file holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from airmixml.data.dataset import RowFormat
from airmixml.errors import DataError
from airmixml.scenario.tables import OWN_FILES
from airmixml.wording import nearest, shown

if TYPE_CHECKING:
    from airmixml.data.csv_file import Wanted


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
    if path.suffix.lower() == ".npz":
        return _read_npz(path, row_format, with_labels=with_labels, keep=keep)
    if path.suffix.lower() not in OWN_FILES:
        raise DataError(f"{path}: must be a file of rows that ends in .csv, .tsv or .npz")
    return _read_csv(path, row_format, label_column, with_labels, keep)


def _read_csv(path: Path, row_format: RowFormat, label_column: str, with_labels: bool, keep: Sequence[str]) -> RowsFile:
    from airmixml.data.csv_file import Wanted, as_declared, features_of, read_table  # here: a worker reads one kind

    def choose(header: tuple[str, ...]) -> Wanted:
        features = _feature_places(header, path, row_format, {label_column, *keep})
        kept = [_place(name, header, path, "--keep") for name in keep]
        labels = [_place(label_column, header, path, "--score")] if with_labels else []
        mark = f"write the numbers with a decimal {row_format.decimal}, as in the data of the run"
        advice = "correct it or remove the row"
        wanted = Wanted(features, (*kept, *labels), advice, decimal=row_format.decimal, other_mark=mark)
        return as_declared(wanted, row_format.columns)

    table = read_table(path, choose, one_row="prediction", needed="give a CSV or NPZ file of rows")
    if not len(table.row_numbers):
        raise DataError(f"{path}: has a header but no rows; give one row per prediction")
    kept = {name: table.texts[table.names.index(name)] for name in keep}
    labels = [text.strip() for text in table.texts[table.names.index(label_column)]] if with_labels else None
    inputs = features_of(table, row_format.columns) if row_format.columns else table.numbers
    return RowsFile(inputs=inputs, labels=labels, kept=kept)


def _place(name: str, header: tuple[str, ...], path: Path, option: str) -> int:
    if name not in header:
        near = nearest(name, list(header))
        raise DataError(
            f"{path}: row 1 names no column {shown(name)}, which {option} asks for; nearest is {shown(near)}"
        )
    return header.index(name)


def _feature_places(header: tuple[str, ...], path: Path, row_format: RowFormat, others: set[str]) -> tuple[int, ...]:
    names = tuple(column.name for column in row_format.columns) or row_format.feature_names
    if names:
        missing = [name for name in names if name not in header]
        if missing:
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            raise DataError(
                f"{path}: row 1 lacks the column {shown(missing[0])}{more}: must have the {len(names)} input columns "
                "that the model was trained on, in any order"
            )
        return tuple(header.index(name) for name in names)
    places = tuple(place for place, name in enumerate(header) if name not in others)
    if len(places) != row_format.width:
        raise DataError(
            f"{path}: has {len(places)} columns of inputs: must have {row_format.width}, in the order of the training "
            "data, since the model knows no names (the label and --keep are left out)"
        )
    return places


def _read_npz(path: Path, row_format: RowFormat, *, with_labels: bool, keep: Sequence[str]) -> RowsFile:
    if keep:
        raise DataError(f"--keep {keep[0]}: names a column of a CSV file, but {path} is an NPZ file; leave it out")
    from airmixml.data.npz_file import laid_out, read_arrays

    inputs, labels, layout, _ = read_arrays(path, with_labels=with_labels, key="the file of rows")
    if inputs.dtype.kind not in "biuf":
        raise DataError(f"{path}: inputs are of type {shown(str(inputs.dtype))}: must be real numbers")
    if inputs.ndim in (2, 3, 4) and inputs.size:
        inputs = laid_out(inputs, layout, path)[0]
    flat = inputs.reshape(len(inputs), -1) if inputs.ndim > 1 and inputs.size else inputs
    if flat.ndim != 2 or flat.shape[1] != row_format.width or not len(flat):
        raise DataError(
            f"{path}: inputs have the shape {shown(inputs.shape)}: must be rows x {row_format.width} numbers, at least "
            "one row"
        )
    if not np.isfinite(flat).all():
        place = [int(each) for each in np.argwhere(~np.isfinite(flat))[0]]
        raise DataError(f"{path}: inputs{place} is {float(flat[tuple(place)])}: must be finite")
    if with_labels and labels.shape != (len(flat),):
        raise DataError(f"{path}: labels have the shape {shown(labels.shape)}: must be {shown((len(flat),))}")
    texts = [str(label).strip() for label in labels.tolist()] if with_labels else None
    return RowsFile(inputs=flat, labels=texts)
