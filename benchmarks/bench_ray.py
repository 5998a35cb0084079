"""One run on a local Ray cluster: one worker process against two, and against this process.

    python benchmarks/bench_ray.py

The cluster is started before the clock; every time includes sending the data, laying them out on the workers and adding
up what comes back. Needs Ray (pip install 'airmixml[ray]') and no data set: samples of MNIST's size are made up.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from typing import Any, Final

import numpy as np

from airmixml import Scenario, Speed
from airmixml.data import DataSet
from airmixml.edge import learn
from airmixml.engines import Engine
from airmixml.radio.transmission import simulate_family
from airmixml.scenario import RunContext

REPEATS: Final = 3
HERE: Final = "one process, one thread"
TWO_THREADS: Final = "one process, two threads"
ONE: Final = "Ray, 1 worker"
TWO: Final = "Ray, 2 workers"


def made_up(inputs: np.ndarray) -> DataSet:
    labels = np.random.default_rng(1).integers(10, size=len(inputs))
    return DataSet(
        name="made up",
        train_inputs=inputs,
        train_labels=labels,
        test_inputs=inputs[:1000],
        test_labels=labels[:1000],
        class_names=tuple("0123456789"),
        image_shape=None,
        clipped_values=0,
    )


def contexts() -> dict[str, RunContext]:
    one_thread = RunContext(speed=Speed(threads=1))
    return {
        HERE: one_thread,
        TWO_THREADS: RunContext(speed=Speed(threads=2)),
        ONE: replace(one_thread, engine=Engine(name="ray", jobs=1)),
        TWO: replace(one_thread, engine=Engine(name="ray", jobs=2)),
    }


def timed(seconds_of: Callable[[RunContext], float], repeats: int) -> dict[str, float]:
    """Time the work in each context by turns; the best of each."""
    best = dict.fromkeys(contexts(), float("inf"))
    for _ in range(repeats):
        for name, context in contexts().items():
            best[name] = min(best[name], seconds_of(context))
    return best


def rows_of(work: str, seconds: dict[str, float]) -> Iterator[dict[str, Any]]:
    for against in (ONE, HERE, TWO_THREADS):
        yield {
            "work": f"{work}, {TWO}",
            "against": against,
            "ours_seconds": seconds[TWO],
            "theirs_seconds": seconds[against],
            "ratio": seconds[against] / seconds[TWO],
        }


def rows(device: str = "cpu", quick: bool = False) -> Iterator[dict[str, Any]]:
    """Yield the rows of the slots of ``paper-mnist`` and of the one large slot of ``private-mnist``."""
    if device != "cpu":
        return  # shards on one GPU wait for each other
    ray = import_module("ray")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    started = time.perf_counter()
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    try:
        rng, start_seconds = np.random.default_rng(0), time.perf_counter() - started
        yield {"work": "starting a local Ray cluster", "against": "", "ours_seconds": start_seconds}
        samples, repeats = (6_000, 1) if quick else (60_000, REPEATS)
        slots = 10_000 if quick else 100_000
        digits = made_up(rng.random((samples, 784), dtype=np.float32))
        paper = Scenario.preset("paper-mnist").with_overrides(f"radio.slots={slots}", f"workers.count={samples}")

        def all_slots(context: RunContext) -> float:
            began = time.perf_counter()
            simulate_family([paper], dataset=digits, context=context)
            return time.perf_counter() - began

        yield from rows_of(f"{slots:,} slots of paper-mnist", timed(all_slots, repeats))

        features = rng.random((samples, 1024), dtype=np.float32)
        features /= np.linalg.norm(features, axis=1, keepdims=True) * (1.0 + 1e-6)
        private = Scenario.preset("private-mnist").with_overrides(
            f"workers.count={samples}", f"radio.scheduled={samples}", f"workers.train_samples={samples}"
        )
        held = made_up(features)

        def one_slot(context: RunContext) -> float:
            return learn(private, dataset=held, context=context).over_the_air_seconds  # the rest is not shared out

        yield from rows_of("the slot of private-mnist", timed(one_slot, repeats))
    finally:
        ray.shutdown()


if __name__ == "__main__":
    for row in rows():
        print(row, flush=True)
