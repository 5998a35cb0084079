"""One design tried on one synthetic table: the real closed form and the real descent, with the noise of a run.

No radio is simulated: moments and gradients get the noise that the privacy target leaves on their mean.
"""

import math
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Final, Self

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray

from airmixml.arrays import Doubles, Singles, dbm_to_watts
from airmixml.data.labels import Centred, OneHot
from airmixml.edge.closed_form import MomentsCollector, ReceivedMoments, solve
from airmixml.edge.rounds import descend
from airmixml.planning.synthetic_tables import SyntheticTable
from airmixml.radio.centring import plan_centring
from airmixml.radio.noise import expected_noise
from airmixml.radio.path_loss import worker_path_gain
from airmixml.radio.power_calibration import private_received_watts
from airmixml.radio.system import System
from airmixml.scenario import Scenario
from airmixml.streams import Streams
from airmixml.workers import Signal, encode, encode_centred, encoded_dim
from airmixml.workers.broadcasts import Broadcast
from airmixml.workers.moments import pack_symmetric

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
