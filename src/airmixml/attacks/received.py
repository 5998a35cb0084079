"""What an adversary without a schedule received, and the truth that judges what it makes of it."""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, Self

import numpy as np
import torch
from numpy.typing import NDArray

NUMBERS_KEPT: Final = 1 << 24
# The loud ones are few and far apart: they have levels of their own.
_SHARES_BELOW: Final = (0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0)
_ALIKE: Final = 1.1


@dataclass(frozen=True, kw_only=True, eq=False)
class Amplitudes:
    """How strongly a worker that sends is received. Places and ratios of others are unknown, their distribution is not.

    Attributes:
        taking_part: probability that a worker sends in a slot.
        levels: amplitudes, in units of what is sent; shape levels.
        shares: how many of those who send are received with each; shape levels.
        alike: whether a worker has the same amplitude in all its slots.
    """

    taking_part: float
    levels: tuple[float, ...]
    shares: tuple[float, ...]
    alike: bool

    @classmethod
    def of(cls, squared: NDArray[np.float64], workers: int, *, alike: bool) -> Self:
        """Sum up squared amplitudes, 0 for those who do not send (slots x scheduled), of a run of so many workers."""
        sent = np.sort(squared[squared > 0.0])
        if not len(sent):
            return cls(taking_part=0.0, levels=(0.0,), shares=(1.0,), alike=True)
        ends = np.unique(np.rint(len(sent) * np.array(_SHARES_BELOW)).astype(int))
        parts = [sent[first:last] for first, last in pairwise(ends)]
        if sent[-1] <= _ALIKE * sent[0]:
            parts = [sent]
        return cls(
            taking_part=min(1.0, len(sent) / len(squared) / workers),
            levels=tuple(math.sqrt(part.mean()) for part in parts),
            shares=tuple(len(part) / len(sent) for part in parts),
            alike=alike or len(parts) == 1,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Received:
    """Mixtures as an adversary without a schedule received them.

    ``symbols`` are all that was sent. ``mixtures`` are of inputs: where moments are sent, every slot counts as many as
    there are classes, for the products of inputs and label are, class by class, mixtures of the inputs of that class's
    workers.

    Attributes:
        symbols: slots x symbols, real where phases were turned to be in line, or else complex.
        noise: variance of the noise on a symbol, E |n|^2; slots.
        crowd: sum of the squared amplitudes of all who send in a slot; None where it must be told from the energy.
        amplitudes: of a worker that sends.
        strength: of all that each worker sent, over the noise; truth, which the adversary does not know; workers.
        mixtures: of inputs; rows x inputs, real or complex. Rows are slots, or slots and classes.
        labels: mixtures of labels; rows x classes, or no column where no label is sent by itself.
        strongest_worker: who is strongest in each, -1 for nobody; rows.
        noise_energy: expected ||noise||^2 of each mixture, where slots differ in it; rows.
        label_weights: how well the labels of each slot were received; rows. None: all alike.
        known_scale: whether mixtures come in the scale in which they were sent.
        beside: the worker that the adversary stands beside; None for none.
    """

    symbols: torch.Tensor
    noise: NDArray[np.float64]
    crowd: float | None
    amplitudes: Amplitudes
    strength: NDArray[np.float64]
    mixtures: torch.Tensor
    labels: NDArray[np.float64]
    strongest_worker: NDArray[np.int64]
    noise_energy: NDArray[np.float64] | None = None
    label_weights: NDArray[np.float64] | None = None
    known_scale: bool = True
    beside: int | None = None

    @property
    def classes(self) -> int:
        """Rows of a slot."""
        return len(self.mixtures) // len(self.symbols)


def slots_kept(slots: int, symbols: int) -> int:
    """Return how many slots of so many symbols are looked at, since all are kept in memory; at least one."""
    return max(1, min(slots, NUMBERS_KEPT // symbols))


def rows_of_classes(labels: torch.Tensor, features: int, classes: int) -> torch.Tensor:
    """Return products with labels (slots x features classes) as mixtures of each class; (slots classes) x features."""
    return labels.reshape(-1, features, classes).transpose(1, 2).reshape(-1, features)


def strongest_workers(
    scheduled: NDArray[np.int64], strength: NDArray[np.float64], labels: NDArray[np.int64], classes: int
) -> NDArray[np.int64]:
    """Return whose strength (slots x scheduled) is largest in each slot, -1 where all are 0; (slots classes).

    More than one class says that the workers of each class, by ``labels`` of all workers, are a mixture of their own.
    """
    if classes > 1:
        strength = _by_class(strength, labels[scheduled], classes)
        scheduled = scheduled.repeat(classes, axis=0)
    seat = strength.argmax(axis=1)[:, None]
    worker, largest = (np.take_along_axis(part, seat, axis=1)[:, 0] for part in (scheduled, strength))
    return np.where(largest > 0.0, worker, -1)


def _by_class(values: NDArray[Any], labels: NDArray[np.int64], classes: int) -> NDArray[Any]:
    """Return the values of each class's workers, 0 for the others, class after class; (slots classes) x scheduled."""
    mine = labels[:, None, :] == np.arange(classes)[:, None]
    return np.asarray(np.where(mine, values[:, None, :], 0.0).reshape(-1, values.shape[1]))
