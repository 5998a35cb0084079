"""What an attack is, and what it is given: one scenario, whose parts are made once, when the first attack asks.

Attackers know samples of the same kind that are nobody's secret (the data set's test part). From them they learn how
samples vary, how to turn an encoder's features back into samples, and how to read their class.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from airmixml.arrays import Integers, Singles
from airmixml.attacks.measured import Findings
from airmixml.attacks.watched import ServerView, watch
from airmixml.data import DataSet
from airmixml.progress import Progress, silent
from airmixml.scenario import RunContext, Scenario, Workers
from airmixml.streams import Streams
from airmixml.workers import load_dataset, sends_inputs_unchanged

_SEVERAL_ROWS: Final = "workers hold several rows each: what one sends is no sample"
_GRADIENTS: Final = "workers send gradients: what one sends is no sample, and follows from the model of its round"
_RIDGE: Final = 1e-3
_HIDDEN_UNITS: Final = 256
_READER_EPOCHS: Final = 12
_READER_NOISE: Final = (0.15, 0.4)
_FEW_SAMPLES: Final = 2000


def fits(_scenario: Scenario) -> str:
    """Return no refusal."""
    return ""


def no_sample(scenario: Scenario) -> str:
    """Return why what a worker sends is no sample, which most attacks look for; empty where it is one."""
    workers = scenario.workers
    return _SEVERAL_ROWS if workers.several_rows else _GRADIENTS if workers.sends == "gradients" else ""


def not_overheard(scenario: Scenario) -> str:
    """Return why an eavesdropper is no adversary of its own: the bits that it receives are those of everyone."""
    real = scenario.privacy.noise_kind.real
    return "" if real else "workers send integers, of which an eavesdropper learns what everyone does"


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
