"""Rounds for several labels: where they lead without noise, and what their scores stand for wherever a model goes."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from airmixml import AirMixClassifier, Scenario, load_model, run, simulate, train
from airmixml.data import DataSet, Signs
from airmixml.edge.closed_form import ReceivedMoments
from airmixml.edge.descents import Preconditioned, Start
from airmixml.scenario import Learner
from airmixml.scenario.score_links import IDENTITY, LOGISTIC, SOFTMAX
from airmixml.workers import encode

RNG = np.random.default_rng(4)
ROWS = RNG.random((1200, 4))
LOGITS = (ROWS - 0.5) @ RNG.normal(size=(4, 3)) * 5.0 + np.array([0.0, 0.8, -1.5])
LABELS = (RNG.random((1200, 3)) < expit(LOGITS)).astype(np.int64)
PLAIN = ("workers.centre=public", "workers.norm=clip", "workers.label_code=one-hot", "learner.model=ridge")
TASK = "workers.task=multi-label"


def table(*changes: str) -> Scenario:
    preset = Scenario.preset("private-table").with_overrides(*PLAIN, TASK, "workers.count=800", *changes)
    return preset.settled(800)


def dataset(scenario: Scenario) -> DataSet:
    inputs, _ = encode(scenario.workers, ROWS.astype(np.float32))
    return DataSet(
        name="rows",
        train_inputs=inputs[:800],
        train_labels=LABELS[:800],
        test_inputs=inputs[800:],
        test_labels=LABELS[800:],
        class_names=("a", "b", "c"),
        image_shape=None,
        clipped_values=0,
        code=Signs(3),
    )


def test_many_rounds_without_noise_are_logistic_regression() -> None:
    """4 P^-1 G is never further than a step of Newton's, since p (1 - p) <= 1 / 4; no gradient is clipped at 1."""
    scenario = table("privacy.epsilon=1e7", "learner.rounds=200", "learner.gradient_clip=1", "learner.rounds_step=800")
    data = dataset(scenario)
    trained = train(simulate(scenario, dataset=data))
    found = torch.sigmoid(trained.model(torch.from_numpy(data.test_inputs))).detach().numpy()
    for label in range(3):
        model = LogisticRegression(C=1e9, max_iter=10000, fit_intercept=False, tol=1e-10)
        wanted = model.fit(data.train_inputs, data.train_labels[:, label]).predict_proba(data.test_inputs)[:, 1]
        assert found[:, label] == pytest.approx(wanted, abs=0.01)


def test_the_rule_by_hand() -> None:
    """C = 0.2 sqrt(K); a step is (M / R) (sqrt(K) G / C) over the eigenvalue; M = 10 R where that is less."""
    zeros = torch.zeros((1, 9), dtype=torch.float64)
    second = torch.eye(1, dtype=torch.float64)
    moments = ReceivedMoments(
        second=2.0 * second, cross=zeros, input_mean=zeros[0, :1], label_mean=zeros[0], noise_edge=0.0
    )
    start = Start(weights=zeros, biases=zeros[0], norm=1.0, link=LOGISTIC, moments=moments)
    descent = Preconditioned(Learner(rounds=2), start)
    assert descent.broadcast().clip == pytest.approx(0.6)
    descent.receive(torch.full((1, 9), 0.01, dtype=torch.float64), 0.0)
    assert descent.weights.flatten().tolist() == pytest.approx([-10.0 * 3.0 * 0.01 / 0.6 / 2.0] * 9)


def test_the_first_model_has_four_times_the_scores_of_plus_and_minus_one() -> None:
    one_slot, scenario = (table(f"learner.rounds={each}", "privacy.epsilon=1e7") for each in (0, 1))
    solved = train(simulate(one_slot, dataset=dataset(one_slot))).model[0].weight.detach().numpy()
    mixtures = simulate(scenario, dataset=dataset(scenario))
    train(mixtures)
    first = mixtures.rounds[0].told.weights.T
    assert first == pytest.approx(4.0 * math.sqrt(3.0) * solved, rel=0.01, abs=0.01)


@pytest.mark.parametrize(
    ("changes", "link"),
    [
        (("learner.rounds=3",), LOGISTIC),
        (("learner.rounds=0",), IDENTITY),
        (("learner.rounds=0", "workers.sends=gradients", "learner.descent=adam", "radio.slots=3"), LOGISTIC),
        (("workers.task=classification", "learner.rounds=3"), SOFTMAX),
        (("workers.task=regression", "workers.target_lower=0", "workers.target_upper=1"), IDENTITY),
    ],
)
def test_a_scenario_says_what_scores_stand_for(changes: tuple[str, ...], link: object) -> None:
    assert table(*changes).score_link is link


@pytest.mark.parametrize("rounds", [0, 20])
def test_a_stored_model_gives_the_probabilities_of_its_link(tmp_path: Path, rounds: int) -> None:
    np.savez(tmp_path / "rows.npz", inputs=ROWS, labels=LABELS)
    own = (f"workers.dataset={tmp_path / 'rows.npz'}", "workers.input_lower=0", "workers.input_upper=1", TASK)
    changes = (*own, "privacy.epsilon=50", f"learner.rounds={rounds}")
    run(Scenario.preset("private-table").with_overrides(*changes), out=tmp_path / "run", pictures=False)
    model = load_model(tmp_path / "run")
    scores = model.network_(torch.from_numpy(model.encoder_.encode(ROWS)).double()).detach().numpy()
    wanted = expit(scores) if rounds else (1.0 + math.sqrt(3.0) * scores) / 2.0
    likely = model.predict_proba(ROWS)
    assert likely == pytest.approx(wanted.clip(1e-6, 1.0 - 1e-6), abs=1e-9)
    assert (model.predict(ROWS) == (scores > 0.0)).all()
    assert log_loss(LABELS.ravel(), likely.ravel()) < 0.65


def test_an_estimator_gives_probabilities_that_are_about_right() -> None:
    """Of labels said to hold with about 80 %, about 80 % hold; scores taken for means would say 100 %."""
    model = AirMixClassifier(epsilon=20, input_bounds=(0, 1), rounds=20, mode="simulation", random_state=0)
    likely = model.fit(ROWS[:800], LABELS[:800]).predict_proba(ROWS[800:])
    assert (
        log_loss(LABELS[800:].ravel(), likely.ravel())
        < log_loss(LABELS[800:].ravel(), expit(LOGITS[800:]).ravel()) + 0.05
    )
    some = (likely > 0.7) & (likely < 0.9)
    assert LABELS[800:][some].mean() == pytest.approx(likely[some].mean(), abs=0.1)
