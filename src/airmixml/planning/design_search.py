"""Which learner, encoder, centre, norm, label code and label weight serve a table, tried on synthetic tables.

Noise alone does not rank learners and encoders: that depends on what is learned. So each candidate encodes synthetic
tables of the right number of columns and classes, its moments get the noise that the privacy target leaves for the true
number of workers, and the learner solves them in closed form. The mean accuracy over all tables decides. No data is
read. benchmarks/check_tables_plan.py compares the order with that on real tables.

Real tables differ, but some traits are common to them. Few directions hold most of the variance. Classes differ in some
of these and in others that hardly vary. Some classes fall into groups. Columns are skewed, and round bounds leave them
far from the middle. Several kinds are made, so that no design is chosen for a single one.
"""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any, Final, Self

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray

from airmixml.arrays import Doubles, Integers, Singles
from airmixml.data.labels import Centred, OneHot
from airmixml.edge.closed_form import MomentsCollector, solve
from airmixml.errors import AirMixError
from airmixml.planning.slot_designs import InputMoments
from airmixml.progress import Progress, silent
from airmixml.radio.centring import plan_centring
from airmixml.radio.expected_noise import expected_noise
from airmixml.radio.path_loss import path_gain
from airmixml.radio.power_calibration import private_received_watts
from airmixml.radio.senders import pack_symmetric
from airmixml.radio.system import sensitivity_of
from airmixml.radio.tally import placed_distances
from airmixml.scenario import Scenario
from airmixml.streams import Streams
from airmixml.units import dbm_to_watts
from airmixml.workers import Signal, encode, encode_centred

# What keeps a plan quick: larger tables are made with so many rows, columns and classes, and say so.
MOST_ROWS: Final = 2000
MOST_INPUTS: Final = 64
MOST_CLASSES: Final = 20
_TABLES_PER_KIND: Final = 2
_FEATURES: Final = (32, 64, 128, 256)
_WEIGHTS: Final = (0.7, 1.0)
_MODELS: Final = ("ridge", "lda")
# Features beyond this many rows per feature leave nothing but noise.
_FEWEST_ROWS_PER_FEATURE: Final = 10
# What is there already is kept unless another design is better by as much, in accuracy.
_WORTH_A_CHANGE: Final = 0.003
_TABLE_ENCODERS: Final = ("clip", "mixed")
_DIRECTIONS: Final = 6  # in which classes differ, the first few of those that vary most


@dataclass(frozen=True, kw_only=True)
class TableKind:
    """One kind of table."""

    decay: float  # variances along the principal directions fall as k to the power of minus this
    groups: int  # how many groups a class falls into
    separation: float  # distance of classes and groups, in deviations of the direction that they differ in


# Chosen so that the order of designs agrees with that on the tables penbased, segment, phoneme and texture of KEEL.
KINDS: Final = (
    TableKind(decay=1.0, groups=1, separation=1.6),
    TableKind(decay=1.6, groups=2, separation=2.0),
    TableKind(decay=1.0, groups=4, separation=4.0),
    TableKind(decay=0.5, groups=4, separation=3.0),
)


@dataclass(frozen=True, kw_only=True, eq=False)
class SyntheticTable:
    """Rows in [0, 1] with classes, half of them to learn from and half to test on."""

    train_inputs: Singles
    train_labels: Integers
    test_inputs: Singles
    test_labels: Integers


def make_table(
    kind: TableKind, *, rows: int, inputs: int, classes: int, moments: InputMoments, rng: Generator
) -> SyntheticTable:
    """Return a table with so many rows to learn from, and as many to test on.

    ``moments`` are about those of a column that was scaled to [0, 1] by its bounds.
    """
    count = 2 * rows
    deviations = np.arange(1.0, inputs + 1.0) ** (-kind.decay / 2.0)
    labels = rng.integers(0, classes, count)
    differing = min(inputs, _DIRECTIONS + classes // 2)
    centres = np.zeros((classes, kind.groups, inputs))
    centres[:, :, :differing] = rng.standard_normal((classes, 1, differing))
    if kind.groups > 1:
        centres[:, :, :differing] += rng.standard_normal((classes, kind.groups, differing))
    centres *= kind.separation * deviations / np.sqrt(kind.groups + 1.0)
    groups = rng.integers(0, kind.groups, count)
    latent = centres[labels, groups] + deviations * rng.standard_normal((count, inputs))
    rotation, _ = np.linalg.qr(rng.standard_normal((inputs, inputs)))
    columns = latent @ rotation
    columns /= columns.std(axis=0)
    skewed = rng.random(inputs) < 0.5
    columns[:, skewed] = np.expm1(0.5 * columns[:, skewed])
    columns -= columns.mean(axis=0)
    columns /= columns.std(axis=0)
    widths = moments.deviation * np.exp(0.4 * rng.standard_normal(inputs))
    middles = np.clip(moments.mean + 0.15 * rng.standard_normal(inputs), 0.05, 0.95)
    unit = np.clip(middles + widths * columns, 0.0, 1.0).astype(np.float32)
    return SyntheticTable(
        train_inputs=unit[:rows], train_labels=labels[:rows], test_inputs=unit[rows:], test_labels=labels[rows:]
    )


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

    @classmethod
    def of(cls, scenario: Scenario) -> Self:
        """Return the design of a scenario."""
        workers = {name: getattr(scenario.workers, name) for name in cls.__dataclass_fields__ if name != "model"}
        return cls(model=scenario.learner.model, **workers)

    def applied_to(self, scenario: Scenario) -> Scenario:
        """Return the scenario with this design."""
        changes = {name: value for name, value in asdict(self).items() if name != "model"}
        workers = replace(scenario.workers, **changes)
        return replace(scenario, workers=workers, learner=replace(scenario.learner, model=self.model))


@dataclass(frozen=True, kw_only=True)
class TriedDesign:
    """A design with its accuracy on the synthetic tables: the mean over them, and how much that may err by chance."""

    design: TableDesign
    accuracy: float
    error: float

    def to_dict(self) -> dict[str, Any]:
        """Return one flat table of plain values."""
        return {**asdict(self.design), "accuracy": self.accuracy, "error": self.error}


@dataclass(frozen=True, kw_only=True)
class DesignSearch:
    """What the synthetic tables say."""

    own: TriedDesign  # the scenario's own design
    best: TriedDesign  # the best one, or the scenario's own where nothing is better by a third of a point
    tried: tuple[TriedDesign, ...]  # all of them, the best first
    tables: int  # how many tables each was tried on
    rows: int  # rows to learn from, in each
    inputs: int  # columns of each
    classes: int  # classes of each

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        sizes = {name: getattr(self, name) for name in ("tables", "rows", "inputs", "classes")}
        found = {"own": self.own.to_dict(), "best": self.best.to_dict()}
        return {**found, **sizes, "tried": [each.to_dict() for each in self.tried]}


def is_searched(scenario: Scenario) -> bool:
    """Whether designs are tried: for classes of a table, with one unrounded row per worker, all sent at once."""
    workers, radio = scenario.workers, scenario.radio
    rows = workers.encoder in _TABLE_ENCODERS and workers.task == "classification"
    at_once = radio.scheduled == workers.count and radio.schedule == "fixed"
    return rows and not workers.several_rows and not workers.bits and workers.sends == "moments" and at_once


def search_designs(
    scenario: Scenario, input_dim: int, label_dim: int, moments: InputMoments, progress: Progress = silent
) -> DesignSearch:
    """Return how designs at the scenario's privacy target do on synthetic tables; all workers send moments at once.

    ``input_dim`` are columns before they are encoded, ``moments`` about those of a column scaled to [0, 1].
    """
    rows = min(scenario.workers.count, MOST_ROWS)
    inputs, classes = min(input_dim, MOST_INPUTS), min(label_dim, MOST_CLASSES)
    designs, distance_metres = list(_designs(scenario, rows=scenario.workers.count)), placed_distances(scenario)
    found: dict[TableDesign, list[float]] = {design: [] for design in designs}
    total = _TABLES_PER_KIND * len(KINDS)
    for number in range(total):
        progress("made-up tables", number, total)
        rng = np.random.default_rng((scenario.seed, number))
        kind = KINDS[number % len(KINDS)]
        table = make_table(kind, rows=rows, inputs=inputs, classes=classes, moments=moments, rng=rng)
        encoded: dict[TableDesign, _EncodedTable] = {}
        for design in designs:
            # Learner and weight change nothing about the encoding.
            key = replace(design, model="", label_weight=1.0)
            if key not in encoded:
                encoded[key] = _EncodedTable(design.applied_to(scenario), table, classes, distance_metres, number)
            found[design].append(encoded[key].accuracy(design.applied_to(scenario)))
    progress("made-up tables", total, total)
    tried = [
        TriedDesign(
            design=design,
            accuracy=float(np.mean(accuracies)),
            error=float(np.std(accuracies, ddof=1) / math.sqrt(len(accuracies))),
        )
        for design, accuracies in found.items()
    ]
    tried.sort(key=lambda each: -each.accuracy)
    own = next(each for each in tried if each.design == TableDesign.of(scenario))
    best = tried[0] if tried[0].accuracy > own.accuracy + _WORTH_A_CHANGE else own
    return DesignSearch(own=own, best=best, tried=tuple(tried), tables=total, rows=rows, inputs=inputs, classes=classes)


def _designs(scenario: Scenario, *, rows: int) -> Iterator[TableDesign]:
    """Yield the scenario's own design and others that its keys allow, each once."""
    own, seen = TableDesign.of(scenario), set()
    candidates = [own, *(replace(own, model=model) for model in _MODELS)]
    plain = replace(own, encoder="clip", features=0)
    places = [replace(plain, centre=centre, norm=norm) for centre in ("public", "refined") for norm in ("clip", "unit")]
    counts = [count for count in _FEATURES if count * _FEWEST_ROWS_PER_FEATURE <= rows]
    # Features of rows that are far from the centre all point one way, so they are tried with the better centre alone.
    centre = "refined" if _allowed(replace(own, centre="refined"), scenario) else "public"
    mixed = replace(own, encoder="mixed", centre=centre, norm="unit")
    places += [replace(mixed, features=count) for count in counts]
    code = "centred" if scenario.workers.constant else own.label_code
    for place, model, weight in product(places, _MODELS, _WEIGHTS):
        candidates.append(replace(place, model=model, label_code=code, label_weight=weight))
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


class _EncodedTable:
    """A synthetic table as one design encodes it: its moments, to which noise is added for each learner and weight."""

    def __init__(
        self, scenario: Scenario, table: SyntheticTable, classes: int, distance_metres: Doubles, number: int
    ) -> None:
        self._classes, self._distance_metres, self._number = classes, distance_metres, number
        self._test_labels = table.test_labels
        workers, streams = scenario.workers, Streams(scenario.seed + number)
        train, _ = encode(workers, table.train_inputs, streams=streams)
        test, _ = encode(workers, table.test_inputs, streams=streams)
        slot = plan_centring(scenario, train.shape[1], distance_metres)
        if slot is not None:
            noise = np.random.default_rng((number, 1)).standard_normal(train.shape[1])
            mean = (train.mean(axis=0) + slot.noise_deviation * noise).astype(np.float32)
            train, _ = encode_centred(workers, train - mean, streams)
            test, _ = encode_centred(workers, test - mean, streams)
        self._train, self._test = train, test
        code = Centred(classes) if workers.label_code == "centred" else OneHot(classes)
        self._labels = code.coded(table.train_labels)

    @cached_property
    def _products(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Mean second moments as they are sent (symbols), and mean moments with the label (d x classes)."""
        inputs = torch.from_numpy(self._train).double()
        labels = torch.from_numpy(self._labels).double()
        second = inputs.T @ inputs / len(inputs)
        return pack_symmetric(second[None])[0], inputs.T @ labels / len(inputs)

    def accuracy(self, scenario: Scenario) -> float:
        """Return the share of test rows that the scenario's learner gets right."""
        workers = scenario.workers
        features = self._train.shape[1]
        signal = Signal.of(workers, features, self._classes)
        variance = _noise_variance(scenario, features, self._classes, self._distance_metres)
        rng = np.random.default_rng((self._number, 2))
        second, cross = self._products
        received = second + math.sqrt(variance) * torch.from_numpy(rng.standard_normal(len(second)))
        deviation = math.sqrt(variance) / workers.label_weight
        labelled = cross.flatten() + deviation * torch.from_numpy(rng.standard_normal(cross.numel()))
        squared_norm = workers.clip_norm**2 if workers.norm == "unit" else 0.0
        collector = MomentsCollector(signal, constant=workers.constant * workers.clip_norm, squared_norm=squared_norm)
        collector.add(received[None], labelled[None])
        weights, biases = solve(scenario.learner, collector.moments(variance, 1.0))
        scores = torch.from_numpy(self._test).double() @ weights + biases
        right: NDArray[np.bool_] = scores.argmax(dim=1).numpy() == self._test_labels
        return float(right.mean())


def _noise_variance(scenario: Scenario, features: int, classes: int, distance_metres: Doubles) -> float:
    """Return the variance of the noise on each averaged moment, all workers sending with equal shares."""
    radio = scenario.radio
    sensitivity = sensitivity_of(scenario, features, classes)
    gain = path_gain(distance_metres, radio.path_loss_exponent, radio.unit_path_loss_db) ** 2
    limit_watts = dbm_to_watts(radio.max_power_dbm) * float(gain.min())
    watts = min(private_received_watts(scenario, sensitivity, distance_metres, quickly=True), limit_watts)
    return expected_noise(scenario).total_watts / 2.0 / (watts * radio.scheduled**2) / radio.slots
