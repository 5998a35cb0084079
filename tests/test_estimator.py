import math
import pickle
import warnings
from collections.abc import Callable

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.utils.estimator_checks import (
    check_complex_data,
    check_estimator_sparse_array,
    check_estimator_sparse_matrix,
    check_requires_y_none,
    estimator_checks_generator,
)

from airmixml import AirMixClassifier, AirMixRegressor
from airmixml.estimator import spending
from airmixml.messages import PrivacyError, ScaledRowsWarning, ScenarioError
from airmixml.privacy.gaussian import gaussian_mu

QUICK = {
    "recipe": "paper",
    "input_bounds": (0.0, 1.0),
    "slots": 300,
    "epochs": 30,
    "scheduled": 2,
    "alpha": 1.0,
    "epsilon": None,
    "learning_rate": 0.01,
    "mode": "simulation",
}


# scikit-learn's checks feed standardised data and expect it to be learnt: bounds of four deviations, maximum power.
CHECKED = AirMixClassifier(**{**QUICK, "slots": 600, "epochs": 60, "input_bounds": (-4.0, 4.0)})
# The quick ones, and one of each kind that fits; all others are long.
SHORT = {
    "check_estimator_cloneable",
    "check_estimator_tags_renamed",
    "check_valid_tag_types",
    "check_estimator_repr",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_get_params_invariance",
    "check_set_params",
    "check_fit_score_takes_y",
    "check_estimators_pickle",
    "check_dtype_object",
    "check_fit_check_is_fitted",
    "check_n_features_in",
    "check_fit2d_predict1d",
    "check_estimators_unfitted",
    "check_requires_y_none",
}


def check_name(check: Callable[..., None]) -> str:
    return str(getattr(check, "func", check).__name__)


CHECKS = [
    pytest.param(check, id=check_name(check), marks=[] if check_name(check) in SHORT else [pytest.mark.long])
    for _, check in estimator_checks_generator(CHECKED)
]


@pytest.mark.filterwarnings("ignore::airmixml.messages.BoundsWarning")  # its checks know nothing of our bounds
@pytest.mark.parametrize("check", CHECKS)
def test_scikit_learn_contract(check: Callable[[AirMixClassifier], None]) -> None:
    check(clone(CHECKED))


@pytest.mark.parametrize("targets", [False, True])
@pytest.mark.parametrize(
    "check",
    [
        check_estimator_sparse_array,
        check_estimator_sparse_matrix,
        check_complex_data,
        check_requires_y_none,
    ],
)
@pytest.mark.filterwarnings("error::UserWarning")  # of messages that scikit-learn does not expect
def test_bad_input_is_named_before_classes_or_bounds_are_asked_for(
    check: Callable[[str, object], None], targets: bool
) -> None:
    estimator = AirMixRegressor(epsilon=1.0) if targets else AirMixClassifier(epsilon=1.0)
    check(type(estimator).__name__, estimator)
    inputs = np.full((9, 2), np.nan)
    with pytest.raises(ValueError, match="missing or infinite value"):
        estimator.fit(inputs, np.arange(9) % 2)


SOME = ColumnTransformer([("scaled", StandardScaler(), [0])], remainder="passthrough")


@pytest.mark.parametrize("scaler", [StandardScaler(), MinMaxScaler(), RobustScaler(), MaxAbsScaler(), SOME])
def test_a_scaler_that_was_fitted_on_private_rows_is_warned_of(scaler: object) -> None:
    inputs, targets = load_iris(return_X_y=True)
    model = AirMixClassifier(epsilon=5.0, input_bounds=(-4.0, 4.0), classes=[0, 1, 2])
    with pytest.warns(ScaledRowsWarning, match="declare input_bounds"):
        make_pipeline(clone(scaler), model).fit(inputs, targets)
    half = clone(scaler).fit(inputs[::2])  # stands for public rows
    with warnings.catch_warnings():
        warnings.simplefilter("error", ScaledRowsWarning)
        clone(model).fit(half.transform(inputs[1::2]), targets[1::2])
        clone(model).fit(inputs, targets)


def test_scikit_learn_has_the_short_checks() -> None:
    assert {str(each.id) for each in CHECKS} >= SHORT


@pytest.fixture(scope="module")
def iris() -> tuple[np.ndarray, np.ndarray]:
    data = load_iris()
    return data.data, data.target_names[data.target]


BOUNDS = ([4.3, 2.0, 1.0, 0.1], [7.9, 4.4, 6.9, 2.5])
QUICK_IRIS = {**QUICK, "input_bounds": BOUNDS}


def test_fit_predict_and_what_it_tells(iris: tuple[np.ndarray, np.ndarray]) -> None:
    inputs, names = iris
    model = AirMixClassifier(random_state=0, **QUICK_IRIS).fit(inputs, names)
    assert model.score(inputs, names) > 0.85
    assert set(model.predict(inputs)) <= {"setosa", "versicolor", "virginica"}
    assert model.predict_proba(inputs).sum(axis=1) == pytest.approx(np.ones(150))
    assert model.mixtures_.inputs.shape == (300, 4)
    assert model.mixtures_.labels.shape == (300, 3)
    assert model.clipped_values_ == 0
    assert model.energy_joules_ > 0
    assert model.privacy_.epsilon > 1e6  # maximum power protects nobody, and says so
    assert model.privacy_.target_epsilon is None


def test_a_privacy_target_is_met_with_less_energy(iris: tuple[np.ndarray, np.ndarray]) -> None:
    loud = AirMixClassifier(random_state=0, **QUICK_IRIS).fit(*iris)
    quiet = AirMixClassifier(random_state=0, **{**QUICK_IRIS, "epsilon": 20.0}).fit(*iris)
    assert quiet.privacy_.epsilon == pytest.approx(20.0)
    assert quiet.privacy_.adversary == "release"
    assert quiet.privacy_.sensitivity == 7
    assert quiet.privacy_against_server_.adversary == "server"
    assert quiet.privacy_against_server_.epsilon > 20.0
    assert quiet.energy_joules_ < 1e-3 * loud.energy_joules_


def test_equal_random_states_give_equal_models(iris: tuple[np.ndarray, np.ndarray]) -> None:
    first, second, other = (
        AirMixClassifier(random_state=state, **QUICK_IRIS).fit(*iris).predict_proba(iris[0]) for state in (1, 1, 2)
    )
    assert np.array_equal(first, second)
    assert not np.allclose(first, other, atol=1e-3)


def test_a_fitted_model_carries_no_private_row(iris: tuple[np.ndarray, np.ndarray]) -> None:
    """A row with a telling value is looked for in the bytes of the pickled model, as float32 and as float64."""
    inputs, names = iris[0].copy(), iris[1]
    inputs[17, 2] = 3.14159265
    unit = (3.14159265 - 1.0) / (6.9 - 1.0)
    stored = pickle.dumps(AirMixClassifier(random_state=0, **QUICK_IRIS).fit(inputs, names))
    for value in (np.float64(3.14159265), np.float32(3.14159265), np.float32(unit), np.float64(unit)):
        assert value.tobytes() not in stored


def test_in_pipeline_cross_validation_and_grid_search(iris: tuple[np.ndarray, np.ndarray]) -> None:
    model = AirMixClassifier(random_state=0, **QUICK)
    assert cross_val_score(make_pipeline(MinMaxScaler(), model), *iris, cv=3).mean() > 0.8
    search = GridSearchCV(
        AirMixClassifier(random_state=0, **QUICK_IRIS), {"alpha": [0.1, 1e5], "scheduled": [2]}, cv=2
    ).fit(*iris)
    assert search.best_params_["alpha"] in (0.1, 1e5)
    assert search.best_score_ > 0.7


def test_images_with_a_cnn() -> None:
    rng = np.random.default_rng(1)
    classes = np.arange(80) % 2
    images = 0.2 * rng.random((80, 6, 6))
    images[classes == 1, :3] += 0.7
    model = AirMixClassifier(model="cnn", image_shape=(6, 6), filters=(4,), kernel_size=3, random_state=0, **QUICK)
    assert model.fit(images.reshape(80, 36), classes).score(images.reshape(80, 36), classes) > 0.9


def test_numpy_numbers_are_taken_as_parameters(iris: tuple[np.ndarray, np.ndarray]) -> None:
    parameters = {
        "scheduled": np.int64(2),
        "epochs": np.int64(2),
        "alpha": np.float32(1),
        "hidden_units": np.array([4]),
    }
    AirMixClassifier(random_state=0, **{**QUICK_IRIS, **parameters}).fit(*iris)


def test_fewer_workers_than_scheduled_all_take_part() -> None:
    rows, classes = np.array([[0.1], [0.9], [0.2]]), np.array([0, 1, 0])
    model = AirMixClassifier(**{**QUICK, "scheduled": 50}, random_state=0).fit(rows, classes)
    assert model.mixtures_.inputs.shape == (300, 1)


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"epsilon": 2.0}, PrivacyError, r"ln\(1/delta\) = 4\.6052"),
        ({"alpha": -1.0}, ScenarioError, "^alpha = -1.0"),
        ({"policy": "mixup"}, ScenarioError, "^policy = 'mixup'"),
        ({"input_bounds": (1.0, 0.0)}, ScenarioError, r"input_bounds\[1\]"),
        ({"input_bounds": ([0.0, 0.0], [1.0, 1.0])}, ScenarioError, r"input_bounds\[0\]"),
        ({"model": "cnn"}, ScenarioError, "needs images"),
        ({"model": "cnn", "image_shape": (3, 3)}, ScenarioError, r"image_shape = \(3, 3\)"),
        ({"input_bounds": 1.0}, ScenarioError, "input_bounds = 1.0: must be a pair"),
        ({"device": "abacus"}, ScenarioError, "device = 'abacus'"),
    ],
)
def test_wrong_parameters_are_told(
    iris: tuple[np.ndarray, np.ndarray], parameters: dict[str, object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        AirMixClassifier(**{**QUICK, "input_bounds": BOUNDS, **parameters}).fit(*iris)


def test_a_target_against_the_server_with_clipped_rows() -> None:
    X, y = load_iris(return_X_y=True)
    bounds = ([4.3, 2.0, 1.0, 0.1], [7.9, 4.4, 6.9, 2.5])
    model = AirMixClassifier(
        epsilon=2.0,
        adversary="server",
        accountant="gdp",
        clip_norm=0.5,
        recipe="paper",
        mode="simulation",
        max_participations=6,
        slots=100,
        epochs=2,
        input_bounds=bounds,
        random_state=0,
    ).fit(X, y)
    assert (model.privacy_.adversary, model.privacy_.accountant) == ("server", "gdp")
    assert model.privacy_.epsilon <= 2.0
    assert model.privacy_.sensitivity == 2 * 0.5**2 + 2
    assert model.clipped_samples_ > 100
    before = model.predict_proba(X)
    assert model.set_params(clip_norm=None).predict_proba(X).tolist() == before.tolist()
    assert {each.adversary for each in model.statements_} == {"release", "server", "eavesdropper"}


def test_an_air_by_name() -> None:
    """Amplitudes that may be too large take a margin of power; a name that is none is reported."""
    rng = np.random.default_rng(0)
    X, y = rng.random((60, 2)), np.arange(60) % 2
    given = {"epsilon": 5.0, "input_bounds": (0, 1), "mode": "simulation", "random_state": 0}
    ideal, lab = AirMixClassifier(**given).fit(X, y), AirMixClassifier(air="lab", **given).fit(X, y)
    assert lab.privacy_.epsilon <= 5.0
    assert lab.energy_joules_ < ideal.energy_joules_
    with pytest.raises(ScenarioError, match=r"air.preset = 'lap': .*did you mean lab\?"):
        AirMixClassifier(air="lap", **given).fit(X, y)


@pytest.mark.parametrize("noise", ["workers", "masked"])
def test_fits_against_everyone_add_up_against_everyone(noise: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gaussian losses add up in mu^2, and what rests on a receiver's noise hides nobody from everyone."""
    rng = np.random.default_rng(3)
    rows = rng.random((400, 3)) + 0.5
    classes = (rows[:, 0] > rows[:, 1]).astype(int)
    monkeypatch.setattr(spending, "PROTECTED_FITS", spending.Together())
    given = {"epsilon": 2.0, "delta": 1e-5, "input_bounds": (0, 2), "adjacency": "remove-one", "classes": (0, 1)}
    everyone = AirMixClassifier(adversary="everyone", noise=noise, **given)
    for fits in (1, 2):
        everyone.fit(rows, classes)
        assert everyone.privacy_.adversary == everyone.joint_privacy_.adversary == "everyone"
        assert everyone.privacy_.epsilon <= 2.0
        joint_mu = gaussian_mu(everyone.joint_privacy_.epsilon, 1e-5)
        assert joint_mu == pytest.approx(math.sqrt(fits) * gaussian_mu(2.0, 1e-5), rel=1e-6)
    AirMixClassifier(**given).fit(rows, classes)
    assert everyone.fit(rows, classes).joint_privacy_.epsilon == math.inf


def test_rounds_are_learnt_and_accounted_for() -> None:
    """The default recipe has rounds: all slots together keep the target, and the model is that after the last."""
    inputs, labels = load_breast_cancer(return_X_y=True)
    bounds = (inputs.min(axis=0), inputs.max(axis=0))
    learner = AirMixClassifier(epsilon=1.0, input_bounds=bounds, mode="simulation", random_state=0).fit(inputs, labels)
    assert learner.privacy_against_server_.compositions == 21
    assert learner.privacy_.epsilon <= 1.0
    assert learner.score(inputs, labels) > 0.9
