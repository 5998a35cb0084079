"""Where batches run: in this process, on several of which one may die without the others, or on a Ray cluster."""

import multiprocessing
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Self

from airmixml.errors import AirMixError
from airmixml.sweeps.batches import CELL_KINDS, Batch, Failed, SweepOutcome, beginnings_name, run_batch
from airmixml.sweeps.cells import run_cells
from airmixml.wording import one_line, reason

_CONNECT_SECONDS = 5.0
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


class _Worker:
    """A process that runs one batch after the other."""

    def __init__(self, task: Task) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(target=_serve, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()
        self.give(task)  # a process that died at once is noticed when it is listened to

    def give(self, task: Task) -> bool:
        """Hand over a batch; False if nobody is there to take it."""
        self.task = task
        self.finished_parts: set[Batch] = set()
        try:
            self.connection.send(task)
        except OSError:
            return False
        return True

    def receive(self) -> Any:
        """Return a share done or a finished batch; a process that died finishes its batch with an error."""
        try:
            return self.connection.recv()
        except (EOFError, OSError):
            self.process.join()
            code = self.process.exitcode or 0
            how = f"with exit code {code}" if code >= 0 else f"by signal {-code}"
            return broken(self.task.batch, f"its process ended {'by SIGKILL (out of memory?)' if code == -9 else how}")

    def left_behind(self, finished: Finished) -> list[Task]:
        """Return the parts that a process left undone when it died, each by itself: any of them may have killed it."""
        parts = self.task.batch.parts
        if not finished.broke or len(parts) == 1:
            return []
        return [self.task.alone(part) for part in parts if part not in self.finished_parts]

    def stop(self) -> None:
        self.process.terminate()
        self.process.join()
        self.connection.close()


def run_in_processes(tasks: Sequence[Task], report: Report, jobs: int) -> Iterator[Finished]:
    """Run batches on up to ``jobs`` processes; one that dies takes only its own batch with it.

    Of a batch in parts, those that it left undone are run again, each by itself.
    """
    waiting = list(reversed(tasks))
    workers: dict[Any, _Worker] = {}  # by their connection
    try:
        while waiting or workers:
            while waiting and len(workers) < jobs:
                worker = _Worker(waiting.pop())
                workers[worker.connection] = worker
            for ready in wait(list(workers)):
                worker = workers[ready]
                message = worker.receive()
                if not (isinstance(message, Finished) and message.batch == worker.task.batch):
                    if isinstance(message, Finished):
                        worker.finished_parts.add(message.batch)
                    report(worker.task.batch, message)
                    continue
                undone = worker.left_behind(message)
                waiting += reversed(undone)
                if undone:
                    workers.pop(ready).stop()
                    continue
                if waiting and worker.give(waiting[-1]):
                    waiting.pop()
                else:
                    workers.pop(ready).stop()
                yield message
    finally:
        for worker in workers.values():
            worker.stop()


def _serve(connection: Connection) -> None:
    """Run what is sent; end with the process that sends it, so that a killed sweep leaves none behind."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the sweep itself stops its processes
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        while True:
            connection.send(attempt(connection.recv(), lambda _batch, told: connection.send(told)))
    except (EOFError, OSError):
        os._exit(1)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def run_on_ray(tasks: Sequence[Task], report: Report, jobs: int) -> Iterator[Finished]:
    """Run batches wherever a Ray cluster has a free core, or a free GPU for batches that ask for one.

    The cluster is that of RAY_ADDRESS, one running on this machine, or a new one. At most ``jobs`` batches run at a
    time (0: as many as it takes). An interrupted training is not kept, because nodes share no disk.
    """
    try:
        ray: Any = import_module("ray")
    except ImportError:
        hint = "pip install 'airmixml[ray]', or leave --engine out"
        raise AirMixError(f"--engine ray: Ray is not installed; {hint}") from None
    started = not ray.is_initialized()
    if started:
        _connect(ray)
    running: dict[Any, Task] = {}
    try:
        if any(task.batch.on_gpu for task in tasks) and not ray.cluster_resources().get("GPU"):
            raise AirMixError("--device = cuda: no node of the Ray cluster has a GPU; use --device cpu")
        waiting = list(reversed(tasks))
        while waiting or running:
            while waiting and (not jobs or len(running) < jobs):
                task = replace(waiting.pop(), checkpoints=None)
                needs = {"num_cpus": 1, "num_gpus": int(task.batch.on_gpu)}
                running[ray.remote(max_retries=1, **needs)(attempt).remote(task)] = task
            done, _ = ray.wait(list(running), num_returns=1)
            task = running.pop(done[0])
            try:
                finished: Finished = ray.get(done[0])
            except ray.exceptions.RayError as problem:  # the node or its process was lost, twice
                finished = broken(task.batch, str(problem))
            report(task.batch, 1.0)
            yield finished
    finally:
        for reference in running:
            ray.cancel(reference, force=True)
        if started:
            ray.shutdown()


def _connect(ray: Any) -> None:
    """Join the cluster that RAY_ADDRESS names, or one on this machine; Ray itself would try for minutes."""
    address = os.environ.get("RAY_ADDRESS", "")
    host, _, port = address.rpartition(":")
    try:
        if host and port.isdigit() and "://" not in address:
            socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS).close()
        ray.init(log_to_driver=False, logging_level="error", include_dashboard=False)
    except (OSError, RuntimeError, ValueError) as problem:
        raise AirMixError(
            f"--engine ray: no cluster at RAY_ADDRESS = {address!r} ({reason(problem)}); start one, set another "
            "address, or leave --engine out"
        ) from None
