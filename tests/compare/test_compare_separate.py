"""Samples received one by one: the known noise is taken off their moments, and what is left of it is bounded."""

from __future__ import annotations

import numpy as np
import pytest

from airmixml import Scenario
from airmixml.compare import Work
from airmixml.compare.baselines.without_mixing import received_moments
from airmixml.streams import Streams
from airmixml.workers import deploy, load_dataset


@pytest.mark.parametrize("variance", [0.0, 0.5, 3.0])
def test_moments_are_those_of_the_samples(variance: float) -> None:
    scenario = Scenario.preset("private-iris").with_overrides("workers.sends=samples", "workers.label_weight=0.5")
    dataset = load_dataset(scenario.workers, Streams(0))
    people = deploy(scenario.workers, dataset.train_samples, Streams(0))
    noise = np.full(people.count, variance)
    moments = received_moments(Work(scenario=scenario), scenario, dataset, people, noise)
    inputs = dataset.train_inputs[people.sample_index].astype(np.float64)
    labels = np.eye(3)[dataset.train_labels[people.sample_index]]
    both = np.hstack([inputs, labels])
    covariance = np.cov(both.T, bias=True)[: dataset.input_dim]
    error = moments.second.numpy() - covariance[:, : dataset.input_dim]
    slack = 1e-6
    assert np.abs(np.linalg.eigvalsh(error)).max() <= 1.5 * moments.noise_edge + slack
    assert moments.noise_edge < 0.45 * variance + slack  # so that the noise itself, left in, would not pass
    # Labels were sent at half amplitude, so their noise counts twice.
    spread = 5.0 * 2.0 * np.sqrt((variance**2 / 4.0 + variance) / people.count) + slack
    np.testing.assert_allclose(moments.cross.numpy(), covariance[:, dataset.input_dim :], atol=spread)
