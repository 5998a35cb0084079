"""Labels: as a user's data have them, with who holds rows, and as they are sent, with what scores of them mean.

What is sent is numbers of Euclidean norm at most 1, whatever the label. The norm bounds what a label can move, so the
privacy guarantee rests on it. A class is sent as a one-hot vector, or as that less its mean. The targets of a
regression are scaled by *declared* bounds to [-1, 1] / sqrt(targets); of several labels each is sent as -1 or 1 over
sqrt(labels). Two one-hot labels never point apart; the others may point to opposite sides (``signed``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from airmixml.arrays import Doubles, Integers, Singles
from airmixml.messages import DataError, ScenarioError, private, shown
from airmixml.names import normal_name

if TYPE_CHECKING:
    from airmixml.scenario import Workers

_MOST_CLASSES = 10_000
_SURELY_CLASSES = 20  # up to so many different values are taken for classes, whatever they look like
_MOST_SINGLE = 0.25  # numbers of which a larger share occurs only once are measured values
_YES, _NO = ("1", "1.0", "true", "yes"), ("0", "0.0", "false", "no")


ABSENT: Final = -1
"""The number of a label that is not among the declared classes: its row sends zeros."""


@dataclass(frozen=True, kw_only=True)
class DeclaredClasses:
    """Classes that are known without the data, and what becomes of a label that is not among them."""

    names: tuple[Any, ...]  # of the classes, in the order of their numbers
    absent: bool = False  # whether the row of another label counts as absent; else it is refused
    key: str = "workers.classes"  # what messages call the declaration
    rule: str = 'workers.unknown_labels = "absent"'  # how such rows are made absent, in words

    @classmethod
    def of(cls, workers: Workers) -> Self | None:
        """Return what a scenario declares; None: the classes are those that the rows hold."""
        return cls(names=workers.classes, absent=workers.unknown_labels == "absent") if workers.classes else None

    def numbers(self, labels: Sequence[Any], source: str, read: Callable[[Any], Any] = lambda label: label) -> Integers:
        """Return the class number of each label; ``read`` makes of names and labels what is compared."""
        place_of = {read(name): place for place, name in enumerate(self.names)}
        if len(place_of) < max(2, len(self.names)):
            raise ScenarioError(f"{self.key} = {shown(list(self.names))}: must name at least 2 classes, each once")
        numbers = np.fromiter((place_of.get(read(each), ABSENT) for each in labels), dtype=np.int64, count=len(labels))
        if not self.absent and (numbers == ABSENT).any():
            first = labels[int(np.argmax(numbers == ABSENT))]
            which = private(f"the label {shown(first)}", "a label")
            mend = f"correct it, declare its class, or count its row as absent by {self.rule}"
            raise DataError(f"{source}: {which} is not among {self.key}; {mend}")
        return numbers


def number_classes(
    labels: Sequence[str],
    source: str,
    declared: DeclaredClasses | None = None,
    *,
    regression: str = 'workers.task = "regression"',
) -> tuple[Integers, tuple[str, ...]]:
    """Return the class number of each label and the names of the classes, in order: as declared, or as found.

    ``regression`` is how a user asks to learn numbers.

    Classes are compared, and sorted where they are found, as numbers if all of them are ("1" and "1.0" are then one
    class), else as text.
    """
    if len(labels) < 2:
        raise DataError(f"{source}: has {len(labels)} samples: must have at least 2, one to train and one to test on")
    if declared is not None:
        numeric = None not in map(_number, declared.names)
        return declared.numbers(labels, source, read=_number if numeric else str), declared.names
    value_of: dict[str, Any] = {text: _number(text) for text in dict.fromkeys(labels)}
    if None in value_of.values():
        value_of = {text: text for text in value_of}
    for value in value_of.values():
        if isinstance(value, float) and not math.isfinite(value):
            which = private(f"the label {value}", "a label")
            raise DataError(f"{source}: {which} is no class; remove the samples without a proper label")
    distinct = sorted(set(value_of.values()))
    names = tuple(_name(value) for value in distinct)
    place_of = {value: place for place, value in enumerate(distinct)}
    numbers = np.fromiter((place_of[value_of[label]] for label in labels), dtype=np.int64, count=len(labels))
    numeric = not isinstance(distinct[0], str)
    fractional = any(isinstance(value, float) and not value.is_integer() for value in distinct)
    if len(names) < 2:
        same = private(f"label {shown(names[0])}", "same label")
        raise DataError(f"{source}: all {len(labels)} samples have the {same}: must have at least 2 classes")
    if look_measured(np.bincount(numbers), numeric=numeric, fractional=fractional):
        raise DataError(
            f"{source}: {private(f'{len(names)} ')}different labels in {len(labels)} samples"
            f"{private(f', such as {shown(names[0])}')}: labels must be classes, not measured values or identifiers; "
            f"choose another label column, sort the values into classes, or learn to predict numbers by {regression}"
        )
    return numbers, names


def look_measured(counts: Integers, *, numeric: bool, fractional: bool) -> bool:
    """Whether labels look like measured values or identifiers rather than classes.

    ``counts`` says how often each different label occurs; ``numeric``: all are numbers, ``fractional``: some not whole.
    """
    different = len(counts)
    single = numeric and np.count_nonzero(counts == 1) > _MOST_SINGLE * different
    measured = fractional or single or different > min(counts.sum() / 2, _MOST_CLASSES)
    return bool(measured and different > _SURELY_CLASSES)


def read_yes_and_no(texts: Sequence[str]) -> list[float] | None:
    """Return 1 for each label that holds and 0 for each that does not; None where a text says neither."""
    lowered = [text.strip().lower() for text in texts]
    if any(text not in _YES + _NO for text in lowered):
        return None
    return [float(text in _YES) for text in lowered]


def check_outputs(labels: Doubles, task: str, source: str) -> Doubles:
    """Return targets, or labels of 0 and 1, samples x outputs; refuse what a learner could not learn."""
    if len(labels) < 2:
        raise DataError(f"{source}: has {len(labels)} samples: must have at least 2, one to train and one to test on")
    if labels.shape[1] == 0:
        raise DataError(f"{source}: labels have no columns: must have one for each target or label")
    if not np.isfinite(labels).all():
        row, column = np.argwhere(~np.isfinite(labels))[0].tolist()
        which = private(f"labels[{row}, {column}] is {labels[row, column]}", "a label is missing or infinite")
        raise DataError(f"{source}: {which}: must be finite; fill it in")
    if task == "multi-label" and not np.isin(labels, (0.0, 1.0)).all():
        row, column = np.argwhere(~np.isin(labels, (0.0, 1.0)))[0].tolist()
        which = private(f"labels[{row}, {column}] is {labels[row, column]:g}", "a label is another number")
        raise DataError(f'{source}: {which}: must be 0 or 1 for workers.task = "multi-label"')
    return labels


def number_holders(holders: Sequence[str] | NDArray[Any], source: str) -> tuple[Integers, tuple[str, ...]]:
    """Return who holds each row, numbered by sorted names as ``normal_name`` spells them, and these names."""
    given = np.asarray(holders)
    if given.dtype == object:  # numbers and texts side by side have no order
        given = np.array([_name(each) for each in given.tolist()])
    values, numbers = np.unique(given, return_inverse=True)
    place_of: dict[str, int] = {}
    places = [place_of.setdefault(normal_name(_name(each)), len(place_of)) for each in values.tolist()]
    if "" in place_of:
        raise DataError(f"{source}: a worker's name is empty; name the worker of every row")
    if len(place_of) < 2:
        raise DataError(f"{source}: all rows are of one worker: workers.worker_column must name at least 2")
    return np.array(places, dtype=np.int64)[numbers.reshape(-1)], tuple(place_of)


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


def _name(value: object) -> str:
    """Return a name as text, a whole number without a point; empty where there is none."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, float):
        value = (int(value) if value == math.floor(value) else repr(value)) if math.isfinite(value) else ""
    return "" if value is None else str(value)


class LabelCode(Protocol):
    """Turns labels as the data set has them into what is sent, and scores of a learner back."""

    task: ClassVar[str]
    leading: ClassVar[str]  # the one score that learning curves show; larger is better, and 1 is perfect

    def coded(self, labels: NDArray[Any]) -> Singles:
        """Return what is sent of each label, of norm at most 1; samples x outputs."""

    def decoded(self, scores: Doubles) -> NDArray[Any]:
        """Return labels, as the data set has them, from a learner's scores; samples x outputs."""

    def clipped(self, labels: NDArray[Any]) -> int:
        """Return how many numbers of the labels lie outside the declared bounds."""
        return 0

    def scores(self, predicted: ArrayLike, truth: ArrayLike, names: Sequence[str]) -> dict[str, float]:
        """Return all scores but the accuracy of classes; predictions and truth are samples x outputs."""
        return {}


@dataclass(frozen=True)
class OneHot(LabelCode):
    """A class as a vector with a single 1; labels are class numbers, shape samples."""

    task: ClassVar[str] = "classification"
    leading: ClassVar[str] = "accuracy"
    classes: int

    def coded(self, labels: NDArray[Any]) -> Singles:
        """Return one-hot vectors, and zeros for a label that is ``ABSENT``; samples x classes."""
        return np.asarray(np.eye(self.classes + 1, self.classes, dtype=np.float32)[labels])  # the last row is of zeros

    def decoded(self, scores: Doubles) -> NDArray[Any]:
        return np.asarray(scores.argmax(axis=1))


@dataclass(frozen=True)
class Centred(OneHot):
    """A one-hot vector less 1 / classes, brought to norm 1: all of it tells classes apart."""

    def coded(self, labels: NDArray[Any]) -> Singles:
        return np.asarray(self._vectors[labels])

    @cached_property
    def _vectors(self) -> Singles:
        """What is sent of each class, rounded so that no norm exceeds 1, and zeros at last; (classes + 1) x classes."""
        centred = (np.eye(self.classes) - 1.0 / self.classes) / math.sqrt(1.0 - 1.0 / self.classes)
        return np.vstack([centred * (1.0 - 1e-7), np.zeros(self.classes)]).astype(np.float32)


@dataclass(frozen=True)
class Signs(LabelCode):
    """Several labels that hold or not, each sent as a sign; labels are 0 or 1, samples x labels."""

    task: ClassVar[str] = "multi-label"
    leading: ClassVar[str] = "labels_right"
    count: int

    def coded(self, labels: NDArray[Any]) -> Singles:
        largest = _largest(self.count)
        return np.where(np.asarray(labels) > 0.5, largest, -largest)

    def decoded(self, scores: Doubles) -> NDArray[Any]:
        """Return 1 where the score is positive: the label is then likelier to hold than not."""
        return np.asarray(np.asarray(scores) > 0.0, dtype=np.int64)

    def scores(self, predicted: ArrayLike, truth: ArrayLike, names: Sequence[str]) -> dict[str, float]:
        """Return shares of right labels and of samples with all labels right, and mean F1 (0 where there is none)."""
        said, held = np.asarray(predicted) > 0.5, np.asarray(truth) > 0.5
        right = said == held
        hits = (said & held).sum(axis=0)
        wanted = said.sum(axis=0) + held.sum(axis=0)
        return {
            "labels_right": float(right.mean()),
            "exact_match": float(right.all(axis=1).mean()),
            "macro_f1": float((2.0 * hits / np.maximum(wanted, 1)).mean()),
        }


@dataclass(frozen=True)
class Bounded(LabelCode):
    """Targets between declared bounds, one pair for each; labels are in the targets' own units, samples x targets."""

    task: ClassVar[str] = "regression"
    leading: ClassVar[str] = "r2"
    lower: tuple[float, ...]
    upper: tuple[float, ...]

    def coded(self, labels: NDArray[Any]) -> Singles:
        """Return targets scaled from their bounds to [-1, 1] / sqrt(targets); those outside are clipped."""
        lower, width = self._bounds()
        inside = np.clip(np.asarray(labels, dtype=np.float64), lower, lower + width)
        largest = _largest(len(self.lower))
        # Rounded to float32 after it was clipped to a float32: so no number is rounded beyond the largest.
        scaled = (2.0 * (inside - lower) / width - 1.0) * float(largest)
        return np.clip(scaled, -largest, largest).astype(np.float32)

    def decoded(self, scores: Doubles) -> NDArray[Any]:
        """Return targets in their own units, none outside its bounds: no target lies there."""
        lower, width = self._bounds()
        unit = np.clip(np.asarray(scores, dtype=np.float64) / float(_largest(len(self.lower))), -1.0, 1.0)
        return np.asarray(lower + (unit + 1.0) / 2.0 * width)

    def clipped(self, labels: NDArray[Any]) -> int:
        return int(np.count_nonzero((labels < np.asarray(self.lower)) | (labels > np.asarray(self.upper))))

    def scores(self, predicted: ArrayLike, truth: ArrayLike, names: Sequence[str]) -> dict[str, float]:
        """Return R^2 (the mean over targets), root mean square and mean absolute error in each target's own units."""
        true = np.asarray(truth, dtype=np.float64)
        errors = np.asarray(predicted, dtype=np.float64) - true
        squares = np.square(errors).mean(axis=0)
        spread = np.square(true - true.mean(axis=0)).mean(axis=0)
        # A target that does not vary leaves nothing to explain: 1 where it is hit, else 0.
        explained = np.where(spread > 0.0, 1.0 - squares / np.where(spread > 0.0, spread, 1.0), squares == 0.0)
        rmse, mae = np.sqrt(squares), np.abs(errors).mean(axis=0)
        scores = {"r2": float(explained.mean())}
        if len(names) == 1:
            return {**scores, "rmse": float(rmse[0]), "mae": float(mae[0])}
        for kind, values in (("r2", explained), ("rmse", rmse), ("mae", mae)):
            scores |= {f"{kind}.{name}": float(value) for name, value in zip(names, values, strict=True)}
        return scores

    def _bounds(self) -> tuple[Doubles, Doubles]:
        lower = np.asarray(self.lower, dtype=np.float64)
        return lower, np.asarray(self.upper, dtype=np.float64) - lower


def _largest(outputs: int) -> np.float32:
    """Return the largest float32 c with outputs c^2 <= 1."""
    largest = np.float32(1.0 / math.sqrt(outputs))
    return largest if outputs * float(largest) ** 2 <= 1.0 else np.nextafter(largest, np.float32(0.0))
