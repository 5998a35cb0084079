"""Which learner, rounds, encoder, centre, norm, label code and weight serve a scenario best: one search for all trials.

Noise alone does not rank learners and encoders: that depends on what is learned. So a trial says how accurate each
candidate is, with the noise that the privacy target leaves for the true number of workers: on synthetic tables, on
splits of a public one, or by what was measured on public images. The mean accuracy decides, within a time on the air.

Features of images cannot be tried on synthetic ones: what is learned from them depends on what images look like. So the
expectation rests on MNIST (encoder ``gradients``), Fashion-MNIST and digits (``cells``), measured with several numbers
of features and rounds against noise (``image_accuracies.csv``, by benchmarks/measure_image_designs.py). Of a scenario
the noise is what its privacy target, masks and air leave, as one number: the standard deviation on a symbol of the
mean over the longest vector that a worker can send, all slots taken together. No data is read. Other images have other
accuracies, but about the same order of designs.
"""

import csv
import math
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib.resources import files
from itertools import product
from typing import Any, ClassVar, Final, NamedTuple, Self

import numpy as np

from airmixml.arrays import Doubles, dbm_to_watts
from airmixml.impairments.fading import worker_path_gain
from airmixml.planning.known_inputs import KnownInputs
from airmixml.radio.air import expected_noise
from airmixml.radio.privacy_target import private_received_watts
from airmixml.radio.system import System
from airmixml.radio.tally import placed_distances
from airmixml.scenario import Scenario
from airmixml.workers import Signal, encoded_dim

# Designs are as good as another that is better by no more than this, in accuracy, or than chance may make of it.
_WORTH: Final = 0.003
_OF_LEARNER: Final = ("model", "rounds")


@dataclass(frozen=True, kw_only=True)
class TableDesign:
    """One candidate: how rows are encoded and sent, and what learns from them."""

    model: str
    encoder: str
    features: int
    centre: str
    norm: str
    clip_norm: float
    label_code: str
    label_weight: float
    rounds: int = 0

    @classmethod
    def of(cls, scenario: Scenario) -> Self:
        tables = {name: scenario.learner if name in _OF_LEARNER else scenario.workers for name in cls.__annotations__}
        return cls(**{name: getattr(table, name) for name, table in tables.items()})

    def applied_to(self, scenario: Scenario) -> Scenario:
        sent = asdict(self)
        learner = replace(scenario.learner, **{name: sent.pop(name) for name in _OF_LEARNER})
        return replace(scenario, workers=replace(scenario.workers, **sent), learner=learner)


@dataclass(frozen=True, kw_only=True)
class TriedDesign:
    """A design with its accuracy on the tables that it was tried on."""

    design: TableDesign
    accuracies: tuple[float, ...]  # on each table
    uplink_symbols: int  # of all slots and rounds, and of the slot for the mean
    air_seconds: float  # the same in time

    @property
    def accuracy(self) -> float:
        """The mean over all tables."""
        return float(np.mean(self.accuracies))

    @property
    def effort(self) -> tuple[bool, int]:
        """What is less for a simpler design: whether it has rounds, then its symbols."""
        return self.design.rounds > 0, self.uplink_symbols

    @property
    def error(self) -> float:
        """How much the mean may err by chance."""
        return error_of_mean(self.accuracies)

    def ahead_of(self, other: Self) -> tuple[float, float]:
        """Return by how much more accurate it is on the same tables, and how much that may err by chance."""
        differences = np.subtract(self.accuracies, other.accuracies)
        return float(differences.mean()), error_of_mean(differences)

    def as_good_as(self, other: Self, worth: float) -> bool:
        """Whether the other is not better by what is worth having, and by more than chance may make of it."""
        more, error = other.ahead_of(self)
        return more <= max(worth, error)

    def to_dict(self) -> dict[str, Any]:
        found = {name: getattr(self, name) for name in ("accuracy", "error", "uplink_symbols", "air_seconds")}
        return {**asdict(self.design), **found}


def error_of_mean(values: Sequence[float] | Doubles) -> float:
    """Return the standard error of the mean of these values."""
    return float(np.std(values, ddof=1) / math.sqrt(len(values)))


class TriedOn(NamedTuple):
    """What designs were tried on, in plain facts, which compare and go to other processes."""

    times: str  # what each accuracy is of
    told: str  # the public set that accuracies were measured on; empty: synthetic tables
    rows: int
    inputs: int
    classes: int
    known: KnownInputs


@dataclass(frozen=True, kw_only=True)
class DesignSearch:
    """What designs reach on tables, and which of them is recommended."""

    own: TriedDesign  # the scenario's own design
    best: TriedDesign  # the recommended one: see ``simplest_of``
    tried: tuple[TriedDesign, ...]  # all of them, the most accurate first
    trial: TriedOn
    max_air_seconds: float = math.inf  # no design that is on the air for longer is recommended

    @property
    def basis(self) -> str:
        """What accuracies rest on."""
        return f"{len(self.own.accuracies)} {self.trial.times}"

    @property
    def reason(self) -> str:
        """Why the recommended design is not the most accurate one, in a line; empty where it is."""
        first, best = self.tried[0], self.best
        more, chance = (100.0 * each for each in first.ahead_of(best))
        if first is best or more <= 0.0:
            return ""
        if first.air_seconds > self.max_air_seconds:
            return f"the most accurate design is {more:.1f} points better, but longer on the air than is allowed"
        one_slot = "one slot after that for the mean" if best.design.centre == "refined" else "one slot"
        thrift = one_slot if first.design.rounds and not best.design.rounds else "fewer symbols"
        told = f"{best.uplink_symbols:,} symbols in place of {first.uplink_symbols:,}"
        return f"the most accurate design is {more:.1f} ± {chance:.1f} points better; this one needs {thrift}: {told}"

    def to_dict(self) -> dict[str, Any]:
        sizes = {name: getattr(self.trial, name) for name in ("rows", "inputs", "classes")}
        sizes |= {"tables": len(self.own.accuracies), "basis": self.basis}
        gain = dict(zip(("gained", "gained_error"), self.best.ahead_of(self.own), strict=True))
        told = {name: text for name, text in (("measured_on", self.trial.told), ("reason", self.reason)) if text}
        found = {"own": self.own.to_dict(), "best": self.best.to_dict(), **gain}
        return {**found, **sizes, **told, "tried": [each.to_dict() for each in self.tried]}


@dataclass(frozen=True, kw_only=True)
class NoisyDesign:
    """A design with what a trial needs of its noise, which is the same on every table."""

    scenario: Scenario
    signal: Signal  # what a worker sends before the rounds
    variance: float  # of the noise on each averaged moment, all workers sending with equal shares
    round_variance: float  # of the noise on each number of the mean of what workers send in a round

    @classmethod
    def of(cls, scenario: Scenario, inputs: int, classes: int, distance_metres: Doubles) -> Self:
        """Return the scenario with the noise that its privacy target leaves, for tables of so many inputs."""
        radio, system = scenario.radio, System.of(scenario, encoded_dim(scenario.workers, inputs), classes)
        gain = worker_path_gain(scenario, distance_metres) ** 2
        limit_watts = dbm_to_watts(radio.max_power_dbm) * float(gain.min())
        asked_watts = private_received_watts(scenario, system.sensitivity, distance_metres, quickly=True)
        of_slot, of_round = (min(asked_watts * each, limit_watts) for each in (1.0, system.round_strength))
        noise = expected_noise(scenario).total_watts / 2.0 / radio.scheduled**2
        variances = {"variance": noise / of_slot / radio.slots, "round_variance": noise / of_round}
        return cls(scenario=scenario, signal=system.signal, **variances)


class Trial(ABC):
    """Says how accurate designs are at a scenario's privacy target, each as many times."""

    times: str  # what a mean is taken over: "synthetic tables", "splits of iris", "runs on mnist"
    told = ""  # the public set that accuracies were measured on; empty: they are of synthetic tables
    rows: int  # to learn from, each time
    inputs: int
    classes: int
    worth: ClassVar[float] = _WORTH  # designs that are less accurate by no more are as good
    fewest_workers: float = 0.0  # with fewer than these nothing is known of a wanted accuracy

    def __init__(self, scenario: Scenario, known: KnownInputs) -> None:
        self.scenario, self.known = scenario, known

    @abstractmethod
    def of(self, designs: Iterable[TableDesign]) -> list[TriedDesign]:
        """Return what each design reaches; those of which nothing is known are left out."""

    @abstractmethod
    def candidates(self) -> Iterable[TableDesign]:
        """Return the designs to try first: the same ones whichever of them the scenario has."""

    def after(self, _tried: list[TriedDesign]) -> Iterable[TableDesign]:
        """Return designs that are worth a try after the first ones."""
        return ()

    def search(self, max_air_seconds: float = math.inf) -> DesignSearch | None:
        """Return what all designs reach, and which is recommended; None where nothing is known of the scenario's own.

        No design is recommended that is on the air for longer than ``max_air_seconds``.
        """
        own_design, tried = TableDesign.of(self.scenario), self.of(self.candidates())
        known = {each.design for each in tried}
        tried += self.of(each for each in dict.fromkeys((own_design, *self.after(tried))) if each not in known)
        own = next((each for each in tried if each.design == own_design), None)
        if own is None:
            return None
        tried.sort(key=lambda each: -each.accuracy)
        best = simplest_of(tried, max_air_seconds, self.worth)
        on = TriedOn(self.times, self.told, self.rows, self.inputs, self.classes, self.known)
        return DesignSearch(own=own, best=best, tried=tuple(tried), trial=on, max_air_seconds=max_air_seconds)


def simplest_of(tried: list[TriedDesign], max_air_seconds: float, worth: float = _WORTH) -> TriedDesign:
    """Return the best of the designs that are no less simple than the simplest one that is as good as the best of all.

    That is the rule of one standard error (Breiman and others 1984) among the designs that fit. One slot is simpler
    than rounds, and fewer symbols are than more. What the scenario has does not count: wherever one starts, the same is
    recommended.
    """
    fitting = [each for each in tried if each.air_seconds <= max_air_seconds]
    fitting = fitting or [min(tried, key=lambda each: each.air_seconds)]
    first = max(fitting, key=lambda each: each.accuracy)
    simplest = min(each.effort for each in fitting if each.as_good_as(first, worth))
    return max((each for each in fitting if each.effort <= simplest), key=lambda each: each.accuracy)


_AS_NEAREST: Final = 2.0
_FEWER_THAN_MEASURED: Final = 0.5  # with fewer workers than were measured, images lack rows and not only noise


class MeasuredSet(NamedTuple):
    """A public set that was measured with an encoder and so many workers."""

    encoder: str
    dataset: str
    workers: int


def _interpolated(at: float, table: Doubles) -> Doubles:
    """Return the other columns of a table where its first one, which ascends, is ``at``, or as near as it gets."""
    return np.array([np.interp(at, table[:, 0], column) for column in table[:, 1:].T])


@cache
def measured() -> dict[MeasuredSet, dict[tuple[int, int], Doubles]]:
    """Return all that was measured, by number of features and rounds: of each level of noise, the least first, a row.

    It has the logarithm of the noise, then the accuracy of each seed.
    """
    levels: dict[MeasuredSet, dict[tuple[int, int], list[list[float]]]] = defaultdict(lambda: defaultdict(list))
    with files("airmixml.planning").joinpath("image_accuracies.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            name = MeasuredSet(row["encoder"], row["dataset"], int(row["workers"]))
            accuracies = [float(each) for each in row["accuracies"].split()]
            levels[name][int(row["features"]), int(row["rounds"])].append([math.log(float(row["noise"])), *accuracies])
    return {name: {key: np.array(sorted(each)) for key, each in found.items()} for name, found in levels.items()}


def nearest_set(scenario: Scenario) -> MeasuredSet | None:
    """Return the set that was measured with the scenario's encoder and the nearest number of workers, if any was."""
    some = (each for each in measured() if each.encoder == scenario.workers.encoder)
    return min(some, key=lambda each: abs(math.log(each.workers / scenario.workers.count)), default=None)


class ImageTrial(Trial):
    """What designs are expected to reach, by what was measured on one set."""

    worth = 0.001  # a longer time on the air is worth that much

    def __init__(self, scenario: Scenario, known: KnownInputs, name: MeasuredSet) -> None:
        super().__init__(scenario, known)
        self.inputs, self.classes = known.dimensions
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
        found = []
        for design in designs:
            aired, features = design.applied_to(self.scenario), design.features or self.inputs - self._constant
            accuracies = self._between(features, design.rounds, self._noise(aired, features))
            if accuracies is not None:
                system = System.of(aired, features + self._constant, self.classes)
                on_air: dict[str, Any] = {"uplink_symbols": system.uplink_symbols, "air_seconds": system.air_seconds}
                found.append(TriedDesign(design=design, accuracies=tuple(accuracies.tolist()), **on_air))
        return found

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
        if math.log(noise) > self._curves[features, known[0]][-1, 0] + 1e-3:
            return None
        at = [_interpolated(math.log(noise), self._curves[features, each]) for each in known]
        return _interpolated(math.log1p(rounds), np.column_stack([np.log1p(known), at]))
