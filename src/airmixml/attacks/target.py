"""What an attack is, and what it is given: one setting, whose parts are made once, when the first attack asks.

An attacker knows samples of the same kind that are nobody's secret (the data set's test part). From them it learns how
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

from airmixml.attacks.grades import Findings
from airmixml.attacks.server_view import ServerView, watch
from airmixml.data import DataSet
from airmixml.progress import Progress, silent
from airmixml.scenario import RunContext, Scenario, Workers
from airmixml.streams import Streams
from airmixml.workers import load_dataset, sends_inputs_unchanged

_RIDGE: Final = 1e-3
_HIDDEN_UNITS: Final = 256
_READER_EPOCHS: Final = 12
_READER_NOISE: Final = (0.15, 0.4)
_FEW_SAMPLES: Final = 2000


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
    """One setting under attack.

    Pictures show the rows ``examples`` of the pool; ``readers`` that were trained already are shared between settings.
    """

    scenario: Scenario
    examples: NDArray[np.int64]
    context: RunContext = field(default_factory=RunContext)
    readers: dict[Any, Reader] = field(default_factory=dict)

    @cached_property
    def held(self) -> DataSet:
        """The data as the workers hold them, not encoded; the test part is public."""
        return load_held(self.scenario, data_dir=self.context.data_dir, progress=self.context.progress)

    @cached_property
    def view(self) -> ServerView:
        """All slots as the server sees them."""
        return watch(self.scenario, context=self.context)

    @cached_property
    def decoder(self) -> Decoder:
        """From what is sent to what is held."""
        return Decoder.learn(self.scenario.workers, self.view.dataset.test_inputs, self.held.test_inputs)

    @property
    def reader(self) -> Reader:
        """Of the class of a recovered sample."""
        workers = self.scenario.workers
        key = (workers.dataset, workers.train_samples, workers.input_lower, workers.input_upper, self.scenario.seed)
        if key not in self.readers:
            self.context.progress("reader", 0, 1)
            self.readers[key] = Reader(self.held.test_inputs, self.held.test_labels, self.scenario.seed)
            self.context.progress("reader", 1, 1)
        return self.readers[key]


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

    weights: NDArray[np.float32] | None
    offset: NDArray[np.float32]

    @classmethod
    def learn(cls, workers: Workers, encoded: NDArray[np.float32], held: NDArray[np.float32]) -> Self:
        """Learn from public samples, encoded (samples x features) and as they are held (samples x inputs)."""
        if sends_inputs_unchanged(workers):
            return cls(weights=None, offset=np.zeros(held.shape[1], dtype=np.float32))
        from sklearn.linear_model import Ridge

        spread = float(encoded.var(axis=0).sum()) or 1.0
        model = Ridge(alpha=_RIDGE * spread * len(encoded) / encoded.shape[1]).fit(encoded, held)
        return cls(weights=model.coef_.T.astype(np.float32), offset=model.intercept_.astype(np.float32))

    def decode(self, encoded: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return samples in [0, 1]; samples x inputs."""
        samples = encoded if self.weights is None else encoded @ self.weights + self.offset
        return np.asarray(np.clip(samples, 0.0, 1.0), dtype=np.float32)


class Reader:
    """Reads the class of a recovered sample: a small network trained on public samples, clean and noisy.

    Its ``accuracy`` is that on clean samples that it was not trained on; a recovered sample is read no better.
    """

    def __init__(self, inputs: NDArray[np.float32], labels: NDArray[np.int64], seed: int) -> None:
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

    def read(self, samples: NDArray[np.float32]) -> NDArray[np.int64]:
        """Return the class that each sample looks like; shape samples."""
        return np.asarray(self._model.predict(samples), dtype=np.int64)
