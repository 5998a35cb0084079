"""Batches: scenarios that are run together, on any engine, and kept as soon as they are finished.

A kind says what is done with scenarios (``cells.py``). What it keeps in one file is a part: one
cell of a grid, or all networks of one stack. What a part gives depends on nothing but the part and the kind of device:
not on the number of jobs, the engine, or which other parts there are.
"""

from __future__ import annotations

import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from airmixml.arrays import find_device, physical_memory_bytes
from airmixml.data import KnownDataSet, known_dataset, warn_of_clipping
from airmixml.engines.processes import Tell
from airmixml.messages import AirMixError, DataError, PluginError, RunFolderError
from airmixml.progress import Progress
from airmixml.registries import DATASETS
from airmixml.scenario import RunContext, Scenario, Speed
from airmixml.scenario.scenario import identity_of
from airmixml.streams import Streams
from airmixml.version import __version__
from airmixml.workers import encoded_dim, load_dataset

if TYPE_CHECKING:
    from airmixml.runs.model_files import FileCheckpoint

# Mixtures are held twice while they are stacked: as simulated and in the stack.
_COPIES: Final = 2
_BYTES_AT_ONCE: Final = {"cpu": 1_500_000_000, "cuda": 26_000_000_000}
_MOST_AT_ONCE: Final = 64
_MOST_IN_CLOSED_FORM: Final = 16  # each holds only its moments
_BATCHES_PER_JOB: Final = 2
_BYTES_PER_PROCESS: Final = 800_000_000

Outcome = dict[str, Any]
"""What a scenario gave, metrics by name; ``error`` alone, in one line, where it could not be run."""


@dataclass(frozen=True)
class Kind(ABC):
    """What is done with scenarios, and what of it is kept."""

    name: ClassVar[str]
    default_metrics: ClassVar[tuple[str, ...]] = ()  #: that tables show unless asked for others, where they are there
    note: ClassVar[str] = ""  #: what a reader of the table must know
    stacked: ClassVar[bool] = False  #: all scenarios of a batch depend on each other, and are kept in one file
    needs_data: ClassVar[bool] = True  #: data are loaded, on the device that was asked for; else it is the CPU

    @property
    def asked(self) -> str:
        """Options of the command, as JSON."""
        return ""

    def check(self, scenario: Scenario) -> None:  # noqa: B027
        """Refuse a scenario that it cannot be done with."""

    def group(self, scenario: Scenario) -> Hashable:
        """Return what is equal for scenarios that can be run together."""
        return scenario

    def prepare(self, parts: Sequence[Part], data_dir: Path | None, progress: Progress) -> None:
        """Refuse a device or data that are not there before anything is made; download what all processes need."""
        if not self.needs_data:
            return
        find_device(parts[0].device)
        firsts = {part.scenarios[0].workers.dataset: part.scenarios[0] for part in parts}
        for scenario in firsts.values():
            known = known_dataset(scenario.workers.dataset)
            try:
                if known is not None:
                    known.read(data_dir, progress)  # encoding may take long, and each process does it anyway
                    continue
                data = load_dataset(scenario.workers, Streams(scenario.seed), data_dir=data_dir, progress=progress)
            except AirMixError:
                if len(firsts) == 1 or self.stacked:
                    raise
                continue  # the cells with these data say so
            values = (data.held_dim or data.input_dim) * (data.train_samples + len(data.test_labels))
            warn_of_clipping(data.clipped_values, values)

    def first_names(self) -> set[str]:
        """Return what the names of all metrics begin with; nothing where only a result says that."""
        return set()

    @abstractmethod
    def measure(self, parts: Sequence[Part], context: RunContext, place: Place) -> Iterator[Outcome]:
        """Yield what each scenario of parts that are run together gives, in order."""

    def run(self, batch: Batch, place: Place) -> Iterator[tuple[Part, list[Outcome]]]:
        """Yield what the scenarios of each part gave, as soon as it is finished."""
        finished, device = 0, batch[0].device

        def told(stage: str, done: int, total: int) -> None:
            if stage in ("training", "attacks") and total:
                place.tell((finished + done / total) / len(batch))

        # One thread: batches run side by side, and their number must not change what one of them gives.
        speed = Speed(device=device, threads=1 if device == "cpu" else 0)
        context = RunContext(speed=speed, data_dir=place.data_dir, progress=told)
        outcomes = self.measure(batch, context, place)
        for part in batch:
            found = list(islice(outcomes, len(part.scenarios)))
            finished += 1
            yield part, found


@dataclass(frozen=True, kw_only=True)
class Part:
    """Scenarios whose outcomes are kept in one file."""

    kind: Kind  #: what is done with them
    scenarios: tuple[Scenario, ...]  #: one, or those of a stack
    device: str = "cpu"  #: where to compute
    data: str = ""  #: digest of the user's files

    @cached_property
    def digest(self) -> str:
        """Name of the part: equal for equal work."""
        content: dict[str, Any] = {
            "kind": self.kind.name,
            "scenarios": [scenario.to_json() for scenario in self.scenarios],
            "device": self.device.partition(":")[0],
            "airmixml": __version__,
        }
        if not self.kind.stacked:
            content |= {"asked": self.kind.asked, "data": self.data}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:24]

    @property
    def seed(self) -> int:
        """The seed of all its scenarios."""
        return self.scenarios[0].seed

    @property
    def bytes_needed(self) -> int:
        """The memory that its mixtures take, roughly; 0 where none are held."""
        return sum(map(mixture_bytes, self.scenarios)) if self.kind.needs_data else 0


Batch = tuple[Part, ...]  #: Parts of one kind that are run together


def cut_into_batches(scenarios: Sequence[Scenario], kind: Kind, *, device: str = "cpu", jobs: int = 1) -> list[Batch]:
    """Cut scenarios into batches that fit into memory; equal scenarios are run once.

    No batch is so large that one of the jobs would be left without work; ``jobs`` = 0 puts every scenario alone. Where
    scenarios are not stacked, how they are cut changes no outcome.
    """
    device = device if kind.needs_data else "cpu"
    digests: dict[tuple[str, str], str] = {}  # of the user's files: data, and what an encoder is made of
    groups: dict[Hashable, list[Scenario]] = {}
    for scenario in dict.fromkeys(scenarios):
        kind.check(scenario)
        files = scenario.workers.dataset, scenario.workers.encoder
        if not kind.stacked and files not in digests:
            identity = identity_of(scenario)
            digests[files] = identity["data"] + identity.get("encoder", "")
        groups.setdefault(kind.group(scenario) if jobs else scenario, []).append(scenario)
    fair = len(scenarios) if jobs == 1 else max(1, len(scenarios) // (_BATCHES_PER_JOB * max(1, jobs)))
    batches: list[Batch] = []
    for alike in groups.values():
        size = min(fair, 1 if len(alike) == 1 else _most_at_once(kind, alike[0], device))
        data = digests.get((alike[0].workers.dataset, alike[0].workers.encoder), "")
        for start in range(0, len(alike), size):
            some = tuple(alike[start : start + size])
            kept_together = [some] if kind.stacked else [(scenario,) for scenario in some]
            batches.append(tuple(Part(kind=kind, scenarios=each, device=device, data=data) for each in kept_together))
    return batches


def _most_at_once(kind: Kind, scenario: Scenario, device: str) -> int:
    """Return how many scenarios of that size have room for what they hold; 1 where the size is not known."""
    if not kind.needs_data:
        return 1 << 30
    if scenario.learner.closed_form:
        return _MOST_IN_CLOSED_FORM
    each, room = mixture_bytes(scenario), _BYTES_AT_ONCE["cuda" if device.startswith("cuda") else "cpu"]
    return max(1, min(_MOST_AT_ONCE, room // each)) if each else 1


def mixture_bytes(scenario: Scenario) -> int:
    """Return the memory that the mixtures for a network take; 0 where the size of the data is not known."""
    if scenario.learner.closed_form or known_dataset(scenario.workers.dataset) is None:
        return 0
    return 4 * _COPIES * scenario.radio.slots * sum(dimensions(scenario))


def dimensions(scenario: Scenario) -> tuple[int, int]:
    """Return d_X as it leaves the encoder, and d_Y, of a data set that is known by name."""
    known: KnownDataSet = DATASETS.load(scenario.workers.dataset)
    return encoded_dim(scenario.workers, known.input_dim), known.label_dim


def may_be_mended(problem: Exception) -> bool:
    """Return whether an error is not of a scenario's making, so that the same command tries it again."""
    return not isinstance(problem, AirMixError) or isinstance(problem, (DataError, PluginError, RunFolderError))


def silent_share(_share: Any) -> None:
    """Report nothing of how far a batch is."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where batches find MNIST and keep their beginnings, and what is told how far they are."""

    data_dir: Path | None = None  #: folder to look for MNIST in
    folder: Path | None = None  #: for the beginnings of parts; None where nothing can be kept
    checkpoint_seconds: float = 5.0  #: time between checkpoints of a training
    tell: Tell = silent_share  #: gets the share of a batch that is done

    def beginnings(self, part: Part) -> Path | None:
        """Return the folder for the beginnings of a part."""
        return None if self.folder is None else self.folder / f"{part.digest}.partial"

    def checkpoint(self, part: Part, made_with: str) -> FileCheckpoint | None:
        """Return what keeps the state of a part's training; None where nothing can be kept."""
        from airmixml.runs.model_files import FileCheckpoint

        folder = self.beginnings(part)
        if folder is None:
            return None
        return FileCheckpoint(folder, made_with=made_with, every_seconds=self.checkpoint_seconds)


def useful_jobs(batches: Sequence[Batch]) -> int:
    """Return one job per core as far as memory allows; one for a GPU."""
    if any(map(on_gpu, batches)):
        return 1
    largest = max((sum(part.bytes_needed for part in batch) for batch in batches), default=0)
    return min(os.cpu_count() or 1, physical_memory_bytes() // (_BYTES_PER_PROCESS + largest))


def on_gpu(batch: Batch) -> bool:
    """Return whether a batch is computed on a GPU."""
    return batch[0].device.startswith("cuda")
