"""Learning in closed form from samples that arrive one by one, each with noise of known variance."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from airmixml.compare.baselines.federated import pool_tensors, score
from airmixml.data import DataSet
from airmixml.edge.closed_form import ReceivedMoments, linear_model, solve
from airmixml.edge.training import TrainedModel
from airmixml.progress import Progress, silent
from airmixml.scenario import Learner, Scenario
from airmixml.streams import Streams
from airmixml.workers import Population

_WORKERS_AT_ONCE: Final = 8192


def closed_form_learner(learner: Learner) -> Learner:
    """Return the learner, or ridge with its shrinkage where it is a network."""
    return learner if learner.closed_form else Learner(model="ridge", shrinkage=learner.shrinkage)


def learn_from_separate_samples(
    scenario: Scenario,
    dataset: DataSet,
    population: Population,
    noise_variance: NDArray[np.float64],
    *,
    device: torch.device,
    progress: Progress = silent,
) -> TrainedModel:
    """Return the classifier of the noisy (x, w l) of all workers, scored on the clean test set.

    Args:
        scenario: learner, weight of the labels, and seed of the noise.
        dataset: what the workers hold.
        population: who holds which sample.
        noise_variance: variance of the noise on each symbol of each worker; shape workers.
        device: where to compute.
        progress: told how many workers have been heard.
    """
    inputs, labels = pool_tensors(dataset, device)
    table = torch.cat([inputs, scenario.workers.label_weight * labels], dim=1)
    held = torch.from_numpy(population.sample_index).to(device)
    deviation = torch.from_numpy(np.sqrt(noise_variance)).to(device).float()
    streams, size, count = Streams(scenario.seed), dataset.input_dim, population.count
    sums = torch.zeros(table.shape[1], dtype=torch.float64, device=device)
    products = torch.zeros((size, table.shape[1]), dtype=torch.float64, device=device)
    for part, first in enumerate(range(0, count, _WORKERS_AT_ONCE)):
        progress("one by one", first, count)
        some = slice(first, min(first + _WORKERS_AT_ONCE, count))
        drawn = streams.generator("noise", part).standard_normal((some.stop - first, table.shape[1]), dtype=np.float32)
        received = table[held[some]] + deviation[some, None] * torch.from_numpy(drawn).to(device)
        sums += received.sum(dim=0, dtype=torch.float64)
        products += (received[:, :size].T @ received).double()
    progress("one by one", count, count)
    moments = _moments(sums / count, products / count, float(noise_variance.mean()), count)
    moments = _unweighted(moments, scenario.workers.label_weight)
    model = linear_model(*(each.cpu() for each in solve(closed_form_learner(scenario.learner), moments)))
    return TrainedModel(model=model, history=score(model, dataset))


def _moments(mean: torch.Tensor, products: torch.Tensor, noise_variance: float, count: int) -> ReceivedMoments:
    """Return the covariances without the noise's own, and how large an eigenvalue its remains can make.

    With samples of variance m and noise of variance v on each number, an entry of the mean of N products errs by a
    variance of (v^2 + 2 v m) / N: a symmetric matrix of such entries has eigenvalues up to 2 sqrt(d (v^2 + 2 v m) / N).
    """
    size = len(products)
    covariance = products - torch.outer(mean[:size], mean)
    second = covariance[:, :size] - noise_variance * torch.eye(size).to(products)
    own = max(float(second.diagonal().mean()), 0.0)
    return ReceivedMoments(
        second=second,
        cross=covariance[:, size:],
        input_mean=mean[:size],
        label_mean=mean[size:],
        noise_edge=2.0 * math.sqrt(size * (noise_variance**2 + 2.0 * noise_variance * own) / count),
    )


def _unweighted(moments: ReceivedMoments, label_weight: float) -> ReceivedMoments:
    return ReceivedMoments(
        second=moments.second,
        cross=moments.cross / label_weight,
        input_mean=moments.input_mean,
        label_mean=moments.label_mean / label_weight,
        noise_edge=moments.noise_edge,
    )
