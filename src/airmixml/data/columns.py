"""The input columns of a table, and the numbers that a worker makes of their texts.

A number is one feature. A category is one feature for each declared value, of which at most one is 1. What stands in
for a missing value is declared too: nothing here is measured on rows.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from airmixml.arrays import Doubles
from airmixml.data.dataset import declare_bounds
from airmixml.errors import ScenarioError
from airmixml.scenario import Workers
from airmixml.wording import did_you_mean, shown

_MISSING: Final = frozenset({"", "na", "n/a", "nan", "null", "none", "?", "-", "."})
_SPACES: Final = " '\u2019\u00a0\u202f"  # what separates thousands besides the other mark
THOUSANDS: Final = frozenset(_SPACES + ",")
"""Characters of a number that Python does not read as it is written."""
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


@dataclass(frozen=True, kw_only=True)
class Column:
    """An input column: a number within bounds, or one of some categories."""

    name: str
    lower: float = 0.0
    upper: float = 1.0
    categories: tuple[str, ...] = ()  # all that count; any other text counts as none of them
    fill: float | None = None  # what a missing number counts as; None: it is refused
    indicator: bool = False  # whether a second feature says that the number is missing

    @property
    def features(self) -> tuple[str, ...]:
        """What the numbers made of it are called."""
        if self.categories:
            return tuple(f"{self.name} = {each}" for each in self.categories)
        return (self.name, f"{self.name} is missing") if self.indicator else (self.name,)

    @property
    def bounds(self) -> tuple[list[float], list[float]]:
        """Lower and upper bound of each of its features."""
        more = len(self.features) - 1
        return [self.lower, *[0.0] * more], [self.upper, *[1.0] * more]

    def of_texts(self, texts: Sequence[str]) -> Doubles:
        """Return the features of a category; rows x categories."""
        place = {category.casefold(): number for number, category in enumerate(self.categories)}
        numbers = np.array([place.get(text.strip().casefold(), -1) for text in texts], dtype=np.int64)
        return np.asarray(numbers[:, None] == np.arange(len(self.categories)), dtype=np.float64)

    def of_numbers(self, numbers: Doubles) -> Doubles:
        """Return the features of a number, NaN where it is missing (shape rows); rows x features."""
        missing = np.isnan(numbers)
        parts = [np.where(missing, self.fill, numbers)] if self.fill is not None else [numbers]
        return np.stack([*parts, missing.astype(np.float64)] if self.indicator else parts, axis=1)


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
        given, what = (workers.input_lower, workers.input_upper), "column of numbers"
        bounds = declare_bounds(*given, count=len(numbers), columns=numbers, what=what)
        for name, lower, upper in zip(numbers, *(each.tolist() for each in bounds), strict=True):
            fill = None if workers.missing == "refuse" else fills.get(name, (lower + upper) / 2.0)
            indicator = workers.missing == "indicator"
            columns.append(Column(name=name, lower=lower, upper=upper, fill=fill, indicator=indicator))
    return tuple(sorted(columns, key=lambda column: names.index(column.name)))
