"""Batches on a Ray cluster (optional extra ``ray``): that of RAY_ADDRESS, one running on this machine, or a new one."""

import os
import socket
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

from airmixml.errors import AirMixError
from airmixml.sweeps.processes import Finished, Share, Task, attempt, broken
from airmixml.wording import reason

_CONNECT_SECONDS = 5.0


def run_on_ray(tasks: Sequence[Task], report: Share, jobs: int) -> Iterator[Finished]:
    """Run batches wherever the cluster has a free core, or a free GPU for batches that ask for one.

    Args:
        tasks: what to run; an interrupted training is not kept, because nodes share no disk.
        report: told when a batch is done.
        jobs: most batches at a time; 0: as many as the cluster takes.
    """
    try:
        ray: Any = import_module("ray")
    except ImportError:
        hint = "pip install 'airmixml[ray]', or use --engine local"
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
                running[ray.remote(max_retries=1, **needs)(_attempt_alone).remote(task)] = task
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
            "address, or use --engine local"
        ) from None


def _attempt_alone(task: Task) -> Finished:
    return attempt(task, lambda _batch, _share: None)
