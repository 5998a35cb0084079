"""Measure what integers modulo 2^b cost beside the analog sum: MNIST, moments, every worker once, Skellam noise.

    python benchmarks/measure_integers.py --out benchmarks/results/integers.json
    python benchmarks/measure_integers.py --features 1024 --modelled --out benchmarks/results/integers_full.json

Every worker's vector is rounded, once for each number of bits; noise is drawn for each seed. ``--modelled`` draws the
rounding errors of the sum instead, for sizes at which rounding each of 60,000 x 535,040 numbers takes too long.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from airmixml import Scenario, __version__, settle
from airmixml.data import DataSet
from airmixml.edge.closed_form import linear_model, solve
from airmixml.edge.learners import class_scores
from airmixml.edge.training import collector_for
from airmixml.integers import IntegerCode, IntegerNoise
from airmixml.integers.integer_noise import SumTarget, rounded_mu_per_step
from airmixml.messages import AirMixError
from airmixml.privacy.evaluation import settled_epsilon
from airmixml.privacy.facts import SHARE_FOR_TAILS, log_cut
from airmixml.privacy.gaussian import gaussian_epsilon, gaussian_mu
from airmixml.streams import Streams
from airmixml.workers import Signal, load_dataset
from airmixml.workers.moments import pack_symmetric
from results_file import show_and_write

WORKERS_AT_ONCE = 64
SAMPLED_WORKERS = 128


def vectors_of(inputs: torch.Tensor, labels: torch.Tensor, weight: float) -> np.ndarray:
    """(svec(x x^T), w x l^T) of some workers; workers x numbers."""
    products = pack_symmetric(inputs[:, :, None] * inputs[:, None, :])
    return torch.cat([products, weight * (inputs[:, :, None] * labels[:, None, :]).flatten(1)], dim=1).numpy()


def accuracy(scenario: Scenario, dataset: DataSet, total: np.ndarray, variance: float) -> float:
    """Score the scenario's learner on a noisy sum of moments, with that variance of the noise in each number."""
    workers, signal = scenario.workers.count, Signal.of(scenario.workers, dataset.input_dim, dataset.label_dim)
    collector = collector_for(scenario, dataset)
    mean = torch.from_numpy(total / workers)[None]
    collector.add(mean[:, : signal.input_symbols], mean[:, signal.input_symbols :])
    model = linear_model(*solve(scenario.learner, collector.moments(variance / workers**2, 1.0)))
    found = class_scores(model, torch.from_numpy(dataset.test_inputs)).argmax(dim=1).numpy()
    return float((found == dataset.test_labels).mean())


def stated_epsilon(noise: IntegerNoise, honest: int, delta: float) -> float:
    """Return an epsilon that holds at delta if so many workers keep their noise secret; or infinity."""

    def found(assumed: float) -> float:
        cut = log_cut(noise.code.numbers, assumed, delta)
        mu = noise.code.steps * rounded_mu_per_step(honest * noise.variance_per_worker, cut)
        return gaussian_epsilon(mu, delta * (1.0 - SHARE_FOR_TAILS)) if mu < 1e100 else math.inf

    return settled_epsilon(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", type=int, default=256)
    parser.add_argument("--bits", type=int, nargs="+", default=[8, 12, 16, 18, 20])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 10.0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--modelled", action="store_true")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    scenario = settle(Scenario.preset("private-mnist").with_overrides(f"workers.features={arguments.features}"))
    dataset = load_dataset(scenario.workers, Streams(scenario.seed))
    inputs = torch.from_numpy(dataset.train_inputs)
    labels = torch.from_numpy(dataset.label_code.coded(dataset.train_labels)).to(inputs)
    weight, workers, delta = scenario.workers.label_weight, scenario.workers.count, scenario.privacy.delta
    signal = Signal.of(scenario.workers, dataset.input_dim, dataset.label_dim)
    norm = math.sqrt(signal.largest_squared_norm(scenario.workers.clip_norm**2))
    doubles = inputs.double()
    exact = torch.cat([pack_symmetric(doubles.T @ doubles), weight * (doubles.T @ labels.double()).flatten()]).numpy()
    most = 8.0 * workers * norm / math.sqrt(signal.symbols)  # times the root mean square of a sum of equal vectors
    codes = {
        bits: IntegerCode(numbers=signal.symbols, norm=norm, step=2.0 * most / 2.0**bits, bits=bits)
        for bits in arguments.bits
    }
    started = time.perf_counter()
    totals = {bits: np.zeros(signal.symbols, dtype=np.int64) for bits in codes}
    rounding = Streams(scenario.seed).generator("encoder", 1)
    for first in range(0, 0 if arguments.modelled else workers, WORKERS_AT_ONCE):
        some = slice(first, first + WORKERS_AT_ONCE)
        vectors = vectors_of(inputs[some], labels[some], weight)
        for bits, code in codes.items():
            totals[bits] += code.rounded(vectors, rounding).sum(axis=0)
    sampled = vectors_of(inputs[:SAMPLED_WORKERS], labels[:SAMPLED_WORKERS], weight)
    seconds = time.perf_counter() - started
    rows: list[dict[str, Any]] = []
    for epsilon in arguments.epsilons:
        deviation = norm / gaussian_mu(epsilon, delta)
        scores = [
            accuracy(scenario, dataset, exact + deviation * noise.standard_normal(len(exact)), deviation**2)
            for noise in (Streams(seed).generator("noise") for seed in range(arguments.seeds))
        ]
        rows.append({"epsilon": epsilon, "bits": 0, "deviation": deviation, **summary(scores)})
        for bits, code in codes.items():
            row: dict[str, Any] = {"epsilon": epsilon, "bits": bits, "norm_in_steps": code.steps}
            try:
                sizes = {"numbers": code.numbers, "norm": norm, "workers": workers, "carriers": workers}
                share = SumTarget(**sizes, epsilon=epsilon, delta=delta).honest_variance(code) / workers
                mechanism = IntegerNoise(code=code, workers=workers, variance_per_worker=share)
            except AirMixError as problem:
                rows.append({**row, "refused": str(problem)})
                continue
            sums = [
                mechanism.modelled_sum(exact, sampled, noise)
                if arguments.modelled
                else mechanism.received(totals[bits], workers, noise)
                for noise in (Streams(seed).generator("noise") for seed in range(arguments.seeds))
            ]
            found = [accuracy(scenario, dataset, each, mechanism.sum_variance) for each in sums]
            row |= {
                "stated_epsilon": stated_epsilon(mechanism, workers, delta),
                "epsilon_half_honest": finite(stated_epsilon(mechanism, workers // 2, delta)),
                "variance_per_worker": mechanism.variance_per_worker,
                "deviation": math.sqrt(mechanism.noise_variance),
                "measured_deviation": float(np.std(np.concatenate([each - exact for each in sums]))),
                **summary(found),
            }
            rows.append(row)
    result = {
        "airmixml": __version__,
        "features": arguments.features,
        "numbers": signal.symbols,
        "workers": workers,
        "delta": delta,
        "rounding": "modelled" if arguments.modelled else "of every worker",
        "largest_sum": float(np.abs(exact).max()),
        "seconds_to_round": round(seconds, 1),
        "rows": rows,
    }
    show_and_write(result, arguments.out)


def finite(epsilon: float) -> float | None:
    """None where nothing is certified."""
    return epsilon if math.isfinite(epsilon) else None


def summary(scores: list[float]) -> dict[str, float]:
    return {"accuracy": statistics.fmean(scores), "spread": statistics.stdev(scores) if len(scores) > 1 else 0.0}


if __name__ == "__main__":
    main()
