"""Every score stands beside guessing and beside a model without noise; scikit-learn says what both must be."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LinearRegression
from sklearn.metrics import confusion_matrix

from airmixml import Scenario, run
from airmixml.data import DataSet
from airmixml.edge import learn
from airmixml.output.page import Facts
from airmixml.reports import write_report
from airmixml.runs import load_metrics, load_network
from airmixml.runs.baselines import baselines_of
from airmixml.runs.run_page import run_page
from airmixml.streams import Streams
from airmixml.workers import load_dataset, settle

INPUTS = np.random.default_rng(5).random((600, 3))
BOUNDS = ("workers.input_lower=0", "workers.input_upper=1", "privacy.epsilon=20")
WEAK = Scenario.preset("private-iris").with_overrides("privacy.epsilon=0.5")


def own(folder: Path, labels: np.ndarray, *changes: str) -> Scenario:
    np.savez(folder / "rows.npz", inputs=INPUTS, labels=labels)
    keys = (f"workers.dataset={folder / 'rows.npz'}", *BOUNDS, *changes)
    return settle(Scenario.preset("private-table").with_overrides(*keys))


def data_of(scenario: Scenario) -> DataSet:
    return load_dataset(scenario.workers, Streams(scenario.seed))


def told(scenario: Scenario, metrics: dict[str, object]) -> dict[str, str]:
    (facts,) = run_page(metrics, scenario).all(Facts, "results")
    return {name.strip(): text for name, text in facts.rows}


def first_sentence(scenario: Scenario, metrics: dict[str, object]) -> str:
    return run_page(metrics, scenario).verdict


def test_classes_are_counted_as_scikit_learn_counts_them(tmp_path: Path) -> None:
    result, data = run(WEAK, out=tmp_path / "run", pictures=False), data_of(WEAK)
    found, truth = result.baselines, data.test_labels
    assert found is not None
    predicted = load_network(tmp_path / "run")(torch.from_numpy(data.test_inputs)).argmax(dim=1).numpy()
    assert [list(row) for row in found.confusion] == confusion_matrix(truth, predicted, labels=range(3)).tolist()
    assert found.guess == np.bincount(truth).max() / len(truth)
    most = np.bincount(truth).argmax()
    gains = (predicted == truth).astype(float) - (truth == most)
    assert found.gain == pytest.approx(gains.mean())
    assert found.gain_error == pytest.approx(gains.std() / np.sqrt(len(gains)))
    assert load_metrics(tmp_path / "run")["baselines"] == result.to_dict()["baselines"]


def test_without_privacy_is_the_same_learner_without_noise(tmp_path: Path) -> None:
    found, data = run(WEAK, out=tmp_path / "run", pictures=False).baselines, data_of(WEAK)
    assert found is not None
    clean = LinearDiscriminantAnalysis(solver="lsqr").fit(data.train_inputs[:, :-1], data.train_labels)
    expected = clean.score(data.test_inputs[:, :-1], data.test_labels)
    assert found.without_privacy == pytest.approx(expected, abs=0.021)  # a row of 50 may lie on the border
    assert found.how.startswith("lda in closed form, no noise, the same encoded rows (100)")


def test_what_stands_beside_says_that_its_rows_have_a_noisy_centre(tmp_path: Path) -> None:
    """With a centre of the declared bounds nothing depends on epsilon; with one from the air the encoded rows do."""
    reached = {}
    for centre in ("public", "refined"):
        for epsilon in (1, 3):
            scenario = Scenario.preset("private-table")
            scenario = scenario.with_overrides(f"workers.centre={centre}", f"privacy.epsilon={epsilon}")
            found = run(scenario, out=tmp_path / f"{centre}{epsilon}", pictures=False).baselines
            assert found is not None
            assert found.how.endswith("received with noise") == (centre == "refined")
            reached[centre, epsilon] = found.without_privacy
    assert reached["public", 1] == reached["public", 3]
    assert reached["refined", 1] != reached["refined", 3]


def test_a_network_stands_beside_a_linear_model_and_says_so(tmp_path: Path) -> None:
    scenario = Scenario.preset("paper-iris").with_overrides("radio.slots=50", "learner.epochs=1")
    found = run(scenario, out=tmp_path / "run", pictures=False).baselines
    assert found is not None
    assert found.how.startswith("ridge, a linear model in closed form")
    assert found.without_privacy is not None
    assert found.without_privacy > 0.7


def test_a_regression_stands_beside_the_mean_and_least_squares(tmp_path: Path) -> None:
    noise = 10.0 * np.random.default_rng(1).standard_normal(600)
    scenario = own(
        tmp_path,
        100.0 * INPUTS[:, 0] - 20.0 * INPUTS[:, 1] + noise,
        "workers.task=regression",
        "workers.target_lower=-60",
        "workers.target_upper=140",
    )
    result, data = run(scenario, out=tmp_path / "run", pictures=False), data_of(scenario)
    found = result.baselines
    assert found is not None
    assert found.guess == pytest.approx(0.0, abs=1e-9)
    assert found.gain == pytest.approx(result.scores["r2"])
    assert found.without_privacy is not None
    clean = LinearRegression().fit(data.train_inputs, data.train_labels)
    assert found.without_privacy == pytest.approx(clean.score(data.test_inputs, data.test_labels), abs=0.01)
    assert found.without_privacy >= result.scores["r2"] - 0.02
    assert (found.classes, found.confusion) == ((), ())
    assert "R^2" in told(scenario, result.to_dict())["guessing"]


def test_several_labels_stand_beside_the_frequent_answers(tmp_path: Path) -> None:
    labels = np.column_stack([INPUTS[:, 0] > 0.5, INPUTS[:, 1] > 0.9]).astype(float)
    scenario = own(tmp_path, labels, "workers.task=multi-label")
    result, data = run(scenario, out=tmp_path / "run", pictures=False), data_of(scenario)
    found = result.baselines
    assert found is not None
    shares = data.test_labels.mean(axis=0)
    assert found.guess == pytest.approx(np.maximum(shares, 1.0 - shares).mean())


def test_a_protected_run_has_them_of_public_rows_alone(tmp_path: Path) -> None:
    data, spoilt = data_of(WEAK), np.random.default_rng(3)
    learned = learn(WEAK, dataset=data)
    other = replace(
        data,
        train_inputs=spoilt.random(data.train_inputs.shape, dtype=np.float32),
        train_labels=spoilt.integers(0, 3, len(data.train_labels)),
    )
    elsewhere = replace(learned, transmission=replace(learned.transmission, dataset=other))
    # Same model, other private rows: nothing may differ in protection; what a simulation tells must.
    assert baselines_of(learned, protected=True) == baselines_of(elsewhere, protected=True)
    assert baselines_of(learned, protected=False) != baselines_of(elsewhere, protected=False)
    hidden = run(WEAK, private=True, out=tmp_path / "hidden", pictures=False)
    shown = run(WEAK, private=True, public_test=True, out=tmp_path / "shown", pictures=False)
    assert hidden.baselines is None
    assert shown.baselines is not None
    assert "public test rows" in shown.baselines.how
    assert "guessing" not in told(WEAK, hidden.to_dict())


def test_a_line_says_what_is_no_better_than_guessing(tmp_path: Path) -> None:
    # Labels that inputs say nothing about: no learner can be better.
    labels = np.random.default_rng(9).integers(0, 2, 600)
    scenario = own(tmp_path, labels)
    useless = run(scenario, out=tmp_path / "useless", pictures=False).to_dict()
    assert "no better than guessing" in told(scenario, useless)["beyond guessing"]
    assert first_sentence(scenario, useless).startswith("Nothing was learned: accuracy ")
    assert ", no better than guessing (ridge without privacy " in first_sentence(scenario, useless)
    assert "ridge without privacy" in told(scenario, useless)
    scenario = own(tmp_path, (INPUTS[:, 0] > 0.5).astype(int))
    useful = run(scenario, out=tmp_path / "useful", pictures=False).to_dict()
    assert "no better" not in told(scenario, useful)["beyond guessing"]
    assert first_sentence(scenario, useful).startswith("Accuracy ")
    for snr, said in ((-29.84, " at an SNR of -29.8 dB: accuracy"), (3.0, ": accuracy")):
        noisy = {**useless, "snr_inputs_db": snr}
        assert first_sentence(scenario, noisy).startswith(f"Nothing was learned{said}")


def test_seeds_average_shares(tmp_path: Path) -> None:
    found = run(WEAK, seeds=2, out=tmp_path / "run", pictures=False)
    each = [single.baselines for single in found.runs]  # type: ignore[union-attr]
    assert found.baselines is not None
    assert found.baselines.guess == pytest.approx(np.mean([one.guess for one in each if one]))


def test_the_report_shows_the_confusion_matrix(tmp_path: Path) -> None:
    run(WEAK, out=tmp_path / "run", pictures=False)
    page = write_report(tmp_path / "run").read_text()
    for text in ("Confusion matrix", "without privacy", "beyond guessing"):
        assert text in page
