"""A sweep: run what is not there yet, keep what is finished, say what failed."""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from airmixml.data import known_dataset, warn_of_clipping
from airmixml.devices import physical_memory_bytes
from airmixml.errors import AirMixError
from airmixml.progress import Progress, silent
from airmixml.scenario import Scenario
from airmixml.storage.files import locked, remove_temporaries
from airmixml.storage.results import ResultStore, from_plain, to_plain
from airmixml.streams import Streams
from airmixml.sweeps.batches import (
    CELL_KINDS,
    Batch,
    Failed,
    Kind,
    Measured,
    Sent,
    SweepOutcome,
    Trained,
    beginnings_name,
)
from airmixml.sweeps.engines import Finished, RunBatch, Task, attempt, run_any_batch, run_in_processes, run_on_ray

Engine = Literal["local", "ray"]
"""Where batches run: on this machine, or on a Ray cluster."""

_PARTS = 1000
_ROUNDING = 1e-6
_BYTES_PER_PROCESS = 800_000_000


@dataclass(frozen=True, kw_only=True)
class SweepResult:
    """Outcomes by kind of work and scenario, and how many batches (or cells of a grid) were found finished."""

    outcomes: dict[tuple[Kind, Scenario], SweepOutcome]
    kept_batches: int

    def outcome(self, kind: Kind, scenario: Scenario) -> SweepOutcome:
        """Return what the scenario gave, an error included."""
        return self.outcomes[kind, scenario]


class BatchStore:
    """Keeps the outcomes of finished batches in a folder, and the beginnings of others."""

    def __init__(self, folder: Path) -> None:
        self._store = ResultStore(folder)

    def load(self, batch: Batch) -> list[SweepOutcome] | None:
        """Return the outcomes of a finished batch, or None."""
        outcomes = self._store.load(f"{batch.digest}.json", lambda values, _: _read_outcomes(batch, values))
        if outcomes is not None:
            shutil.rmtree(self.checkpoints(batch), ignore_errors=True)
        return outcomes

    def save(self, batch: Batch, outcomes: list[SweepOutcome]) -> None:
        """Keep the outcomes of a finished batch."""
        about = {"kind": batch.kind, "seed": batch.seed, "device": batch.device}
        self._store.save(f"{batch.digest}.json", {**about, "outcomes": [to_plain(outcome) for outcome in outcomes]})
        shutil.rmtree(self.checkpoints(batch), ignore_errors=True)

    def checkpoints(self, batch: Batch) -> Path:
        """Return the folder for the beginnings of a batch."""
        return self._store.folder / beginnings_name(batch)


def _read_outcomes(batch: Batch, values: Any) -> list[SweepOutcome]:
    outcomes = values["outcomes"]
    good: Any = {"training": Trained, "energy": Sent}.get(batch.kind, Measured)
    if not isinstance(outcomes, list) or len(outcomes) != len(batch.scenarios):
        raise ValueError(f"outcomes must be {len(batch.scenarios)}, one of each scenario")
    found: list[SweepOutcome] = []
    for each in outcomes:
        if isinstance(each, dict) and "error" in each:
            found.append(from_plain(Failed, each))
        else:
            found.append(Measured.read(each) if good is Measured else from_plain(good, each))
    epochs = batch.scenarios[0].learner.epochs
    if any(isinstance(each, Trained) and len(each.curve) != epochs for each in found):
        raise ValueError(f"curve must have {epochs} epochs")
    return found


def run_sweep(
    batches: Sequence[Batch],
    folder: Path,
    *,
    jobs: int = 1,
    engine: Engine = "local",
    data_dir: Path | None = None,
    progress: Progress = silent,
    run: RunBatch = run_any_batch,
    kept: Callable[[Batch], None] = lambda _part: None,
) -> SweepResult:
    """Run all batches that the folder does not hold yet and return the outcomes of all.

    Every batch is kept as soon as it is finished, so an interrupted sweep is resumed where it was. The number of jobs
    and the engine do not change a result.

    Args:
        batches: what to run.
        folder: where finished batches are kept.
        jobs: batches at a time (1: in this process; 0: as many as cores, memory or the cluster allow).
        engine: this machine, or a Ray cluster.
        data_dir: folder to look for MNIST in.
        progress: told how far all batches together are.
        run: what runs a batch.
        kept: told of each batch, or cell of a grid, once its outcome is in the folder.
    """
    store, batches = BatchStore(folder), list(dict.fromkeys(batches))
    parts = list(dict.fromkeys(part for batch in batches for part in batch.parts))
    _check_means([part for part in parts if store.load(part) is None], engine, data_dir, progress)
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        remove_temporaries(folder)
        results = {part: found for part in parts if (found := store.load(part)) is not None}
        found_finished, work = len(results), max(1, sum(part.work for part in parts))
        unfinished = [left for batch in batches if (left := batch.without(results)) is not None]
        tasks = [
            Task(batch=batch, data_dir=data_dir, checkpoints=store.checkpoints(batch), run=run) for batch in unfinished
        ]
        done_work = float(sum(part.work for part in results))
        shares: dict[Batch, float] = {}  # of what is not finished yet

        def report(batch: Batch, told: float | Finished) -> None:
            nonlocal done_work
            if isinstance(told, Finished):
                for part, outcomes in _by_part(told):
                    if part in results:  # it was reported by itself
                        continue
                    if not told.broke:
                        store.save(part, outcomes)
                        kept(part)
                    results[part] = outcomes
                    done_work += part.work * (1.0 - shares.pop(part, 0.0))
            else:
                left = [part for part in batch.parts if part not in results]
                share = (told * len(batch.parts) - (len(batch.parts) - len(left))) / max(1, len(left))
                for part in left:
                    done_work += part.work * (share - shares.get(part, 0.0))
                    shares[part] = share
            progress("sweep", int(_PARTS * done_work / work + _ROUNDING), _PARTS)

        progress("sweep", int(_PARTS * done_work / work), _PARTS)
        finishing: Iterator[Finished] = (attempt(task, report) for task in tasks)  # one after the other, here
        if engine == "ray":
            finishing = run_on_ray(tasks, report, jobs)
        elif (useful := min(jobs or useful_jobs(batches), len(tasks))) > 1:
            finishing = run_in_processes(tasks, report, useful)
        for finished in finishing:
            report(finished.batch, finished)
    return SweepResult(
        outcomes={
            (part.kind, scenario): outcome
            for part in parts
            for scenario, outcome in zip(part.scenarios, results[part], strict=True)
        },
        kept_batches=found_finished,
    )


def _by_part(finished: Finished) -> list[tuple[Batch, list[SweepOutcome]]]:
    """Return what each part of a batch that is kept by itself gave."""
    batch, outcomes = finished.batch, finished.outcomes
    if len(batch.parts) == 1:
        return [(batch, outcomes)]
    return [(part, [outcome]) for part, outcome in zip(batch.parts, outcomes, strict=True)]


def _check_means(unfinished: Sequence[Batch], engine: Engine, data_dir: Path | None, progress: Progress) -> None:
    """Refuse a device or data that are not there before anything is made; download once what all processes need."""
    need_data = [batch for batch in unfinished if batch.kind != "energy"]
    if engine == "ray" or not need_data:
        return  # what the nodes of a cluster have is theirs to say
    from airmixml.devices import find_device  # torch takes seconds to load, and may not be needed
    from airmixml.workers import load_dataset

    find_device(need_data[0].device)
    firsts = {batch.scenarios[0].workers.dataset: batch for batch in need_data}
    for batch in firsts.values():
        scenario = batch.scenarios[0]
        known = known_dataset(scenario.workers.dataset) if batch.kind in CELL_KINDS else None
        try:
            if known is not None:
                known.read(data_dir, progress)  # encoding may take long, and each process does it anyway
            else:
                data = load_dataset(scenario.workers, Streams(scenario.seed), data_dir=data_dir, progress=progress)
                values = (data.held_dim or data.input_dim) * (data.train_samples + len(data.test_labels))
                warn_of_clipping(data.clipped_values, values)
        except AirMixError:
            if len(firsts) == 1 or batch.kind not in CELL_KINDS:
                raise  # else the cells of that data set say so


def useful_jobs(batches: Sequence[Batch]) -> int:
    """Return one job per core as far as memory allows; one for a GPU."""
    if any(batch.on_gpu for batch in batches):
        return 1
    largest = max((batch.bytes_needed for batch in batches), default=0)
    return min(os.cpu_count() or 1, physical_memory_bytes() // (_BYTES_PER_PROCESS + largest))
