"""Whether one slot or rounds, and how many features, serve images: by accuracies that were measured on public sets.

Features of images cannot be tried on synthetic ones: what is learned from them depends on what images look like. So the
expectation rests on MNIST (encoder ``gradients``), Fashion-MNIST and digits (``cells``), measured with several numbers
of features and rounds against noise (``image_accuracies.csv``, by benchmarks/measure_image_designs.py). Of a scenario
the noise is what its privacy target, masks and air leave, as one number: the standard deviation on a symbol of the
mean over the longest vector that a worker can send, all slots taken together. No data is read. Other images have other
accuracies, but about the same order of designs.
"""

import csv
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from importlib.resources import files
from itertools import product
from typing import Final, NamedTuple

import numpy as np

from airmixml.arrays import Doubles
from airmixml.planning.design_search import NoisyDesign, TableDesign, Trial, TriedDesign
from airmixml.radio.system import System
from airmixml.radio.tally import placed_distances
from airmixml.scenario import Scenario

_AS_NEAREST: Final = 2.0
_FEWER_THAN_MEASURED: Final = 0.5  # with fewer workers than were measured, images lack rows and not only noise


class MeasuredSet(NamedTuple):
    """A public set that was measured with an encoder and so many workers."""

    encoder: str
    dataset: str
    workers: int


class Curve(NamedTuple):
    """Accuracies against noise, of a number of features and of rounds."""

    log_noise: Doubles  # ascending; shape levels
    accuracies: Doubles  # levels x seeds

    def at(self, noise: float) -> Doubles:
        """Return the accuracy of each seed with this noise; with less than was measured, as with the least."""
        return np.array([np.interp(math.log(noise), self.log_noise, seed) for seed in self.accuracies.T])


Curves = dict[tuple[int, int], Curve]
"""By number of features and rounds."""


@cache
def measured() -> dict[MeasuredSet, Curves]:
    """Return all that was measured."""
    levels: dict[MeasuredSet, dict[tuple[int, int], list[list[float]]]] = defaultdict(lambda: defaultdict(list))
    with files("airmixml.planning").joinpath("image_accuracies.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            name = MeasuredSet(row["encoder"], row["dataset"], int(row["workers"]))
            accuracies = [float(each) for each in row["accuracies"].split()]
            levels[name][int(row["features"]), int(row["rounds"])].append([math.log(float(row["noise"])), *accuracies])
    return {name: {key: _curve(found) for key, found in curves.items()} for name, curves in levels.items()}


def _curve(levels: list[list[float]]) -> Curve:
    table = np.array(sorted(levels))
    return Curve(table[:, 0], table[:, 1:])


def nearest_set(scenario: Scenario) -> MeasuredSet | None:
    """Return the set that was measured with the scenario's encoder and the nearest number of workers, if any was."""
    some = (each for each in measured() if each.encoder == scenario.workers.encoder)
    return min(some, key=lambda each: abs(math.log(each.workers / scenario.workers.count)), default=None)


class ImageTrial(Trial):
    """What designs are expected to reach, by what was measured on one set."""

    worth = 0.001  # a longer time on the air is worth that much

    def __init__(self, scenario: Scenario, dimensions: tuple[int, int], name: MeasuredSet) -> None:
        """Take the dimensions of the scenario's own encoded inputs and of labels."""
        super().__init__(scenario)
        self.inputs, self.classes = dimensions
        self.rows, self.fewest_workers = name.workers, _FEWER_THAN_MEASURED * name.workers
        self.told = f"{name.dataset} ({name.workers:,} workers, encoder {name.encoder})"
        self.times, self._curves = f"runs on {name.dataset}", measured()[name]
        self._distance_metres, self._constant = placed_distances(scenario), int(scenario.workers.constant > 0.0)

    def candidates(self) -> Iterator[TableDesign]:
        """Yield the scenario's design, and it with every other number of features and rounds that was measured."""
        own = TableDesign.of(self.scenario)
        yield own
        for features, rounds in product(*(sorted(set(each)) for each in zip(*self._curves, strict=True))):
            kept = own.features if features == self.inputs - self._constant else features
            design = replace(own, features=kept, rounds=rounds)
            if design != own:
                yield design

    def of(self, designs: Iterable[TableDesign]) -> list[TriedDesign]:
        """Return what designs reach, but for those with more noise, or far other features, than was measured."""
        return [found for found in map(self._expected, designs) if found is not None]

    def _expected(self, design: TableDesign) -> TriedDesign | None:
        aired = design.applied_to(self.scenario)
        features = design.features or self.inputs - self._constant
        accuracies = self._between(features, design.rounds, self._noise(aired, features))
        if accuracies is None:
            return None
        system = System.of(aired, features + self._constant, self.classes)
        return TriedDesign(
            design=design,
            accuracies=tuple(accuracies.tolist()),
            uplink_symbols=system.uplink_symbols,
            air_seconds=system.air_seconds,
        )

    def _noise(self, aired: Scenario, features: int) -> float:
        """Return the noise of all slots together, as if all were one."""
        noisy = NoisyDesign.of(aired, features, self.classes, self._distance_metres)
        longest = noisy.signal.largest_squared_norm(aired.workers.clip_norm**2)
        return 1.0 / math.sqrt(longest / noisy.variance + aired.learner.rounds * longest / noisy.round_variance)

    def _between(self, features: int, rounds: int, noise: float) -> Doubles | None:
        """Return the accuracy of each seed, between what was measured; None with more noise, or far other features.

        Up to a factor of two beyond the measured numbers of features they count as the nearest.
        """
        counts = sorted({each for each, _ in self._curves})
        if not counts[0] / _AS_NEAREST <= features <= counts[-1] * _AS_NEAREST:
            return None
        features = min(max(features, counts[0]), counts[-1])
        below = max(each for each in counts if each <= features)
        above = min(each for each in counts if each >= features)
        ends = [self._with_rounds(each, rounds, noise) for each in (below, above)]
        if ends[0] is None or ends[1] is None:
            return None
        part = 0.0 if below == above else math.log(features / below) / math.log(above / below)
        return np.asarray((1.0 - part) * ends[0] + part * ends[1])

    def _with_rounds(self, features: int, rounds: int, noise: float) -> Doubles | None:
        """Return the accuracy of each seed with so many features; more rounds than were measured gain nothing."""
        known = sorted(each for count, each in self._curves if count == features)
        if math.log(noise) > self._curves[features, known[0]].log_noise[-1] + 1e-3:
            return None
        at = np.stack([self._curves[features, each].at(noise) for each in known])
        return np.array([np.interp(math.log1p(rounds), np.log1p(known), seed) for seed in at.T])
