"""The classifier with encoders, moments and learners in closed form."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.model_selection import train_test_split

from airmixml import AirMixClassifier, Scenario, ScenarioError
from airmixml.messages import BoundsWarning
from airmixml.workers import TorchEncoder

EVERYBODY = {"scheduled": 10**6, "slots": 1, "policy": "equalmix", "adversary": "server", "accountant": "gdp"}
MOMENTS = {**EVERYBODY, "adjacency": "remove-one", "sends": "moments", "norm": "unit", "centre": "own"}
BOUNDS = ([4.3, 2.0, 1.0, 0.1], [7.9, 4.4, 6.9, 2.5])


@pytest.fixture(scope="module")
def digits() -> list[np.ndarray]:
    data = load_digits()
    return train_test_split(data.data, data.target, test_size=500, random_state=0)


IRIS = ("setosa", "versicolor", "virginica")


@pytest.fixture(scope="module")
def iris() -> tuple[np.ndarray, np.ndarray]:
    data = load_iris()
    return data.data, data.target_names[data.target]


def test_moments_of_gradients_tell_digits_apart(digits: list[np.ndarray]) -> None:
    """Without a target nearly all of them; with one fewer, and the epsilon that was asked for."""
    train, test, labels, truth = digits
    model = AirMixClassifier(
        encoder="gradients",
        image_shape=(8, 8),
        model="ridge",
        label_weight=0.5,
        input_bounds=(0.0, 16.0),
        classes=range(10),
        epsilon=None,
        random_state=0,
        **MOMENTS,
    )
    without_noise = model.fit(train, labels).score(test, truth)
    assert without_noise > 0.93
    assert model.mixtures_.inputs.shape == (1, 128 * 129 // 2)
    assert model.mixtures_.labels.shape == (1, 1280)
    private = clone(model).set_params(epsilon=50.0, delta=1e-4, features=60).fit(train, labels)
    assert 0.5 < private.score(test, truth) < without_noise
    assert private.privacy_.epsilon == pytest.approx(50.0, rel=1e-6)
    assert private.privacy_.epsilon <= 50.0
    assert (private.privacy_.adversary, private.privacy_.adjacency) == ("server", "remove-one")
    assert {each.adjacency for each in private.statements_} == {"remove-one", "replace-one"}


def test_every_parameter_reaches_the_scenario_and_survives_a_copy() -> None:
    changed = {
        "encoder": "dct",
        "features": 7,
        "centre": "own",
        "norm": "unit",
        "constant": 0.25,
        "sends": "moments",
        "label_weight": 0.5,
        "bits": 3,
        "clip_norm": 0.75,
        "schedule": "poisson",
        "policy": "equalmix",
        "model": "lda",
        "loss": "brier",
        "shrinkage": 2.0,
        "adjacency": "remove-one",
        "accountant": "pld",
    }
    model = clone(AirMixClassifier(**changed))
    assert {name: model.get_params()[name] for name in changed} == changed
    assert pickle.loads(pickle.dumps(model)).get_params() == model.get_params()
    scenario = model._scenario(30, 5)
    tables = {**scenario.to_dict()["workers"], **scenario.to_dict()["learner"]}
    for name in set(changed) - {"schedule", "policy", "adjacency", "accountant"}:
        assert tables[name] == changed[name]
    assert (scenario.radio.schedule, scenario.mixing.policy) == ("poisson", "equalmix")
    assert (scenario.privacy.sensitivity, scenario.privacy.adjacency) == ("encoder", "remove-one")
    paper = AirMixClassifier(recipe="paper")._scenario(30, 5)
    assert (paper.workers.encoder, paper.privacy.sensitivity) == ("scale", "paper")
    assert AirMixClassifier(recipe="paper", clip_norm=2.0)._scenario(30, 5).workers.encoder == "clip"


def test_a_recipe_is_a_preset_for_as_many_workers_as_rows() -> None:
    private = AirMixClassifier(epsilon=3.0)._scenario(250, 5)
    preset = Scenario.preset("private-table").settled(250)
    assert private.radio == preset.radio
    assert (private.mixing, private.learner) == (preset.mixing, preset.learner)
    assert (private.privacy.epsilon, private.privacy.delta) == (3.0, pytest.approx(0.1 / 250))
    assert (private.privacy.adversary, private.privacy.accountant) == ("server", "gdp")
    assert (private.workers.sends, private.radio.scheduled) == ("moments", 250)
    images = AirMixClassifier(image_shape=(8, 8))._scenario(250, 5)
    assert images.workers.encoder == Scenario.preset("private-images").workers.encoder
    paper = AirMixClassifier(recipe="paper", epsilon=10.0)._scenario(250, 5)
    assert paper.radio == Scenario.preset("paper-iris").radio
    assert (paper.privacy.adversary, paper.privacy.delta) == ("release", 0.01)
    with pytest.raises(ScenarioError, match=r"^recipe = 'papers': must be one of private, paper"):
        AirMixClassifier(recipe="papers")._scenario(250, 5)


def test_the_default_learns_a_table(iris: tuple[np.ndarray, np.ndarray]) -> None:
    """A target, bounds and classes are enough, and the statement is for the server itself."""
    model = AirMixClassifier(epsilon=20.0, input_bounds=(0.0, 8.0), classes=IRIS, random_state=0).fit(*iris)
    assert model.score(*iris) > 0.75
    assert (model.privacy_.adversary, model.privacy_.adjacency) == ("server", "remove-one")
    assert model.privacy_.delta == pytest.approx(0.1 / 150)
    with pytest.raises(ScenarioError, match=r"^input_bounds = None: must be a pair"):
        AirMixClassifier(classes=IRIS).fit(*iris)


def test_bounds_that_cannot_be_meant_are_warned_of(iris: tuple[np.ndarray, np.ndarray]) -> None:
    with pytest.warns(BoundsWarning, match=r"input_bounds: 600 of 600 input values lie outside"):
        AirMixClassifier(input_bounds=(100.0, 200.0), random_state=0, mode="simulation").fit(*iris)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Protected, the number of clipped values is private.
        AirMixClassifier(input_bounds=(100.0, 200.0), classes=IRIS, random_state=0).fit(*iris)


@pytest.mark.parametrize("centre", ["none", "own", "public", "private", "refined"])
@pytest.mark.parametrize("model", ["ridge", "lda"])
def test_iris_is_learnt_and_predicted_with_every_centre(
    iris: tuple[np.ndarray, np.ndarray], centre: str, model: str
) -> None:
    """Rows are predicted one by one as they are together: what was subtracted in training is subtracted again."""
    fitted = AirMixClassifier(
        encoder="clip",
        constant=0.5,
        model=model,
        epsilon=1e4,
        input_bounds=BOUNDS,
        classes=IRIS,
        random_state=0,
        **{**MOMENTS, "centre": centre, "norm": "clip"},
    ).fit(*iris)
    assert fitted.score(*iris) > (0.75 if model == "ridge" else 0.85 if centre != "own" else 0.8)
    few = fitted.predict_proba(iris[0][40:60])
    assert few == pytest.approx(fitted.predict_proba(iris[0])[40:60], abs=1e-9)
    assert few.sum(axis=1) == pytest.approx(np.ones(20))
    again = pickle.loads(pickle.dumps(fitted))
    assert again.predict(iris[0]).tolist() == fitted.predict(iris[0]).tolist()
    assert fitted.privacy_.epsilon <= 1e4
    assert fitted.privacy_.delta == pytest.approx(0.1 / 150)


def test_a_poisson_schedule_and_few_bits_still_learn(iris: tuple[np.ndarray, np.ndarray]) -> None:
    common = {"encoder": "clip", "centre": "public", "input_bounds": BOUNDS, "random_state": 0, "model": "ridge"}
    common |= {"classes": IRIS}
    coins = AirMixClassifier(
        **common,
        recipe="paper",
        schedule="poisson",
        policy="equalmix",
        adjacency="remove-one",
        accountant="pld",
        scheduled=8,
        slots=2000,
        epsilon=200.0,
    ).fit(*iris)
    assert coins.score(*iris) > 0.7
    assert coins.privacy_.sampling == "poisson"
    rounded = AirMixClassifier(**{**MOMENTS, **common, "norm": "clip"}, constant=0.5, bits=8, epsilon=1e4).fit(*iris)
    assert rounded.score(*iris) > 0.75


def test_mistakes_are_refused_as_in_a_scenario(iris: tuple[np.ndarray, np.ndarray]) -> None:
    for wrong, key in (
        ({"sends": "moments", "encoder": "clip"}, "model"),
        ({"encoder": "gradients"}, "encoder"),
        ({"encoder": "dct", "clip_norm": 2.0}, "clip_norm"),
        ({"centre": "own"}, "centre"),
        ({"schedule": "poisson"}, "schedule"),
        ({"clip_norm": 1.0, "bits": 2, "sensitivity": "paper"}, "sensitivity"),
    ):
        with pytest.raises(ScenarioError, match=f"^{key} = "):
            AirMixClassifier(recipe="paper", classes=IRIS, input_bounds=BOUNDS, slots=10, epochs=1, **wrong).fit(*iris)


def test_a_bare_torch_module_is_an_encoder() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh())
    rows = np.random.default_rng(0).uniform(size=(40, 4))
    given = {"input_bounds": (0, 1), "classes": (0, 1), "mode": "simulation", "random_state": 0}
    bare, wrapped = (
        AirMixClassifier(encoder=encoder, **given).fit(rows, rows[:, 0] > 0.5)
        for encoder in (module, TorchEncoder(module))
    )
    assert np.array_equal(bare.predict_proba(rows), wrapped.predict_proba(rows))
    again = pickle.loads(pickle.dumps(bare))
    assert np.array_equal(bare.predict_proba(rows), again.predict_proba(rows))
