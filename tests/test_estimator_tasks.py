"""AirMixRegressor, several labels and several rows per worker as scikit-learn estimators."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, make_multilabel_classification
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import cross_val_score

from airmixml import AirMixClassifier, AirMixRegressor
from airmixml.messages import AirMixError

BOUNDS = ([0, 0, 15, 50, 90, 40, 20, 1, 3, 50], [100, 3, 45, 140, 310, 250, 100, 10, 7, 130])
LOUD = AirMixRegressor(epsilon=None, input_bounds=(-4, 4), target_bounds=(-4, 4), mode="simulation")


@pytest.fixture(scope="module")
def diabetes() -> tuple[np.ndarray, np.ndarray]:
    found: tuple[np.ndarray, np.ndarray] = load_diabetes(scaled=False, return_X_y=True)
    return found


def test_without_noise_it_is_least_squares(diabetes: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = diabetes
    model = AirMixRegressor(epsilon=None, input_bounds=BOUNDS, target_bounds=(0, 350), mode="simulation").fit(X, y)
    assert model.score(X, y) == pytest.approx(LinearRegression().fit(X, y).score(X, y), abs=0.02)
    both = clone(model).set_params(target_bounds=([0, 0], [350, 100])).fit(X, np.column_stack([y, X[:, 0]]))
    assert both.predict(X[:5]).shape == (5, 2)
    assert both.score(X, np.column_stack([y, X[:, 0]])) > 0.7


def test_a_target_is_met_and_predictions_stay_inside_the_bounds(diabetes: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = diabetes
    model = AirMixRegressor(epsilon=3, input_bounds=BOUNDS, target_bounds=(0, 350)).fit(X, y)
    assert model.privacy_.epsilon == pytest.approx(3.0)
    assert (model.privacy_.adversary, model.privacy_.sensitivity) == ("server", 2.0)
    assert model.score(X, y) > 0.15  # the noise differs in every fit: 0.39 +- 0.05
    assert 0 <= model.predict(X).min() <= model.predict(X).max() <= 350
    assert not {"clipped_values_", "clipped_samples_", "energy_joules_"} & set(vars(model))
    assert np.float64(y[3]).tobytes() not in pickle.dumps(model)


def test_a_continuous_label_is_refused_with_a_hint(diabetes: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = diabetes
    with pytest.raises(ValueError, match=r"214 different values in 442 samples.*use AirMixRegressor"):
        AirMixClassifier(input_bounds=BOUNDS, mode="simulation").fit(X, y)


@pytest.mark.parametrize(
    ("bounds", "complaint"),
    [
        (None, "target_bounds = None: must be a pair"),
        (5, "target_bounds = 5: must be a pair"),
        ((3, 3), r"target_bounds\[1\] = 3 for target 1: must be above"),
        (([0, 1], 5), r"target_bounds\[0\] has 2 values"),
    ],
)
def test_bounds_of_targets_must_be_declared(
    diabetes: tuple[np.ndarray, np.ndarray], bounds: object, complaint: str
) -> None:
    with pytest.raises(AirMixError, match=complaint):
        AirMixRegressor(input_bounds=BOUNDS, target_bounds=bounds).fit(*diabetes)  # type: ignore[arg-type]


def test_several_labels_at_once() -> None:
    X, Y = make_multilabel_classification(1200, 12, n_classes=4, random_state=0)
    model = AirMixClassifier(epsilon=10, input_bounds=(0, 20), mode="simulation", random_state=0).fit(X[:900], Y[:900])
    predicted, probable = model.predict(X[900:]), model.predict_proba(X[900:])
    assert predicted.shape == probable.shape == (300, 4)
    assert ((probable > 0.5) == predicted).all()
    assert (predicted == Y[900:]).mean() > 0.72
    # Where it says 80 % or more, at least 70 % hold.
    assert Y[900:][probable > 0.8].mean() > 0.7
    with pytest.raises(ValueError, match=r"several columns: must hold 0 and 1 alone|Multioutput"):
        model.fit(X, Y + 1)


@pytest.mark.parametrize("kind", ["classifier", "regressor"])
def test_rows_of_one_worker_are_one_unit(kind: str, diabetes: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = diabetes
    common = {"epsilon": 2.0, "input_bounds": BOUNDS, "random_state": 0}
    who = np.array([f"p{k}" for k in np.arange(len(y)) // 4])
    if kind == "classifier":
        model: AirMixClassifier | AirMixRegressor = AirMixClassifier(classes=(False, True), **common)
        target = y > 140
    else:
        model, target = AirMixRegressor(target_bounds=(0, 350), **common), y
    model.fit(X, target, worker=who)
    assert model.encoder_.count == len(np.unique(who)) == 111
    assert model.privacy_.delta == pytest.approx(0.1 / 111)
    assert model.privacy_.epsilon == pytest.approx(2.0)
    with pytest.raises(AirMixError, match="worker has the shape"):
        model.fit(X, target, worker=who[:-1])
    with pytest.raises(AirMixError, match=r'^sends = "samples": must be "moments"'):
        clone(model).set_params(recipe="paper").fit(X, target, worker=who)


def test_cross_validation(diabetes: tuple[np.ndarray, np.ndarray]) -> None:
    model = AirMixRegressor(epsilon=None, input_bounds=BOUNDS, target_bounds=(0, 350), mode="simulation")
    assert cross_val_score(model, *diabetes, cv=3).mean() > 0.4


def test_the_paper_s_recipe_learns_targets_with_a_network(diabetes: tuple[np.ndarray, np.ndarray]) -> None:
    few = {"slots": 400, "epochs": 8, "scheduled": 2, "alpha": 1.0, "learning_rate": 0.01}
    bounds = {"input_bounds": BOUNDS, "target_bounds": (0, 350)}
    model = AirMixRegressor(recipe="paper", epsilon=None, mode="simulation", random_state=1, **few, **bounds)
    assert model.fit(*diabetes).score(*diabetes) > 0.1


def test_a_target_may_be_minus_one() -> None:
    """The number of a class that was not declared is -1, too."""
    X, y = np.random.default_rng(0).random((40, 3)), np.linspace(-2.0, 2.0, 40)
    y[5] = -1.0
    assert np.isfinite(clone(LOUD).set_params(input_bounds=(0, 1)).fit(X, y).predict(X)).all()
