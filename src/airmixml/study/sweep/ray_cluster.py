"""Batches on a Ray cluster (optional extra ``ray``): that of RAY_ADDRESS, one running on this machine, or a new one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from airmixml.errors import AirMixError
from airmixml.study.sweep.processes import Finished, Share, Task, attempt, failure
from airmixml.wording import one_line

__all__ = ["run_on_ray"]


def run_on_ray(tasks: Sequence[Task], report: Share, jobs: int) -> Iterator[Finished]:
    """Run batches wherever the cluster has a free core, or a free GPU for batches that ask for one.

    Args:
        tasks: what to run; an interrupted training is not kept, because nodes share no disk.
        report: told when a batch is done.
        jobs: most batches at a time; 0: as many as the cluster takes.
    """
    ray = _import_ray()
    started = not ray.is_initialized()
    if started:
        ray.init(log_to_driver=False, logging_level="error", include_dashboard=False)
    try:
        needs_gpu = any(task.batch.device.startswith("cuda") for task in tasks)
        remote = ray.remote(num_cpus=1, num_gpus=1 if needs_gpu else 0, max_retries=1)(_attempt_alone)
        waiting = list(reversed(tasks))
        running: dict[Any, Task] = {}
        while waiting or running:
            while waiting and (not jobs or len(running) < jobs):
                task = replace(waiting.pop(), checkpoints=None)
                running[remote.remote(task)] = task
            done, _ = ray.wait(list(running), num_returns=1)
            task = running.pop(done[0])
            try:
                finished: Finished = ray.get(done[0])
            except ray.exceptions.RayError as problem:  # the node or its process was lost, twice
                finished = Finished(batch=task.batch, outcomes=failure(task.batch, one_line(str(problem))))
            report(task.batch, 1.0)
            yield finished
    finally:
        if started:
            ray.shutdown()


def _attempt_alone(task: Task) -> Finished:
    return attempt(task, lambda _batch, _share: None)


def _import_ray() -> Any:
    try:
        import ray
    except ImportError:
        raise AirMixError(
            "--engine ray: Ray is not installed; pip install 'airmixml[ray]', or use --engine local"
        ) from None
    return ray
