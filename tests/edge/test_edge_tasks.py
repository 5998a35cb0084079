"""Learning targets and several labels, their scores, sums of rows, and scores as probabilities."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.datasets import load_iris, load_wine
from sklearn.linear_model import LinearRegression
from sklearn.metrics import accuracy_score, f1_score, log_loss, mean_absolute_error, r2_score, root_mean_squared_error

from airmixml import AirMixClassifier, Scenario, simulate, train
from airmixml.data import Bounded, DataSet, LabelCode, Signs
from airmixml.edge.closed_form import ReceivedMoments, _optimism, probability_factor, score_clouds, solve
from airmixml.scenario import Learner
from airmixml.workers import Population, encode
from airmixml.workers.population import gather_rows

RNG = np.random.default_rng(11)
ROWS = RNG.random((900, 4))


def dataset_of(scenario: Scenario, labels: NDArray[Any], code: LabelCode | None, train_rows: int = 600) -> DataSet:
    inputs, _ = encode(scenario.workers, ROWS.astype(np.float32))
    outputs = labels.shape[1] if labels.ndim == 2 else int(labels.max()) + 1
    return DataSet(
        name="rows",
        train_inputs=inputs[:train_rows],
        train_labels=labels[:train_rows],
        test_inputs=inputs[600:],
        test_labels=labels[600:],
        class_names=tuple(f"y{k}" for k in range(outputs)),
        image_shape=None,
        clipped_values=0,
        code=code,
    )


PLAIN = ("workers.centre=public", "workers.norm=clip", "workers.label_code=one-hot", "learner.model=ridge")


def table(*changes: str, workers: int = 600) -> Scenario:
    return Scenario.preset("private-table").with_overrides(
        *PLAIN, f"workers.count={workers}", "workers.train_samples=600", "privacy.epsilon=1e6", *changes
    ).settled(workers)  # fmt: skip


TARGETS = np.column_stack([20.0 * ROWS[:, 0] - 5.0 * ROWS[:, 1] + 30.0, ROWS[:, 2] ** 2]) + 0.02 * RNG.normal(
    size=(900, 2)
)
WIDE = Bounded((0.0, -1.0), (60.0, 2.0))


# --- Learning ---------------------------------------------------------------------------------------------------------


def test_ridge_without_noise_is_least_squares_in_the_targets_own_units() -> None:
    scenario = table("workers.task=regression", "learner.rounds=0")
    dataset = dataset_of(scenario, TARGETS, WIDE)
    history = train(simulate(scenario, dataset=dataset)).history
    fitted = LinearRegression().fit(dataset.train_inputs[:, :-1], dataset.train_labels)
    wanted = fitted.predict(dataset.test_inputs[:, :-1])
    assert history.predicted == pytest.approx(wanted, abs=0.02)
    assert history.scores["r2"] == pytest.approx(r2_score(dataset.test_labels, wanted), abs=1e-3)
    assert history.scores["rmse.y0"] == pytest.approx(
        root_mean_squared_error(dataset.test_labels[:, 0], wanted[:, 0]), rel=1e-2
    )
    assert (history.score_name, history.test_score) == ("r2", [history.scores["r2"]])
    assert not history.test_accuracy


def test_samples_serve_ridge_and_a_network_with_linear_outputs() -> None:
    changes = (
        "workers.task=regression",
        "workers.sends=samples",
        "workers.constant=0",
        "radio.slots=1500",
        "radio.scheduled=2",
        "mixing.policy=dirmix",
        "mixing.alpha=1",
    )
    scenario = table(*changes)
    dataset = dataset_of(scenario, TARGETS, WIDE)
    mixtures = simulate(scenario, dataset=dataset)
    assert train(mixtures).history.scores["r2"] > 0.9
    network = ("learner.model=mlp", "learner.loss=squared", "learner.epochs=12", "learner.learning_rate=0.005")
    learned = replace(mixtures, scenario=scenario.with_overrides(*network))
    history = train(learned).history
    assert history.scores["r2"] > 0.9
    assert len(history.test_score) == 12
    assert history.test_score[-1] == history.scores["r2"]


def test_several_labels_are_told_apart() -> None:
    labels = np.column_stack([ROWS[:, 0] > 0.5, ROWS[:, 1] + ROWS[:, 2] > 1.0, ROWS[:, 3] > 0.9]).astype(np.int64)
    scenario = table("workers.task=multi-label")
    history = train(simulate(scenario, dataset=dataset_of(scenario, labels, Signs(3)))).history
    assert history.scores["labels_right"] > 0.93
    assert history.score_name == "labels_right"


@pytest.mark.parametrize("bits", [0, 6])
@pytest.mark.parametrize("model", ["ridge", "lda"])
def test_sums_of_rows_learn_what_single_rows_do(model: str, bits: int) -> None:
    """120 workers of 1 to 9 rows: as many labels right as 600 workers with a row each, within 3 %."""
    labels = (ROWS[:, 0] + ROWS[:, 1] > 1.0).astype(np.int64)
    common = (f"learner.model={model}", f"workers.bits={bits}")
    single = table(*common)
    alone = train(simulate(single, dataset=dataset_of(single, labels, None))).history.final_accuracy
    several = table(*common, "workers.worker_column=w", workers=120)
    rng = np.random.default_rng(0)
    holders = np.sort(np.concatenate([np.arange(120), rng.integers(0, 120, 480)]))
    population = Population(
        distance_metres=np.full(120, 100.0), sample_index=np.arange(120), holdings=gather_rows(holders, 120, 0, rng)
    )
    together = train(simulate(several, dataset=dataset_of(several, labels, None), population=population)).history
    assert alone > 0.95
    assert together.final_accuracy > alone - 0.03


# --- Scores -----------------------------------------------------------------------------------------------------------


@given(seed=st.integers(0, 10**6), outputs=st.integers(1, 4))
@settings(max_examples=20, deadline=None)
def test_scores_are_those_of_scikit_learn(seed: int, outputs: int) -> None:
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(30, outputs)) * 10.0 ** rng.integers(-3, 4, size=outputs)
    predicted = truth + rng.normal(size=truth.shape)
    names = [f"y{k}" for k in range(outputs)]
    scores = Bounded((0.0,) * outputs, (1.0,) * outputs).scores(predicted, truth, names)
    assert scores["r2"] == pytest.approx(r2_score(truth, predicted), rel=1e-9)
    for place, name in enumerate(names):
        ending = f".{name}" if outputs > 1 else ""
        pair = truth[:, place], predicted[:, place]
        assert scores[f"rmse{ending}"] == pytest.approx(root_mean_squared_error(*pair))
        assert scores[f"mae{ending}"] == pytest.approx(mean_absolute_error(*pair))
    truth, predicted = (rng.random((2, 30, outputs + 1)) < rng.random()).astype(int)
    scores = Signs(outputs + 1).scores(predicted, truth, [])
    assert scores["labels_right"] == pytest.approx((truth == predicted).mean())
    assert scores["exact_match"] == pytest.approx(accuracy_score(truth, predicted))
    assert scores["macro_f1"] == pytest.approx(f1_score(truth, predicted, average="macro", zero_division=0))


def test_a_target_that_never_varies_has_a_score() -> None:
    same = np.full((5, 1), 3.0)
    code = Bounded((0.0,), (9.0,))
    assert code.scores(same, same, ["y"])["r2"] == 1.0
    assert code.scores(same + 1.0, same, ["y"])["r2"] == 0.0


# --- Probabilities ----------------------------------------------------------------------------------------------------


def clouds(distance: float, share: float) -> ReceivedMoments:
    """Exact moments of two unit clouds on a line, and a constant: class 1 at ``distance``, class 0 at 0."""
    constant = 1.0
    means = np.array([0.0, distance])
    shares = np.array([1.0 - share, share])
    second = np.array([[1.0 + share * distance**2, share * distance], [share * distance, constant]])
    cross = np.array([means * shares, constant * shares])
    zeros = torch.zeros(2, dtype=torch.float64)
    return ReceivedMoments(
        second=torch.from_numpy(second),
        cross=torch.from_numpy(cross),
        input_mean=zeros,
        label_mean=zeros,
        noise_edge=0.0,
        constant=constant,
    )


@pytest.mark.parametrize("distance", [0.5, 2.0, 4.0])
def test_balanced_clouds_get_their_exact_probabilities(distance: float) -> None:
    """Scores +-(x - distance / 2) / 2: the log odds of two unit clouds are distance (x - distance / 2)."""
    weights = torch.tensor([[-0.5, 0.5], [distance / 4, -distance / 4]], dtype=torch.float64)
    factor = probability_factor(Learner(), weights, torch.zeros(2, dtype=torch.float64), clouds(distance, 0.5))
    assert factor == pytest.approx(distance, rel=0.08)  # 512 points stand for each cloud


def test_score_clouds_by_hand() -> None:
    weights = torch.tensor([[1.0, 2.0], [0.5, 0.0]], dtype=torch.float64)
    shares, means, covariance = score_clouds(weights, torch.zeros(2, dtype=torch.float64), clouds(3.0, 0.25))
    assert shares.tolist() == pytest.approx([0.75, 0.25])
    assert means.numpy() == pytest.approx(np.array([[0.5, 0.0], [3.5, 6.0]]))
    assert covariance.numpy() == pytest.approx(np.array([[1.0, 2.0], [2.0, 4.0]]))
    # Known noise widens it by two deviations of what it does: s W^T W.
    noisy = replace(clouds(3.0, 0.25), noise_edge=0.1 * math.sqrt(4.0))
    wider = score_clouds(weights, torch.zeros(2, dtype=torch.float64), noisy)[2] - covariance
    assert wider.numpy() == pytest.approx(0.2 * np.array([[1.25, 2.0], [2.0, 4.0]]))


def test_what_noise_adds_to_scores_is_known_on_average() -> None:
    """Least squares on the true second moments: tr(dW_c / dG_c) = (1 - 1 / classes) tr S^-1, by random signs."""
    size, classes = 40, 3
    root = np.random.default_rng(0).normal(size=(size, 2 * size))
    second = torch.from_numpy(root @ root.T / size)
    zeros = torch.zeros(size, dtype=torch.float64)
    moments = ReceivedMoments(
        second=second,
        cross=torch.randn((size, classes), dtype=torch.float64, generator=torch.Generator().manual_seed(3)),
        input_mean=zeros,
        label_mean=zeros[:classes],
        noise_edge=0.0,
        cross_deviation=0.3,
    )
    learner = Learner(model="ridge")
    found = _optimism(learner, solve(learner, moments)[0], moments)
    wanted = 0.09 * (1.0 - 1.0 / classes) * float(torch.linalg.inv(second).trace())
    assert found.numpy() == pytest.approx(np.full(classes, wanted), rel=0.25)


@pytest.mark.parametrize("load", [load_iris, load_wine])
@pytest.mark.parametrize("epsilon", [3.0, pytest.param(10.0, marks=pytest.mark.long)])
def test_probabilities_of_real_tables_are_better_than_softmax_of_least_squares(load: Any, epsilon: float) -> None:
    """Log loss and Brier score on held-out rows, mean of four seeds."""
    data = load()
    bounds = (0.9 * data.data.min(axis=0), 1.1 * data.data.max(axis=0) + 1e-3)
    losses = {"calibrated": 0.0, "uncalibrated": 0.0}
    briers = dict(losses)
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(len(data.target))
        half, rest = np.split(order, [2 * len(order) // 3])
        model = AirMixClassifier(
            epsilon=epsilon, input_bounds=bounds, mode="simulation", random_state=seed, model="ridge"
        )
        model.fit(data.data[half], data.target[half])
        probabilities = model.predict_proba(data.data[rest])
        logits = np.log(np.maximum(probabilities, 1e-300))
        # Least squares as it is: scores whose class differences are those of the labels, about 1 apart.
        spread = logits.max(axis=1) - logits.min(axis=1)
        plain = np.exp(logits / np.quantile(spread, 0.9))
        plain /= plain.sum(axis=1, keepdims=True)
        truth = np.eye(len(data.target_names))[data.target[rest]]
        for name, found in (("calibrated", probabilities), ("uncalibrated", plain)):
            losses[name] += log_loss(data.target[rest], found, labels=range(len(data.target_names))) / 4
            briers[name] += float(np.square(found - truth).sum(axis=1).mean()) / 4
    assert losses["calibrated"] < losses["uncalibrated"]
    assert briers["calibrated"] < 0.95 * briers["uncalibrated"]
