"""A sweep: run what is not there yet, keep what is finished, say what failed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from airmixml.errors import RunFolderError
from airmixml.progress import Progress, silent
from airmixml.scenario import Scenario
from airmixml.study.run_folder import take_lock
from airmixml.study.sweep.batches import Batch, Kind
from airmixml.study.sweep.processes import Task, run_here, run_in_processes
from airmixml.study.sweep.ray_cluster import run_on_ray
from airmixml.study.sweep.store import BatchStore
from airmixml.study.sweep.work import Outcome

__all__ = ["Engine", "SweepResult", "run_sweep"]

Engine = Literal["local", "ray"]

_PARTS = 100


@dataclass(frozen=True, kw_only=True)
class SweepResult:
    """Outcomes by kind of work and scenario, and how many batches were found finished."""

    outcomes: dict[tuple[Kind, Scenario], Outcome]
    kept_batches: int

    def outcome(self, kind: Kind, scenario: Scenario) -> Outcome:
        """Return what the scenario gave, an error included."""
        return self.outcomes[kind, scenario]


def run_sweep(
    batches: Sequence[Batch],
    folder: Path,
    *,
    jobs: int = 1,
    engine: Engine = "local",
    data_dir: Path | None = None,
    progress: Progress = silent,
) -> SweepResult:
    """Run all batches that the folder does not hold yet and return the outcomes of all.

    Every batch is kept as soon as it is finished, so an interrupted sweep goes on where it was. The number of jobs and
    the engine do not change a result.

    Args:
        batches: what to run.
        folder: where finished batches are kept.
        jobs: batches at a time (1: in this process; 0 with Ray: as many as the cluster takes).
        engine: this machine, or a Ray cluster.
        data_dir: folder to look for MNIST in.
        progress: told how far all batches together are.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = take_lock(folder / ".lock")
    if lock is None:
        raise RunFolderError(f"{folder}: another sweep is writing it; wait for it or choose another --out")
    with lock:
        store = BatchStore(folder)
        found = {batch: store.load(batch) for batch in batches}
        results = {batch: outcomes for batch, outcomes in found.items() if outcomes is not None}
        kept = len(results)
        tasks = [
            Task(batch=batch, data_dir=data_dir, checkpoints=store.checkpoints(batch))
            for batch in batches
            if batch not in results
        ]
        if engine == "local" and any(task.batch.kind == "training" for task in tasks):
            from airmixml.devices import find_device  # torch takes seconds to load, and may not be needed

            find_device(tasks[0].batch.device)
        shares: dict[Batch, float] = dict.fromkeys(results, 1.0)

        def report(batch: Batch, share: float) -> None:
            shares[batch] = share
            whole = sum(len(each.scenarios) for each in batches)
            done = sum(len(each.scenarios) * share for each, share in shares.items())
            progress("sweep", int(_PARTS * done), _PARTS * whole)

        progress("sweep", 0, _PARTS * sum(len(batch.scenarios) for batch in batches))
        if engine == "ray":
            finishing = run_on_ray(tasks, report, jobs)
        elif jobs == 1:
            finishing = run_here(tasks, report)
        else:
            finishing = run_in_processes(tasks, report, jobs)
        for finished in finishing:
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
