"""What an adversary without a schedule received, and the truth that judges what it makes of it."""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Self

import numpy as np
import torch

from airmixml.arrays import Doubles, Integers
from airmixml.attacks.target import ServerView
from airmixml.scenario import Speed

_TINY: Final = 1e-30
# The loud ones are few and far apart: they have levels of their own.
_SHARES_BELOW: Final = (0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0)
_ALIKE: Final = 1.1


@dataclass(frozen=True, kw_only=True, eq=False)
class Amplitudes:
    """How strongly a worker that sends is received: places and ratios are unknown, their distribution is not."""

    taking_part: float  # probability that a worker sends in a slot
    levels: tuple[float, ...]  # amplitudes, in units of what is sent
    shares: tuple[float, ...]  # how many of those who send are received with each level
    alike: bool  # whether a worker has the same amplitude in all its slots

    @classmethod
    def of(cls, squared: Doubles, workers: int, *, alike: bool) -> Self:
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

    """

    symbols: torch.Tensor  # slots x symbols, real where phases were turned to be in line, or else complex
    noise: Doubles  # variance of the noise on a symbol, E |n|^2; slots
    total_power: float | None  # sum of the squared amplitudes in a slot; None where only the energy tells it
    amplitudes: Amplitudes  # of a worker that sends
    strength: Doubles  # of all that each worker sent, over the noise: truth, which is not known; workers
    mixtures: torch.Tensor  # of inputs; rows x inputs, real or complex. Rows are slots, or slots and classes
    labels: Doubles  # mixtures of labels; rows x classes, no column where no label is sent by itself
    strongest_worker: Integers  # in each mixture, -1 for nobody; rows
    noise_energy: Doubles | None = None  # expected ||noise||^2 of each mixture, where slots differ; rows
    label_weights: Doubles | None = None  # how well the labels of each slot were received; None: all alike
    known_scale: bool = True  # whether mixtures come in the scale in which they were sent
    beside: int | None = None  # the worker that the adversary stands beside

    @property
    def classes(self) -> int:
        """Rows of a slot."""
        return len(self.mixtures) // len(self.symbols)


def hear_release(view: ServerView, _speed: Speed | None = None) -> Received:
    """Return the mixtures as they are released, without schedule and ratios."""
    mixtures, slots, moments = view.released, len(view.symbols), view.signal.moments
    classes = view.signal.classes if moments else 1
    weights, label_weight = view.matrix.weights[:slots], view.scenario.workers.label_weight
    scheduled, ratios = (
        np.concatenate([getattr(draws, name) for draws in view.draws])[:slots]
        for name in ("scheduled_workers", "ratios")
    )
    squares, some = np.square(ratios), np.square(view.draws[0].ratios)
    strength = np.zeros(view.scenario.workers.count)
    np.add.at(strength, scheduled, squares * weights[:, None])
    noise = 1.0 / np.maximum(weights, _TINY)
    precision = weights.repeat(classes) * (label_weight**2 if moments else 1.0)
    return Received(
        symbols=view.symbols,
        noise=noise,
        total_power=float(some.sum(axis=1).mean()),
        amplitudes=Amplitudes.of(some, len(strength), alike=slots == 1),
        strength=strength,
        mixtures=mixtures,
        labels=view.labels.double().cpu().numpy(),
        strongest_worker=strongest_workers(scheduled, ratios, view.dataset.train_labels[view.held_index], classes),
        noise_energy=mixtures.shape[1] / np.maximum(precision, _TINY),
        # Variance of a slot's labels about the population's shares: its noise, and who was drawn.
        label_weights=None if moments else 1.0 / (noise / label_weight**2 + squares.sum(axis=1)),
    )


def strongest_workers(scheduled: Integers, strength: Doubles, labels: Integers, classes: int) -> Integers:
    """Return whose strength (slots x scheduled) is largest in each slot, -1 where all are 0; (slots classes).

    More than one class says that the workers of each class, by ``labels`` of all workers, are a mixture of their own.
    """
    if classes > 1:
        mine = labels[scheduled][:, None, :] == np.arange(classes)[:, None]
        strength = np.where(mine, strength[:, None, :], 0.0).reshape(-1, strength.shape[1])
        scheduled = scheduled.repeat(classes, axis=0)
    seat = strength.argmax(axis=1)[:, None]
    worker, largest = (np.take_along_axis(part, seat, axis=1)[:, 0] for part in (scheduled, strength))
    return np.where(largest > 0.0, worker, -1)
