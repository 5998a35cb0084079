"""Measure how fast slots are simulated and networks trained, and write the figures as JSON.

    python benchmarks/measure.py --device cpu --out benchmarks/results/cpu.json

Needs no data set: samples of MNIST's size are made up. Machines differ and are noisy; compare ratios within one file.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from airmixml import Scenario, Speed, __version__, simulate, simulate_blocks, train
from airmixml.data import DataSet
from airmixml.streams import Streams
from airmixml.workers import deploy
from results_file import show_and_write


def made_up_digits(samples: int) -> DataSet:
    rng = np.random.default_rng(0)
    inputs = rng.random((samples, 784), dtype=np.float32)
    labels = rng.integers(10, size=samples)
    return DataSet(
        name="made up",
        train_inputs=inputs,
        train_labels=labels,
        test_inputs=inputs[:10_000],
        test_labels=labels[:10_000],
        class_names=tuple("0123456789"),
        image_shape=(28, 28),
        clipped_values=0,
    )


def stream_slots(scenario: Scenario, dataset: DataSet, speed: Speed) -> dict[str, float]:
    population = deploy(scenario.workers, dataset.train_samples, Streams(0))
    started = time.perf_counter()
    slots = sum(block.slots for block in simulate_blocks(scenario, dataset, population, speed=speed))
    if speed.device != "cpu":
        torch.cuda.synchronize()
    seconds = time.perf_counter() - started
    radio = scenario.radio
    return {
        "slots": slots,
        "scheduled": radio.scheduled,
        "symbols": dataset.input_dim + dataset.label_dim,
        "seconds": round(seconds, 3),
        "slots_per_second": round(slots / seconds),
    }


def train_steps(scenario: Scenario, dataset: DataSet, speed: Speed, steps: int) -> dict[str, float]:
    learner = scenario.learner
    short = replace(scenario, radio=replace(scenario.radio, slots=steps * learner.batch_size))
    mixtures = simulate(replace(short, learner=replace(learner, epochs=1)), dataset=dataset, speed=speed)
    train(mixtures, speed=speed)  # warms up kernels and allocators
    seconds = {}
    for epochs in (1, 3):
        longer = replace(mixtures, scenario=replace(short, learner=replace(learner, epochs=epochs)))
        started = time.perf_counter()
        train(longer, speed=speed)
        seconds[epochs] = time.perf_counter() - started
    per_step = (seconds[3] - seconds[1]) / (2 * steps)  # the difference leaves out what is done once
    return {"batch_size": learner.batch_size, "milliseconds_per_step": round(1e3 * per_step, 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    speed = Speed(device=options.device)
    mnist, iris = Scenario.preset("paper-mnist"), Scenario.preset("paper-iris")
    digits = made_up_digits(60_000)
    stream_slots(replace(mnist, radio=replace(mnist.radio, slots=2000)), digits, speed)
    result = {
        "command": "python benchmarks/" + " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "airmixml": __version__,
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if options.device != "cpu" else f"cpu, {os.cpu_count()} cores",
        "platform": platform.machine(),
        "slots_mnist_size": stream_slots(mnist, digits, speed),
        "slots_mnist_size_rayleigh_max_min": stream_slots(
            mnist.with_overrides("radio.fading=rayleigh", "mixing.assignment=max-min", "mixing.alpha=5"), digits, speed
        ),
        "training_cnn": train_steps(mnist, digits, speed, 100),
        "training_mlp": train_steps(
            iris,
            replace(
                digits,
                train_inputs=digits.train_inputs[:, :4],
                test_inputs=digits.test_inputs[:50, :4],
                test_labels=digits.test_labels[:50],
            ),
            speed,
            500,
        ),
        "peak_memory_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }
    show_and_write(result, options.out)


if __name__ == "__main__":
    main()
