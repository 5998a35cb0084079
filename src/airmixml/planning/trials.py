"""Trials on tables: synthetic ones for rows that nobody may look at, splits of itself for a table that is public.

Each candidate encodes tables of the right number of columns and classes, its moments get the noise that the privacy
target leaves, and the learner solves them in closed form; where rounds follow, it descends by clipped gradients of the
same rows with their noise. benchmarks/check_tables_plan.py compares the order with that on real tables.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any, Final

import numpy as np
import torch
from numpy.random import Generator

from airmixml.arrays import Doubles, Integers, Singles
from airmixml.data.labels import Centred, OneHot
from airmixml.edge.closed_form import MomentsCollector, ReceivedMoments, solve
from airmixml.edge.descents import descend
from airmixml.messages import AirMixError
from airmixml.planning.design_search import ImageTrial, NoisyDesign, TableDesign, Trial, TriedDesign, nearest_set
from airmixml.planning.known_inputs import InputMoments, KnownInputs, is_public
from airmixml.progress import Progress, silent
from airmixml.radio.centring import mean_slot, plan_centring
from airmixml.radio.system import System
from airmixml.radio.tally import placed_distances
from airmixml.scenario import Scenario
from airmixml.scenario.consistency import clipped_share
from airmixml.streams import Streams
from airmixml.workers import deploy, encode, encode_centred, encoded_dim, load_dataset
from airmixml.workers.moments import pack_symmetric
from airmixml.workers.payloads import Broadcast

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


class EncodedTable:
    """A synthetic table as designs with the same encoding send it: its moments, to which each adds its noise."""

    def __init__(
        self, scenario: Scenario, table: SyntheticTable, classes: int, distance_metres: Doubles, number: int
    ) -> None:
        self._number = number
        workers, streams = scenario.workers, Streams(scenario.seed + number)
        train, _ = encode(workers, table.train_inputs, streams=streams)
        test, _ = encode(workers, table.test_inputs, streams=streams)
        slot = plan_centring(scenario, train.shape[1], distance_metres)
        if slot is not None:
            noise = np.random.default_rng((number, 1)).standard_normal(train.shape[1])
            mean = (train.mean(axis=0) + slot.noise_deviation * noise).astype(np.float32)
            train, _ = encode_centred(workers, train - mean, streams)
            test, _ = encode_centred(workers, test - mean, streams)
        self._train, self._test, self._test_labels = train, test, table.test_labels
        self._norms: Doubles = np.linalg.norm(train, axis=1).astype(np.float64)
        self._one_hot = OneHot(classes).coded(table.train_labels)
        coded = Centred(classes).coded(table.train_labels) if workers.label_code == "centred" else self._one_hot
        inputs, labels = torch.from_numpy(train).double(), torch.from_numpy(coded).double()
        # Mean second moments as they are sent (symbols), and mean moments with the label (d x classes).
        self._second = pack_symmetric((inputs.T @ inputs / len(inputs))[None])[0]
        self._cross = inputs.T @ labels / len(inputs)

    def accuracy(self, design: NoisyDesign) -> float:
        """Return the share of test rows that the design's learner gets right."""
        scenario, rounds = design.scenario, design.scenario.learner.rounds
        moments = self._receive(design)
        solution = solve(scenario.learner, moments)
        if rounds:
            send = partial(self._round, design, np.random.default_rng((self._number, 3)))
            *_, solution = descend(scenario, send, rounds, solution, moments)
        weights, biases = solution
        scores = torch.from_numpy(self._test).double() @ weights + biases
        return float(np.mean(scores.argmax(dim=1).numpy() == self._test_labels))

    def _receive(self, design: NoisyDesign) -> ReceivedMoments:
        workers, noise = design.scenario.workers, math.sqrt(design.variance)
        rng = np.random.default_rng((self._number, 2))
        received = self._second + noise * torch.from_numpy(rng.standard_normal(len(self._second)))
        drawn = torch.from_numpy(rng.standard_normal(self._cross.numel()))
        labelled = self._cross.flatten() + noise / workers.label_weight * drawn
        squared_norm = workers.clip_norm**2 if workers.norm == "unit" else 0.0
        constant = workers.constant * workers.clip_norm
        collector = MomentsCollector(design.signal, constant=constant, squared_norm=squared_norm)
        collector.add(received[None], labelled[None])
        return collector.moments(design.variance, 1.0)

    def _round(self, design: NoisyDesign, rng: Generator, told: Broadcast) -> tuple[torch.Tensor, float]:
        """Return the mean clipped gradient as it is received, features x classes, and the deviation of its noise."""
        errors = told.errors(self._train, self._one_hot)
        lengths = self._norms * np.sqrt(np.einsum("ij,ij->i", errors, errors))
        clipped = errors * np.minimum(1.0, told.clip / np.maximum(lengths, 1e-30))[:, None]
        gradient = self._train.T @ clipped.astype(np.float32) / len(errors)
        # Gradients are sent in units of the clip, and are then as long as moments at most.
        largest = math.sqrt(design.signal.largest_squared_norm(design.scenario.workers.clip_norm**2))
        deviation = math.sqrt(design.round_variance) * told.clip / largest
        return torch.from_numpy(gradient + deviation * rng.standard_normal(gradient.shape)), deviation


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
_TABLE_ENCODERS: Final = ("clip", "mixed")
_PLAIN: Final[dict[str, Any]] = {"encoder": "scale", "features": 0, "centre": "none", "norm": "clip", "constant": 0.0}


class TableTrial(Trial):
    """Synthetic tables, with columns of about these moments once they are scaled to [0, 1]; no data is read."""

    times = "synthetic tables"

    def __init__(self, scenario: Scenario, known: KnownInputs, progress: Progress = silent) -> None:
        super().__init__(scenario, known)
        assert known.held_dim is not None
        self._dimensions, self._progress = (known.held_dim, known.dimensions[1]), progress
        self._distance_metres, self._stage = placed_distances(scenario), 0
        self.rows = min(scenario.workers.count, MOST_ROWS)
        self.inputs, self.classes = min(known.held_dim, MOST_INPUTS), min(known.dimensions[1], MOST_CLASSES)

    def table(self, number: int) -> SyntheticTable:
        return make_table(
            KINDS[number % len(KINDS)],
            rows=self.rows,
            inputs=self.inputs,
            classes=self.classes,
            moments=self.known.moments,
            rng=np.random.default_rng((self.scenario.seed, number)),
        )

    def of(self, designs: Iterable[TableDesign]) -> list[TriedDesign]:
        scenario, classes, distance_metres = self.scenario, self.classes, self._distance_metres
        settings = {
            design: NoisyDesign.of(design.applied_to(scenario), self.inputs, classes, distance_metres)
            for design in designs
        }
        found: dict[TableDesign, list[float]] = {design: [] for design in settings}
        for number in range(TABLES):
            self._progress(self.times, number + self._stage * TABLES, 2 * TABLES)
            table = self.table(number)
            encoded: dict[TableDesign, EncodedTable] = {}
            for design, setting in settings.items():
                # Learner, rounds and weight change nothing about the encoding.
                key = replace(design, model="", label_weight=1.0, rounds=0)
                if key not in encoded:
                    encoded[key] = EncodedTable(setting.scenario, table, classes, distance_metres, number)
                found[design].append(encoded[key].accuracy(setting))
        self._stage = 1
        self._progress(self.times, TABLES, 2 * TABLES)
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

    def candidates(self) -> Iterator[TableDesign]:
        workers = self.scenario.workers
        own = TableDesign.of(self.scenario)
        plain = replace(own, model="ridge", encoder="clip", features=0, centre="public", norm="clip", rounds=0)
        plain = replace(plain, label_code="one-hot", label_weight=1.0, clip_norm=clipped_share(self._dimensions[0]))
        unit = replace(plain, norm="unit", clip_norm=1.0)
        found = [replace(plain, model=model) for model in _MODELS]
        places = [replace(each, centre=centre) for centre in ("public", "refined") for each in (plain, unit)]
        counts = [count for count in _FEATURES if count * _FEWEST_ROWS_PER_FEATURE <= workers.count]
        # Features of rows far from the centre all point one way, so they are tried with the better centre alone.
        centre = "refined" if self._allows(replace(plain, centre="refined")) else "public"
        mixed = replace(unit, encoder="mixed", centre=centre)
        places += [replace(mixed, features=count) for count in counts]
        code = "centred" if workers.constant else "one-hot"
        for place, model, weight in product(places, _MODELS, _WEIGHTS):
            found.append(replace(place, model=model, label_code=code, label_weight=weight))
        # Rounds hardly depend on what they start from, which is solved by least squares.
        few = [replace(unit, centre=centre), *(replace(mixed, features=count) for count in counts[-2:])]
        found += [replace(place, label_code=code, rounds=ROUNDS[0]) for place in few]
        yield from filter(self._allows, dict.fromkeys(found))

    def after(self, tried: list[TriedDesign]) -> Iterator[TableDesign]:
        best = max((each for each in tried if each.design.rounds), key=lambda each: each.accuracy, default=None)
        if best is not None:
            yield from (replace(best.design, rounds=rounds) for rounds in ROUNDS)

    def _allows(self, design: TableDesign) -> bool:
        try:
            design.applied_to(self.scenario)
        except AirMixError:
            return False
        return True


class PublicTrial(TableTrial):
    """Splits of the scenario's own data set, its rows on workers as in a run."""

    def __init__(self, scenario: Scenario, known: KnownInputs, progress: Progress = silent) -> None:
        super().__init__(scenario, known, progress)
        name, self.rows = scenario.workers.dataset, scenario.workers.count
        self.times, self.told = f"splits of {name}", f"{name}, which is public and was read"
        self.inputs, self.classes = self._dimensions
        self._plain = replace(scenario.workers, **_PLAIN, sends="samples", label_code="one-hot", label_weight=1.0)

    def table(self, number: int) -> SyntheticTable:
        """Return the split and the workers of one seed; inputs are scaled by the declared bounds alone."""
        streams = Streams(self.scenario.seed + number)
        rows = load_dataset(self._plain, streams)
        held = deploy(self._plain, rows, streams).sample_index
        return SyntheticTable(
            train_inputs=rows.train_inputs[held],
            train_labels=np.asarray(rows.train_labels)[held],
            test_inputs=rows.test_inputs,
            test_labels=np.asarray(rows.test_labels),
        )


def trial_of(scenario: Scenario, known: KnownInputs, progress: Progress = silent) -> Trial | None:
    """Return what tries designs, the scenario's own rows where these are named and public; None where nothing can.

    That needs classes, and every worker sending the unrounded moments of one row.
    """
    workers = scenario.workers
    at_once = not workers.several_rows and not workers.bits and workers.sends == "moments" and scenario.all_send
    if not at_once or workers.task != "classification":
        return None
    if known.held_dim is None:
        measured = nearest_set(scenario)
        return measured and ImageTrial(scenario, known, measured)
    if workers.encoder not in _TABLE_ENCODERS:
        return None
    return (PublicTrial if known.named and is_public(scenario) else TableTrial)(scenario, known, progress)
