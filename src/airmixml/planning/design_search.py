"""Which learner, rounds, encoder, centre, norm, label code and weight serve a scenario best: one search for all trials.

Noise alone does not rank learners and encoders: that depends on what is learned. So a trial says how accurate each
candidate is, with the noise that the privacy target leaves for the true number of workers: on synthetic tables, on
splits of a public one, or by what was measured on public images. The mean accuracy decides, within a time on the air.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Final, Self

import numpy as np

from airmixml.arrays import Doubles, dbm_to_watts
from airmixml.impairments.fading import worker_path_gain
from airmixml.radio.air import expected_noise
from airmixml.radio.privacy_target import private_received_watts
from airmixml.radio.system import System
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
        """Return the design of a scenario."""
        tables = {name: scenario.learner if name in _OF_LEARNER else scenario.workers for name in cls.__annotations__}
        return cls(**{name: getattr(table, name) for name, table in tables.items()})

    def applied_to(self, scenario: Scenario) -> Scenario:
        """Return the scenario with this design."""
        workers = {name: value for name, value in asdict(self).items() if name not in _OF_LEARNER}
        learner = {name: getattr(self, name) for name in _OF_LEARNER}
        changed = replace(scenario.workers, **workers), replace(scenario.learner, **learner)
        return replace(scenario, workers=changed[0], learner=changed[1])


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
        return _error_of_mean(self.accuracies)

    def ahead_of(self, other: Self) -> tuple[float, float]:
        """Return by how much more accurate it is on the same tables, and how much that may err by chance."""
        differences = np.subtract(self.accuracies, other.accuracies)
        return float(differences.mean()), _error_of_mean(differences)

    def as_good_as(self, other: Self, worth: float) -> bool:
        """Whether the other is not better by what is worth having, and by more than chance may make of it."""
        more, error = other.ahead_of(self)
        return more <= max(worth, error)

    def to_dict(self) -> dict[str, Any]:
        found = {name: getattr(self, name) for name in ("accuracy", "error", "uplink_symbols", "air_seconds")}
        return {**asdict(self.design), **found}


def _error_of_mean(values: Sequence[float] | Doubles) -> float:
    return float(np.std(values, ddof=1) / math.sqrt(len(values)))


@dataclass(frozen=True, kw_only=True)
class DesignSearch:
    """What designs reach on tables, and which of them is recommended."""

    own: TriedDesign  # the scenario's own design
    best: TriedDesign  # the recommended one: see ``simplest_of``
    tried: tuple[TriedDesign, ...]  # all of them, the most accurate first
    rows: int  # rows to learn from, in each
    inputs: int  # columns of each
    classes: int  # classes of each
    max_air_seconds: float = math.inf  # no design that is on the air for longer is recommended
    measured_on: str = ""  # the public set that accuracies were measured on; empty: they are of synthetic tables
    times: str = "synthetic tables"  # what a mean is taken over: "synthetic tables", "splits of iris", "runs on mnist"

    @property
    def tables(self) -> int:
        """How many tables, splits or runs each was tried on."""
        return len(self.own.accuracies)

    @property
    def basis(self) -> str:
        """What accuracies rest on."""
        return f"{self.tables} {self.times}"

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
        sizes = {name: getattr(self, name) for name in ("tables", "rows", "inputs", "classes", "basis")}
        gain = dict(zip(("gained", "gained_error"), self.best.ahead_of(self.own), strict=True))
        told = {name: getattr(self, name) for name in ("measured_on", "reason") if getattr(self, name)}
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

    times: str  # what a mean is taken over
    told = ""  # the public set that accuracies were measured on, if any was
    rows: int  # to learn from, each time
    inputs: int
    classes: int
    worth: ClassVar[float] = _WORTH  # designs that are less accurate by no more are as good
    fewest_workers: float = 0.0  # with fewer than these nothing is known of a wanted accuracy

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario

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
        own_design = TableDesign.of(self.scenario)
        tried = self.of(self.candidates())
        known = {each.design for each in tried}
        tried += self.of(each for each in dict.fromkeys((own_design, *self.after(tried))) if each not in known)
        own = next((each for each in tried if each.design == own_design), None)
        if own is None:
            return None
        tried.sort(key=lambda each: -each.accuracy)
        return DesignSearch(
            own=own,
            best=simplest_of(tried, max_air_seconds, self.worth),
            tried=tuple(tried),
            rows=self.rows,
            inputs=self.inputs,
            classes=self.classes,
            max_air_seconds=max_air_seconds,
            measured_on=self.told,
            times=self.times,
        )


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
