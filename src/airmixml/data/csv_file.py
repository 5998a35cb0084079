"""A user's own samples in a CSV file: inputs, labels, and who holds each row."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from airmixml.arrays import Doubles
from airmixml.data.csv_table import CsvTable, Wanted, finite_numbers, read_table
from airmixml.data.dataset import RawData
from airmixml.data.labels import DeclaredClasses, check_outputs, number_classes, number_holders, read_yes_and_no
from airmixml.errors import DataError, private
from airmixml.wording import did_you_mean, shown


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
    """Read inputs and labels; no feature columns means all but the labels and the worker.

    Without ``declared`` classes they are those that the rows hold.
    """
    asked = _Asked(tuple(feature_columns), tuple(label_columns or (label_column,)), worker_column, str(path))
    table = read_table(path, asked.places, needed="workers.dataset must name a CSV file")
    labels = [table.names.index(name.strip()) for name in asked.labels]
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
        holders = table.filled(table.names.index(worker_column.strip()), "worker")
        numbered["holders"], numbered["holder_names"] = number_holders(holders, str(path))
    features = tuple(table.names[place] for place in asked.places(table.names).numbers)
    return RawData(name=path.name, inputs=table.numbers, feature_names=features, **numbered)


@dataclass(frozen=True)
class _Asked:
    """Columns as the scenario names them."""

    features: tuple[str, ...]
    labels: tuple[str, ...]
    worker: str
    source: str

    def places(self, names: tuple[str, ...]) -> Wanted:
        """Find the columns in the header."""
        key = "workers.label_column" if len(self.labels) == 1 else "workers.label_columns"
        others = [self._find(name, key, names) for name in self.labels]
        if self.worker:
            others.append(self._find(self.worker, "workers.worker_column", names))
        if len(set(others)) != len(others):
            raise DataError(
                f"{self.source}: {key} and workers.worker_column name a column twice; name each column once"
            )
        features = [self._find(name, "workers.feature_columns", names) for name in self.features]
        features = features or [place for place in range(len(names)) if place not in others]
        self._check(features, others, names)
        advice = "inputs must be numbers: correct it, or leave the column out by listing the others in "
        return Wanted(numbers=tuple(features), texts=tuple(others), advice=f"{advice}workers.feature_columns")

    def _find(self, name: str, key: str, names: tuple[str, ...]) -> int:
        if name.strip() not in names:
            near = private(did_you_mean(name, list(map(shown, names)), after=" ").removeprefix("; "))
            raise DataError(
                f"{self.source}: row 1 names no column {shown(name)}; {near}{key} must name columns as the header row "
                "does"
            )
        return names.index(name.strip())

    def _check(self, features: Sequence[int], others: Sequence[int], names: Sequence[str]) -> None:
        if not features:
            label = shown(names[others[0]])
            raise DataError(f"{self.source}: the only column is the label {label}; add at least one input column")
        for place in features:
            if place in others:
                role = "the label" if place in others[: len(self.labels)] else "the worker"
                raise DataError(
                    f"{self.source}: column {shown(names[place])} is {role}, so it cannot be an input too; "
                    "take it out of workers.feature_columns"
                )
            if not names[place]:
                raise DataError(
                    f"{self.source}: row 1, column {place + 1} has no name; name it, or list the inputs in "
                    "workers.feature_columns"
                )
        if len(set(features)) != len(features):
            twice = next(names[place] for place in features if list(features).count(place) > 1)
            raise DataError(f"workers.feature_columns names {shown(twice)} twice; name each input column once")


def _outputs(table: CsvTable, place: int, task: str) -> Doubles:
    """Return the targets of a column, or 0 and 1 for its labels; rows."""
    read, wanted = (
        (finite_numbers, "a finite number") if task == "regression" else (read_yes_and_no, "0 or 1, or yes or no")
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
