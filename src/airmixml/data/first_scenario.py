"""A first scenario for a user's own table: it names the columns and says what to declare.

It is written from the header and from what the columns seem to hold. Of the values only classes and categories are in
it, for the owner of the data to check.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from airmixml.data.csv_file import find_column, finite_numbers, is_missing, open_table
from airmixml.data.dataset import Column
from airmixml.data.labels import number_classes
from airmixml.messages import DataError, ScenarioError, hide_values, shown
from airmixml.scenario.rules import Real
from airmixml.scenario.tables import SEPARATED
from airmixml.scenario.toml import toml_value

_USUAL_LABELS: Final = ("label", "target", "class", "y")
_NUMBER: Final = Real()
_MOST_CATEGORIES: Final = 30
_ROW: Final = " (row "  # what follows tells of a row
_ROWS_TO_TELL: Final = 10  # in fewer rows all values may differ by chance
_OF_A_PERSON: Final = re.compile(
    r"(^|[\W_])(id|uuid|person|patient|user|subject|participant|customer|client|worker|household|member|employee)s?"
    r"([\W_]*(id|no|nr|number|name|code))?$",
    re.IGNORECASE,
)


@dataclass
class ColumnSeen:
    """What all rows together have in one column."""

    name: str
    missing: int = 0
    texts: Counter[str] = field(default_factory=Counter)  # how often each occurs
    first_rows: dict[str, int] = field(default_factory=dict)  # where each stands first

    @property
    def categories(self) -> tuple[str, ...]:
        """Different texts, whatever their case, each as it is written most often."""
        found: dict[str, str] = {}
        for text in self.texts:
            best = found.setdefault(text.casefold(), text)
            found[text.casefold()] = max(best, text, key=lambda each: self.texts[each])
        return tuple(found.values())

    def is_number(self, decimal: str) -> bool:
        return bool(self.texts) and finite_numbers([*self.texts], decimal) is not None

    def odd_text(self, decimal: str) -> str:
        """Return the first text that is no number where nearly all are, or all but infinite ones; else nothing."""
        odd = [text for text in self.texts if finite_numbers([text], decimal) is None]
        few = len(self.texts) > _MOST_CATEGORIES and sum(self.texts[text] for text in odd) * 10 < self.texts.total()
        infinite = all(text.lstrip("+-").casefold() in ("inf", "infinity") for text in odd)
        return odd[0] if 0 < len(odd) < len(self.texts) and (few or infinite) else ""

    def why_left_out(self, decimal: str) -> str:
        """Return why it is no input by default; empty where it is one."""
        number, different = self.is_number(decimal), len(self.texts)
        whole = all(text.lstrip("+-").isdecimal() for text in self.texts)
        person = f"--person {toml_value(self.name)} makes epsilon one per person"
        if not different:
            return "has no values"
        if _OF_A_PERSON.search(self.name):
            return f"is named like who a row is of ({person})"
        if odd := self.odd_text(decimal):
            return f"holds numbers and a cell that is not one{_ROW}{self.first_rows[odd]}; correct it first)"
        if different == self.texts.total() >= _ROWS_TO_TELL and (whole or not number):
            return f"has another value in every row, as a name or a number of each has ({person})"
        if number or different <= _MOST_CATEGORIES:
            return ""
        return f"holds text of more than {_MOST_CATEGORIES} kinds"


def _look_at(path: Path) -> tuple[dict[str, ColumnSeen], str]:
    """Return what the columns of a table seem to hold, and its decimal mark; refuse one without a header."""
    with open_table(path, "give a CSV file") as file:
        if len(file.names) < 2 or not all(file.names):
            raise DataError(f"{path}: must have a header that names each of at least 2 columns, and rows")
        if finite_numbers(file.names) is not None:
            raise DataError(f"{path}: row 1 has numbers where the names of columns must be; add a header row")
        columns = [ColumnSeen(name) for name in file.names]
        for number, row in file.rows():
            for column, text in zip(columns, row, strict=True):
                column.missing += (gap := is_missing(text))
                column.texts.update(() if gap else (text.strip(),))
                column.first_rows.setdefault(text.strip(), number)
    if not columns[0].texts and not columns[0].missing:
        raise DataError(f"{path}: has a header, {shown(columns[0].name)} and so on, but no rows; add rows below it")
    read = {mark: sum(column.is_number(mark) for column in columns) for mark in ("point", "comma")}
    return {each.name: each for each in columns}, "comma" if read["comma"] > read["point"] else "point"


@dataclass(frozen=True, kw_only=True)
class FirstScenario:
    """The text of the scenario, what is still to be declared in it, and what its owner should know."""

    text: str
    missing: tuple[str, ...]
    notes: tuple[str, ...] = ()


def parse_declared(asked: str) -> Column:
    """Return the column of ``NAME=LOWER,UPPER``, with its bounds, or of ``NAME=A|B``, with its categories."""
    name, _, rest = asked.rpartition("=")
    name, categories = name.strip(), tuple(part.strip() for part in rest.split("|"))
    if name and len(categories) > 1 and all(categories):
        return Column(name=name, categories=categories)
    try:
        lower, upper = (_NUMBER.check(name, float(number)) for number in rest.split(","))
    except ValueError:
        lower = upper = 0.0
    if not name or lower >= upper:
        raise ScenarioError(
            f"--column {shown(asked)}: must be NAME=LOWER,UPPER, the lower first, such as age=0,120, or NAME=A|B"
        )
    return Column(name=name, lower=lower, upper=upper)


def first_scenario(
    path: Path,
    *,
    labels: Sequence[str] = (),
    task: str = "classification",
    person: str = "",
    declared: Sequence[Column] = (),
    show_values: bool = False,
) -> FirstScenario:
    """Return a commented scenario for the file.

    Args:
        path: the file.
        labels: columns to learn; where none, one of a usual name, or the last.
        task: what to learn.
        person: the column that says who a row is of.
        declared: what the user knows of columns beforehand.
        show_values: let errors quote cells.
    """
    if path.suffix.lower() not in SEPARATED:
        raise DataError(
            f"{path}: must be a .csv or .tsv file; for arrays use --preset private-table (or private-images) with "
            "--set workers.dataset=FILE.npz"
        )
    labels, known = tuple(labels), {column.name: column for column in declared}
    columns, decimal = _look_at(path)
    names, classes = list(columns), task == "classification"
    labels = labels or (next((name for name in names if name.lower() in _USUAL_LABELS), names[-1]),)
    others = (*labels, person) if person else labels
    for name in (*others, *known):
        find_column(name, names, path, "--label, --labels, --person and --column")
    if len(set(others)) < len(others):
        raise ScenarioError("--label, --labels and --person: name each column once")
    if classes and len(labels) > 1:
        raise ScenarioError('--labels: several columns need --task "multi-label" (yes or no each) or --task regression')
    if task != "regression" and (bounded := [name for name in labels if name in known]):
        raise ScenarioError(f"--column {shown(bounded[0])}: is the label, which has bounds only with --task regression")
    possible = [name for name in names if name not in others]
    reasons = {name: columns[name].why_left_out(decimal) for name in possible if name not in known}
    left_out = {name: why for name, why in reasons.items() if why}
    inputs = [name for name in possible if name not in left_out]
    if not inputs:
        why = "".join(f"; column {shown(name)} {each}" for name, each in left_out.items())
        raise DataError(f"{path}: no column but {shown(labels[0])} holds numbers or categories; add one{why}")
    found = [name for name in inputs if name not in known and not columns[name].is_number(decimal)]
    categories = {name: columns[name].categories for name in found}
    categories |= {name: known[name].categories for name in inputs if name in known and known[name].categories}
    numbers = [name for name in inputs if name not in categories]
    gaps = [name for name in numbers if columns[name].missing]
    found_classes: tuple[str, ...] = ()
    if classes:
        every = [*columns[labels[0]].texts.elements()]
        number = partial(number_classes, every, str(path), regression="--task regression")
        found_classes = hide_values(number, "the owner sees them with --show-values", hide=not show_values)[1]
    single = f"label_column = {toml_value(labels[0])}" + ("  # the class of a row" if classes else "")
    bounds = {name: f"[{known[name].lower}, {known[name].upper}]" for name in numbers if name in known}
    title = "".join(character if character.isalnum() or character in "-_." else "-" for character in path.stem)
    lines = [
        f"# Rows of {path.name}. Of their values only the classes and categories are in here: check them.",
        'extends = "private-table"',
        f"name = {toml_value(title.strip(' .-'))}",
        "",
        "[workers]",
        f"dataset = {toml_value(str(path))}  # relative to the folder in which you call airmix",
        *(['decimal = "comma"'] if decimal == "comma" else []),
        *([f"worker_column = {toml_value(person)}  # all rows of one are one worker's"] if person else []),
        *(f"# left out: {toml_value(name)}, which {why.partition(_ROW)[0]}" for name, why in left_out.items()),
        single if len(labels) == 1 else f"label_columns = {toml_value(labels)}",
        "feature_columns = [",
        *(f"    {toml_value(name)}," for name in inputs),
        "]",
        *(_MISSING_EXPLAINED if gaps else ()),
        *(
            (*_CLASSES_EXPLAINED, f"classes = {toml_value(found_classes)}  # add those that no row has")
            if classes
            else ()
        ),
        *(_UNLABELLED if classes and columns[labels[0]].missing else ()),
        *_task_lines(task, [known[name] for name in labels if name in known], len(labels)),
        *_BOUNDS_EXPLAINED,
        "[workers.bounds]",
        *(
            f"{'' if name in bounds else '# '}{toml_value(name)} = {bounds.get(name, '[LOWER, UPPER]')}"
            for name in numbers
        ),
        *(_CATEGORIES_EXPLAINED if categories else ()),
        *(f"{toml_value(name)} = {toml_value(each)}" for name, each in categories.items()),
    ]
    missing = [name for name in (*numbers, *(labels if task == "regression" else ())) if name not in known]
    notes = [f"column {shown(name)} is left out: it {why}" for name, why in left_out.items()]
    notes += [f"categories found in the rows of {', '.join(map(shown, found))}: check them"] if found else []
    filled = "they count as the middle of the bounds"
    notes += [f"missing numbers in {', '.join(map(shown, gaps))}: {filled}"] if gaps else []
    if any(finite_numbers([name]) is not None for name in names):
        notes.append(
            "row 1 names columns by numbers: if it is a row of data, put a header row above it and start again"
        )
    return FirstScenario(text="\n".join([*lines, *_END]) + "\n", missing=tuple(missing), notes=tuple(notes))


_BOUNDS_EXPLAINED: Final = (
    "",
    "# Public bounds: what you know of an input without these data, such as the range of a sensor or of a scale.",
    "# Do not measure them on the data: that would leak rows. Values outside are clipped; bounds that are far too wide",
    "# cost accuracy. Replace LOWER and UPPER, and remove the # in front of the line.",
)
_END: Final = ("", "[privacy]", "epsilon = 1.0", "delta = 0.0  # a tenth of 1 / rows")
_CLASSES_EXPLAINED: Final = (
    "",
    "# Public classes, found in the file. All will be in the model: merge one that could name a person.",
)
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


def _task_lines(task: str, known: Sequence[Column], targets: int) -> list[str]:
    """Return the task where it is not classification; of a regression the bounds of its targets too."""
    if task != "regression":
        return [] if task == "classification" else [f'task = "{task}"']
    mark, lower, upper = "# ", "[LOWER]", "[UPPER]"
    if len(known) == targets:
        mark, (lower, upper) = "", map(toml_value, zip(*((each.lower, each.upper) for each in known), strict=True))
    explained = "# public bounds of what is learnt, likewise"
    return ['task = "regression"', f"{mark}target_lower = {lower}  {explained}", f"{mark}target_upper = {upper}"]
