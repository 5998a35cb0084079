"""Where batches run: in this process, on several of which one may die without the others, or on a Ray cluster."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from airmixml.engines import cluster, processes
from airmixml.engines.work import Lost, Work
from airmixml.errors import AirMixError
from airmixml.sweeps.batches import CELL_KINDS, Batch, Failed, SweepOutcome, beginnings_name, run_batch
from airmixml.sweeps.cells import run_cells
from airmixml.wording import one_line

_REPORTED = ("training", "energy", "cells")

RunBatch = Callable[..., list[SweepOutcome]]
"""Runs a batch: ``run_any_batch``, or something of its shape."""
Report = Callable[[Batch, "float | Finished"], None]
"""Told which share of a batch is done, and each part of it that is kept by itself."""


def run_any_batch(batch: Batch, **options: Any) -> list[SweepOutcome]:
    """Run a batch of any kind; options are those of ``run_batch``, and ``finished`` for cells of a grid."""
    return run_cells(batch, **options) if batch.kind in CELL_KINDS else run_batch(batch, **options)


@dataclass(frozen=True, kw_only=True)
class Task:
    """A batch with what it needs beyond itself."""

    batch: Batch
    data_dir: Path | None
    checkpoints: Path | None
    run: RunBatch = run_any_batch

    def alone(self, part: Batch) -> Self:
        """Return the task of one part of the batch."""
        checkpoints = None if self.checkpoints is None else self.checkpoints.with_name(beginnings_name(part))
        return replace(self, batch=part, checkpoints=checkpoints)


@dataclass(frozen=True, kw_only=True)
class Finished:
    """What each scenario of a batch gave; ``broke``: nothing, for a reason that may not be there another time.

    Of a batch in parts the parts that were reported count: some may have broken.
    """

    batch: Batch
    outcomes: list[SweepOutcome]
    broke: bool = False


def attempt(task: Task, report: Report | None = None) -> Finished:
    """Run one batch; whatever goes wrong becomes the outcome of its scenarios.

    Of a batch in parts each is reported when it is finished. If something goes wrong, the others are run by themselves.
    """
    batch = task.batch
    parts: dict[Batch, SweepOutcome] = {}

    def progress(stage: str, done: int, total: int) -> None:
        # Sending takes a small part of the time: training is what is waited for.
        if report is not None and stage in _REPORTED and total:
            report(batch, done / total)

    def finished(number: int, outcome: SweepOutcome) -> None:
        part = batch.parts[number]
        parts[part] = outcome
        if report is not None and part != batch:
            report(batch, Finished(batch=part, outcomes=[outcome]))

    try:
        if task.checkpoints is not None and len(batch.parts) == 1:
            task.checkpoints.mkdir(parents=True, exist_ok=True)
        options = {"finished": finished} if len(batch.parts) > 1 else {}
        outcomes = task.run(batch, data_dir=task.data_dir, checkpoints=task.checkpoints, progress=progress, **options)
    except Exception as problem:  # whatever it is, the other batches must not be lost
        if len(batch.parts) > 1:
            for part in batch.parts:
                if part not in parts:
                    alone = attempt(task.alone(part))
                    (parts[part],) = alone.outcomes
                    if report is not None:
                        report(batch, alone)
            return Finished(batch=batch, outcomes=[parts[part] for part in batch.parts])
        name = "" if isinstance(problem, AirMixError) else f"{type(problem).__name__}: "
        return broken(batch, f"{name}{problem}")
    return Finished(batch=batch, outcomes=outcomes)


def broken(batch: Batch, why: str) -> Finished:
    """Return what becomes of a batch of which nothing came."""
    return Finished(batch=batch, outcomes=[Failed(error=one_line(why)) for _ in batch.scenarios], broke=True)


def run_in_processes(tasks: Sequence[Task], report: Report, jobs: int) -> Iterator[Finished]:
    """Run batches on up to ``jobs`` processes; one that dies takes only its own batch with it.

    Of a batch in parts, those that it left undone are run again, each by itself: any of them may have killed it.
    """
    finished_parts: set[Batch] = set()

    def told(task: Task, message: float | Finished) -> None:
        if isinstance(message, Finished):
            finished_parts.add(message.batch)
        report(task.batch, message)

    def left_behind(task: Task) -> list[Task]:
        parts = task.batch.parts
        return [task.alone(part) for part in parts if part not in finished_parts] if len(parts) > 1 else []

    for task, finished in processes.run_in_processes(_attempts, None, tasks, jobs, told=told, left_behind=left_behind):
        yield broken(task.batch, finished.why) if isinstance(finished, Lost) else finished


def run_on_ray(tasks: Sequence[Task], report: Report, jobs: int) -> Iterator[Finished]:
    """Run batches wherever a Ray cluster has a free core, or a free GPU for batches that ask for one.

    At most ``jobs`` run at a time (0: as many as the cluster takes). An interrupted training is not kept, because nodes
    share no disk.
    """
    alone = [replace(task, checkpoints=None) for task in tasks]
    for task, finished in cluster.run_on_ray(_attempts, None, alone, jobs, on_gpu=lambda task: task.batch.on_gpu):
        report(task.batch, 1.0)
        yield broken(task.batch, finished.why) if isinstance(finished, Lost) else finished


def _attempts(_shared: None) -> Work:
    """Return what runs a task wherever this is called, and tells how far it is."""
    return lambda task, tell: attempt(task, lambda _batch, told: tell(told))
