"""What a method is given, and what it gives back."""

import time
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from airmixml.data import DataSet
from airmixml.devices import find_device
from airmixml.privacy import PrivacyStatement
from airmixml.scenario import RunContext, Scenario, Workers
from airmixml.storage.results import to_plain
from airmixml.streams import Streams
from airmixml.workers import Population, deploy, load_dataset


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What one method gave with one seed.

    Attributes:
        accuracy: on the clean test set, of the model after the last step.
        privacy: the guarantee for the scenario's neighbours, then for the other kind where there is one.
        uplink_symbols: channel uses of the whole run, all workers together; None where no radio is used.
        air_seconds: how long they take.
        energy_joules: what all workers radiate.
        worker_multiply_accumulates: what an average worker computes over the whole run.
        seconds: wall time, without loading the data.
    """

    accuracy: float
    privacy: tuple[PrivacyStatement, ...]
    uplink_symbols: int | None = None
    air_seconds: float | None = None
    energy_joules: float | None = None
    worker_multiply_accumulates: int = 0
    seconds: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.accuracy <= 1.0 or not self.privacy:
            raise ValueError("an outcome has an accuracy between 0 and 1 and at least one privacy statement")

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome as plain values for JSON."""
        return to_plain(self)


@dataclass(kw_only=True)
class Work:
    """The same work for all methods: one seed of a scenario, its data and its workers.

    Attributes:
        scenario: what is compared at, with the seed of this run.
        context: device, threads, where MNIST is, and what is told of the progress.
        loading_seconds: time spent on loading data so far.
    """

    scenario: Scenario
    context: RunContext = field(default_factory=RunContext)
    loading_seconds: float = 0.0
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
                workers, Streams(seed), data_dir=self.context.data_dir, progress=self.context.progress
            )
            self.loading_seconds += time.perf_counter() - started
        dataset = self._loaded[key]
        return dataset, deploy(self.scenario.workers, dataset.train_samples, Streams(seed))
