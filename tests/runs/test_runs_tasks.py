"""Runs of regressions, several labels and workers with several rows: what is written, summed up, stated and hidden."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from airmixml import Scenario, run
from airmixml.privacy.gaussian import gaussian_epsilon, gaussian_mu
from airmixml.runs import ProtectedResult, load_metrics
from airmixml.runs.results import RunResult, SeedsResult

RNG = np.random.default_rng(2)
INPUTS = RNG.random((300, 3))
BOUNDS = ("workers.input_lower=0", "workers.input_upper=1")
TARGETS = ("workers.task=regression", "workers.target_lower=-10", "workers.target_upper=90")


def scenario(folder: Path, labels: np.ndarray, *changes: str, **arrays: np.ndarray) -> Scenario:
    np.savez(folder / "rows.npz", inputs=INPUTS, labels=labels, **arrays)
    own = (f"workers.dataset={folder / 'rows.npz'}", *BOUNDS, "privacy.epsilon=20")
    return Scenario.preset("private-table").with_overrides(*own, *changes)


def numbers(folder: Path, *changes: str, **arrays: np.ndarray) -> Scenario:
    return scenario(folder, 100.0 * INPUTS[:, 0] - 20.0 * INPUTS[:, 1], *TARGETS, *changes, **arrays)


def test_a_regression_is_scored_in_its_own_units(tmp_path: Path) -> None:
    found = run(numbers(tmp_path), out=tmp_path / "run")
    assert isinstance(found, RunResult)
    assert (found.task, found.accuracy, list(found.scores)) == ("regression", None, ["r2", "rmse", "mae"])
    assert 0.8 < found.scores["r2"] <= 1.0
    # The targets' deviation is about 29: R^2 = 1 - rmse^2 / variance.
    assert found.scores["rmse"] == pytest.approx(29.4 * np.sqrt(1.0 - found.scores["r2"]), rel=0.1)
    stored = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert stored["accuracy"] is None
    assert stored["scores"] == found.scores
    assert load_metrics(tmp_path / "run") == found.to_dict()
    curve = (tmp_path / "run" / "learning_curve.csv").read_text().splitlines()
    assert curve[0] == "round,training_loss,test_r2"
    assert curve[-1] == f"20,,{found.scores['r2']}"
    assert Image.open(tmp_path / "run" / "figures" / "overview.png").width > 500


def test_seeds_have_means_and_deviations_of_scores(tmp_path: Path) -> None:
    found = run(numbers(tmp_path), seeds=3, out=tmp_path / "run", pictures=False)
    assert isinstance(found, SeedsResult)
    each = [single.scores["mae"] for single in found.runs]
    assert found.scores["mae"] == pytest.approx(np.mean(each))
    assert found.score_deviations["mae"] == pytest.approx(np.std(each, ddof=1))
    assert found.accuracy is None


def test_several_labels_are_scored(tmp_path: Path) -> None:
    labels = (INPUTS > 0.5).astype(float)
    found = run(scenario(tmp_path, labels, "workers.task=multi-label"), out=tmp_path / "run", pictures=False)
    assert isinstance(found, RunResult)
    assert list(found.scores) == ["labels_right", "exact_match", "macro_f1"]
    assert found.scores["exact_match"] <= found.scores["labels_right"] > 0.8
    assert found.accuracy is None


def test_a_network_learns_targets_and_is_resumed_as_such(tmp_path: Path) -> None:
    changes = (
        "workers.sends=samples",
        "workers.constant=0",
        "radio.slots=300",
        "radio.scheduled=2",
        "learner.model=mlp",
        "learner.loss=squared",
        "learner.epochs=4",
        "mixing.power=max",
    )
    found = run(numbers(tmp_path, *changes), out=tmp_path / "run", pictures=False, checkpoint_seconds=0.0)
    assert isinstance(found, RunResult)
    curve = (tmp_path / "run" / "learning_curve.csv").read_text().splitlines()
    assert curve[0] == "epoch,training_loss,test_r2"
    assert float(curve[-1].split(",")[2]) == pytest.approx(found.scores["r2"])


HOLDERS = np.repeat(np.arange(60), 5)


def test_a_protected_run_tells_neither_scores_nor_how_many_rows_a_worker_has(tmp_path: Path) -> None:
    """The number of workers is public, that of their rows is not: 60 workers, 300 rows."""
    several = numbers(tmp_path, "workers.worker_column=who", who=HOLDERS)
    found = run(several, private=True, out=tmp_path / "run")
    assert isinstance(found, ProtectedResult)
    assert (found.accuracy, found.scores, found.task) == (None, {}, "regression")
    assert (found.dataset.train_samples, found.dataset.test_samples) == (60, 0)
    written = (tmp_path / "run" / "metrics.json").read_text() + (tmp_path / "run" / "scenario.toml").read_text()
    assert not re.search(r"\b300\b", written)  # digits of a duration may hold it
    assert not list((tmp_path / "run").rglob("learning_curve*"))
    stated = run(several, private=True, public_test=True, out=tmp_path / "open", pictures=False)
    assert isinstance(stated, ProtectedResult)
    assert set(stated.scores) == {"r2", "rmse", "mae"}
    assert stated.dataset.train_samples == 40
    twice = run(several, private=True, public_test=True, seeds=2, out=tmp_path / "two", pictures=False)
    assert isinstance(twice, ProtectedResult)
    assert twice.scores == {}


@pytest.mark.parametrize(("bound", "capped"), [(1, 0), (4, 0), (4, 3)])
def test_the_epsilon_of_a_row_follows_from_its_share_of_the_sum(tmp_path: Path, bound: int, capped: int) -> None:
    """Everybody sends once: a row's mu is its worker's over the bound, twice that where another takes its place."""
    changes = ("workers.worker_column=who", f"workers.rows_bound={bound}", f"workers.max_rows={capped}")
    found = run(numbers(tmp_path, *changes, who=HOLDERS), out=tmp_path / "run", pictures=False)
    assert isinstance(found, RunResult)
    assert found.row_privacy is not None
    whole = found.privacy[0]
    assert whole.unit == "worker"
    share = (2.0 if capped else 1.0) / bound
    wanted = gaussian_epsilon(share * gaussian_mu(whole.epsilon, whole.delta), whole.delta)
    assert found.row_privacy.epsilon == pytest.approx(wanted, rel=1e-6)
    assert (found.row_copies, found.row_privacy.unit) == (1, "row")


def test_people_on_several_workers_are_counted_as_such(tmp_path: Path) -> None:
    changes = ("workers.worker_column=who", "workers.count=200", "workers.holding=drawn")
    found = run(numbers(tmp_path, *changes, who=HOLDERS), out=tmp_path / "run", pictures=False)
    assert isinstance(found, RunResult)
    assert found.row_copies > 3  # 200 workers draw 40 people
    assert found.row_privacy is not None
    assert found.row_privacy.epsilon > 3 * found.privacy[0].epsilon


@pytest.mark.parametrize("holding", ["label-skewed", "size-skewed"])
def test_skewed_holdings_run(tmp_path: Path, holding: str) -> None:
    labels = (INPUTS[:, 0] > 0.5).astype(int)
    changes = (f"workers.holding={holding}", "workers.count=40", "workers.skew=0.3")
    found = run(scenario(tmp_path, labels, *changes), out=tmp_path / "run", pictures=False)
    assert isinstance(found, RunResult)
    assert found.accuracy is not None
    assert found.accuracy.final > 0.8
