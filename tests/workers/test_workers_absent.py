"""Rows that count as absent: zeros are within what both kinds of neighbours are accounted for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import pytest

from airmixml import DataError, Scenario, ScenarioError, settle
from airmixml.data.labels import ABSENT, Centred, OneHot
from airmixml.scenario import Workers
from airmixml.streams import Streams
from airmixml.workers import Signal, load_dataset

Airmix = Callable[..., CompletedProcess[str]]
CLASSES = '["cat", "dog"]'


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Thirty rows of cats and dogs, and one of a bird."""
    rows = [f"{0.2 + 0.5 * (n % 2) + 0.001 * n},{0.01 * n},{('cat', 'dog')[n % 2]}" for n in range(30)]
    path = tmp_path / "pets.csv"
    path.write_text("\n".join(["size,age,label", *rows, "0.9,0.9,bird", ""]))
    return path


def scenario_of(table: Path, *changes: str) -> Scenario:
    own = (f"workers.dataset={table}", "workers.input_lower=[0]", "workers.input_upper=[1]")
    return Scenario.preset("private-table").with_overrides(*own, *changes)


def test_a_label_that_is_not_declared_is_refused_or_absent(table: Path) -> None:
    refused = scenario_of(table, f"workers.classes={CLASSES}")
    with pytest.raises(DataError, match=r"the label 'bird' is not among workers\.classes"):
        settle(refused)
    scenario = settle(refused.with_overrides("workers.unknown_labels=absent"), test_rows=False)
    assert scenario.workers.count == 31  # the number of rows stays as public as it was
    data = load_dataset(scenario.workers, Streams(0), test_rows=False)
    assert (data.class_names, data.train_samples) == (("cat", "dog"), 31)
    (bird,) = np.flatnonzero(data.train_labels == ABSENT)
    assert not data.train_inputs[bird].any()
    assert np.linalg.norm(np.delete(data.train_inputs, bird, axis=0), axis=1).min() > 0.1
    assert not data.label_code.coded(data.train_labels)[bird].any()
    # Whatever encodes the inputs anew, such as a mean estimated over the air, leaves the zeros.
    again = replace(data, train_inputs=np.ones_like(data.train_inputs))
    assert np.flatnonzero(~again.train_inputs.any(axis=1)).tolist() == [bird]


def test_absent_rows_are_not_scored(table: Path) -> None:
    scenario = settle(scenario_of(table, f"workers.classes={CLASSES}", "workers.unknown_labels=absent"))
    data = [load_dataset(scenario.workers, Streams(seed)) for seed in range(12)]
    assert {len(each.test_labels) for each in data} == {10, 11}  # a third of 31 rows, with or without the bird
    assert all((each.test_labels != ABSENT).all() for each in data)


def test_declared_classes_keep_their_order_and_may_have_no_rows(table: Path) -> None:
    scenario = settle(scenario_of(table, 'workers.classes=["dog", "fish", "cat", "bird"]'))
    data = load_dataset(scenario.workers, Streams(0))
    assert (data.class_names, data.label_dim) == (("dog", "fish", "cat", "bird"), 4)
    assert set(np.concatenate([data.train_labels, data.test_labels])) == {0, 2, 3}


def test_numbers_are_compared_as_numbers(tmp_path: Path) -> None:
    path = tmp_path / "n.csv"
    path.write_text("a,label\n1,1.0\n2,2\n3,01\n4,10\n")
    scenario = settle(scenario_of(path, "workers.classes=[2, 10, 1]", "workers.input_upper=[9]"), test_rows=False)
    assert scenario.workers.classes == ("2", "10", "1")
    assert sorted(load_dataset(scenario.workers, Streams(0), test_rows=False).train_labels) == [0, 1, 2, 2]


def test_arrays_have_declared_classes_too(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, inputs=np.random.default_rng(0).random((20, 3)), labels=np.array(["a", "b", "x", ""] * 5))
    with pytest.raises(DataError, match=r"the label 'x' is not among workers\.classes"):
        settle(scenario_of(path, 'workers.classes=["a", "b"]'))
    absent = scenario_of(path, 'workers.classes=["a", "b"]', "workers.unknown_labels=absent")
    data = load_dataset(settle(absent, test_rows=False).workers, Streams(0), test_rows=False)
    assert np.unique(data.train_labels, return_counts=True)[1].tolist() == [10, 5, 5]


@pytest.mark.parametrize("code", [OneHot(4), Centred(4)])
def test_the_code_of_an_absent_label_is_zero_and_no_other_is(code: OneHot) -> None:
    coded = code.coded(np.array([0, 1, 2, 3, ABSENT]))
    assert coded.shape == (5, 4)
    assert np.linalg.norm(coded[:4], axis=1) == pytest.approx([1.0] * 4, abs=1e-6)
    assert not coded[4].any()


@pytest.mark.parametrize("moments", [False, True])
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("bits", [0, 4])
@pytest.mark.parametrize("weight", [1.0, 0.3, 1e-3])
@pytest.mark.parametrize(("norm", "distance"), [(1.0, 2.0), (1.0, 4.0), (4.0, 4.0), (0.25, 0.5), (1e-6, 4e-6)])
def test_zeros_are_no_farther_than_another_sample(
    moments: bool, signed: bool, bits: int, weight: float, norm: float, distance: float
) -> None:
    """What replaces a sample by zeros moves ||v||, which the bound on a replacement must not be below."""
    signal = Signal(features=4, classes=3, moments=moments, signed=signed, bits=bits, label_weight=weight)
    assert signal.largest_squared_distance(norm, distance) >= signal.largest_squared_norm(norm)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        (("workers.unknown_labels=absent",), r'workers\.unknown_labels = "absent": needs workers\.classes'),
        (("workers.unknown_labels=drop",), r"workers\.unknown_labels = 'drop': must be one of"),
        (('workers.classes=["a"]',), r"workers\.classes = \['a'\]: must name at least 2 classes, each once"),
        (('workers.classes=["a", "a"]',), "each once"),
        (('workers.classes=["1", "1.0"]',), "each once"),
        (
            ('workers.classes=["a", "b"]', "workers.task=multi-label", "learner.model=ridge"),
            r"must be empty for workers\.task",
        ),
    ],
)
def test_mistakes(table: Path, changes: tuple[str, ...], complaint: str) -> None:
    with pytest.raises(ScenarioError, match=complaint):
        settle(scenario_of(table, *changes))


def test_a_class_is_text_or_a_whole_number() -> None:
    assert Workers(classes=(" a ", 3)).classes == ("a", "3")
    for wrong in (1.5, True, None, "", " ", "a\nb"):
        with pytest.raises(ScenarioError, match=r"workers\.classes\[1\] = .*: must be"):
            Workers(classes=("a", wrong))


def test_named_data_sets_declare_their_own_classes() -> None:
    with pytest.raises(ScenarioError, match="which declares its own"):
        load_dataset(Scenario.preset("paper-iris").with_overrides(f"workers.classes={CLASSES}").workers, Streams(0))


@pytest.mark.parametrize("command", ["attack", "compare"])
def test_attacks_and_comparisons_look_at_every_class(table: Path, command: str, airmix: Airmix) -> None:
    options = ["--preset", "private-table"]
    for change in (f"dataset={table}", "input_lower=[0]", "input_upper=[1]", f"classes={CLASSES}"):
        options += ["--set", f"workers.{change}"]
    done = airmix(command, *options, "--set", "workers.unknown_labels=absent")
    assert done.returncode == 2
    assert 'workers.unknown_labels = "absent": must be "refuse"' in done.stderr
