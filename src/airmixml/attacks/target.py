"""What an attack is, and what it is given: one scenario, whose parts are made once, when the first attack asks.

The edge server holds, after the last slot, every mixture, and who went into it with which share (``watch``). Attackers
know samples of the same kind that are nobody's secret (the data set's test part). From them they learn how samples
vary, how to turn an encoder's features back into samples, and how to read their class.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray

from airmixml.arrays import Doubles, Integers, Singles
from airmixml.attacks.least_squares import MixingMatrix
from airmixml.attacks.measured import Findings
from airmixml.attacks.rounds import Round, WatchedRounds, as_heard, weights_of
from airmixml.attacks.sample_symbols import Layout, layout_of, numbers_in
from airmixml.data import DataSet
from airmixml.devices import find_device, physical_memory_bytes
from airmixml.edge.training import collector_for, solve_collected
from airmixml.errors import ScenarioError
from airmixml.progress import Progress, silent
from airmixml.radio.draws import AirSetting, SlotDraws
from airmixml.radio.mixtures import MixtureBlock
from airmixml.radio.transmission import Transmission, open_air, run_here
from airmixml.scenario import RunContext, Scenario, Workers
from airmixml.scenario.consistency import require_classes
from airmixml.streams import Streams
from airmixml.workers import Signal, encoded_dim, load_dataset, sends_inputs_unchanged

NUMBERS_KEPT: Final = 1 << 24
_COPIES: Final = 7  # of the table of all workers, from the first block solved for to the last picture compared
_BYTES_PER_SHARE: Final = 60
_SLOTS_BY_CLASS: Final = 2000
_SEVERAL_ROWS: Final = "workers hold several rows each: what one sends is no sample"
_GRADIENTS: Final = "workers send gradients: what one sends is no sample, and follows from the model of its round"
_RIDGE: Final = 1e-3
_HIDDEN_UNITS: Final = 256
_READER_EPOCHS: Final = 12
_READER_NOISE: Final = (0.15, 0.4)
_FEW_SAMPLES: Final = 2000


@dataclass(frozen=True, kw_only=True, eq=False)
class ServerView:
    """All slots as the server sees them.

    On an air that is not ideal the ratios of ``draws`` are those with which workers were really received: Re(q g / d),
    where the server divided by d, in the mean over the slot.
    """

    transmission: Transmission  # what was sent, with the data as they are sent and who holds which
    layout: Layout  # which numbers of a worker are looked at
    received: torch.Tensor  # mixtures of those numbers; slots x numbers, on the device
    symbols: torch.Tensor  # all symbols of the first slots, as sent; slots x symbols
    matrix: MixingMatrix  # shares, each slot weighted by 1 / (noise variance)
    draws: list[SlotDraws]  # schedule, ratios and powers, block by block
    rounds: tuple[Round, ...] = ()  # of gradients, which are not among the slots above

    @cached_property
    def released(self) -> torch.Tensor:
        """Mixtures of inputs; slots x inputs, or of moments those of each class: (slots classes) x inputs."""
        signal = self.signal
        if not signal.moments:
            return self.received[:, : signal.features]
        products = self.symbols[:, signal.input_symbols :] / signal.label_weight
        return rows_of_classes(products, signal.features, signal.classes)

    @property
    def labels(self) -> torch.Tensor:
        """Mixtures of labels; slots x classes, none of moments, which send no label by itself."""
        signal = self.signal
        return self.received[:, self.received.shape[1] if signal.moments else signal.features :] / signal.label_weight

    @property
    def scenario(self) -> Scenario:
        return self.transmission.scenario

    @property
    def setting(self) -> AirSetting:
        """What stays the same over all slots but rounds."""
        data, population = self.dataset, self.transmission.population
        return AirSetting.of(self.scenario, data.input_dim, data.label_dim, population.distance_metres)

    @property
    def numbers(self) -> range:
        """Numbers of all slots but rounds."""
        return range(sum(map(len, self.draws)))

    @property
    def weights(self) -> Doubles:
        """1 / (variance of the noise on a symbol); shape slots."""
        return self.matrix.weights

    @property
    def signal(self) -> Signal:
        return Signal.of(self.scenario.workers, self.dataset.input_dim, self.dataset.label_dim)

    @property
    def dataset(self) -> DataSet:
        return self.transmission.dataset

    @property
    def held_index(self) -> Integers:
        """Row of the training pool that each worker holds; shape workers."""
        return self.transmission.population.sample_index

    def holders_of(self, rows: Integers) -> Integers:
        """Return the first worker that holds each of these rows of the pool; shape rows."""
        order = np.argsort(self.held_index, kind="stable")
        return np.asarray(order[np.searchsorted(self.held_index, rows, sorter=order)])


Heard = ServerView | Round
"""Slots in each of which a sample sends the same: those of a run that are no rounds, or one round."""


def watch(scenario: Scenario, *, context: RunContext | None = None) -> ServerView:
    """Run all slots of the scenario in a context (device, threads, progress), and return what the server then holds."""
    context = context or RunContext()
    require_classes(scenario.workers, "an attack", single_rows=False)
    device, streams = find_device(context.speed.device), Streams(scenario.seed)
    dataset = load_dataset(scenario.workers, streams, data_dir=context.data_dir, progress=context.progress)
    # A constant is appended only once a private mean is known, so its place counts already here.
    held_dim = dataset.held_dim or dataset.input_dim
    signal = Signal.of(scenario.workers, encoded_dim(scenario.workers, held_dim), dataset.label_dim)
    _check_memory(scenario, signal, device)
    air = open_air([scenario], dataset, None, context)
    received, whole, weights, draws = list[torch.Tensor](), list[torch.Tensor](), list[Doubles](), list[SlotDraws]()
    kept, rounds = slots_kept(_SLOTS_BY_CLASS, signal.symbols), list[Round]()
    if scenario.workers.sends == "gradients":  # all slots are rounds
        on_air, layout = WatchedRounds.alone(air, context), Layout(signal)
        rounds = on_air.watched()
        transmission = on_air.transmission()
    else:
        layout = layout_of(signal, air.dataset, device)
        collector = collector_for(scenario, air.dataset) if scenario.learner.rounds else None

        def receive(_number: int, block: MixtureBlock) -> None:
            received.append(layout.received(block))
            if signal.moments and block.first_slot < kept:
                symbols = torch.cat([block.inputs, signal.label_weight * block.labels], dim=1)
                whole.append(symbols[: kept - block.first_slot].float())
            if collector is not None:
                collector.add(block.inputs, block.labels)
            draws.append(as_heard(block))
            weights.append(weights_of(block, scenario))

        (transmission,) = run_here(air, receive, context)
        if collector is not None:  # the models that were broadcast follow from what was received
            rounds = WatchedRounds.of(transmission, context).watched(*solve_collected(transmission, collector))
    everything = torch.cat(received) if received else torch.zeros((0, signal.features), device=device)
    return ServerView(
        transmission=transmission,
        layout=layout,
        received=everything,
        symbols=torch.cat(whole) if whole else everything,
        matrix=MixingMatrix.of(draws, scenario.workers.count, np.concatenate([np.zeros(0), *weights]), device),
        draws=draws,
        rounds=tuple(rounds),
    )


def no_sample(workers: Workers) -> str:
    """Return why what a worker sends is no sample, which most attacks look for; empty where it is one."""
    return _SEVERAL_ROWS if workers.several_rows else _GRADIENTS if workers.sends == "gradients" else ""


def not_overheard(scenario: Scenario) -> str:
    """Return why an eavesdropper is no adversary of its own: the bits that it receives are those of everyone."""
    real = scenario.privacy.noise_kind.real
    return "" if real else "workers send integers, of which an eavesdropper learns what everyone does"


def _check_memory(scenario: Scenario, signal: Signal, device: torch.device) -> None:
    """Refuse what does not fit rather than be killed half-way."""
    slots, workers, numbers = scenario.radio.slots, scenario.workers.count, numbers_in(signal)
    on_device = 4 * numbers * (2 * slots + _COPIES * workers) + _BYTES_PER_SHARE * slots * scenario.seats
    needs = [(on_device, torch.cuda.mem_get_info(device)[0], str(device))] if device.type == "cuda" else []
    on_host = on_device if device.type == "cpu" else 4 * numbers * _COPIES * workers
    for needed, available, place in [*needs, (on_host, physical_memory_bytes(), "this machine")]:
        if needed > available:
            raise ScenarioError(
                f"radio.slots = {slots}: to attack all {workers} workers at once needs {needed / 1e9:.0f} GB of memory "
                f"and {place} has {available / 1e9:.0f} GB; attack a run of fewer slots or workers"
            )


def slots_kept(slots: int, symbols: int) -> int:
    """Return how many slots of so many symbols are looked at, since all are kept in memory; at least one."""
    return max(1, min(slots, NUMBERS_KEPT // symbols))


def rows_of_classes(labels: torch.Tensor, features: int, classes: int) -> torch.Tensor:
    """Return products with labels (slots x features classes) as mixtures of each class; (slots classes) x features."""
    return labels.reshape(-1, features, classes).transpose(1, 2).reshape(-1, features)


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """What one attack on one setting gave.

    Arrays are kept beside the findings; ``originals`` and ``examples`` (both examples x inputs, in [0, 1]) are drawn.
    """

    findings: Findings
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)


class Attack(Protocol):
    """One way to learn about workers; registered in ``airmixml.registries.ATTACKS`` or by an entry point."""

    about: str  # one line that says how it works
    adversary: str  # who can do it; its claimed epsilon stands beside what was found
    findings: type[Findings]  # class of what it finds, to read back what was kept

    def refusal(self, scenario: Scenario) -> str:
        """Return why the attack does not fit the scenario; empty if it does."""

    def run(self, target: Target) -> Outcome:
        """Attack; an adversary may use what it sees of the target, and the truth only judges what was found."""


@dataclass
class Target:
    """A scenario under attack; pictures show the rows ``examples`` of the pool."""

    scenario: Scenario
    examples: Integers
    context: RunContext = field(default_factory=RunContext)

    @cached_property
    def held(self) -> DataSet:
        """The data as the workers hold them, not encoded; the test part is public."""
        return load_held(self.scenario, data_dir=self.context.data_dir, progress=self.context.progress)

    @cached_property
    def view(self) -> ServerView:
        return watch(self.scenario, context=self.context)

    @cached_property
    def decoder(self) -> Decoder:
        """From what is sent to what is held."""
        return Decoder.learn(self.scenario.workers, self.view.dataset.test_inputs, self.held.test_inputs)

    def some_workers(self, most: int, chapter: int) -> tuple[Integers, np.random.Generator]:
        """Return workers, those who hold the examples first, and the generator that chose the others."""
        generator = Streams(self.scenario.seed).generator("eavesdropper", chapter)
        first, every = self.view.holders_of(self.examples), np.arange(len(self.view.held_index))
        others = generator.permutation(np.setdiff1d(every, first))
        return np.concatenate([first, others])[: max(most, len(first))], generator

    @cached_property
    def reader(self) -> Reader:
        """Of the class of a recovered sample."""
        self.context.progress("reader", 0, 1)
        reader = Reader(self.held.test_inputs, self.held.test_labels, self.scenario.seed)
        self.context.progress("reader", 1, 1)
        return reader


def load_held(scenario: Scenario, *, data_dir: Path | None = None, progress: Progress = silent) -> DataSet:
    """Return the data as the workers hold them, scaled to [0, 1] and not encoded."""
    samples = replace(scenario.workers, sends="samples", bits=0, bits_range=0.0)
    plain = replace(samples, encoder="scale", features=0, centre="none", norm=Workers().norm, constant=0.0)
    return load_dataset(plain, Streams(scenario.seed), data_dir=data_dir, progress=progress)


@dataclass(frozen=True, kw_only=True, eq=False)
class Decoder:
    """Turns what an encoder makes of samples back into samples: linear, learned from public ones.

    Weights are features x inputs, None where nothing was encoded; the offset has the shape of a sample.
    """

    weights: Singles | None
    offset: Singles

    @classmethod
    def learn(cls, workers: Workers, encoded: Singles, held: Singles) -> Self:
        """Learn from public samples, encoded (samples x features) and as they are held (samples x inputs)."""
        if sends_inputs_unchanged(workers):
            return cls(weights=None, offset=np.zeros(held.shape[1], dtype=np.float32))
        from sklearn.linear_model import Ridge

        spread = float(encoded.var(axis=0).sum()) or 1.0
        model = Ridge(alpha=_RIDGE * spread * len(encoded) / encoded.shape[1]).fit(encoded, held)
        return cls(weights=model.coef_.T.astype(np.float32), offset=model.intercept_.astype(np.float32))

    def decode(self, encoded: Singles) -> Singles:
        """Return samples in [0, 1]; samples x inputs."""
        samples = encoded if self.weights is None else encoded @ self.weights + self.offset
        return np.asarray(np.clip(samples, 0.0, 1.0), dtype=np.float32)


class Reader:
    """Reads the class of a recovered sample: a small network trained on public samples, clean and noisy.

    Its ``accuracy`` is that on clean samples that it was not trained on; a recovered sample is read no better.
    """

    def __init__(self, inputs: Singles, labels: Integers, seed: int) -> None:
        """Learn from public samples; samples x inputs in [0, 1], and their classes."""
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.neural_network import MLPClassifier
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        rng = np.random.default_rng(seed)
        order = rng.permutation(len(inputs))
        kept = max(1, len(inputs) // 10)
        train, check = order[kept:] if len(order) > kept else order, order[:kept]
        copies = [inputs[train]]
        for deviation in _READER_NOISE:
            noise = deviation * rng.standard_normal((len(train), inputs.shape[1]), dtype=np.float32)
            copies.append(np.clip(inputs[train] + noise, 0.0, 1.0))
        few = len(train) < _FEW_SAMPLES
        network = MLPClassifier(
            (_HIDDEN_UNITS,),
            solver="lbfgs" if few else "adam",
            alpha=1.0 if few else 1e-4,
            max_iter=200 if few else _READER_EPOCHS,
            random_state=seed % 2**32,
        )
        # Pixels that never vary are left as they are rather than blown up; pictures are in [0, 1] already.
        self._model = make_pipeline(StandardScaler(with_std=few), network)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # so many epochs are enough to read digits
            self._model.fit(np.concatenate(copies), np.tile(labels[train], len(copies)))
        self.accuracy = float((self.read(inputs[check]) == labels[check]).mean())

    def read(self, samples: Singles) -> Integers:
        """Return the class that each sample looks like; shape samples."""
        return np.asarray(self._model.predict(samples), dtype=np.int64)
