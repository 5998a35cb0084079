"""Targets, several labels and the holders of rows in a user's own file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airmixml import Scenario
from airmixml.data import Bounded, OneHot, RawData, Signs, own_file
from airmixml.messages import DataError, ScenarioError
from airmixml.scenario import Workers
from airmixml.streams import Streams
from airmixml.workers import load_dataset


def load_csv(path: Path, **keys: Any) -> RawData:
    return own_file.load_own_file(path, Workers(**keys))


def load_npz(path: Path, **keys: Any) -> RawData:
    return own_file.load_own_file(path, Workers(**keys))


INPUTS = np.arange(8.0).reshape(4, 2)


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.csv"
    path.write_text(text, encoding="utf-8")
    return path


def save(folder: Path, **arrays: Any) -> Path:
    np.savez(folder / "mine.npz", **arrays)
    return folder / "mine.npz"


# --- Reading ----------------------------------------------------------------------------------------------------------


def test_targets_labels_and_holders_of_a_table(tmp_path: Path) -> None:
    path = write(tmp_path, "who,a,b,size,ill\nx,1,2,3.5,yes\ny,3,4,-2,no\nx,5,6,7,1\n")
    raw = load_csv(path, task="regression", label_column="size", feature_columns=("a",), worker_column="who")
    assert (raw.labels.tolist(), raw.class_names) == ([[3.5], [-2.0], [7.0]], ("size",))
    assert raw.holders is not None
    assert raw.holders.tolist() == [0, 1, 0]
    both = load_csv(path, task="regression", label_columns=("size", "b"), feature_columns=("a",))
    assert (both.labels.tolist(), both.class_names) == ([[3.5, 2.0], [-2.0, 4.0], [7.0, 6.0]], ("size", "b"))
    # All columns but labels and worker are inputs.
    ill = load_csv(path, task="multi-label", label_columns=("ill",), worker_column="who")
    assert ill.labels.tolist() == [[1.0], [0.0], [1.0]]
    assert ill.inputs.tolist() == [[1, 2, 3.5], [3, 4, -2], [5, 6, 7]]


def test_targets_labels_and_holders_of_arrays(tmp_path: Path) -> None:
    one = load_npz(save(tmp_path, inputs=INPUTS, labels=[0.5, 1, 2, 3]), task="regression")
    assert (one.labels.shape, one.class_names) == ((4, 1), ("target 1",))
    two = load_npz(
        save(tmp_path, inputs=INPUTS, labels=INPUTS, group=list("baab")), task="regression", worker_column="group"
    )
    assert two.labels.tolist() == INPUTS.tolist()
    assert two.holders is not None
    assert two.holders.tolist() == [1, 0, 0, 1]
    signs = load_npz(save(tmp_path, inputs=INPUTS, labels=np.eye(4, dtype=bool)), task="multi-label")
    assert signs.labels.tolist() == np.eye(4).tolist()


@pytest.mark.parametrize(
    ("text", "options", "complaint"),
    [
        ("a,y\n1,2\n3,?\n", {"task": "regression"}, "row 3, column 'y': '.' is not a finite number"),
        ("a,y\n1,2\n3,inf\n", {"task": "regression"}, "row 3, column 'y': 'inf' is not a finite number"),
        ("a,y\n1,2\n3,\n", {"task": "regression"}, "row 3, column 'y': the label is missing"),
        ("a,y\n1,1\n3,2\n", {"task": "multi-label"}, "row 3, column 'y': '2' is not 0 or 1"),
        ("a,y\n1,1\n", {"task": "regression"}, "has 1 samples: must have at least 2"),
        ("a,y,w\n1,1,p\n2,2,\n", {"worker_column": "w"}, "row 3, column 'w': the worker is missing"),
        ("a,y,w\n1,1,p\n2,2,p\n", {"worker_column": "w"}, "all rows are of one worker"),
        ("a,y,w\n1,1,p\n2,2,q\n", {"worker_column": "who"}, "names no column 'who'"),
        ("a,y\n1,1\n2,2\n", {"worker_column": "y"}, "column 'y' is named twice"),
        ("a,y,w\n1,1,p\n2,2,q\n", {"worker_column": "w", "feature_columns": ("w",)}, "column 'w' is named twice"),
        ("a,y\n" + "".join(f"1,{k}.5\n" for k in range(40)), {}, 'workers.task = "regression"'),
        # 214 whole numbers in 442 rows, as scikit-learn's diabetes has them.
        ("a,y\n" + "".join(f"1,{k % 214}\n" for k in [*range(300), *range(142)]), {}, "must be classes, not measured"),
    ],
)
def test_mistakes_in_tables(tmp_path: Path, text: str, options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(DataError, match=complaint) as caught:
        load_csv(write(tmp_path, text), **{"label_column": "y", **options})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("arrays", "options", "complaint"),
    [
        ({"labels": [0.1, np.nan, 1, 2]}, {"task": "regression"}, r"labels\[1, 0\] is nan"),
        ({"labels": [0, 1, 2, 1]}, {"task": "multi-label"}, r"labels\[2, 0\] is 2: must be 0 or 1"),
        ({"labels": list("abcd")}, {"task": "regression"}, "must be numbers"),
        ({"labels": np.zeros((4, 0))}, {"task": "regression"}, "no columns"),
        ({"labels": np.zeros((3, 2))}, {"task": "regression"}, "one row of targets or labels per row"),
        ({"labels": np.eye(4)}, {}, "multi-label"),
        ({"labels": [0, 1, 0, 1], "who": [1, 2]}, {"worker_column": "who"}, "who has the shape"),
        ({"labels": [0, 1, 0, 1]}, {"worker_column": "who"}, "has no array 'who'"),
    ],
)
def test_mistakes_in_arrays(tmp_path: Path, arrays: dict[str, Any], options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(DataError, match=complaint):
        load_npz(save(tmp_path, inputs=INPUTS, **arrays), **options)


# --- The codes --------------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(seed=st.integers(0, 10**6), outputs=st.integers(1, 60))
def test_no_label_is_sent_with_a_norm_above_one(seed: int, outputs: int) -> None:
    """In exact arithmetic on what float32 holds: the privacy guarantee rests on it."""
    rng = np.random.default_rng(seed)
    lower = rng.normal(size=outputs) * 10.0 ** rng.integers(-3, 4)
    upper = lower + 10.0 ** rng.uniform(-3, 6, size=outputs)
    wild = rng.normal(size=(50, outputs)) * 10.0 ** rng.integers(-5, 8)
    ends = np.vstack([lower, upper, np.where(rng.random(outputs) < 0.5, lower, upper)])
    targets = Bounded(tuple(lower), tuple(upper)).coded(np.vstack([wild, ends]))
    signs = Signs(outputs).coded(rng.random((20, outputs)) < 0.5)
    for coded in (targets, signs):
        assert coded.dtype == np.float32
        squares = np.square(coded.astype(np.longdouble)).sum(axis=1)
        assert squares.max() <= 1.0
    assert np.square(targets[-1].astype(float)).sum() == pytest.approx(1.0, abs=1e-6)
    assert np.square(signs.astype(float)).sum(axis=1) == pytest.approx(np.ones(20), abs=1e-6)


def test_codes_are_undone() -> None:
    code = Bounded((0.0, -10.0), (100.0, 10.0))
    targets = np.array([[0.0, -10.0], [25.0, 3.0], [100.0, 10.0], [140.0, -99.0]])
    assert code.clipped(targets) == 2
    assert code.decoded(code.coded(targets).astype(np.float64))[:3] == pytest.approx(targets[:3], abs=1e-5)
    assert code.decoded(code.coded(targets).astype(np.float64))[3] == pytest.approx([100.0, -10.0])
    assert code.coded(np.array([[50.0, 0.0]])).tolist() == [[0.0, 0.0]]
    assert Signs(3).decoded(Signs(3).coded(np.eye(3))).tolist() == np.eye(3).tolist()
    assert OneHot(3).coded(np.array([2, 0])).tolist() == [[0, 0, 1], [1, 0, 0]]


# --- From a scenario --------------------------------------------------------------------------------------------------

PLAIN = ("workers.centre=public", "workers.norm=clip", "workers.label_code=one-hot", "learner.model=ridge")
REGRESSION = ("workers.task=regression", "workers.label_column=y", "workers.input_lower=0", "workers.input_upper=9")


def table(tmp_path: Path, *changes: str) -> Scenario:
    path = write(tmp_path, "w,a,y\n" + "".join(f"p{k // 3},{k % 10},{k}\n" for k in range(60)))
    own = (f"workers.dataset={path}", "workers.feature_columns=a", *REGRESSION)
    return Scenario.preset("private-table").with_overrides(*PLAIN, *own, *changes)


def test_target_bounds_must_be_declared_and_make_sense(tmp_path: Path) -> None:
    for changes, complaint in (
        ((), "workers.target_lower and workers.target_upper: must be declared"),
        (("workers.target_lower=0",), "must be declared"),
        (("workers.target_lower=9", "workers.target_upper=5"), "workers.target_upper = 5 for target 1: must be above"),
        (("workers.target_lower=0,1", "workers.target_upper=5"), "has 2 values: must have 1"),
    ):
        with pytest.raises((DataError, ScenarioError), match=complaint):
            load_dataset(table(tmp_path, *changes).workers, Streams(0))
    loaded = load_dataset(table(tmp_path, "workers.target_lower=0", "workers.target_upper=50").workers, Streams(0))
    assert loaded.code == Bounded((0.0,), (50.0,))
    assert loaded.task == "regression"
    # Labels stay in their own units; outside the bounds are 51 to 59, of which some are in the pool.
    assert set(loaded.train_labels[:, 0]) | set(loaded.test_labels[:, 0]) == set(range(60))
    assert loaded.clipped_values == int((loaded.train_labels > 50).sum())


def test_no_worker_has_rows_on_both_sides_of_the_split(tmp_path: Path) -> None:
    """20 workers of three rows: 13 in the pool (two thirds), and ``train_samples`` counts workers."""
    bounds = ("workers.target_lower=0", "workers.target_upper=60", "workers.worker_column=w")
    for seed in range(5):
        dataset = load_dataset(table(tmp_path, *bounds).workers, Streams(seed))
        train, test = ({int(y) // 3 for y in part[:, 0]} for part in (dataset.train_labels, dataset.test_labels))
        assert not train & test
        assert len(train | test) == 20
        assert (len(train), len(dataset.train_labels), dataset.holdings) == (13, 39, 13)
        assert dataset.public_counts == (13, 7)
        assert dataset.holders is not None
        held = [set(dataset.train_labels[dataset.holders == k, 0] // 3) for k in range(13)]
        assert all(len(each) == 1 for each in held)
    with pytest.raises(ScenarioError, match=r"must be at most 19 for mine\.csv, which has 20 workers"):
        load_dataset(table(tmp_path, *bounds, "workers.train_samples=20").workers, Streams(0))


def test_named_data_sets_have_one_task_and_no_holders() -> None:
    iris = Scenario.preset("private-table").with_overrides(*PLAIN, "workers.dataset=iris")
    for change, complaint in (
        ("workers.task=multi-label", 'workers.task = "multi-label": must be "classification" for'),
        ("workers.worker_column=w", "workers.worker_column = 'w': must be empty"),
    ):
        with pytest.raises(ScenarioError, match=complaint):
            load_dataset(iris.with_overrides(change).workers, Streams(0))


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        (("workers.task=regression", "privacy.sensitivity=paper", "workers.encoder=scale", "workers.sends=samples",
          "workers.centre=none", "workers.constant=0"), 'privacy.sensitivity = "paper": must be "encoder"'),
        (("workers.task=regression", "learner.model=lda"), 'learner.model = "lda": must be "ridge"'),
        (("workers.task=multi-label", "learner.model=mlp", "workers.sends=samples"), 'learner.loss .* "squared"'),
        (("workers.task=regression", "workers.holding=label-skewed", "workers.count=9"), "deals rows by their class"),
        (("workers.label_columns=a,b",), "workers.label_columns .* must be empty"),
        (("workers.worker_column=w", "workers.sends=samples"), 'workers.sends = "samples": must be "moments"'),
        (("workers.worker_column=w", "workers.centre=private"), 'workers.centre = "private": must be'),
        (("workers.worker_column=w", "workers.holding=size-skewed", "workers.count=9"), "which deals rows itself"),
        (("workers.worker_column=w", "learner.model=lda", "workers.constant=0"), "workers.constant = 0: must be above"),
        (("workers.holding=size-skewed",), "workers.count = 0: must be a number"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_refused(changes: tuple[str, ...], complaint: str) -> None:
    with pytest.raises(ScenarioError, match=complaint) as caught:
        Scenario.preset("private-table").with_overrides(*PLAIN, *changes)
    assert "\n" not in str(caught.value)
