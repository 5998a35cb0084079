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
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from importlib.resources import files
from itertools import product
from typing import Final, NamedTuple

import numpy as np

from airmixml.arrays import Doubles
from airmixml.planning.design_search import (
    DesignSearch,
    TableDesign,
    TriedDesign,
    sends_all_moments_at_once,
    simplest_of,
)
from airmixml.planning.table_trial import NoisyDesign
from airmixml.radio.system import System
from airmixml.radio.tally import placed_distances
from airmixml.scenario import Scenario

# A design is worth another one's longer time on the air only if it is more accurate by so much.
_WORTH_SYMBOLS: Final = 0.001
_AS_NEAREST: Final = 2.0


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
    workers = scenario.workers
    if workers.task != "classification" or not sends_all_moments_at_once(scenario):
        return None
    some = (each for each in measured() if each.encoder == workers.encoder)
    return min(some, key=lambda each: abs(math.log(each.workers / workers.count)), default=None)


def search_image_designs(
    scenario: Scenario, dimensions: tuple[int, int], *, max_air_seconds: float = math.inf
) -> DesignSearch | None:
    """Return what designs at the scenario's target are expected to give; None where nothing like it was measured.

    ``dimensions`` are those of the scenario's own encoded inputs and of labels.
    """
    name = nearest_set(scenario)
    if name is None:
        return None
    curves, expect = measured()[name], ImageExpectation(scenario, dimensions, name).of
    constant, own_design = int(scenario.workers.constant > 0.0), TableDesign.of(scenario)
    own = expect(own_design)
    if own is None:
        return None
    tried = [
        own,
        *(found for each in _designs(own_design, curves, dimensions[0] - constant) if (found := expect(each))),
    ]
    tried.sort(key=lambda each: -each.accuracy)
    return DesignSearch(
        own=own,
        best=simplest_of(tried, max_air_seconds, _WORTH_SYMBOLS),
        tried=tuple(tried),
        tables=len(own.accuracies),
        rows=name.workers,
        inputs=dimensions[0],
        classes=dimensions[1],
        max_air_seconds=max_air_seconds,
        measured_on=f"{name.dataset} ({name.workers:,} workers, encoder {name.encoder})",
        times=f"runs on {name.dataset}",
    )


class ImageExpectation:
    """What designs of a scenario are expected to reach, by what was measured on one set."""

    def __init__(self, scenario: Scenario, dimensions: tuple[int, int], name: MeasuredSet) -> None:
        self._scenario, self._dimensions, self._curves = scenario, dimensions, measured()[name]
        self._distance_metres, self._constant = placed_distances(scenario), int(scenario.workers.constant > 0.0)

    def of(self, design: TableDesign) -> TriedDesign | None:
        """Return what the design reaches; None with more noise, or far other features, than was measured."""
        aired, classes = design.applied_to(self._scenario), self._dimensions[1]
        features = design.features or self._dimensions[0] - self._constant
        noise = _noise(aired, features, classes, self._distance_metres)
        accuracies = _expected(self._curves, features, design.rounds, noise)
        if accuracies is None:
            return None
        system = System.of(aired, features + self._constant, classes)
        return TriedDesign(
            design=design,
            accuracies=tuple(accuracies.tolist()),
            uplink_symbols=system.uplink_symbols,
            air_seconds=system.air_seconds,
        )


def _designs(own: TableDesign, curves: Curves, own_features: int) -> Iterator[TableDesign]:
    """Yield the scenario's design with every other number of features and rounds that was measured."""
    for features, rounds in product(*(sorted(set(each)) for each in zip(*curves, strict=True))):
        kept = own.features if features == own_features else features
        design = replace(own, features=kept, rounds=rounds)
        if design != own:
            yield design


def _noise(scenario: Scenario, features: int, classes: int, distance_metres: Doubles) -> float:
    """Return the noise of all slots together, as if all were one."""
    noisy = NoisyDesign.of(scenario, features, classes, distance_metres)
    longest = noisy.signal.largest_squared_norm(scenario.workers.clip_norm**2)
    return 1.0 / math.sqrt(longest / noisy.variance + scenario.learner.rounds * longest / noisy.round_variance)


def _expected(curves: Curves, features: int, rounds: int, noise: float) -> Doubles | None:
    """Return the accuracy of each seed, between what was measured; None with more noise, or far other features.

    Up to a factor of two beyond the measured numbers of features they count as the nearest.
    """
    counts = sorted({each for each, _ in curves})
    if not counts[0] / _AS_NEAREST <= features <= counts[-1] * _AS_NEAREST:
        return None
    features = min(max(features, counts[0]), counts[-1])
    below, above = max(each for each in counts if each <= features), min(each for each in counts if each >= features)
    ends = [_by_rounds(curves, each, rounds, noise) for each in (below, above)]
    if ends[0] is None or ends[1] is None:
        return None
    part = 0.0 if below == above else math.log(features / below) / math.log(above / below)
    return np.asarray((1.0 - part) * ends[0] + part * ends[1])


def _by_rounds(curves: Curves, features: int, rounds: int, noise: float) -> Doubles | None:
    """Return the accuracy of each seed with so many features; more rounds than were measured gain nothing."""
    known = sorted(each for count, each in curves if count == features)
    if math.log(noise) > curves[features, known[0]].log_noise[-1] + 1e-3:
        return None
    at = np.stack([curves[features, each].at(noise) for each in known])
    places = np.log1p(known)
    return np.array([np.interp(math.log1p(rounds), places, seed) for seed in at.T])
