"""Synthetic tables, rows with classes that no one holds, and one design tried on one of them before any data is read.

Real tables differ, but some traits are common to them. Few directions hold most of the variance. Classes differ in some
of these and in others that hardly vary. Some classes fall into groups. Columns are skewed, and round bounds leave them
far from the middle. Several kinds are made, so that no design is chosen for a single one.

A trial is the real closed form and the real descent, with the noise of a run. No radio is simulated: moments and
gradients get the noise that the privacy target leaves on their mean.
"""

import math
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Final, Self

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray

from airmixml.arrays import Doubles, Integers, Singles, dbm_to_watts
from airmixml.data.labels import Centred, OneHot
from airmixml.edge.closed_form import MomentsCollector, ReceivedMoments, solve
from airmixml.edge.descents import descend
from airmixml.impairments.fading import worker_path_gain
from airmixml.planning.slot_designs import InputMoments
from airmixml.radio.centring import plan_centring
from airmixml.radio.noise import expected_noise
from airmixml.radio.power_calibration import private_received_watts
from airmixml.radio.system import System
from airmixml.scenario import Scenario
from airmixml.streams import Streams
from airmixml.workers import Signal, encode, encode_centred, encoded_dim
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


_SHORTEST: Final = 1e-30


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


class EncodedTable:
    """A synthetic table as designs with the same encoding send it: its moments, to which each adds its noise."""

    def __init__(
        self, scenario: Scenario, table: SyntheticTable, classes: int, distance_metres: Doubles, number: int
    ) -> None:
        self._classes, self._number = classes, number
        self._received: dict[tuple[float, float], ReceivedMoments] = {}
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
        self._train_labels, self._test_labels = table.train_labels, table.test_labels
        code = Centred(classes) if workers.label_code == "centred" else OneHot(classes)
        self._labels = code.coded(table.train_labels)

    @cached_property
    def _products(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Mean second moments as they are sent (symbols), and mean moments with the label (d x classes)."""
        inputs = torch.from_numpy(self._train).double()
        labels = torch.from_numpy(self._labels).double()
        second = inputs.T @ inputs / len(inputs)
        return pack_symmetric(second[None])[0], inputs.T @ labels / len(inputs)

    def accuracy(self, design: NoisyDesign) -> float:
        """Return the share of test rows that the design's learner gets right."""
        scenario, rounds = design.scenario, design.scenario.learner.rounds
        sent = design.variance, scenario.workers.label_weight
        if sent not in self._received:  # other learners and other numbers of rounds begin with the same
            self._received[sent] = self._receive(design)
        moments = self._received[sent]
        solution = solve(scenario.learner, moments)
        if rounds:
            send = partial(self._round, design, np.random.default_rng((self._number, 3)))
            *_, solution = descend(scenario, send, rounds, solution, moments)
        weights, biases = solution
        scores = torch.from_numpy(self._test).double() @ weights + biases
        right: NDArray[np.bool_] = scores.argmax(dim=1).numpy() == self._test_labels
        return float(right.mean())

    def _receive(self, design: NoisyDesign) -> ReceivedMoments:
        """Return the moments with their noise."""
        workers, noise = design.scenario.workers, math.sqrt(design.variance)
        rng = np.random.default_rng((self._number, 2))
        second, cross = self._products
        received = second + noise * torch.from_numpy(rng.standard_normal(len(second)))
        labelled = cross.flatten() + noise / workers.label_weight * torch.from_numpy(rng.standard_normal(cross.numel()))
        squared_norm = workers.clip_norm**2 if workers.norm == "unit" else 0.0
        constant = workers.constant * workers.clip_norm
        collector = MomentsCollector(design.signal, constant=constant, squared_norm=squared_norm)
        collector.add(received[None], labelled[None])
        return collector.moments(design.variance, 1.0)

    def _round(self, design: NoisyDesign, rng: Generator, told: Broadcast) -> tuple[torch.Tensor, float]:
        """Return the mean clipped gradient as it is received, features x classes, and the deviation of its noise."""
        errors = told.errors(self._train, self._one_hot)
        lengths = self._norms * np.sqrt(np.einsum("ij,ij->i", errors, errors))
        clipped = errors * np.minimum(1.0, told.clip / np.maximum(lengths, _SHORTEST))[:, None]
        gradient = self._train.T @ clipped.astype(np.float32) / len(errors)
        # Gradients are sent in units of the clip, and are then as long as moments at most.
        largest = math.sqrt(design.signal.largest_squared_norm(design.scenario.workers.clip_norm**2))
        deviation = math.sqrt(design.round_variance) * told.clip / largest
        return torch.from_numpy(gradient + deviation * rng.standard_normal(gradient.shape)), deviation

    @cached_property
    def _norms(self) -> Doubles:
        return np.asarray(np.linalg.norm(self._train, axis=1).astype(np.float64))

    @cached_property
    def _one_hot(self) -> Singles:
        return OneHot(self._classes).coded(self._train_labels)
