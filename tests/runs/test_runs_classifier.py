"""The model of a run folder as a scikit-learn classifier for raw rows."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import is_classifier
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import accuracy_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.validation import check_is_fitted

import airmixml
from airmixml import RunFolderError, Scenario, load_model
from airmixml.runs import RunClassifier
from airmixml.runs.classifier import class_labels
from airmixml.streams import Streams

run = partial(airmixml.run, pictures=False)
BOUNDS = ("workers.input_lower=4.3,2,1,0.1", "workers.input_upper=7.9,4.4,6.9,2.5")
LINEAR = ("workers.encoder=clip", "privacy.sensitivity=encoder", "learner.model=ridge", "mixing.power=max")
ENCODERS: dict[str, tuple[str, ...]] = {
    "scale": ("learner.epochs=3", "radio.slots=100"),
    "clip": (*LINEAR, "workers.centre=public", "workers.constant=0.3"),
    "projection": (*LINEAR, "workers.encoder=projection", "workers.features=7", "workers.norm=unit"),
    "dct": (*LINEAR, "workers.encoder=dct", "workers.centre=own"),
    "private centre": (
        *LINEAR,
        "workers.centre=private",
        "workers.constant=0.2",
        "mixing.power=dp",
        "privacy.epsilon=20",
    ),
}


@pytest.mark.parametrize("name", [*ENCODERS, "rounds"])
def test_raw_rows_are_scored_as_the_run_scored_its_test_rows(name: str, tmp_path: Path) -> None:
    """The test rows in centimetres, split as the run splits them, give the accuracy that the run measured."""
    preset = "private-iris" if name == "rounds" else "paper-iris"
    scenario = Scenario.preset(preset).with_overrides(*ENCODERS.get(name, ("learner.rounds=3",))).with_seed(3)
    result = run(scenario, out=tmp_path / "here")
    model = load_model(tmp_path / "here")
    inputs, labels = load_iris(return_X_y=True)
    test = Streams(3).generator("data").permutation(150)[100:]
    names = np.array(["setosa", "versicolor", "virginica"])[labels[test]]
    assert accuracy_score(names, model.predict(inputs[test])) == pytest.approx(result.accuracy.final)
    assert model.score(inputs[test], names) == pytest.approx(result.accuracy.final)
    likely = model.predict_proba(inputs[test])
    assert likely.shape == (50, 3)
    np.testing.assert_allclose(likely.sum(axis=1), 1.0)
    assert (model.classes_[likely.argmax(axis=1)] == model.predict(inputs[test])).all()


def test_images_come_flat_or_as_images(tmp_path: Path) -> None:
    changes = ("radio.slots=50", "learner.epochs=1", "mixing.power=max")
    run(Scenario.preset("digits").with_overrides(*changes), out=tmp_path / "here")
    model = load_model(tmp_path / "here")
    images = np.random.default_rng(0).integers(0, 17, (5, 8, 8))
    assert (model.predict_proba(images) == model.predict_proba(images.reshape(5, 64))).all()
    assert model.classes_.tolist() == list(range(10))  # numbers, so that they compare with numbers


def test_it_is_a_classifier_of_scikit_learn(small: Scenario, tmp_path: Path) -> None:
    run(small, out=tmp_path / "here")
    model = load_model(tmp_path / "here")
    assert is_classifier(model)
    check_is_fitted(model)
    assert model.n_features_in_ == 4
    assert not hasattr(model, "feature_names_in_")
    assert "RunClassifier" in repr(model)
    rows = np.array([[5.0, 3.0, 2.0, 1.0], [7.0, 3.0, 5.0, 2.0]])
    in_millimetres = make_pipeline(FunctionTransformer(lambda X: X / 10), FrozenEstimator(model))
    assert (in_millimetres.predict(rows * 10) == model.predict(rows)).all()
    with pytest.raises(RunFolderError, match="is trained already"):
        model.fit(rows, [0, 1])
    with pytest.raises(ValueError, match="3 features, but RunClassifier is expecting 4"):
        model.predict(rows[:, :3])
    with pytest.raises(ValueError, match="NaN"):
        model.predict(rows * np.nan)
    with pytest.raises(NotFittedError):
        RunClassifier(tmp_path / "here").predict(rows)


def test_values_outside_the_bounds_are_clipped(small: Scenario, tmp_path: Path) -> None:
    run(small, out=tmp_path / "here")
    model = load_model(tmp_path / "here")
    far, edge = np.array([[1e6, 2.0, 1.0, -5.0]]), np.array([[7.9, 2.0, 1.0, 0.1]])
    assert (model.predict_proba(far) == model.predict_proba(edge)).all()


def test_names_of_a_header_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pets.csv").write_text("weight,kind,height\n" + "1.5,cat,20\n9.0,dog,60\n" * 5, encoding="utf-8")
    changes = ("workers.dataset=pets.csv", "workers.label_column=kind", "radio.scheduled=4", "workers.count=6")
    bounds = ("workers.input_lower=0,10", "workers.input_upper=12,80", "mixing.power=max", "learner.epochs=2")
    declared = Scenario.preset("paper-iris").with_overrides(*changes, *bounds, "workers.classes=cat,dog")
    run(declared, out="here", private=True)
    model = load_model("here")
    assert model.feature_names_in_.tolist() == ["weight", "height"]
    assert model.classes_.tolist() == ["cat", "dog"]
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_csv("pets.csv")
    assert len(model.predict(frame[["weight", "height"]])) == 10
    with pytest.raises(ValueError, match="Feature names"):
        model.predict(frame[["height", "weight"]])


def test_what_is_stored_for_it_is_what_was_declared(small: Scenario, tmp_path: Path) -> None:
    """No number of the file depends on a sample: two data sets of the same form leave the same description."""
    for name, seed in (("one", 1), ("two", 2)):
        rng = np.random.default_rng(seed)
        np.savez(tmp_path / f"{name}.npz", inputs=rng.random((30, 4)), labels=np.arange(30) % 3)
        changes = (f"workers.dataset={tmp_path / name}.npz", "workers.train_samples=20", "workers.count=20")
        bounds = ("workers.input_lower=-1", "workers.input_upper=2", "workers.classes=[0, 1, 2]")
        run(small.with_overrides(*changes, *bounds), out=tmp_path / name, private=True)
    for name in ("one", "two"):
        with np.load(tmp_path / name / "model.npz") as stored:
            assert (stored["lower"].tolist(), stored["upper"].tolist()) == ([-1.0] * 4, [2.0] * 4)
            rows = json.loads(str(stored["about"]))["values"]["rows"]
        assert rows == {"width": 4, "feature_names": [], "image_shape": None, "columns": [], "decimal": "point"}


def test_class_labels() -> None:
    assert class_labels(("0", "1", "10")).tolist() == [0, 1, 10]
    assert class_labels(("-1", "1")).tolist() == [-1, 1]
    for names in (("0", "01"), ("1.5", "2.5"), ("cat", "1"), ("²", "3")):
        assert class_labels(names).tolist() == list(names)
