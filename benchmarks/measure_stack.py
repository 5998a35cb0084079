"""Measure a training step of many stacked networks against as many single ones, and write the figures as JSON.

    python benchmarks/measure_stack.py --device cpu --out benchmarks/results/stack_cpu.json

Mixtures of the paper's sizes are made up. Compare ratios within one file: machines differ and are noisy.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from airmixml import Scenario, Speed, __version__
from airmixml.data import DataSet
from airmixml.edge import train_model, train_stack
from airmixml.scenario import Learner
from results_file import show_and_write


def milliseconds_per_step(training: Callable[[Learner], object], learner: Learner, steps: int) -> float:
    seconds = []
    for epochs in (1, 1, 3):  # the first one warms up
        started = time.perf_counter()
        training(replace(learner, epochs=epochs))
        seconds.append(time.perf_counter() - started)
    return 1e3 * (seconds[2] - seconds[1]) / (2 * steps)


def compare(preset: str, networks: int, steps: int, speed: Speed) -> dict[str, float]:
    learner = Scenario.preset(preset).learner
    image = (28, 28) if learner.model == "cnn" else None
    sizes = (784, 10) if image else (4, 3)
    rng = np.random.default_rng(0)
    slots = steps * learner.batch_size
    dataset = DataSet(
        name="made up",
        train_inputs=rng.random((10, sizes[0]), dtype=np.float32),
        train_labels=np.arange(10) % sizes[1],
        test_inputs=rng.random((50, sizes[0]), dtype=np.float32),
        test_labels=np.arange(50) % sizes[1],
        class_names=tuple(map(str, range(sizes[1]))),
        image_shape=image,
        clipped_values=0,
    )
    inputs, labels = (torch.from_numpy(rng.random((networks, slots, size), dtype=np.float32)) for size in sizes)
    single = milliseconds_per_step(
        lambda short: train_model(short, dataset, inputs[0], labels[0], seed=0, speed=speed), learner, steps
    )
    stacked = milliseconds_per_step(
        lambda short: train_stack(short, dataset, inputs, labels, seed=0, speed=speed), learner, steps
    )
    return {
        "networks": networks,
        "single_milliseconds": round(single, 3),
        "stacked_milliseconds_per_network": round(stacked / networks, 4),
        "speed_up": round(single * networks / stacked, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    on_gpu = options.device != "cpu"
    speed = Speed(device=options.device, threads=0 if on_gpu else 1)
    result = {
        "command": "python benchmarks/" + " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "airmixml": __version__,
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if on_gpu else f"one of {os.cpu_count()} CPU cores",
        "iris_mlp": compare("paper-iris", 36, 300, speed),
        "mnist_cnn": compare("paper-mnist", 30 if on_gpu else 2, 200 if on_gpu else 10, speed),
    }
    show_and_write(result, options.out)


if __name__ == "__main__":
    main()
