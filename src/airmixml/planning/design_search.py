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
from airmixml.planning.synthetic_tables import KINDS, SyntheticTable, make_table
from airmixml.planning.table_trial import EncodedTable, NoisyDesign
from airmixml.progress import Progress, silent
from airmixml.radio.system import System
from airmixml.radio.tally import placed_distances
from airmixml.scenario import Scenario
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
# What is there already is kept unless another design is better by as much, in accuracy, and so are fewer rounds.
_WORTH_A_CHANGE: Final = 0.003
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
    """A design with its accuracy on the synthetic tables."""

    design: TableDesign
    accuracies: tuple[float, ...]  # on each table
    uplink_symbols: int  # of all slots and rounds
    air_seconds: float  # the same in time

    @property
    def accuracy(self) -> float:
        """The mean over all tables."""
        return float(np.mean(self.accuracies))

    @property
    def error(self) -> float:
        """How much the mean may err by chance."""
        return _error_of_mean(self.accuracies)

    def as_good_as(self, other: Self, worth: float = _WORTH_A_CHANGE) -> bool:
        """Whether the other is not better by what is worth a change, and by more than chance may make of it."""
        differences = np.subtract(other.accuracies, self.accuracies)
        return float(differences.mean()) <= max(worth, _error_of_mean(differences))

    def to_dict(self) -> dict[str, Any]:
        """Return one flat table of plain values."""
        found = {name: getattr(self, name) for name in ("accuracy", "error", "uplink_symbols", "air_seconds")}
        return {**asdict(self.design), **found}


def _error_of_mean(values: Sequence[float] | Doubles) -> float:
    return float(np.std(values, ddof=1) / math.sqrt(len(values)))


@dataclass(frozen=True, kw_only=True)
class PublicCheck:
    """What designs do on the public data set that the scenario names."""

    name: str
    own: TriedDesign  # the scenario's own design there
    first: TriedDesign  # the one that was best on the synthetic tables
    best: TriedDesign  # the best there of those that the synthetic tables find better; the own where none is

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"name": self.name, **{name: getattr(self, name).to_dict() for name in ("own", "first", "best")}}


@dataclass(frozen=True, kw_only=True)
class DesignSearch:
    """What the synthetic tables say."""

    own: TriedDesign  # the scenario's own design
    best: TriedDesign  # the best one that fits, or the scenario's own where nothing is better
    tried: tuple[TriedDesign, ...]  # all of them, the best first
    tables: int  # how many tables each was tried on
    rows: int  # rows to learn from, in each
    inputs: int  # columns of each
    classes: int  # classes of each
    max_air_seconds: float = math.inf  # no design that is on the air for longer is the best
    measured_on: str = ""  # the public set that accuracies were measured on; empty: they are of synthetic tables
    public: PublicCheck | None = None  # where the data set is public and other designs were better on synthetic ones

    @property
    def basis(self) -> str:
        """What accuracies rest on."""
        return self.measured_on or "synthetic tables"

    @property
    def reason(self) -> str:
        """Why the best design is not the first one tried, in a line; empty where it is."""
        first, best = self.tried[0], self.best
        if self.public is not None and self.public.best is not self.public.first:
            this, other = (f"{100.0 * each.accuracy:.1f} %" for each in (self.public.best, self.public.first))
            read = f"on {self.public.name} itself, which is public and was read"
            return f"the synthetic tables prefer another design: {read}, that reaches {other} and this one {this}"
        if best.accuracy >= first.accuracy:
            return ""
        differences = np.subtract(first.accuracies, best.accuracies)
        more, chance = 100.0 * float(differences.mean()), 100.0 * _error_of_mean(differences)
        if first.air_seconds > self.max_air_seconds:
            return f"the first line is {more:.1f} points better, but longer on the air than is allowed"
        fewer = 100.0 * (1.0 - best.uplink_symbols / first.uplink_symbols)
        thrift = f"; this design takes {fewer:.0f} % fewer symbols" if fewer >= 1.0 else ""
        little = f"within chance (± {chance:.1f})" if more <= chance else "too little for a change"
        return f"the first line is {more:.1f} points better, {little}{thrift}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        sizes = {name: getattr(self, name) for name in ("tables", "rows", "inputs", "classes")}
        found = {"own": self.own.to_dict(), "best": self.best.to_dict()}
        told = {name: getattr(self, name) for name in ("measured_on", "reason") if getattr(self, name)}
        told |= {} if self.public is None else {"public": self.public.to_dict()}
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
    is the best that is on the air for longer than ``max_air_seconds``.
    """
    trial = TableTrial(scenario, input_dim, label_dim, moments, progress)
    tried = trial.of(_designs(scenario, rows=scenario.workers.count), 0)
    with_rounds = [each for each in tried if each.design.rounds]
    if with_rounds:
        place = max(with_rounds, key=lambda each: each.accuracy).design
        known = {each.design for each in tried}
        others = [replace(place, rounds=rounds) for rounds in (0, *ROUNDS)]
        tried += trial.of([each for each in others if each not in known], 1)
    progress("synthetic tables", 2 * TABLES, 2 * TABLES)
    tried.sort(key=lambda each: -each.accuracy)
    own = next(each for each in tried if each.design == TableDesign.of(scenario))
    best = best_of(tried, own, max_air_seconds)
    return DesignSearch(
        own=own,
        best=best,
        tried=tuple(tried),
        tables=TABLES,
        rows=trial.rows,
        inputs=trial.inputs,
        classes=trial.classes,
        max_air_seconds=max_air_seconds,
    )


class TableTrial:
    """The synthetic tables of a scenario, and what designs reach on them; arguments are those of ``search_designs``."""

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

    def of(self, designs: Iterable[TableDesign], stage: int = 0) -> list[TriedDesign]:
        """Return what each design reaches; ``stage`` is 0 for the first call and 1 for the second."""
        scenario, classes, distance_metres = self.scenario, self.classes, self._distance_metres
        settings = {
            design: NoisyDesign.of(design.applied_to(scenario), self.inputs, classes, distance_metres)
            for design in designs
        }
        found: dict[TableDesign, list[float]] = {design: [] for design in settings}
        for number in range(TABLES):
            self._progress("synthetic tables", number + stage * TABLES, 2 * TABLES)
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
        return TriedDesign(
            design=design,
            accuracies=tuple(accuracies),
            uplink_symbols=system.uplink_symbols,
            air_seconds=system.air_seconds,
        )


def best_of(tried: list[TriedDesign], own: TriedDesign, max_air_seconds: float) -> TriedDesign:
    """Return the best design that fits, or the scenario's own where that is as good, or else one slot where that is.

    One slot must be better than the scenario's own: a change that gains nothing is none to recommend.
    """
    fitting = [each for each in tried if each.air_seconds <= max_air_seconds]
    fitting = fitting or [min(tried, key=lambda each: each.air_seconds)]
    good = [each for each in fitting if each.as_good_as(fitting[0])]
    if own in good:
        return own
    one_slot = [each for each in good if not each.design.rounds and not (own in fitting and own.as_good_as(each))]
    return (one_slot or fitting)[0]


def _designs(scenario: Scenario, *, rows: int) -> Iterator[TableDesign]:
    """Yield the scenario's own design and others that its keys allow, each once."""
    own, seen = TableDesign.of(scenario), set()
    candidates = [own, *(replace(own, model=model, rounds=0) for model in _MODELS)]
    candidates.append(replace(own, model="ridge", rounds=own.rounds or ROUNDS[0]))
    plain = replace(own, encoder="clip", features=0)
    places = [replace(plain, centre=centre, norm=norm) for centre in ("public", "refined") for norm in ("clip", "unit")]
    counts = [count for count in _FEATURES if count * _FEWEST_ROWS_PER_FEATURE <= rows]
    # Features of rows that are far from the centre all point one way, so they are tried with the better centre alone.
    centre = "refined" if _allowed(replace(own, centre="refined"), scenario) else "public"
    mixed = replace(own, encoder="mixed", centre=centre, norm="unit")
    places += [replace(mixed, features=count) for count in counts]
    code = "centred" if scenario.workers.constant else own.label_code
    for place, model, weight in product(places, _MODELS, _WEIGHTS):
        candidates.append(replace(place, model=model, label_code=code, label_weight=weight, rounds=0))
    # Rounds hardly depend on what they start from, which is solved by least squares.
    few = [replace(plain, centre=centre, norm="unit"), *(replace(mixed, features=count) for count in counts[-2:])]
    for place in few:
        candidates.append(replace(place, model="ridge", label_code=code, label_weight=1.0, rounds=ROUNDS[0]))
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
