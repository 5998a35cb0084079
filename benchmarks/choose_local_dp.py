"""Which local mechanism ``local-dp`` of ``airmix compare`` is: candidates on made-up data, which belong to nobody.

    python benchmarks/choose_local_dp.py --out benchmarks/results/local_dp_choice.json

Classes are Gaussian clouds of one shape, whose variances fall as 1 / k along a random basis, with every input scaled to
norm 1. All candidates keep the same target (remove-one) with the noise of workers alone:

- samples: x and half the one-hot label l, from which the server takes moments;
- moments: x x' and w x l', w the best of 0.5, 1, 2 and 4 in each cell, so that no other share would be kinder;
- groups: one clipped gradient per worker, the workers dealt to the rounds;
- mean: one round of ``local-dp``, which is the mean of x l';
- gradients: ``local-dp``.

The constants of the gradients were chosen on data made up in the same way, which favours them.

About two minutes on two CPU cores.
"""

from __future__ import annotations

import argparse
import math
import statistics
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from airmixml.compare.baselines import without_mixing
from airmixml.compare.baselines.without_mixing import CLIP_NORM, LocalAir, LocalPlan, descend
from airmixml.edge.closed_form import ReceivedMoments, solve
from airmixml.privacy.gaussian import gaussian_mu
from airmixml.scenario import Learner, Privacy
from airmixml.streams import Streams
from results_file import show_and_write

# Workers, features, classes, distance of class means over the spread within one.
SHAPES = ((10_000, 64, 10, 0.8), (2000, 6, 3, 1.2), (2000, 30, 2, 0.8), (1000, 20, 4, 1.0))
EPSILONS = (1.0, 3.0, 10.0)
DELTA = 1e-5
TESTED = 2000
LABEL_WEIGHTS = (0.5, 1.0, 2.0, 4.0)


class MadeUp(NamedTuple):
    """Inputs (rows x d) and one-hot labels (rows x classes) to learn from, and inputs and classes to test with."""

    inputs: torch.Tensor
    labels: torch.Tensor
    test_inputs: torch.Tensor
    test_classes: torch.Tensor

    def accuracy(self, weights: torch.Tensor, biases: torch.Tensor | float = 0.0) -> float:
        """Return how often the highest score is that of the right class."""
        scores = self.test_inputs.to(weights) @ weights + biases
        return float((scores.argmax(dim=1) == self.test_classes).double().mean())


def make_up(workers: int, size: int, classes: int, distance: float, seed: int) -> MadeUp:
    rng = np.random.default_rng(seed)
    spread = np.arange(1, size + 1) ** -0.5
    means = rng.standard_normal((classes, size)) * spread * distance
    numbers = rng.integers(classes, size=workers + TESTED)
    rows = means[numbers] + (rng.standard_normal((len(numbers), size)) + 0.7 * rng.standard_normal(size)) * spread
    rows = rows @ np.linalg.qr(rng.standard_normal((size, size)))[0]
    inputs = torch.from_numpy(rows / np.linalg.norm(rows, axis=1, keepdims=True)).float()
    labels = torch.from_numpy(np.eye(classes, dtype=np.float32)[numbers])
    return MadeUp(inputs[:workers], labels[:workers], inputs[workers:], torch.from_numpy(numbers[workers:]))


def by_gradients(data: MadeUp, epsilon: float, seed: int, *, rounds: int = 0) -> float:
    privacy, workers = Privacy(epsilon=epsilon, delta=DELTA, adjacency="remove-one"), len(data.inputs)
    plan = LocalPlan.of(privacy, workers)
    if rounds:
        deviation = plan.deviation * math.sqrt(rounds / plan.rounds)
        plan = LocalPlan(rounds=rounds, step=plan.step, deviation=deviation)
    air = LocalAir(receiver_variance=np.zeros(plan.rounds), energy_joules=0.0)
    return data.accuracy(descend(data.inputs, data.labels, torch.ones(workers), plan, air, Streams(seed)))


def by_groups(data: MadeUp, epsilon: float, seed: int) -> float:
    mu, workers = gaussian_mu(epsilon, DELTA), len(data.inputs)
    generator = torch.Generator().manual_seed(seed)
    steps = without_mixing.SCORE_NOISE * mu * math.sqrt(workers) / CLIP_NORM
    rounds = max(1, round(steps / without_mixing.STEP))
    weights = torch.zeros((data.inputs.shape[1], data.labels.shape[1]))
    total = torch.zeros_like(weights)
    for number, members in enumerate(torch.randperm(workers, generator=generator).tensor_split(rounds)):
        held = data.inputs[members]
        errors = torch.softmax(held @ weights, dim=1) - data.labels[members]
        errors *= (CLIP_NORM / (errors.norm(dim=1) * held.norm(dim=1)).clamp(min=CLIP_NORM))[:, None]
        drawn = Streams(seed).generator("noise", number).standard_normal(tuple(weights.shape), dtype=np.float32)
        noise = CLIP_NORM / mu * math.sqrt(len(members)) * torch.from_numpy(drawn)  # the same draws as for gradients
        weights = weights - steps / rounds * (held.T @ errors + noise) / len(members)
        total += weights * (number >= rounds // 2)
    return data.accuracy(total)


def by_samples(data: MadeUp, epsilon: float, seed: int, *, weight: float = 0.5) -> float:
    mu, (workers, size) = gaussian_mu(epsilon, DELTA), data.inputs.shape
    variance = (1.0 + weight**2) / mu**2
    clean = torch.cat([data.inputs, weight * data.labels], dim=1).double()
    noise = torch.randn(clean.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    received = clean + math.sqrt(variance) * noise
    mean = received.mean(dim=0)
    covariance = received[:, :size].T @ received / workers - torch.outer(mean[:size], mean)
    second = covariance[:, :size] - variance * torch.eye(size, dtype=torch.float64)
    own = max(float(second.diagonal().mean()), 0.0)
    moments = ReceivedMoments(
        second=second,
        cross=covariance[:, size:] / weight,
        input_mean=mean[:size],
        label_mean=mean[size:] / weight,
        noise_edge=2.0 * math.sqrt(size * (variance**2 + 2.0 * variance * own) / workers),
    )
    return data.accuracy(*solve(Learner(model="ridge"), moments))


def by_moments(data: MadeUp, epsilon: float, seed: int, *, weight: float) -> float:
    mu, (workers, size) = gaussian_mu(epsilon, DELTA), data.inputs.shape
    deviation = math.sqrt(1.0 + weight**2) / mu / math.sqrt(workers)
    generator, inputs = torch.Generator().manual_seed(seed), data.inputs.double()
    above = torch.randn((size, size), generator=generator, dtype=torch.float64).triu(1) / math.sqrt(2.0)
    symmetric = above + above.T + torch.diag(torch.randn(size, generator=generator, dtype=torch.float64))
    cross_noise = torch.randn((size, data.labels.shape[1]), generator=generator, dtype=torch.float64)
    moments = ReceivedMoments(
        second=inputs.T @ inputs / workers + deviation * symmetric,
        cross=inputs.T @ data.labels.double() / workers + deviation / weight * cross_noise,
        input_mean=torch.zeros(size, dtype=torch.float64),
        label_mean=torch.zeros(data.labels.shape[1], dtype=torch.float64),
        noise_edge=deviation * math.sqrt(2.0 * size),
    )
    return data.accuracy(*solve(Learner(model="ridge"), moments))


def measure(shape: tuple[int, int, int, float], epsilon: float, seeds: int) -> dict[str, float]:
    """Return the mean accuracy of each candidate; every seed makes up other data."""
    sets = [make_up(*shape, seed) for seed in range(seeds)]
    found = {
        "samples": [by_samples(data, epsilon, seed) for seed, data in enumerate(sets)],
        "groups": [by_groups(data, epsilon, seed) for seed, data in enumerate(sets)],
        "mean": [by_gradients(data, epsilon, seed, rounds=1) for seed, data in enumerate(sets)],
        "gradients": [by_gradients(data, epsilon, seed) for seed, data in enumerate(sets)],
    }
    shares = [
        [by_moments(data, epsilon, seed, weight=weight) for seed, data in enumerate(sets)] for weight in LABEL_WEIGHTS
    ]
    return {name: statistics.fmean(each) for name, each in (found | {"moments": max(shares, key=sum)}).items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    results = [
        {
            "workers": shape[0],
            "features": shape[1],
            "classes": shape[2],
            "epsilon": epsilon,
            "accuracy": measure(shape, epsilon, given.seeds),
        }
        for shape in SHAPES
        for epsilon in EPSILONS
    ]
    show_and_write({"seeds": given.seeds, "delta": DELTA, "results": results}, given.out)


if __name__ == "__main__":
    main()
