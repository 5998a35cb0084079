"""Batches: scenarios that are run together, on any engine, and kept as soon as they are finished.

A kind says what is done with scenarios (``sweeps/kinds``, one file each). What it keeps in one file is a part: one
cell of a grid, or all networks of one stack. What a part gives depends on nothing but the part and the kind of device:
not on the number of jobs, the engine, or which other parts there are.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from airmixml.data import KnownDataSet, known_dataset, warn_of_clipping
from airmixml.devices import physical_memory_bytes
from airmixml.doors import DATASETS
from airmixml.engines import Engine
from airmixml.engines.work import Lost, Tell, Work
from airmixml.errors import AirMixError
from airmixml.progress import Progress, silent
from airmixml.scenario import Scenario
from airmixml.storage.files import locked, remove_temporaries
from airmixml.storage.results import ResultStore, from_plain, to_plain
from airmixml.storage.run_folder import identity_of
from airmixml.storage.study import Budget, Study
from airmixml.streams import Streams
from airmixml.version import __version__
from airmixml.wording import one_line
from airmixml.workers import encoded_dim

if TYPE_CHECKING:
    from airmixml.runs.model_files import FileCheckpoint

# Mixtures are held twice while they are stacked: as simulated and in the stack.
_COPIES: Final = 2
_BYTES_AT_ONCE: Final = {"cpu": 1_500_000_000, "cuda": 26_000_000_000}
_MOST_AT_ONCE: Final = 64
_BATCHES_PER_JOB: Final = 2
_BYTES_PER_PROCESS: Final = 800_000_000
_SHARES: Final = 1000
_ROUNDING: Final = 1e-6


@dataclass(frozen=True)
class Kind(ABC):
    """What is done with scenarios, and what of it is kept."""

    name: ClassVar[str]
    stacked: ClassVar[bool] = False
    """Whether all scenarios of a batch are kept in one file, because they depend on each other."""
    on_device: ClassVar[bool] = True
    """Whether it computes on the device that was asked for, or on the CPU anyway."""

    needs_data: ClassVar[bool] = True
    """Whether data are loaded."""

    @property
    def asked(self) -> str:
        """Options of the command, as JSON."""
        return ""

    def check(self, scenario: Scenario) -> None:  # noqa: B027
        """Refuse a scenario that it cannot be done with."""

    def group(self, scenario: Scenario) -> Hashable:
        """Return what is equal for scenarios that can be run together."""
        return scenario

    def most_at_once(self, scenario: Scenario, device: str) -> int:
        """Return how many scenarios of that size have room for what they hold."""
        return 1

    def work(self, part: Part) -> int:
        """Return how long a part takes, roughly, in units that only compare parts."""
        return 1

    def bytes_needed(self, part: Part) -> int:
        """Return the memory that a part takes, roughly; 0 where it is little."""
        return 0

    def prepare(self, parts: Sequence[Part], data_dir: Path | None, progress: Progress) -> None:
        """Refuse a device or data that are not there before anything is made; download what all processes need."""
        if not self.needs_data:
            return
        from airmixml.devices import find_device  # torch takes seconds to load, and may not be needed
        from airmixml.workers import load_dataset

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

    @abstractmethod
    def run(self, batch: Batch, place: Place) -> Iterator[tuple[Part, list[Any]]]:
        """Yield what the scenarios of each part gave, as soon as it is finished; ``Failed`` where one is refused."""

    @abstractmethod
    def read(self, part: Part, plain: Any) -> Any:
        """Return what a scenario gave of its plain values; raise ValueError where they are odd."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """Scenarios whose outcomes are kept in one file.

    Attributes:
        kind: what is done with them.
        scenarios: one, or those of a stack.
        device: where to compute.
        data: digest of the user's files.
    """

    kind: Kind
    scenarios: tuple[Scenario, ...]
    device: str = "cpu"
    data: str = ""

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
    def work(self) -> int:
        """How long it takes, roughly, in units that only compare parts."""
        return self.kind.work(self)

    @property
    def seed(self) -> int:
        """The seed of all its scenarios."""
        return self.scenarios[0].seed


Batch = tuple[Part, ...]
"""Parts of one kind that are run together."""


def cut_into_batches(scenarios: Sequence[Scenario], kind: Kind, *, device: str = "cpu", jobs: int = 1) -> list[Batch]:
    """Cut scenarios into batches that fit into memory; equal scenarios are run once.

    No batch is so large that one of the jobs would be left without work; ``jobs`` = 0 puts every scenario alone. Where
    scenarios are not stacked, how they are cut changes no outcome.
    """
    device = device if kind.on_device else "cpu"
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
        size = min(fair, 1 if len(alike) == 1 else kind.most_at_once(alike[0], device))
        data = digests.get((alike[0].workers.dataset, alike[0].workers.encoder), "")
        for start in range(0, len(alike), size):
            some = tuple(alike[start : start + size])
            kept_together = [some] if kind.stacked else [(scenario,) for scenario in some]
            batches.append(tuple(Part(kind=kind, scenarios=each, device=device, data=data) for each in kept_together))
    return batches


def most_in_memory(scenario: Scenario, device: str) -> int:
    """Return how many scenarios of that size have room for their mixtures."""
    room = _BYTES_AT_ONCE["cuda" if device.startswith("cuda") else "cpu"]
    return max(1, min(_MOST_AT_ONCE, room // mixture_bytes(scenario)))


def mixture_bytes(scenario: Scenario) -> int:
    """Return the memory that the mixtures of a scenario take, whose data set is known by name."""
    return 4 * _COPIES * scenario.radio.slots * sum(dimensions(scenario))


def dimensions(scenario: Scenario) -> tuple[int, int]:
    """Return d_X as it leaves the encoder, and d_Y, of a data set that is known by name."""
    known: KnownDataSet = DATASETS.load(scenario.workers.dataset)
    return encoded_dim(scenario.workers, known.input_dim), known.label_dim


@dataclass(frozen=True, kw_only=True)
class Failed:
    """Why a scenario could not be run, in one line."""

    error: str


def silent_share(_share: Any) -> None:
    """Report nothing of how far a batch is."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where batches find MNIST and keep their beginnings, and what is told how far they are.

    Attributes:
        data_dir: folder to look for MNIST in.
        folder: for the beginnings of parts; None where nothing can be kept.
        checkpoint_seconds: time between checkpoints of a training.
        tell: gets the share of a batch that is done.
    """

    data_dir: Path | None = None
    folder: Path | None = None
    checkpoint_seconds: float = 5.0
    tell: Tell = silent_share

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

    def progress(self, *stages: str, finished: Callable[[], int] = lambda: 0, of: int = 1) -> Progress:
        """Return what passes on how far these stages are, for the next of so many parts that are not finished."""

        def told(stage: str, done: int, total: int) -> None:
            if stage in stages and total:
                self.tell((finished() + done / total) / of)

        return told


@dataclass(frozen=True, kw_only=True)
class Finished:
    """What each scenario of a part gave; ``broke``: nothing, for a reason that may not be there another time."""

    part: Part
    outcomes: list[Any]
    broke: bool = False

    @classmethod
    def broken(cls, part: Part, why: str) -> Finished:
        """Return what becomes of a part of which nothing came."""
        return cls(part=part, outcomes=[Failed(error=one_line(why)) for _ in part.scenarios], broke=True)


def _attempt(place: Place, batch: Batch, tell: Tell) -> list[Finished]:
    """Run one batch; whatever goes wrong becomes the outcome of its scenarios, and others are run by themselves."""
    done: dict[Part, Finished] = {}
    try:
        for part, outcomes in batch[0].kind.run(batch, replace(place, tell=tell)):
            done[part] = Finished(part=part, outcomes=outcomes)
            tell(done[part])
    except Exception as problem:  # whatever it is, the other batches must not be lost
        name = "" if isinstance(problem, AirMixError) else f"{type(problem).__name__}: "
        for part in batch:
            if part not in done:
                if len(batch) > 1:
                    (done[part],) = _attempt(place, (part,), silent_share)
                else:
                    done[part] = Finished.broken(part, f"{name}{problem}")
                tell(done[part])
    return list(done.values())


def _attempts(place: Place) -> Work:
    """Return what runs a batch wherever this is called, and tells how far it is."""
    return partial(_attempt, place)


class BatchedTask:
    """Runs the parts of batches on an engine, and keeps each in a file named by its digest."""

    def __init__(
        self, batches: Sequence[Batch], place: Place, folder: Path, *, engine: str, jobs: int, progress: Progress
    ) -> None:
        self._batches = list(dict.fromkeys(batches))
        self._place, self._folder, self._store = place, folder, ResultStore(folder)
        self._engine, self._jobs, self._progress = engine, jobs, progress
        self._parts = dict.fromkeys(part for batch in self._batches for part in batch)

    def load(self, part: Part) -> Finished | None:
        """Return the outcomes of a finished part, or None."""
        found = self._store.load(f"{part.digest}.json", lambda values, _: _read_outcomes(part, values))
        if found is not None:
            self._forget_beginnings(part)
        return None if found is None else Finished(part=part, outcomes=found)

    def save(self, part: Part, finished: Finished) -> bool:
        """Keep the outcomes of a finished part; of one that broke nothing."""
        if not finished.broke:
            about = {"kind": part.kind.name, "seed": part.seed, "device": part.device}
            self._store.save(f"{part.digest}.json", {**about, "outcomes": list(map(to_plain, finished.outcomes))})
            self._forget_beginnings(part)
        return not finished.broke

    def _forget_beginnings(self, part: Part) -> None:
        shutil.rmtree(self._folder / f"{part.digest}.partial", ignore_errors=True)

    def run(self, unfinished: Iterable[Part], finished: Callable[[Part, Finished], None]) -> None:
        """Run what is left of each batch; parts that a dying process left undone are run again, each by itself."""
        left = dict.fromkeys(unfinished)
        if self._engine != "ray":  # what the nodes of a cluster have is theirs to say
            for kind in dict.fromkeys(part.kind for part in left):
                kind.prepare([part for part in left if part.kind == kind], self._place.data_dir, self._progress)
        self._folder.mkdir(parents=True, exist_ok=True)
        with locked(self._folder):
            remove_temporaries(self._folder)
            batches = [some for batch in self._batches if (some := tuple(part for part in batch if part in left))]
            work = _WorkDone(self._parts, left, self._progress)

            def told(batch: Batch, message: float | Finished) -> None:
                if not isinstance(message, Finished):
                    work.share(batch, left, message)
                elif message.part in left:  # else it was told before
                    finished(message.part, message)
                    del left[message.part]  # not before: what cannot be written is told again at the end of its batch
                    work.finish(message.part)

            def left_behind(batch: Batch) -> list[Batch]:
                return [(part,) for part in batch if part in left] if len(batch) > 1 else []

            on_ray = self._engine == "ray"
            jobs = self._jobs if on_ray else max(1, min(self._jobs or useful_jobs(self._batches), len(batches)))
            place = self._place if on_ray else replace(self._place, folder=self._folder)
            for batch, result in Engine(name="ray" if on_ray else "local", jobs=jobs).each(
                _attempts, place, batches, told=told, left_behind=left_behind, on_gpu=_on_gpu
            ):
                lost = isinstance(result, Lost)
                for message in [Finished.broken(part, result.why) for part in batch] if lost else result:
                    told(batch, message)


def _on_gpu(batch: Batch) -> bool:
    return batch[0].device.startswith("cuda")


class _WorkDone:
    """Adds up how far all parts together are."""

    def __init__(self, parts: Mapping[Part, None], left: Mapping[Part, None], tell: Progress) -> None:
        self._all = max(1, sum(part.work for part in parts))
        self._done = float(sum(part.work for part in parts if part not in left))
        self._shares: dict[Part, float] = {}  # of what is not finished yet
        self._tell = tell
        self._report()

    def share(self, batch: Batch, left: Mapping[Part, None], share: float) -> None:
        """Take into account which share of a batch is done: its finished parts first."""
        unfinished = [part for part in batch if part in left]
        each = (share * len(batch) - (len(batch) - len(unfinished))) / max(1, len(unfinished))
        for part in unfinished:
            self._done += part.work * (each - self._shares.get(part, 0.0))
            self._shares[part] = each
        self._report()

    def finish(self, part: Part) -> None:
        """Take into account that a part is done."""
        self._done += part.work * (1.0 - self._shares.pop(part, 0.0))
        self._report()

    def _report(self) -> None:
        self._tell("sweep", int(_SHARES * self._done / self._all + _ROUNDING), _SHARES)


def _read_outcomes(part: Part, values: Any) -> list[Any]:
    outcomes = values["outcomes"]
    if not isinstance(outcomes, list) or len(outcomes) != len(part.scenarios):
        raise ValueError(f"outcomes must be {len(part.scenarios)}, one of each scenario")
    return [
        from_plain(Failed, each) if isinstance(each, dict) and "error" in each else part.kind.read(part, each)
        for each in outcomes
    ]


@dataclass(frozen=True, kw_only=True)
class SweepResult:
    """Outcomes by kind of work and scenario, and how many parts were found finished."""

    outcomes: dict[tuple[str, Scenario], Any]
    kept_batches: int

    def outcome(self, kind: str, scenario: Scenario) -> Any:
        """Return what the scenario gave, an error included."""
        return self.outcomes[kind, scenario]


def run_sweep(
    batches: Sequence[Batch],
    folder: Path,
    *,
    jobs: int = 1,
    engine: str = "local",
    data_dir: Path | None = None,
    checkpoint_seconds: float = 5.0,
    progress: Progress = silent,
    budget: Budget | None = None,
) -> SweepResult:
    """Run all batches that the folder does not hold yet and return the outcomes of all.

    Every part is kept as soon as it is finished, so an interrupted sweep is resumed where it was. The number of jobs
    and the engine do not change a result.

    Args:
        batches: what to run.
        folder: where finished parts are kept.
        jobs: batches at a time (1: in this process; 0: as many as cores, memory or the cluster allow).
        engine: "ray" for a Ray cluster, else this machine.
        data_dir: folder to look for MNIST in.
        checkpoint_seconds: time between checkpoints of a training.
        progress: told how far all batches together are.
        budget: what the parts spend, where a ledger counts it.
    """
    place = Place(data_dir=data_dir, checkpoint_seconds=checkpoint_seconds)
    task = BatchedTask(batches, place, folder, engine=engine, jobs=jobs, progress=progress)
    parts = [part for batch in batches for part in batch]
    return Study(cells=parts, task=task, reducer=_by_scenario, budget=budget).run()


def _by_scenario(found: Mapping[Part, Finished], kept: int) -> SweepResult:
    outcomes = {
        (part.kind.name, scenario): outcome
        for part, finished in found.items()
        for scenario, outcome in zip(part.scenarios, finished.outcomes, strict=True)
    }
    return SweepResult(outcomes=outcomes, kept_batches=kept)


def useful_jobs(batches: Sequence[Batch]) -> int:
    """Return one job per core as far as memory allows; one for a GPU."""
    if any(map(_on_gpu, batches)):
        return 1
    largest = max((sum(part.kind.bytes_needed(part) for part in batch) for batch in batches), default=0)
    return min(os.cpu_count() or 1, physical_memory_bytes() // (_BYTES_PER_PROCESS + largest))
