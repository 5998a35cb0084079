"""Methods with a trusted curator, checked by NumPy, scikit-learn and the formulas of their papers."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from airmixml import Scenario
from airmixml.compare import Work, load_methods
from airmixml.compare.baselines.central import Curator, adaptive_ridge, calibrated_mu
from airmixml.compare.comparison import Row
from airmixml.workers import settle

TABLE = settle(Scenario.preset("private-table").with_overrides("workers.centre=refined", "workers.norm=unit"))


@pytest.fixture(scope="module")
def work() -> Work:
    return Work(scenario=TABLE)


def delta_of(mu: float, epsilon: float) -> float:
    return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu))


def test_the_curator_spends_the_whole_target_and_a_share_on_the_mean(work: Work) -> None:
    curator = Curator.of(work)
    assert delta_of(curator.total_mu, 1.0) == pytest.approx(0.1 / 379, rel=1e-6)
    assert curator.mu == pytest.approx(math.sqrt(0.9) * curator.total_mu, rel=1e-12)
    assert curator.inputs.shape == (379, 31)
    assert float(curator.inputs.norm(dim=1).max()) <= 1.0
    assert torch.equal(curator.labels.sum(dim=1), torch.ones(379, dtype=torch.float64))
    replaced = calibrated_mu(TABLE.with_overrides("privacy.adjacency=replace-one").privacy, 379)
    assert replaced == pytest.approx(curator.total_mu / 2, rel=1e-6)


def test_adassp_without_noise_is_least_squares() -> None:
    rng = np.random.default_rng(0)
    inputs, labels = rng.standard_normal((200, 5)) / 5.0, rng.standard_normal((200, 2))
    found = adaptive_ridge(torch.from_numpy(inputs), torch.from_numpy(labels), 1e9, 1e-3, rng)
    assert found.numpy() == pytest.approx(np.linalg.lstsq(inputs, labels, rcond=None)[0], abs=1e-6)


def test_adassp_has_the_papers_ridge_and_noise() -> None:
    """No rows: W = (s N + lambda I)^-1 s Z, lambda = s sqrt(d ln(2 d^2 / 0.05)), s = sqrt(3) / mu. For one input

    lambda is 1.92 s, and the mean over draws of 1 / W is that of (N + 1.92) / Z: checked by the same draws.
    """
    empty, labels = torch.zeros((1, 1), dtype=torch.float64), torch.zeros((1, 1), dtype=torch.float64)
    for seed in range(20):
        draws = np.random.default_rng(seed).standard_normal(3)
        expected = draws[2] / (draws[1] + math.sqrt(math.log(2.0 / 0.05)))
        found = adaptive_ridge(empty, labels, 0.7, 1e-3, np.random.default_rng(seed))
        assert float(found) == pytest.approx(expected, rel=1e-9)


def test_logistic_regression_is_scikit_learns_and_has_no_epsilon(work: Work) -> None:
    outcome = load_methods("logistic")["logistic"].run(work)
    assert math.isinf(outcome.privacy[0].epsilon)
    assert outcome.privacy[0].target_epsilon is None
    raw, population = work.load(
        TABLE.with_overrides(
            "workers.encoder=scale",
            "workers.label_code=one-hot",
            "workers.centre=none",
            "workers.norm=clip",
            "workers.constant=0",
            "learner.rounds=0",
            "workers.sends=samples",
            "privacy.sensitivity=paper",
        ).workers
    )
    scaler = StandardScaler().fit(raw.train_inputs[population.sample_index])
    model = LogisticRegression(max_iter=1000).fit(
        scaler.transform(raw.train_inputs[population.sample_index]), raw.train_labels[population.sample_index]
    )
    assert outcome.accuracy == pytest.approx(model.score(scaler.transform(raw.test_inputs), raw.test_labels), abs=1e-12)
    row = Row(name="logistic", about="", outcomes=(outcome,))
    assert row.to_dict()["privacy"][0]["epsilon"] is None


@pytest.mark.parametrize(("method", "least"), [("adassp", 0.88), ("dp-logistic", 0.9)])
def test_central_methods_keep_the_target_and_learn(method: str, least: float, work: Work) -> None:
    """Ten seeds gave 94.5 and 95.3 % on average, with deviations below 2 points."""
    outcome = load_methods(method)[method].run(work)
    assert outcome.privacy[0].epsilon == pytest.approx(1.0, rel=1e-6)
    assert outcome.privacy[0].epsilon <= 1.0
    assert outcome.privacy[0].adversary == "model"
    assert outcome.accuracy > least
