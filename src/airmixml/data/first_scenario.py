"""A first scenario for a user's own file: it names the columns and says what to declare.

Of a table it is written from the header and from what the columns seem to hold. Of the values only classes and
categories are in it, for the owner of the data to check. Of an NPZ file shapes and types are used; bytes
have bounds of their own.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from airmixml.data.columns import is_missing
from airmixml.data.csv_file import Dialect, find_column, finite_numbers, open_table
from airmixml.data.labels import look_measured, number_classes
from airmixml.data.npz_file import label_texts, read_arrays
from airmixml.errors import DataError, ScenarioError
from airmixml.scenario.rules import Real
from airmixml.scenario.tables import SEPARATED
from airmixml.wording import shown

_USUAL_LABELS: Final = ("label", "target", "class", "y")
_NUMBER: Final = Real()
_MOST_CATEGORIES: Final = 30
_ROWS_TO_TELL: Final = 10  # in fewer rows all values may differ by chance
_MOST_REMEMBERED: Final = 1_000_000
_OF_A_PERSON: Final = re.compile(
    r"(^|[\W_])(id|uuid|person|patient|user|subject|participant|customer|client|worker|household|member|employee)s?"
    r"([\W_]*(id|no|nr|number|name|code))?$",
    re.IGNORECASE,
)


@dataclass
class ColumnSeen:
    """What all rows together have in one column."""

    name: str
    values: int = 0
    missing: int = 0
    reads: dict[str, bool] = field(default_factory=lambda: {"point": True, "comma": True})  # as numbers, so written
    whole: bool = True  # whether all numbers are whole
    texts: Counter[str] = field(default_factory=Counter)  # how often each occurs, as far as they are remembered

    def add(self, text: str) -> None:
        """Take in the value of one more row."""
        if is_missing(text):
            self.missing += 1
            return
        self.values += 1
        for decimal, reads in self.reads.items():
            self.reads[decimal] = reads and finite_numbers([text], decimal) is not None
        self.whole = self.whole and text.lstrip("+-").isdecimal()
        if len(self.texts) < _MOST_REMEMBERED or text in self.texts:
            self.texts[text] += 1

    @property
    def categories(self) -> tuple[str, ...]:
        """Different texts, whatever their case, each as it is written most often."""
        found: dict[str, str] = {}
        for text in self.texts:
            best = found.setdefault(text.casefold(), text)
            found[text.casefold()] = max(best, text, key=lambda each: self.texts[each])
        return tuple(found.values())

    def is_number(self, decimal: str) -> bool:
        """Whether every value is a number."""
        return self.values > 0 and self.reads[decimal]

    def odd_text(self, decimal: str) -> str:
        """Return the first text that is no number; empty where all are."""
        return next((text for text in self.texts if finite_numbers([text], decimal) is None), "")

    def measured_kinds(self, decimal: str) -> int:
        """Return how many different numbers it has, where these look measured; 0 where they may be classes."""
        numbers = finite_numbers([*self.texts.elements()], decimal) if self.is_number(decimal) else None
        different, counts = np.unique(numbers or [0.0], return_counts=True)
        fractional = bool((different != np.floor(different)).any())
        return len(different) if look_measured(counts, numeric=True, fractional=fractional) else 0

    def why_left_out(self, decimal: str) -> str:
        """Return why it is no input by default; empty where it is one."""
        number, different = self.is_number(decimal), len(self.texts)
        person = f"--person {json.dumps(self.name, ensure_ascii=False)} makes epsilon one per person"
        if not self.values:
            return "has no values"
        if _OF_A_PERSON.search(self.name):
            return f"is named like who a row is of ({person})"
        if different == self.values >= _ROWS_TO_TELL and (self.whole or not number):
            return f"has another value in every row, as a name or a number of each has ({person})"
        if number or different <= _MOST_CATEGORIES:
            return ""
        return f"holds text of more than {_MOST_CATEGORIES} kinds"


@dataclass(frozen=True, kw_only=True)
class TableSeen:
    """A table as its header and rows show it."""

    columns: dict[str, ColumnSeen]
    dialect: Dialect
    decimal: str

    def __str__(self) -> str:
        mark = ", decimal commas" if self.decimal == "comma" else ""
        return f"{self.dialect}{mark}"


def look_at(path: Path) -> TableSeen:
    """Read a table once and return what its columns seem to hold; refuse one without a header."""
    with open_table(path, "give a CSV or NPZ file") as file:
        if len(file.names) < 2 or not all(file.names):
            raise DataError(f"{path}: must have a header that names each of at least 2 columns, and rows")
        if finite_numbers(file.names) is not None:
            raise DataError(f"{path}: row 1 has numbers where the names of columns must be; add a header row")
        columns = [ColumnSeen(name) for name in file.names]
        for _, row in file.rows():
            for column, text in zip(columns, row, strict=True):
                column.add(text.strip())
    if not columns[0].values + columns[0].missing:
        raise DataError(f"{path}: has a header, {shown(columns[0].name)} and so on, but no rows")
    read = {mark: sum(column.is_number(mark) for column in columns) for mark in ("point", "comma")}
    decimal = "comma" if read["comma"] > read["point"] else "point"
    return TableSeen(columns={each.name: each for each in columns}, dialect=file.dialect, decimal=decimal)


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
            f"--column {shown(asked)}: must be NAME=LOWER,UPPER, such as 'age=0,120 years', or NAME=A|B"
        )
    return name.strip(), Declared(lower=bounds[0], upper=bounds[1], unit=unit.strip())


def first_scenario(path: Path, asked: Asked | None = None) -> FirstScenario:
    """Return a commented scenario for the file."""
    asked = asked or Asked()
    if path.suffix.lower() in SEPARATED:
        return _of_table(path, asked)
    if path.suffix.lower() == ".npz":
        if asked.labels or asked.declared or asked.person:
            raise ScenarioError(f"--label, --labels, --person and --column: are for CSV files; {path.name} is none")
        return _of_arrays(path, asked)
    raise DataError(f"{path}: must be a .csv, .tsv or .npz file")


def _of_table(path: Path, asked: Asked) -> FirstScenario:
    table, declared = look_at(path), asked.declared
    names, columns = list(table.columns), table.columns
    labels = asked.labels or (next((name for name in names if name.lower() in _USUAL_LABELS), names[-1]),)
    person = (asked.person,) if asked.person else ()
    for name in (*labels, *person, *declared):
        find_column(name, names, path, "--label, --labels, --person and --column")
    if len({*labels, *person}) < len(labels) + len(person):
        raise ScenarioError("--label, --labels and --person: name each column once")
    classes, regression = asked.task == "classification", asked.task == "regression"
    if classes and len(labels) > 1:
        raise ScenarioError('--labels: several columns need --task "multi-label" (yes or no each) or --task regression')
    bounded = [name for name in labels if name in declared]
    if bounded and not regression:
        raise ScenarioError(f"--column {shown(bounded[0])}: is the label, which has bounds only with --task regression")
    if classes and (kinds := columns[labels[0]].measured_kinds(table.decimal)):
        mend = "add --task regression, or name a column of classes by --label"
        raise ScenarioError(f"{labels[0]}: looks like a measured number ({kinds:,} different values); {mend}")
    measured = [name for name, known in declared.items() if not known.categories]
    for name in (*measured, *(labels if regression else ())):
        if odd := columns[name].odd_text(table.decimal):
            raise DataError(f"{path}: column {shown(name)} holds {shown(odd)}: must hold plain numbers alone")
    others = [name for name in names if name not in (*labels, *person)]
    reasons = {name: columns[name].why_left_out(table.decimal) for name in others if name not in declared}
    left_out = {name: why for name, why in reasons.items() if why}
    inputs = [name for name in others if name not in left_out]
    if not inputs:
        why = "".join(f"; column {shown(name)} {each}" for name, each in left_out.items())
        raise DataError(f"{path}: no column but {shown(labels[0])} holds numbers or categories; add one{why}")
    found = [name for name in inputs if name not in declared and not columns[name].is_number(table.decimal)]
    categories = {name: declared[name].categories for name in inputs if name in declared and declared[name].categories}
    categories |= {name: columns[name].categories for name in found}
    numbers = [name for name in inputs if name not in categories]
    gaps = [name for name in numbers if columns[name].missing]
    single = f"label_column = {_quoted(labels[0])}" + ("  # the class of a row" if classes else "")
    lines = [
        *_beginning(path),
        f"# read as {table}",
        *(['decimal = "comma"'] if table.decimal == "comma" else []),
        *(f"worker_column = {_quoted(name)}  # all rows of one are one worker's" for name in person),
        *(f"# left out: {_quoted(name)}, which {why}" for name, why in left_out.items()),
        single if len(labels) == 1 else f"label_columns = {_listed(labels)}",
        "feature_columns = [",
        *(f"    {_quoted(name)}," for name in inputs),
        "]",
        *(_MISSING_EXPLAINED if gaps else ()),
        *(_class_lines([*columns[labels[0]].texts.elements()], path) if classes else []),
        *(_UNLABELLED if classes and columns[labels[0]].missing else ()),
        *_task_lines(asked, labels),
        *_BOUNDS_EXPLAINED,
        "[workers.bounds]",
        *(_bound_line(name, declared.get(name)) for name in numbers),
        *(_CATEGORIES_EXPLAINED if categories else ()),
        *(f"{_quoted(name)} = {_listed(each)}" for name, each in categories.items()),
    ]
    missing = [name for name in (*numbers, *(labels if regression else ())) if name not in declared]
    notes = [f"read as {table}"]
    notes += [f"column {shown(name)} is left out: it {why}" for name, why in left_out.items()]
    notes += [f"categories found in the rows of {', '.join(map(shown, found))}: check them"] if found else []
    filled = "they count as the middle of the bounds"
    notes += [f"missing numbers in {', '.join(map(shown, gaps))}: {filled}"] if gaps else []
    return FirstScenario(text="\n".join([*lines, *_END]) + "\n", missing=tuple(missing), notes=tuple(notes))


def _of_arrays(path: Path, asked: Asked) -> FirstScenario:
    inputs, image_shape, arrays = read_arrays(path, ("labels",), "the file of data")
    shape, kind = (len(inputs), *(image_shape or inputs.shape[1:])), str(inputs.dtype)
    classes = asked.task == "classification"
    lines = _beginning(path, preset="private-images" if len(shape) > 2 else "private-table")
    lines += [f"# inputs: {' x '.join(map(str, shape))} of type {kind}", *_task_lines(asked, ("the target",))]
    lines += _class_lines(label_texts(arrays["labels"].reshape(-1), path), path) if classes else []
    lines += _BOUNDS_EXPLAINED
    missing = ["the target"] if asked.task == "regression" else []
    if kind == "uint8":
        lines += ["input_lower = [0]    # bytes", "input_upper = [255]"]
    else:
        lines += [f"# input_lower = [LOWER]    # one number for all {inputs.shape[1]:,} inputs, or one for each"]
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
_END: Final = ("", "[privacy]", "epsilon = 1.0", "delta = 0.0  # a tenth of 1 / rows")
_MISSING_EXPLAINED: Final = (
    'missing = "fill"  # a missing number counts as the middle of its bounds; "indicator" adds an input to say so',
    "# fill = {COLUMN = NUMBER}  # or as a number of your own, column by column",
)
_UNLABELLED: Final = ('unknown_labels = "absent"  # a row without a label sends zeros',)
_CATEGORIES_EXPLAINED: Final = (
    "",
    "# Public categories, found in the file or declared: each becomes an input of 0 or 1. Merge one that could name a",
    "# person, and add those that no row has; any other value counts as none of them.",
    "[workers.categories]",
)


def _class_lines(labels: list[str], path: Path) -> list[str]:
    """Return the declaration of the classes, as found; commented out where the labels look like no classes."""
    lines = ["", "# Public classes, found in the file. All will be in the model: merge one that could name a person."]
    try:
        names = number_classes(labels, str(path))[1]
    except DataError:
        return [*lines, '# classes = ["CLASS", "CLASS"]  # needed to protect the data']
    return [*lines, f"classes = {_listed(names)}  # add those that no row has"]


def _task_lines(asked: Asked, labels: Sequence[str]) -> list[str]:
    """Return the task where it is not classification; of a regression the bounds of its targets too."""
    lines = [] if asked.task == "classification" else [f'task = "{asked.task}"']
    if asked.task != "regression":
        return lines
    known = [asked.declared[name] for name in labels if name in asked.declared]
    if len(known) < len(labels):
        lines += ["# target_lower = [LOWER]  # public bounds of what is learnt, likewise", "# target_upper = [UPPER]"]
        return lines
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


def _listed(texts: Iterable[str]) -> str:
    return f"[{', '.join(map(_quoted, texts))}]"


def _folder_name(stem: str) -> str:
    return "".join(character if character.isalnum() or character in "-_." else "-" for character in stem).strip(" .-")


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
