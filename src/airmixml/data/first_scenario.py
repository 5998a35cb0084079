"""A first scenario for a user's own file, from its header and its labels: it says what to declare.

Of a CSV file the names of the columns are used, and of its first row whether each value is a number. Of an NPZ file the
shapes and types are used; bytes have bounds of their own. Of the labels the classes are listed, for the owner of the
data to check: that is the only thing taken from the rows.
"""

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from airmixml.data.csv_file import finite_numbers, numbered_rows
from airmixml.data.labels import number_classes
from airmixml.data.npz_file import read_header, read_labels
from airmixml.errors import DataError, ScenarioError
from airmixml.reading import open_lines
from airmixml.scenario.rules import Real
from airmixml.wording import did_you_mean, reason, shown

_USUAL_LABELS: Final = ("label", "target", "class", "y")
_NUMBER: Final = Real()


@dataclass(frozen=True, kw_only=True)
class Declared:
    """What a user knows of a column beforehand: bounds, and a unit for the reader."""

    lower: float
    upper: float
    unit: str = ""


@dataclass(frozen=True, kw_only=True)
class FirstScenario:
    """The text of the scenario, and what is still to be declared in it."""

    text: str
    missing: tuple[str, ...]


def parse_declared(asked: str) -> tuple[str, Declared]:
    """Return column and bounds of ``NAME=LOWER,UPPER``, which a unit may follow."""
    name, equals, rest = asked.rpartition("=")
    numbers, _, unit = rest.strip().partition(" ")
    lower, comma, upper = numbers.partition(",")
    try:
        bounds = [_NUMBER.check(name, float(number)) for number in (lower, upper)]
    except ValueError:
        bounds = []
    if not (equals and comma and name.strip() and bounds and bounds[0] < bounds[1]):
        raise ScenarioError(f"--column {shown(asked)}: must be NAME=LOWER,UPPER, such as 'age=0,120 years'")
    return name.strip(), Declared(lower=bounds[0], upper=bounds[1], unit=unit.strip())


def first_scenario(
    path: Path, *, label: str = "", declared: dict[str, Declared] | None = None, regression: bool = False
) -> FirstScenario:
    """Return a commented scenario for the file; ``label`` is what to learn, by default a usual name or the last."""
    if path.suffix.lower() == ".csv":
        return _of_table(path, label, declared or {}, regression)
    if path.suffix.lower() == ".npz":
        if label or declared:
            raise ScenarioError(f"--label and --column: are for CSV files; {path.name} has no named columns")
        return _of_arrays(path, regression)
    raise DataError(f"{path}: must be a .csv or .npz file")


def _of_table(path: Path, label: str, declared: dict[str, Declared], regression: bool) -> FirstScenario:
    names, first, label, labels = _read_texts(path, label)
    _check_names(declared, names, path)
    inputs = [name for name, text in zip(names, first, strict=True) if name != label and finite_numbers([text])]
    left_out = [name for name in names if name != label and name not in inputs]
    if not inputs:
        raise DataError(f"{path}: no column but {shown(label)} holds numbers; inputs must be numbers")
    if label in declared and not regression:
        raise ScenarioError(f"--column {shown(label)}: is the label, which has no bounds; with --regression it has")
    missing = [name for name in inputs if name not in declared]
    lines = [
        *_beginning(path),
        f"label_column = {_quoted(label)}" + ("" if regression else "  # the class of a row"),
        "feature_columns = [",
        *(f"    {_quoted(name)}," for name in inputs),
        "]",
        *(f"# left out, since its first value is no number: {_quoted(name)}" for name in left_out),
        *([] if regression else _class_lines(labels, path)),
        *_regression_lines(regression, declared.get(label)),
        *_BOUNDS_EXPLAINED,
        "[workers.bounds]",
    ]
    for name in inputs:
        known = declared.get(name)
        if known is None:
            lines.append(f"# {_quoted(name)} = [LOWER, UPPER]")
        else:
            unit = f"  # {known.unit}" if known.unit else ""
            lines.append(f"{_quoted(name)} = [{known.lower!r}, {known.upper!r}]{unit}")
    if regression and label not in declared:
        missing.append(label)
    return FirstScenario(text="\n".join([*lines, *_END]) + "\n", missing=tuple(missing))


def _of_arrays(path: Path, regression: bool) -> FirstScenario:
    shape, kind = read_header(path)
    features = math.prod(shape[1:])
    images = len(shape) > 2
    lines = _beginning(path, preset="private-images" if images else "private-table")
    lines += [f"# inputs: {' x '.join(map(str, shape))} of type {kind}", *_regression_lines(regression, None)]
    lines += [] if regression else _class_lines(read_labels(path), path)
    lines += _BOUNDS_EXPLAINED
    missing = ["the target"] if regression else []
    if kind == "uint8":
        lines += ["input_lower = [0]    # bytes", "input_upper = [255]"]
    else:
        lines += [f"# input_lower = [LOWER]    # one number for all {features:,} inputs, or one for each"]
        lines += ["# input_upper = [UPPER]"]
        missing = ["the inputs", *missing]
    return FirstScenario(text="\n".join([*lines, *_END]) + "\n", missing=tuple(missing))


def _beginning(path: Path, preset: str = "private-table") -> list[str]:
    return [
        f"# One row of {path.name} on each worker. Written from the header of the file: no input of a row is in here.",
        f'extends = "{preset}"',
        f"name = {_quoted(_folder_name(path.stem))}",
        "",
        "[workers]",
        f"dataset = {_quoted(str(path))}  # relative to the folder in which you call airmix",
    ]


_BOUNDS_EXPLAINED: Final = (
    "",
    "# Public bounds: what you know of an input without these data, such as the range of a sensor or of a scale.",
    "# Do not measure them on the data: that would leak rows. Values outside are clipped; bounds that are far too wide",
    "# cost accuracy. Replace LOWER and UPPER, and remove the # in front of the line.",
)
_END: Final = (
    "",
    "[privacy]",
    "epsilon = 1.0",
    "delta = 0.0  # a tenth of 1 / rows",
)


def _class_lines(labels: list[str], path: Path) -> list[str]:
    """Return the declaration of the classes, as found; commented out where the labels look like no classes."""
    lines = [
        "",
        "# Public classes, found in the file. All will be in the model: merge one that could name a person.",
    ]
    try:
        names = number_classes(labels, str(path))[1]
    except DataError:
        return [*lines, '# classes = ["CLASS", "CLASS"]  # needed to protect the data']
    return [*lines, f"classes = [{', '.join(map(_quoted, names))}]  # add those that no row has"]


def _regression_lines(regression: bool, known: Declared | None) -> list[str]:
    if not regression:
        return []
    declared = ("LOWER", "UPPER", "# ") if known is None else (f"{known.lower!r}", f"{known.upper!r}", "")
    unit = f"  # {known.unit}" if known is not None and known.unit else ""
    lower, upper, mark = declared
    return [
        'task = "regression"',
        f"{mark}target_lower = [{lower}]  # public bounds of what is learnt, likewise",
        f"{mark}target_upper = [{upper}]{unit}",
    ]


def _read_texts(path: Path, label: str) -> tuple[list[str], list[str], str, list[str]]:
    """Return names of columns, first row as texts, of which the kinds are used, and name and texts of the label."""
    try:
        with open_lines(path) as lines:
            rows = numbered_rows(lines, str(path))
            names, first = ([text.strip() for text in next(rows, (0, []))[1]] for _ in range(2))
            if not first or len(names) < 2 or not all(names) or len(set(names)) < len(names):
                needed = "a header with a name of its own for each of at least 2 columns, and rows"
                raise DataError(f"{path}: must have {needed}")
            if len(first) != len(names):
                raise DataError(f"{path}: row 2 has {len(first)} values, but the header names {len(names)} columns")
            label = label or next((name for name in names if name.lower() in _USUAL_LABELS), names[-1])
            _check_names((label,), names, path)
            place = names.index(label)
            others = (row[place].strip() for _, row in rows if len(row) > place)
            return names, first, label, [text for text in (first[place], *others) if text]
    except OSError as problem:
        raise DataError(f"{path}: cannot be read ({reason(problem)}); give a CSV or NPZ file") from None
    except UnicodeDecodeError:
        raise DataError(f"{path}: not CSV text in UTF-8; save it as such") from None


def _check_names(asked: Iterable[str], names: list[str], path: Path) -> None:
    for name in asked:
        if name not in names:
            near = did_you_mean(name, list(map(shown, names)))
            raise ScenarioError(f"{path}: row 1 names no column {shown(name)}{near}")


def _folder_name(stem: str) -> str:
    return "".join(character if character.isalnum() or character in "-_." else "-" for character in stem).strip(" .-")


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
