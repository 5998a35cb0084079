"""Which columns of a user's CSV file are inputs and which is the label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airmixml.errors import DataError
from airmixml.wording import nearest, shown

__all__ = ["Columns", "choose_columns"]


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
            f"{source}: row 1 names no column {shown(name)}; did you mean "
            f"{shown(nearest(name, list(places)))}? {key} must name columns as the header row does"
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
