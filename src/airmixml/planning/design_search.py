"""Which learner, rounds, encoder, centre, norm, label code and weight serve a table, tried on synthetic tables.

Noise alone does not rank learners and encoders: that depends on what is learned. So each candidate encodes synthetic
tables of the right number of columns and classes, its moments get the noise that the privacy target leaves for the true
number of workers, and the learner solves them in closed form; where rounds follow, it descends by clipped gradients of
the same rows with their noise. The mean accuracy over all tables decides, within a time on the air. No data is read.
benchmarks/check_tables_plan.py compares the order with that on real tables.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any, Final, Self

import numpy as np

from airmixml.arrays import Doubles
from airmixml.errors import AirMixError
from airmixml.planning.slot_designs import InputMoments
from airmixml.planning.table_trial import KINDS, EncodedTable, NoisyDesign, SyntheticTable, make_table
from airmixml.progress import Progress, silent
from airmixml.radio.centring import mean_slot
from airmixml.radio.system import System
from airmixml.radio.tally import placed_distances
from airmixml.scenario import Scenario
from airmixml.scenario.automatic import clipped_share
from airmixml.workers import encoded_dim

# What keeps a plan quick: larger tables are made with so many rows, columns and classes, and say so.
MOST_ROWS: Final = 2000
MOST_INPUTS: Final = 64
MOST_CLASSES: Final = 20
TABLES: Final = 2 * len(KINDS)
_FEATURES: Final = (32, 64, 128, 256)
_WEIGHTS: Final = (0.7, 1.0)
_MODELS: Final = ("ridge", "lda")
# Every encoding is tried with the first number of rounds, the best of them with the others too.
ROUNDS: Final = (20, 4, 8, 50)
# Features beyond this many rows per feature leave nothing but noise.
_FEWEST_ROWS_PER_FEATURE: Final = 10
# Designs are as good as another that is better by no more than this, in accuracy, or than chance may make of it.
_WORTH: Final = 0.003
_TABLE_ENCODERS: Final = ("clip", "mixed")
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
        """Return one flat table of plain values."""
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
    tables: int  # how many tables each was tried on
    rows: int  # rows to learn from, in each
    inputs: int  # columns of each
    classes: int  # classes of each
    max_air_seconds: float = math.inf  # no design that is on the air for longer is recommended
    measured_on: str = ""  # the public set that accuracies were measured on; empty: they are of synthetic tables
    times: str = "synthetic tables"  # what a mean is taken over: "synthetic tables", "splits of iris", "runs on mnist"

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
        little = (
            "too little to pay for"
            if more <= 100.0 * _WORTH
            else f"± {chance:.1f}, but another design as simple as this one is as good"
        )
        little = f"within chance (± {chance:.1f})" if more <= chance else little
        one_slot = "one slot after that for the mean" if best.design.centre == "refined" else "one slot"
        thrift = one_slot if first.design.rounds and not best.design.rounds else "fewer symbols"
        told = f"{best.uplink_symbols:,} symbols in place of {first.uplink_symbols:,}"
        return f"the most accurate design is {more:.1f} points better, {little}; this one needs {thrift}: {told}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        sizes = {name: getattr(self, name) for name in ("tables", "rows", "inputs", "classes", "basis")}
        gain = dict(zip(("gained", "gained_error"), self.best.ahead_of(self.own), strict=True))
        told = {name: getattr(self, name) for name in ("measured_on", "reason") if getattr(self, name)}
        found = {"own": self.own.to_dict(), "best": self.best.to_dict(), **gain}
        return {**found, **sizes, **told, "tried": [each.to_dict() for each in self.tried]}


def is_searched(scenario: Scenario) -> bool:
    """Whether designs are tried: for classes of a table, with one unrounded row per worker, all sent at once."""
    workers = scenario.workers
    rows = workers.encoder in _TABLE_ENCODERS and workers.task == "classification"
    return rows and sends_all_moments_at_once(scenario)


def sends_all_moments_at_once(scenario: Scenario) -> bool:
    """Whether every worker sends the unrounded moments of one row in every slot."""
    workers = scenario.workers
    return not workers.several_rows and not workers.bits and workers.sends == "moments" and scenario.all_send


def search_designs(
    scenario: Scenario,
    input_dim: int,
    label_dim: int,
    moments: InputMoments,
    progress: Progress = silent,
    *,
    max_air_seconds: float = math.inf,
) -> DesignSearch:
    """Return how designs at the scenario's privacy target do on synthetic tables; all workers send moments at once.

    ``input_dim`` are columns before they are encoded, ``moments`` about those of a column scaled to [0, 1]. No design
    is recommended that is on the air for longer than ``max_air_seconds``.
    """
    return TableTrial(scenario, input_dim, label_dim, moments, progress).search(max_air_seconds)


class TableTrial:
    """The synthetic tables of a scenario, and what designs reach on them; arguments are those of ``search_designs``."""

    told = ""  # of public rows: which, and that they were read
    times = "synthetic tables"

    def __init__(
        self,
        scenario: Scenario,
        input_dim: int,
        label_dim: int,
        moments: InputMoments,
        progress: Progress = silent,
    ) -> None:
        self.scenario, self._dimensions, self._moments = scenario, (input_dim, label_dim), moments
        self._progress, self._distance_metres = progress, placed_distances(scenario)
        self.rows = min(scenario.workers.count, MOST_ROWS)
        self.inputs, self.classes = min(input_dim, MOST_INPUTS), min(label_dim, MOST_CLASSES)

    def table(self, number: int) -> SyntheticTable:
        """Return one of them."""
        return make_table(
            KINDS[number % len(KINDS)],
            rows=self.rows,
            inputs=self.inputs,
            classes=self.classes,
            moments=self._moments,
            rng=np.random.default_rng((self.scenario.seed, number)),
        )

    def search(self, max_air_seconds: float = math.inf) -> DesignSearch:
        """Return what all designs reach, and which is recommended: whatever the scenario's own is of those tried."""
        scenario, own_design = self.scenario, TableDesign.of(self.scenario)
        tried = self.of(_designs(scenario, self._dimensions[0]), 0)
        with_rounds = [each for each in tried if each.design.rounds]
        known = {each.design for each in tried}
        more = [own_design]
        if with_rounds:
            place = max(with_rounds, key=lambda each: each.accuracy).design
            more += [replace(place, rounds=rounds) for rounds in ROUNDS]
        tried += self.of([each for each in dict.fromkeys(more) if each not in known], 1)
        self._progress(self.times, 2 * TABLES, 2 * TABLES)
        tried.sort(key=lambda each: -each.accuracy)
        return DesignSearch(
            own=next(each for each in tried if each.design == own_design),
            best=simplest_of(tried, max_air_seconds),
            tried=tuple(tried),
            tables=TABLES,
            rows=self.rows,
            inputs=self.inputs,
            classes=self.classes,
            max_air_seconds=max_air_seconds,
            measured_on=self.told,
            times=self.times,
        )

    def of(self, designs: Iterable[TableDesign], stage: int = 0) -> list[TriedDesign]:
        """Return what each design reaches; ``stage`` is 0 for the first call and 1 for the second."""
        scenario, classes, distance_metres = self.scenario, self.classes, self._distance_metres
        settings = {
            design: NoisyDesign.of(design.applied_to(scenario), self.inputs, classes, distance_metres)
            for design in designs
        }
        found: dict[TableDesign, list[float]] = {design: [] for design in settings}
        for number in range(TABLES):
            self._progress(self.times, number + stage * TABLES, 2 * TABLES)
            table = self.table(number)
            encoded: dict[TableDesign, EncodedTable] = {}
            for design, setting in settings.items():
                # Learner, rounds and weight change nothing about the encoding.
                key = replace(design, model="", label_weight=1.0, rounds=0)
                if key not in encoded:
                    encoded[key] = EncodedTable(setting.scenario, table, classes, distance_metres, number)
                found[design].append(encoded[key].accuracy(setting))
        return [self._tried(design, settings[design].scenario, found[design]) for design in settings]

    def _tried(self, design: TableDesign, aired: Scenario, accuracies: list[float]) -> TriedDesign:
        input_dim, label_dim = self._dimensions
        system = System.of(aired, encoded_dim(aired.workers, input_dim), label_dim)
        mean = mean_slot(aired, input_dim, self._distance_metres)
        return TriedDesign(
            design=design,
            accuracies=tuple(accuracies),
            uplink_symbols=system.uplink_symbols + (0 if mean is None else mean.features),
            air_seconds=system.air_seconds + (0.0 if mean is None else mean.seconds),
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


def _designs(scenario: Scenario, inputs: int) -> Iterator[TableDesign]:
    """Yield designs that the scenario's keys allow, each once: the same ones whichever of them it has."""
    seen: set[TableDesign] = set()
    centres = ("public", "refined")
    own = TableDesign.of(scenario)
    plain = replace(own, model="ridge", encoder="clip", features=0, centre="public", norm="clip", rounds=0)
    plain = replace(plain, label_code="one-hot", label_weight=1.0, clip_norm=clipped_share(inputs))
    unit = replace(plain, norm="unit", clip_norm=1.0)
    candidates = [replace(plain, model=model) for model in _MODELS]
    places = [replace(each, centre=centre) for centre in centres for each in (plain, unit)]
    counts = [count for count in _FEATURES if count * _FEWEST_ROWS_PER_FEATURE <= scenario.workers.count]
    # Features of rows that are far from the centre all point one way, so they are tried with the better centre alone.
    centre = "refined" if _allowed(replace(plain, centre="refined"), scenario) else "public"
    mixed = replace(unit, encoder="mixed", centre=centre)
    places += [replace(mixed, features=count) for count in counts]
    code = "centred" if scenario.workers.constant else "one-hot"
    for place, model, weight in product(places, _MODELS, _WEIGHTS):
        candidates.append(replace(place, model=model, label_code=code, label_weight=weight))
    # Rounds hardly depend on what they start from, which is solved by least squares.
    few = [replace(unit, centre=centre), *(replace(mixed, features=count) for count in counts[-2:])]
    candidates += [replace(place, label_code=code, rounds=ROUNDS[0]) for place in few]
    for design in candidates:
        if design not in seen and _allowed(design, scenario):
            seen.add(design)
            yield design


def _allowed(design: TableDesign, scenario: Scenario) -> bool:
    """Whether the scenario's other keys allow that design."""
    try:
        design.applied_to(scenario)
    except AirMixError:
        return False
    return True
