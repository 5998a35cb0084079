"""What a data set is as it is read and once workers can send it: inputs scaled to [0, 1] by the declared bounds."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from airmixml.arrays import Doubles, ImageShape, Integers, Singles
from airmixml.data.labels import ABSENT, LabelCode, OneHot
from airmixml.messages import BoundsWarning, DataError, PluginError, ScenarioError, shown
from airmixml.progress import Progress
from airmixml.registries import DATASETS
from airmixml.scenario.tables import OWN_FILES


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


@dataclass(frozen=True, kw_only=True)
class RawData:
    """Samples as their source has them: inputs and targets in their own units, classes already as numbers."""

    inputs: NDArray[Any]  #: samples x features, of any real type
    #: Samples, each 0 .. classes - 1; other tasks: samples x targets, or samples x labels of 0 and 1.
    labels: NDArray[Any]
    #: One per class, in the order of the label numbers; other tasks: one per target or label.
    class_names: tuple[str, ...]
    name: str = ""  #: what messages call the data set
    image_shape: ImageShape = None  #: shape of an input that is an image or a series (``airmixml.arrays``), else None
    lower: tuple[float, ...] = ()  #: public lower bound of each feature, or one for all; empty where none is known
    upper: tuple[float, ...] = ()  #: public upper bounds, likewise
    test_inputs: NDArray[Any] | None = None  #: inputs of the source's own test set, where it has one
    test_labels: NDArray[Any] | None = None  #: labels of the source's own test set, where it has one
    #: What the header calls the features, in their order; empty where there is no header.
    feature_names: tuple[str, ...] = ()
    #: Of a table with declared categories or missing values: the columns that the features are made of.
    columns: tuple[Column, ...] = ()
    #: Number of the worker that holds each sample, 0 .. workers - 1, where the source says so; samples.
    holders: Integers | None = None
    holder_names: tuple[str, ...] = ()  #: what the source calls these workers, in the order of their numbers
    #: Public lower bound of each target of a regression, or one for all; empty where none is known.
    target_lower: tuple[float, ...] = ()
    target_upper: tuple[float, ...] = ()  #: public upper bounds, likewise


@dataclass(frozen=True, kw_only=True)
class KnownDataSet:
    """A data set with a name: its public facts, written down and never measured at run time, and how to read it.

    The bounds are those of public data. They are no example for your own: bounds taken from private samples depend on
    what one worker holds, and the privacy guarantee would not cover them.

    For planning only: ``scaled_mean`` is the root mean square, over the inputs, of their means over the public samples
    scaled to [0, 1], ``scaled_deviation`` that of their standard deviations.
    """

    name: str
    about: str  #: what an input is, in one line
    train_samples: int  #: samples there are to draw the pool from
    test_samples: int = 0  #: size of the own test set; 0 where the data set has none and is split at random
    input_dim: int  #: d_X, numbers in an input
    label_dim: int  #: d_Y, number of classes
    lower: tuple[float, ...]  #: lower bound of each input, or a single one for all
    upper: tuple[float, ...]  #: upper bounds, likewise
    scaled_mean: float
    scaled_deviation: float
    load: Callable[[Path | None, Progress], RawData]  #: of the user's data folder, or None; downloads are reported
    image_shape: ImageShape = None  #: shape of an input that is an image or a series (``airmixml.arrays``), else None
    published: Any = None  #: its files and where they are fetched; None where it comes with a package
    #: What its labels are, as ``workers.task`` names it; ``label_dim`` then counts targets or labels.
    task: str = "classification"

    def read(self, data_dir: Path | None, progress: Progress) -> RawData:
        """Return its samples with the facts above, or refuse samples that contradict them."""
        raw = self.load(data_dir, progress)
        found = (raw.inputs.shape[1], len(raw.class_names))
        if found != (self.input_dim, self.label_dim):
            declared = f"but declares {self.input_dim} and {self.label_dim}; correct that data set"
            given = f"gives {found[0]} inputs and {found[1]} classes"
            raise PluginError(f"data set {shown(self.name)}: {given}, {declared}")
        return replace(raw, name=self.name, image_shape=self.image_shape, lower=self.lower, upper=self.upper)


def known_dataset(name: str) -> KnownDataSet | None:
    """Return the data set of that name, or None for a user's own file or a name that nobody knows."""
    if name.lower().endswith(OWN_FILES) or name not in DATASETS:
        return None
    known: KnownDataSet = DATASETS.load(name)
    return known


@dataclass(frozen=True, kw_only=True, eq=False)
class RowFormat:
    """A row as its source has it, before it is scaled and encoded; all of it is declared, nothing is measured."""

    width: int  #: numbers in a row
    lower: Doubles | None  #: declared lower bound of each number; None where rows are taken as they are
    upper: Doubles | None  #: declared upper bounds, likewise
    #: What the header calls the numbers, in their order; empty where there is no header.
    feature_names: tuple[str, ...] = ()
    image_shape: ImageShape = None  #: the shape of a row where it is an image, else None
    columns: tuple[Column, ...] = ()  #: of a table: what the numbers are made of, where they are not plain numbers
    decimal: str = "point"  #: of a table: its decimal mark

    def unknown_categories(self, rows: NDArray[Any]) -> dict[str, int]:
        """Return how many values of rows (samples x numbers) are no declared category, by column that has any."""
        ends = np.cumsum([len(column.features) for column in self.columns], dtype=np.int64)
        parts = zip(self.columns, np.split(rows, ends[:-1], axis=1) if self.columns else (), strict=True)
        counts = {each.name: int((~part.any(axis=1)).sum()) for each, part in parts if each.categories}
        return {name: count for name, count in counts.items() if count}


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """Training pool and clean test set, inputs in [0, 1], labels as class numbers or in the targets' own units.

    A sample whose class was not declared is ``ABSENT``: its worker sends zeros, as one that is not there would. Under
    remove-one neighbours that is the neighbour itself; a replacement moves more than from a sample to zeros.
    """

    name: str
    train_inputs: Singles  #: pool samples x input_dim; zeros where a sample is absent
    #: Pool samples, each 0 .. classes - 1 or ``ABSENT``; other tasks: pool samples x outputs.
    train_labels: NDArray[Any]
    test_inputs: Singles  #: test samples x input_dim
    test_labels: NDArray[Any]  #: test samples, likewise
    #: One per class, in the order of the label numbers; other tasks: one per target or label.
    class_names: tuple[str, ...]
    image_shape: ImageShape  #: shape of an input that is an image or a series (``airmixml.arrays``), else None
    clipped_values: int  #: how many input values lay outside the declared bounds and were clipped
    clipped_samples: int = 0  #: how many samples of the pool the encoder shortened to its norm
    held_dim: int = 0  #: numbers in an input before it was encoded; 0 where that is not known
    private_mean: Singles | None = None  #: what was subtracted from the inputs, where that was estimated over the air
    row_format: RowFormat | None = None  #: what the rows were before; None where that is not known
    code: LabelCode | None = None  #: how labels are sent; None: as one-hot vectors
    #: Who holds each sample of the pool, 0 .. workers - 1, where that is given; pool samples.
    holders: Integers | None = None
    #: Number of workers whose samples the test set is, those with a label of no declared class included; 0 where it is
    #: that of the labels.
    test_holders: int = 0
    own_test: bool = False  #: whether the test set came with the data, and was not split off at random

    def __post_init__(self) -> None:
        absent = self.absent
        if absent.any() and self.train_inputs[absent].any():  # here: also after whatever encoded them anew
            object.__setattr__(self, "train_inputs", np.where(absent[:, None], np.float32(0.0), self.train_inputs))

    @property
    def absent(self) -> NDArray[np.bool_]:
        """Which samples of the pool send zeros; pool samples."""
        if self.task != OneHot.task:
            return np.zeros(len(self.train_labels), dtype=bool)
        return np.asarray(self.train_labels == ABSENT)

    @property
    def label_code(self) -> LabelCode:
        """How labels are sent."""
        return self.code or OneHot(self.label_dim)

    @property
    def task(self) -> str:
        """What labels are, as ``workers.task`` names it."""
        return self.label_code.task

    @property
    def input_dim(self) -> int:
        """d_X, numbers in an input."""
        return int(self.train_inputs.shape[1])

    @property
    def label_dim(self) -> int:
        """d_Y, numbers in a label as it is sent: classes, targets or labels."""
        return len(self.class_names)

    @property
    def train_samples(self) -> int:
        """Samples in the pool that workers draw from."""
        return int(self.train_inputs.shape[0])

    @property
    def holdings(self) -> int:
        """What there is for workers to draw from: samples, or where it is given who holds them, these holders."""
        return self.train_samples if self.holders is None else int(self.holders.max(initial=-1)) + 1

    @property
    def public_counts(self) -> tuple[int, int]:
        """Samples of pool and test set; where people hold several, how many people, since only that is public."""
        return self.holdings, self.test_holders or len(self.test_labels)


_MOST: Final = 0.5
_MOST_NAMED: Final = 5
INPUT_KEYS: Final = ("workers.input_lower", "workers.input_upper")
TARGET_KEYS: Final = ("workers.target_lower", "workers.target_upper")


def declare_bounds(
    lower: Sequence[float],
    upper: Sequence[float],
    *,
    count: int,
    names: tuple[str, str] = INPUT_KEYS,
    columns: Sequence[str] = (),
    what: str = "input",
) -> tuple[Doubles, Doubles]:
    """Return lower and upper bounds with one entry for each input or target; one given value serves all.

    A complaint calls the two as ``names`` says, and names the column where ``columns`` has a name for each.
    """
    given = dict(zip(names, (lower, upper), strict=True))
    missing = [name for name, values in given.items() if len(values) == 0]
    if len(missing) == 2 and columns:
        named = ", ".join(map(shown, columns[:_MOST_NAMED])) + (", ..." if len(columns) > _MOST_NAMED else "")
        raise DataError(
            f"[workers.bounds] lacks {named}: write a line {shown(columns[0])} = [LOWER, UPPER] for each, there or in "
            "a file for --bounds, with what you know beforehand; bounds measured on private samples would leak them"
        )
    if missing:
        raise DataError(
            f"{' and '.join(missing)}: must be declared, one value for all {what}s or one for each of the {count}; "
            "bounds measured on private samples would leak them, so write down what you know beforehand"
        )
    for name, values in given.items():
        if len(values) not in (1, count):
            each = f"must have 1, which serves all {what}s, or {count}, one for each {what}"
            each += "; [workers.bounds] names them (categories have none)" if columns else ""
            raise ScenarioError(f"{name} has {len(values)} values: {each}")
    low, high = (np.array(np.broadcast_to(np.asarray(values, dtype=np.float64), (count,))) for values in given.values())
    with np.errstate(over="ignore", invalid="ignore"):  # overflow gives an infinite width, which is refused as well
        width = high - low
    wrong = np.flatnonzero(~((width > 0) & np.isfinite(width)))
    if wrong.size:
        place = int(wrong[0])
        which = f"column {shown(columns[place])}" if len(columns) == count else f"{what} {place + 1}"
        above = f"must be above {names[0]} = {low[place]:g}, at a finite distance; correct the two"
        raise ScenarioError(f"{names[1]} = {high[place]:g} for {which}: {above}")
    return low, high


def warn_of_clipping(clipped: int, values: int, name: str = " and ".join(INPUT_KEYS)) -> None:
    """Warn where bounds clip most values. Only for simulations: how many there are is private."""
    if clipped > _MOST * values:
        warnings.warn(
            f"{name}: {clipped:,} of {values:,} input values lie outside and were clipped; check the units and declare "
            "wider bounds",
            BoundsWarning,
            stacklevel=2,
        )


_VALUES_PER_BLOCK = 1 << 20


def scale_to_unit(inputs: NDArray[Any], lower: ArrayLike, upper: ArrayLike) -> tuple[Singles, int]:
    """Return the inputs scaled to [0, 1], and how many values lay outside the bounds and were clipped.

    Inputs are samples x features, finite, of any real type. Each feature has its bounds, or one pair serves all; lower
    ones lie below upper ones (``declare_bounds`` checks that).
    """
    lower_bounds, upper_bounds = as_stored(inputs.dtype, lower, upper)
    width = upper_bounds - lower_bounds
    scaled = np.empty(inputs.shape, dtype=np.float32)
    clipped = 0
    # In blocks, so that bytes never become one large array of float64.
    samples_per_block = max(1, _VALUES_PER_BLOCK // max(1, inputs.shape[1]))
    for start in range(0, inputs.shape[0], samples_per_block):
        stop = start + samples_per_block
        block = inputs[start:stop].astype(np.float64)
        clipped += int(np.count_nonzero(block < lower_bounds)) + int(np.count_nonzero(block > upper_bounds))
        # Clipped first: then the difference cannot overflow, and rounding leaves the quotient within [0, 1].
        np.clip(block, lower_bounds, upper_bounds, out=block)
        block -= lower_bounds
        block /= width
        scaled[start:stop] = block
    return scaled, clipped


def as_stored(dtype: np.dtype[Any], lower: ArrayLike, upper: ArrayLike) -> tuple[Doubles, Doubles]:
    """Return the bounds as the type of the inputs would store them.

    A float32 file stores 7.9 as 7.9000001; against the bound 7.9 that value would count as clipped though it
    lies on the bound.
    """
    lower_bounds, upper_bounds = (np.asarray(each, dtype=np.float64) for each in (lower, upper))
    if dtype.kind != "f":
        return lower_bounds, upper_bounds
    with np.errstate(over="ignore", under="ignore"):
        lower_stored, upper_stored = (each.astype(dtype).astype(np.float64) for each in (lower_bounds, upper_bounds))
    usable = (lower_stored < upper_stored) & np.isfinite(lower_stored) & np.isfinite(upper_stored)
    return np.where(usable, lower_stored, lower_bounds), np.where(usable, upper_stored, upper_bounds)
