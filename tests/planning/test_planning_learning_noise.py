"""The edges of the noise that designs are scored by, against simulated noise; each check rejects 2/3 and 3/2 of it."""

import math

import numpy as np
import pytest

from airmixml import Scenario
from airmixml.edge import learn
from airmixml.edge.closed_form import ReceivedMoments
from airmixml.planning.learning_noise import LearningNoise, SlotQuality, learning_noise
from airmixml.radio.schedules import FIXED, POISSON
from airmixml.streams import Streams
from airmixml.workers import Signal, load_dataset

FEATURES, CLASSES = 60, 8
# Edges of matrices this small are a little inside those of infinite ones; the largest of a few draws comes near.
TOLERANCE = 0.12


def near(measured: float, predicted: float) -> bool:
    return abs(measured / predicted - 1.0) < TOLERANCE


def measured_moments(slots: int, noise_variance: float, weight: float, rng: np.random.Generator) -> tuple[float, float]:
    """Return edges of the averaged noise of received moments, unpacked as the server does."""
    deviation = math.sqrt(noise_variance / slots)
    products = deviation * rng.standard_normal(FEATURES * (FEATURES + 1) // 2)
    rows, columns = np.triu_indices(FEATURES)
    second = np.zeros((FEATURES, FEATURES))
    second[rows, columns] = second[columns, rows] = products * np.where(rows == columns, 1.0, math.sqrt(0.5))
    cross = deviation / weight * rng.standard_normal((FEATURES, CLASSES))
    return float(np.linalg.eigvalsh(second)[-1]), float(np.linalg.svd(cross, compute_uv=False)[0])


def measured_samples(
    slots: int, noise_variance: float, share: float, weight: float, rng: np.random.Generator
) -> tuple[float, float]:
    """Return edges of the error of the covariances of white mixtures whose inputs tell nothing of the labels."""
    inputs = math.sqrt(share / FEATURES) * rng.standard_normal((slots, FEATURES))
    labels = math.sqrt(share / CLASSES) * rng.standard_normal((slots, CLASSES))
    inputs += math.sqrt(noise_variance) * rng.standard_normal(inputs.shape)
    labels += math.sqrt(noise_variance) / weight * rng.standard_normal(labels.shape)
    second = (inputs.T @ inputs / slots - noise_variance * np.eye(FEATURES)) / share - np.eye(FEATURES) / FEATURES
    cross = inputs.T @ labels / slots / share
    return float(np.linalg.eigvalsh(second)[-1]), float(np.linalg.svd(cross, compute_uv=False)[0])


def predicted(quality: SlotQuality, weight: float, *, moments: bool) -> LearningNoise:
    signal = Signal(features=FEATURES, classes=CLASSES, moments=moments, label_weight=weight)
    return learning_noise(signal, 1.0, quality)


@pytest.mark.parametrize(("slots", "noise_variance", "weight"), [(1, 1e-4, 1.0), (7, 0.3, 0.25)])
def test_edges_of_received_moments(slots: int, noise_variance: float, weight: float) -> None:
    rng = np.random.default_rng(1)
    edges = np.mean([measured_moments(slots, noise_variance, weight, rng) for _ in range(20)], axis=0)
    noise = predicted(SlotQuality(slots=slots, noise_variance=noise_variance, varying_share=0.0), weight, moments=True)
    for measured, edge in zip(edges, (noise.second_edge, noise.cross_edge), strict=True):
        assert near(measured, edge)
        assert not near(measured, edge * 2 / 3)
        assert not near(measured, edge * 3 / 2)


@pytest.mark.parametrize(
    ("slots", "noise_variance", "share", "weight"),
    [(3000, 0.05, 0.1, 0.3), (500, 1e-3, 0.5, 1.0), (40, 0.02, 0.2, 0.5)],
)
def test_edges_of_covariances_of_samples(slots: int, noise_variance: float, share: float, weight: float) -> None:
    rng = np.random.default_rng(2)
    edges = np.mean([measured_samples(slots, noise_variance, share, weight, rng) for _ in range(10)], axis=0)
    noise = predicted(
        SlotQuality(slots=slots, noise_variance=noise_variance, varying_share=share), weight, moments=False
    )
    assert near(edges[0], noise.second_edge)
    assert not near(edges[0], noise.second_edge * 2 / 3)
    if slots > FEATURES:  # with fewer slots the inputs are no longer nearly orthogonal, which the cross edge neglects
        assert near(edges[1], noise.cross_edge)
        assert not near(edges[1], noise.cross_edge * 3 / 2)


@pytest.mark.parametrize(("scheduled", "poisson"), [(3, False), (30, False), (30, True)])
def test_the_share_that_varies_is_the_variance_of_simulated_mixtures(scheduled: int, poisson: bool) -> None:
    rng, workers, slots = np.random.default_rng(3), 40, 20_000
    values = rng.standard_normal(workers)
    if poisson:
        ratios = (rng.random((slots, workers)) < scheduled / workers) / scheduled
        truth = float((values**2).mean())
    else:
        ratios = np.zeros((slots, workers))
        drawn = rng.dirichlet(np.full(scheduled, 4.0), size=slots)
        np.put_along_axis(
            ratios, rng.permuted(np.tile(np.arange(workers), (slots, 1)), axis=1)[:, :scheduled], drawn, 1
        )
        truth = float(values.var())
    share = (POISSON if poisson else FIXED).varying_share(float((ratios**2).sum(axis=1).mean()), scheduled, workers)
    assert float((ratios @ values).var()) == pytest.approx(share * truth, rel=0.05, abs=0)


def test_where_all_send_alike_samples_carry_nothing_and_moments_everything() -> None:
    share = FIXED.varying_share(1 / 50, 50, 50)
    assert share == 0.0
    quality = SlotQuality(slots=1000, noise_variance=1e-6, varying_share=share)
    assert predicted(quality, 1.0, moments=False).total == math.inf
    assert predicted(quality, 1.0, moments=True).total < 1e-2


def test_the_score_counts_noise_on_labels_and_inputs_and_falls_with_slots() -> None:
    def total(slots: int = 100, variance: float = 1e-3, weight: float = 0.5, *, moments: bool = True) -> float:
        quality = SlotQuality(slots=slots, noise_variance=variance, varying_share=0.1)
        return predicted(quality, weight, moments=moments).total

    for moments in (True, False):
        assert total(moments=moments) > total(slots=200, moments=moments)
        assert total(moments=moments) > total(variance=5e-4, moments=moments)
        assert total(moments=moments) > total(weight=0.7, moments=moments)


def test_the_learner_reckons_with_the_edge_that_the_plan_predicts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run's own noise_edge, from the powers that were really used."""
    from airmixml.edge import training
    from airmixml.planning.learning_noise import DesignScorer

    scenario = Scenario.preset("private-iris").with_overrides("privacy.epsilon=2", "workers.label_weight=0.5")
    seen: list[ReceivedMoments] = []
    solve = training.solve
    monkeypatch.setattr(training, "solve", lambda learner, moments: (seen.append(moments), solve(learner, moments))[1])
    dataset = load_dataset(scenario.workers, Streams(0))
    learn(scenario, dataset=dataset)
    scorer = DesignScorer(scenario, dataset.input_dim, dataset.label_dim, 1.0)
    noise = scorer.exact_noise(scorer.own)
    assert noise is not None
    assert noise.second_edge == pytest.approx(seen[0].noise_edge, rel=0.03, abs=0)
