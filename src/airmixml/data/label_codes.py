"""How a label is sent: numbers of Euclidean norm at most 1, whatever the label, and what scores of them mean.

The norm bounds what a label can move, so the privacy guarantee rests on it. A class is sent as a one-hot vector, or as
that less its mean. The targets of a regression are scaled by *declared* bounds to [-1, 1] / sqrt(targets); of several
labels each is sent as -1 or 1 over sqrt(labels). Two one-hot labels never point apart; the others may point to opposite
sides (``signed``).
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from airmixml.arrays import Doubles, Singles


class LabelCode(Protocol):
    """Turns labels as the data set has them into what is sent, and scores of a learner back."""

    task: ClassVar[str]

    def coded(self, labels: NDArray[Any]) -> Singles:
        """Return what is sent of each label, of norm at most 1; samples x outputs."""

    def decoded(self, scores: Doubles) -> NDArray[Any]:
        """Return labels, as the data set has them, from a learner's scores; samples x outputs."""

    def clipped(self, labels: NDArray[Any]) -> int:
        """Return how many numbers of the labels lie outside the declared bounds."""
        return 0


@dataclass(frozen=True)
class OneHot(LabelCode):
    """A class as a vector with a single 1; labels are class numbers, shape samples."""

    task: ClassVar[str] = "classification"
    classes: int

    def coded(self, labels: NDArray[Any]) -> Singles:
        """Return one-hot vectors, and zeros for a label that is ``ABSENT``; samples x classes."""
        return np.asarray(np.eye(self.classes + 1, self.classes, dtype=np.float32)[labels])  # the last row is of zeros

    def decoded(self, scores: Doubles) -> NDArray[Any]:
        """Return the class with the highest score; shape samples."""
        return np.asarray(scores.argmax(axis=1))


@dataclass(frozen=True)
class Centred(OneHot):
    """A one-hot vector less 1 / classes, brought to norm 1: all of it tells classes apart."""

    def coded(self, labels: NDArray[Any]) -> Singles:
        """Return centred vectors, and zeros for a label that is ``ABSENT``; samples x classes."""
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
    count: int

    def coded(self, labels: NDArray[Any]) -> Singles:
        """Return 1 / sqrt(labels) where a label holds, and minus that elsewhere."""
        largest = _largest(self.count)
        return np.where(np.asarray(labels) > 0.5, largest, -largest)

    def decoded(self, scores: Doubles) -> NDArray[Any]:
        """Return 1 where the score is positive: the label is then likelier to hold than not."""
        return np.asarray(np.asarray(scores) > 0.0, dtype=np.int64)


@dataclass(frozen=True)
class Bounded(LabelCode):
    """Targets between declared bounds, one pair for each; labels are in the targets' own units, samples x targets."""

    task: ClassVar[str] = "regression"
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
        """Return how many targets lie outside their bounds."""
        return int(np.count_nonzero((labels < np.asarray(self.lower)) | (labels > np.asarray(self.upper))))

    def _bounds(self) -> tuple[Doubles, Doubles]:
        lower = np.asarray(self.lower, dtype=np.float64)
        return lower, np.asarray(self.upper, dtype=np.float64) - lower


def _largest(outputs: int) -> np.float32:
    """Return the largest float32 c with outputs c^2 <= 1."""
    largest = np.float32(1.0 / math.sqrt(outputs))
    return largest if outputs * float(largest) ** 2 <= 1.0 else np.nextafter(largest, np.float32(0.0))
