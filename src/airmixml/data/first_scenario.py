"""A first scenario for a user's own file: it names the columns and says what to declare.

Of a table it is written from the header and from what the columns seem to hold. Of the values only classes and
categories are in it, for the owner of the data to check. Of an NPZ file shapes and types are used; bytes
have bounds of their own.
"""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from airmixml.data.column_kinds import TableSeen, look_at
from airmixml.data.labels import number_classes
from airmixml.data.npz_file import read_header, read_labels
from airmixml.errors import DataError, ScenarioError
from airmixml.scenario.rules import Real
from airmixml.scenario.tables import SEPARATED
from airmixml.wording import did_you_mean, shown

_USUAL_LABELS: Final = ("label", "target", "class", "y")
_NUMBER: Final = Real()


@dataclass(frozen=True, kw_only=True)
class Declared:
    """What a user knows of a column beforehand: bounds, and a unit for the reader; or its categories."""

    lower: float = 0.0
    upper: float = 1.0
    unit: str = ""
    categories: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a user asks a first scenario for."""

    labels: tuple[str, ...] = ()  # columns to learn; empty: one of a usual name, or the last
    task: str = "classification"
    person: str = ""  # the column that says who a row is of
    declared: dict[str, Declared] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class FirstScenario:
    """The text of the scenario, what is still to be declared in it, and what its owner should know."""

    text: str
    missing: tuple[str, ...]
    notes: tuple[str, ...] = ()


def parse_declared(asked: str) -> tuple[str, Declared]:
    """Return column and bounds of ``NAME=LOWER,UPPER``, which a unit may follow, or categories of ``NAME=A|B``."""
    name, equals, rest = asked.rpartition("=")
    categories = tuple(part.strip() for part in rest.split("|"))
    if equals and name.strip() and len(categories) > 1 and all(categories):
        return name.strip(), Declared(categories=categories)
    numbers, _, unit = rest.strip().partition(" ")
    lower, comma, upper = numbers.partition(",")
    try:
        bounds = [_NUMBER.check(name, float(number)) for number in (lower, upper)]
    except ValueError:
        bounds = []
    if not (equals and comma and name.strip() and bounds and bounds[0] < bounds[1]):
        raise ScenarioError(
            f"--column {shown(asked)}: must be NAME=LOWER,UPPER, such as 'age=0,120 years', or NAME=A|B for categories"
        )
    return name.strip(), Declared(lower=bounds[0], upper=bounds[1], unit=unit.strip())


def first_scenario(path: Path, asked: Asked | None = None) -> FirstScenario:
    """Return a commented scenario for the file."""
    asked = asked or Asked()
    if path.suffix.lower() in SEPARATED:
        return _of_table(path, asked)
    if path.suffix.lower() == ".npz":
        if asked.labels or asked.declared or asked.person:
            raise ScenarioError(
                f"--label, --labels, --person and --column: are for CSV files; {path.name} has no named columns"
            )
        return _of_arrays(path, asked)
    raise DataError(f"{path}: must be a .csv, .tsv or .npz file")


def _of_table(path: Path, asked: Asked) -> FirstScenario:
    table, declared = look_at(path), asked.declared
    names = list(table.columns)
    labels = asked.labels or (next((name for name in names if name.lower() in _USUAL_LABELS), names[-1]),)
    _check_names((*labels, *declared, *([asked.person] if asked.person else [])), names, path)
    several = [name for name in names if name in labels] + ([asked.person] if asked.person else [])
    if len(set(several)) < len(labels) + bool(asked.person):
        raise ScenarioError("--label, --labels and --person: name each column once")
    classes = asked.task == "classification"
    if classes and len(labels) > 1:
        raise ScenarioError('--labels: several columns need --task "multi-label" (yes or no each) or --task regression')
    bounded = [name for name in labels if name in declared]
    if bounded and asked.task != "regression":
        raise ScenarioError(
            f"--column {shown(bounded[0])}: is the label, which has no bounds; with --task regression it has"
        )
    if classes and (kinds := table.columns[labels[0]].measured_kinds(table.decimal)):
        raise ScenarioError(
            f"{labels[0]}: looks like a measured number ({kinds:,} different values); add --task regression, or name a "
            "column of classes by --label"
        )
    for name in (*declared, *(labels if asked.task == "regression" else ())):
        cell = table.columns[name].with_unit
        if cell and not (name in declared and declared[name].categories):
            raise DataError(f"{path}: column {shown(name)} {table.columns[name].units_in_words(cell)}")
    inputs, left_out = _inputs_of(table, asked, labels)
    if not inputs:
        why = "".join(f"; column {shown(name)} {_why(table, name, each)}" for name, each in left_out.items())
        raise DataError(
            f"{path}: no column but {shown(labels[0])} holds numbers or categories; give at least one input{why}"
        )
    categories = {
        name: declared[name].categories if name in declared else table.columns[name].categories
        for name in inputs
        if (name in declared and declared[name].categories)
        or (name not in declared and not table.columns[name].is_number(table.decimal))
    }
    numbers = [name for name in inputs if name not in categories]
    gaps = [name for name in numbers if table.columns[name].missing]
    lines = [
        *_beginning(path),
        f"# read as {table}",
        *(['decimal = "comma"'] if table.decimal == "comma" else []),
        *([f"worker_column = {_quoted(asked.person)}  # all rows of one are one worker's"] if asked.person else []),
        *(f"# left out: {_quoted(name)}, which {why}" for name, why in left_out.items()),
        *_label_lines(labels, classes),
        "feature_columns = [",
        *(f"    {_quoted(name)}," for name in inputs),
        "]",
        *_missing_lines(gaps),
        *(_class_lines([*table.columns[labels[0]].texts.elements()], path) if classes else []),
        *_unlabelled_lines(classes and bool(table.columns[labels[0]].missing)),
        *_task_lines(asked, labels),
        *_BOUNDS_EXPLAINED,
        "[workers.bounds]",
        *(_bound_line(name, declared.get(name)) for name in numbers),
        *_category_lines(categories, declared),
    ]
    missing = [name for name in numbers if name not in declared]
    if asked.task == "regression":
        missing += [name for name in labels if name not in declared]
    notes = [f"read as {table}"]
    notes += [f"column {shown(name)} is left out: it {_why(table, name, why)}" for name, why in left_out.items()]
    constant = [shown(name) for name in inputs if table.columns[name].constant]
    notes += [f"the same value in all rows of {', '.join(constant)}: nothing can be learnt from it"] if constant else []
    found = [shown(name) for name in categories if name not in declared]
    notes += [f"categories found in the rows of {', '.join(found)}: check them"] if found else []
    notes += (
        [f"missing numbers in {', '.join(map(shown, gaps))}: they count as the middle of the bounds"] if gaps else []
    )
    return FirstScenario(text="\n".join([*lines, *_END]) + "\n", missing=tuple(missing), notes=tuple(notes))


def _why(table: TableSeen, name: str, left_out: str) -> str:
    """Return why a column is left out, for the terminal: with the cell that is the reason, where there is one."""
    cell = table.columns[name].with_unit
    return left_out.replace(table.columns[name].units_in_words(), table.columns[name].units_in_words(cell))


def _inputs_of(table: TableSeen, asked: Asked, labels: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return the input columns, and why others are none; a declared column always is one."""
    inputs, left_out = [], {}
    for name, column in table.columns.items():
        if name in labels or name == asked.person:
            continue
        why = "" if name in asked.declared else column.why_left_out(table.decimal)
        if why:
            left_out[name] = why
        else:
            inputs.append(name)
    return inputs, left_out


def _of_arrays(path: Path, asked: Asked) -> FirstScenario:
    shape, kind = read_header(path)
    features, classes = math.prod(shape[1:]), asked.task == "classification"
    lines = _beginning(path, preset="private-images" if len(shape) > 2 else "private-table")
    lines += [f"# inputs: {' x '.join(map(str, shape))} of type {kind}", *_task_lines(asked, ("the target",))]
    lines += _class_lines(read_labels(path), path) if classes else []
    lines += _BOUNDS_EXPLAINED
    missing = ["the target"] if asked.task == "regression" else []
    if kind == "uint8":
        lines += ["input_lower = [0]    # bytes", "input_upper = [255]"]
    else:
        lines += [f"# input_lower = [LOWER]    # one number for all {features:,} inputs, or one for each"]
        lines += ["# input_upper = [UPPER]"]
        missing = ["the inputs", *missing]
    return FirstScenario(text="\n".join([*lines, *_END]) + "\n", missing=tuple(missing))


def _beginning(path: Path, preset: str = "private-table") -> list[str]:
    return [
        f"# Rows of {path.name}. Of their values only the classes and categories are in here: check them.",
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


def _label_lines(labels: Sequence[str], classes: bool) -> list[str]:
    if len(labels) > 1:
        return [f"label_columns = [{', '.join(map(_quoted, labels))}]"]
    return [f"label_column = {_quoted(labels[0])}" + ("  # the class of a row" if classes else "")]


def _missing_lines(gaps: Sequence[str]) -> list[str]:
    if not gaps:
        return []
    return [
        'missing = "fill"  # a missing number counts as the middle of its bounds; "indicator" adds an input to say so',
        f"# fill = {{{_quoted(gaps[0])} = NUMBER}}  # or as a number of your own, column by column",
    ]


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


def _unlabelled_lines(some: bool) -> list[str]:
    return ['unknown_labels = "absent"  # a row without a label sends zeros'] if some else []


def _task_lines(asked: Asked, labels: Sequence[str]) -> list[str]:
    """Return the task where it is not classification; of a regression the bounds of its targets too."""
    lines = [] if asked.task == "classification" else [f'task = "{asked.task}"']
    if asked.task != "regression":
        return lines
    known = [asked.declared[name] for name in labels if name in asked.declared]
    if len(known) < len(labels):
        return [
            *lines,
            "# target_lower = [LOWER]  # public bounds of what is learnt, likewise",
            "# target_upper = [UPPER]",
        ]
    units = ", ".join(each.unit for each in known if each.unit)
    return [
        *lines,
        f"target_lower = [{', '.join(repr(each.lower) for each in known)}]  # public bounds of what is learnt",
        f"target_upper = [{', '.join(repr(each.upper) for each in known)}]" + (f"  # {units}" if units else ""),
    ]


def _bound_line(name: str, known: Declared | None) -> str:
    if known is None:
        return f"# {_quoted(name)} = [LOWER, UPPER]"
    unit = f"  # {known.unit}" if known.unit else ""
    return f"{_quoted(name)} = [{known.lower!r}, {known.upper!r}]{unit}"


def _category_lines(categories: dict[str, tuple[str, ...]], declared: dict[str, Declared]) -> list[str]:
    if not categories:
        return []
    found = "" if all(name in declared for name in categories) else ", found in the file"
    return [
        "",
        f"# Public categories{found}: each becomes an input of 0 or 1. Merge one that could name a person, and add",
        "# those that no row has; any other value counts as none of them.",
        "[workers.categories]",
        *(f"{_quoted(name)} = [{', '.join(map(_quoted, each))}]" for name, each in categories.items()),
    ]


def _check_names(asked: Iterable[str], names: list[str], path: Path) -> None:
    for name in asked:
        if name not in names:
            near = did_you_mean(name, list(map(shown, names)))
            raise ScenarioError(f"{path}: row 1 names no column {shown(name)}{near}")


def _folder_name(stem: str) -> str:
    return "".join(character if character.isalnum() or character in "-_." else "-" for character in stem).strip(" .-")


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
