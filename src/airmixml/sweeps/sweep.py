"""A sweep: run what is not there yet, keep what is finished, say what failed."""

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from airmixml.devices import physical_memory_bytes
from airmixml.progress import Progress, silent
from airmixml.scenario import Scenario
from airmixml.storage.files import locked, remove_temporaries
from airmixml.storage.results import ResultStore, from_plain, to_plain
from airmixml.streams import Streams
from airmixml.sweeps.batches import Batch, Failed, Kind, Sent, SweepOutcome, Trained, run_batch
from airmixml.sweeps.engines import Finished, RunBatch, Task, attempt, run_in_processes, run_on_ray

Engine = Literal["local", "ray"]

_PARTS = 1000
_BYTES_PER_PROCESS = 800_000_000


@dataclass(frozen=True, kw_only=True)
class SweepResult:
    """Outcomes by kind of work and scenario, and how many batches were found finished."""

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
        return self._store.folder / f"{batch.digest}.partial"


def _read_outcomes(batch: Batch, values: Any) -> list[SweepOutcome]:
    outcomes, good = values["outcomes"], Trained if batch.kind == "training" else Sent
    if not isinstance(outcomes, list) or len(outcomes) != len(batch.scenarios):
        raise ValueError(f"outcomes must be {len(batch.scenarios)}, one of each scenario")
    found: list[SweepOutcome] = [
        from_plain(Failed if isinstance(each, dict) and "error" in each else good, each) for each in outcomes
    ]
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
    run: RunBatch = run_batch,
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
    """
    store, batches = BatchStore(folder), list(dict.fromkeys(batches))
    _check_means([batch for batch in batches if store.load(batch) is None], engine, data_dir, progress)
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        remove_temporaries(folder)
        results = {batch: found for batch in batches if (found := store.load(batch)) is not None}
        kept, work = len(results), max(1, sum(batch.work for batch in batches))
        tasks = [
            Task(batch=batch, data_dir=data_dir, checkpoints=store.checkpoints(batch), run=run)
            for batch in batches
            if batch not in results
        ]
        shares = {batch: float(batch in results) for batch in batches}

        def report(batch: Batch, share: float) -> None:
            shares[batch] = share
            done = sum(each.work * share for each, share in shares.items()) / work
            progress("sweep", int(_PARTS * done), _PARTS)

        progress("sweep", int(_PARTS * sum(batch.work for batch in results) / work), _PARTS)
        finishing: Iterator[Finished] = (attempt(task, report) for task in tasks)  # one after the other, here
        if engine == "ray":
            finishing = run_on_ray(tasks, report, jobs)
        elif (useful := min(jobs or _useful_jobs(batches), len(tasks))) > 1:
            finishing = run_in_processes(tasks, report, useful)
        for finished in finishing:
            if not finished.broke:
                store.save(finished.batch, finished.outcomes)
            results[finished.batch] = finished.outcomes
            report(finished.batch, 1.0)
    return SweepResult(
        outcomes={
            (batch.kind, scenario): outcome
            for batch in batches
            for scenario, outcome in zip(batch.scenarios, results[batch], strict=True)
        },
        kept_batches=kept,
    )


def _check_means(unfinished: Sequence[Batch], engine: Engine, data_dir: Path | None, progress: Progress) -> None:
    """Refuse a device or data that are not there before anything is made; download once what all processes need."""
    trainings = [batch for batch in unfinished if batch.kind == "training"]
    if engine == "ray" or not trainings:
        return  # what the nodes of a cluster have is theirs to say
    from airmixml.devices import find_device  # torch takes seconds to load, and may not be needed
    from airmixml.workers import load_dataset

    find_device(trainings[0].device)
    for scenario in {batch.scenarios[0].workers.dataset: batch.scenarios[0] for batch in trainings}.values():
        load_dataset(scenario.workers, Streams(scenario.seed), data_dir=data_dir, progress=progress)


def _useful_jobs(batches: Sequence[Batch]) -> int:
    """Return one job per core as far as memory allows; one for a GPU."""
    if any(batch.on_gpu for batch in batches):
        return 1
    largest = max((batch.bytes_needed for batch in batches), default=0)
    return min(os.cpu_count() or 1, physical_memory_bytes() // (_BYTES_PER_PROCESS + largest))
