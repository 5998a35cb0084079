"""Batches on a Ray cluster (optional extra ``ray``): that of RAY_ADDRESS, one running on this machine, or a new one."""

import os
import socket
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from airmixml.errors import AirMixError
from airmixml.sweeps.processes import Finished, Share, Task, attempt, broken
from airmixml.wording import one_line, reason

_CONNECT_SECONDS = 5.0


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
        _connect(ray)
    running: dict[Any, Task] = {}
    try:
        _check_gpus(ray, tasks)
        waiting = list(reversed(tasks))
        while waiting or running:
            while waiting and (not jobs or len(running) < jobs):
                task = replace(waiting.pop(), checkpoints=None)
                needs = {"num_cpus": 1, "num_gpus": 1 if task.batch.device.startswith("cuda") else 0}
                running[ray.remote(max_retries=1, **needs)(_attempt_alone).remote(task)] = task
            done, _ = ray.wait(list(running), num_returns=1)
            task = running.pop(done[0])
            try:
                finished: Finished = ray.get(done[0])
            except ray.exceptions.RayError as problem:  # the node or its process was lost, twice
                finished = broken(task.batch, one_line(str(problem)))
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
            "address, or use --engine local"
        ) from None


def _check_gpus(ray: Any, tasks: Sequence[Task]) -> None:
    wants = any(task.batch.device.startswith("cuda") for task in tasks)
    if wants and not ray.cluster_resources().get("GPU"):
        raise AirMixError("--device = cuda: no node of the Ray cluster has a GPU; use --device cpu")


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
