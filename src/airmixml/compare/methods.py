"""What a method of a comparison is, what it is given and gives back, and which methods are run.

To add one, write a file with an object that has what ``Method`` lists, and name it in ``airmixml.registries`` or,
from another package, in an entry point of the group ``airmixml.methods``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from airmixml.arrays import find_device
from airmixml.data import DataSet, known_dataset
from airmixml.files import to_plain
from airmixml.messages import PrivacyError, ScenarioError
from airmixml.privacy import PrivacyStatement
from airmixml.registries import ADVERSARIES, METHODS, NOISES
from airmixml.scenario import RunContext, Scenario, Speed, Workers
from airmixml.streams import Streams
from airmixml.workers import Population, deploy, load_dataset

if TYPE_CHECKING:
    import torch

_MOST_SAMPLES_ON_A_CPU: Final = 20_000
LEVEL: Final = 0.05  #: of chance: two-sided, for each pair of methods
HEARING: Final = ("server", "eavesdropper", "everyone")  #: adversaries of whom every method says an epsilon


@dataclass(frozen=True, kw_only=True)
class Exposure:
    """Epsilon against each adversary, for the scenario's neighbours and delta.

    It is infinite where nothing can be promised, and None where that adversary hears nothing.
    """

    server: float | None  #: with its own receiver; it knows who sent when
    eavesdropper: float | None  #: the scenario's
    everyone: float | None  #: hears every worker separately, without receiver noise, and is told what the server is
    rests_on: str  #: what hides a worker

    @classmethod
    def of_statements(cls, state: Callable[[str], PrivacyStatement], *, noise: str) -> Self:
        """Return what ``state`` says against the adversary of each name; where it refuses, nothing is promised.

        ``noise`` is ``privacy.noise``: whose noise hides a worker.
        """

        def epsilon(name: str) -> float:
            try:
                return state(name).epsilon if name in ADVERSARIES else math.inf
            except PrivacyError:
                return math.inf

        return cls(**{name: epsilon(name) for name in HEARING}, rests_on=NOISES.load(noise).rests_on)

    @classmethod
    def worst(cls, seeds: Iterable[Self]) -> Self:
        """Return the largest epsilon of all seeds against each adversary."""
        first, *others = seeds
        by_name = {name: [getattr(each, name) for each in (first, *others)] for name in HEARING}
        worst = {name: None if None in found else max(found) for name, found in by_name.items()}
        return cls(**worst, rests_on=first.rests_on)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, which has no infinity: it is the text "infinite" there."""
        return {name: "infinite" if value == math.inf else value for name, value in vars(self).items()}


@dataclass(frozen=True, kw_only=True)
class RightRows:
    """Which test rows a model got right, "1" or "0" for each, and which one answer for all of them, the best, does.

    Methods with the same ``guess`` were tested on the same rows.
    """

    right: str
    guess: str

    @classmethod
    def of(cls, dataset: DataSet, predicted: NDArray[np.int64]) -> Self:
        """Return what was right of the classes predicted for the test rows."""
        from airmixml.runs.baselines import right_and_guessed  # here: it loads torch

        right, guess = ("".join("01"[int(each)] for each in rows) for rows in right_and_guessed(dataset, predicted))
        return cls(right=right, guess=guess)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What one method gave with one seed."""

    accuracy: float  #: on the clean test set, of the model after the last step
    privacy: tuple[PrivacyStatement, ...]  #: for the scenario's neighbours, then for the other kind where there is one
    exposure: Exposure  #: epsilon against each adversary
    tested: RightRows  #: which test rows were right
    row_copies: int = 1  #: on how many workers a row of the data, or a person, lies at most; the comparison counts it
    uplink_symbols: int | None = None  #: channel uses of the whole run, all workers together; None without a radio
    uplink_unit: str = "symbols"  #: what these are: symbols, or bits of a digital link
    downlink_bits: int | None = None  #: what the server broadcasts in the whole run, such as models
    slots_per_worker: int | None = None  #: in how many slots a worker sends at most: how often it must be reachable
    air_seconds: float | None = None  #: how long they take
    energy_joules: float | None = None  #: what all workers radiate
    bandwidth_hz: float | None = None  #: the spectrum that is taken for that time
    trusted: str = ""  #: what must be true for the guarantee to hold, in words; empty where the method does not say
    worker_multiply_accumulates: int = 0  #: what an average worker computes over the whole run
    seconds: float = 0.0  #: wall time, without loading the data

    def __post_init__(self) -> None:
        if not 0.0 <= self.accuracy <= 1.0 or not self.privacy:
            raise ValueError("an outcome has an accuracy between 0 and 1 and at least one privacy statement")

    def to_dict(self) -> dict[str, Any]:
        return to_plain(self)


@dataclass(kw_only=True)
class Work:
    """The same work for all methods: one seed of a scenario, its data and its workers."""

    scenario: Scenario  #: what is compared at, with the seed of this run
    context: RunContext = field(default_factory=RunContext)  #: device, threads, where MNIST is, progress
    loading_seconds: float = 0.0  #: time spent on loading data so far
    row_copies: int = 1  #: on how many workers a row of the loaded data lies at most
    _loaded: dict[Workers, DataSet] = field(default_factory=dict)

    @property
    def device(self) -> torch.device:
        """Where to compute."""
        return find_device(self.context.speed.device)

    def load(self, workers: Workers) -> tuple[DataSet, Population]:
        """Return the data as such workers encode them, and who holds which sample where: the same for all methods.

        Data are loaded once for all methods that encode alike.
        """
        plain, seed = Workers(), self.scenario.seed
        unread = ("sends", "label_weight", "bits", "bits_range", "centre_share")  # what loading does not depend on
        key = replace(workers, **{name: getattr(plain, name) for name in unread})
        if key not in self._loaded:
            started = time.perf_counter()
            self._loaded[key] = load_dataset(
                workers,
                Streams(seed),
                data_dir=self.context.data_dir,
                progress=self.context.progress,
                device=self.context.speed.device,
            )
            self.loading_seconds += time.perf_counter() - started
        dataset = self._loaded[key]
        population = deploy(self.scenario.workers, dataset.train_samples, Streams(seed))
        self.row_copies = int(np.bincount(population.sample_index).max())
        return dataset, population


class Method(Protocol):
    """One way to learn from the workers of a scenario; classes that derive from it inherit what they leave out."""

    about: str  #: what it is, in a few words
    on_air: bool = False  #: whether it is simulated on the scenario's air; others get the ideal one

    def run(self, work: Work) -> Outcome:
        """Learn on the data and workers of ``work``, within its privacy target, and say what it gave and cost."""
        ...

    def missing(self) -> str:
        """Return why it cannot be run on this machine; empty where it can."""
        return ""

    def skipped(self, scenario: Scenario, speed: Speed) -> str:
        """Return why it is run only if asked for by name; empty where it is run anyway."""
        return ""


def slow_on_a_cpu(scenario: Scenario, speed: Speed) -> str:
    """Return why a network is not trained on these data unless asked for; empty where it is."""
    known = known_dataset(scenario.workers.dataset)
    samples = max(scenario.workers.count, 0 if known is None else known.train_samples)
    slow = samples > _MOST_SAMPLES_ON_A_CPU and speed.device == "cpu"
    return "takes long on a CPU: name it in --methods or use --device cuda" if slow else ""


def load_methods(*names: str) -> dict[str, Method]:
    """Return methods by name; a wrong name is refused before any method is imported."""
    for name in names:
        if name not in METHODS:
            METHODS.load(name)  # raises
    return {name: METHODS.load(name) for name in names}


def choose_methods(asked: str | None, scenario: Scenario, speed: Speed) -> tuple[dict[str, Method], dict[str, str]]:
    """Return the methods to run by name, and why the others are left out.

    ``asked`` holds names with commas between them; None is for all that can run this scenario at this speed.
    """
    if not scenario.mixing.power_policy.keeps_target:
        raise ScenarioError(
            f'mixing.power = "{scenario.mixing.power}": must be "dp" for a comparison, whose methods all keep one '
            "privacy target; use --set mixing.power=dp"
        )
    if asked is not None:
        chosen = load_methods(*(name.strip() for name in asked.split(",")))
        for name, method in chosen.items():
            if method.missing():
                raise ScenarioError(f"--methods {name}: {method.missing()}")
        return chosen, {}
    known = load_methods(*METHODS.names)
    left_out = {name: method.missing() or method.skipped(scenario, speed) for name, method in known.items()}
    return (
        {name: method for name, method in known.items() if not left_out[name]},
        {name: why for name, why in left_out.items() if why},
    )
