"""Labels of a user's own file as class numbers."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from airmixml.arrays import Integers
from airmixml.errors import DataError
from airmixml.wording import shown

_MOST_CLASSES = 10_000
_SURELY_CLASSES = 20  # up to so many different values are taken for classes, whatever they look like


def number_classes(labels: Sequence[str], source: str) -> tuple[Integers, tuple[str, ...]]:
    """Return the class number of each label and the names of the classes, in order.

    Classes are sorted as numbers if all labels are numbers ("1" and "1.0" are then one class), else as text.
    """
    if len(labels) < 2:
        raise DataError(
            f"{source}: has {len(labels)} samples: must have at least 2, one to train on and one to test on"
        )
    value_of: dict[str, Any] = {text: _number(text) for text in dict.fromkeys(labels)}
    if None in value_of.values():
        value_of = {text: text for text in value_of}
    for value in value_of.values():
        if isinstance(value, float) and not math.isfinite(value):
            raise DataError(f"{source}: the label {value} is no class; remove the samples without a proper label")
    distinct = sorted(set(value_of.values()))
    names = tuple(_name(value) for value in distinct)
    fractional = any(isinstance(value, float) and not value.is_integer() for value in distinct)
    _check_class_count(names, len(labels), fractional, source)
    place_of = {value: place for place, value in enumerate(distinct)}
    class_numbers = (place_of[value_of[label]] for label in labels)
    return np.fromiter(class_numbers, dtype=np.int64, count=len(labels)), names


def _number(text: str) -> int | float | None:
    """Return the number a label spells; int where it can, since float would merge long identifiers."""
    if "_" in text:  # Python reads 1_000 as a number, nobody else does
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return None


def _name(value: str | int | float) -> str:
    if isinstance(value, str):
        return value
    return str(int(value)) if value == math.floor(value) else repr(value)


def _check_class_count(names: Sequence[str], samples: int, fractional: bool, source: str) -> None:
    if len(names) < 2:
        raise DataError(
            f"{source}: all {samples} samples have the label {shown(names[0])}: must have at least 2 classes "
            "to distinguish"
        )
    looks_continuous = len(names) > _SURELY_CLASSES and (fractional or len(names) > samples / 2)
    if looks_continuous or len(names) > _MOST_CLASSES:
        raise DataError(
            f"{source}: {len(names)} different labels in {samples} samples, such as {shown(names[0])}: "
            "labels must be classes, not measured values or identifiers; choose another label column or sort "
            "the values into classes"
        )
