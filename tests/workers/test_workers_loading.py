from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn import datasets

from airmixml.data import DataSet
from airmixml.messages import DataError, ScenarioError
from airmixml.scenario import Scenario, Workers
from airmixml.streams import Streams
from airmixml.workers import load_dataset


def rows(inputs: np.ndarray, labels: np.ndarray) -> list[tuple[float, ...]]:
    """Return samples in an order that does not depend on how they came."""
    joined = np.column_stack([inputs.astype(np.float64).round(5), labels])
    return sorted(tuple(row) for row in joined.tolist())


def all_rows(dataset: DataSet) -> list[tuple[float, ...]]:
    return rows(
        np.concatenate([dataset.train_inputs, dataset.test_inputs]),
        np.concatenate([dataset.train_labels, dataset.test_labels]),
    )


def test_iris_is_split_into_100_and_50_and_scaled_by_the_documented_ranges() -> None:
    dataset = load_dataset(Workers(dataset="iris", train_samples=100), Streams(0))
    assert (dataset.train_samples, len(dataset.test_labels)) == (100, 50)
    assert (dataset.input_dim, dataset.label_dim, dataset.image_shape) == (4, 3, None)
    assert dataset.class_names == ("setosa", "versicolor", "virginica")
    assert dataset.clipped_values == 0
    assert dataset.train_inputs.dtype == np.float32
    flowers = datasets.load_iris()
    expected = (flowers.data - [4.3, 2.0, 1.0, 0.1]) / [3.6, 2.4, 5.9, 2.4]
    assert all_rows(dataset) == rows(expected, flowers.target)


def test_digits_are_images_of_8_by_8_scaled_by_16() -> None:
    dataset = load_dataset(Workers(dataset="digits", train_samples=1300), Streams(0))
    assert (dataset.train_samples, len(dataset.test_labels)) == (1300, 497)
    assert (dataset.input_dim, dataset.label_dim, dataset.image_shape) == (64, 10, (8, 8))
    digits = datasets.load_digits()
    assert all_rows(dataset) == rows(digits.data / 16, digits.target)


def test_zero_train_samples_takes_two_thirds() -> None:
    assert load_dataset(Workers(train_samples=0), Streams(0)).train_samples == 100
    assert load_dataset(Workers(dataset="digits", train_samples=0), Streams(0)).train_samples == 1198


def test_the_seed_alone_decides_the_split() -> None:
    first, again, other = (load_dataset(Workers(), Streams(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.train_inputs, again.train_inputs)
    np.testing.assert_array_equal(first.test_labels, again.test_labels)
    assert not np.array_equal(first.train_labels, other.train_labels)


def test_the_split_is_the_permutation_of_the_stream_data() -> None:
    # The rule is public: published seeds must give the same pool for ever.
    sequence = np.random.SeedSequence(5, spawn_key=(1, 0))
    order = np.random.Generator(np.random.PCG64DXSM(sequence)).permutation(150)
    dataset = load_dataset(Workers(train_samples=30), Streams(5))
    target = datasets.load_iris().target
    assert dataset.train_labels.tolist() == target[order[:30]].tolist()
    assert dataset.test_labels.tolist() == target[order[30:]].tolist()


@pytest.mark.parametrize(("train_samples", "fine"), [(1, True), (149, True), (150, False), (10**6, False)])
def test_a_test_sample_must_remain(train_samples: int, fine: bool) -> None:
    workers = Workers(dataset="iris", train_samples=train_samples)
    if fine:
        dataset = load_dataset(workers, Streams(0))
        assert (dataset.train_samples, len(dataset.test_labels)) == (train_samples, 150 - train_samples)
    else:
        with pytest.raises(ScenarioError, match=rf"workers\.train_samples = {train_samples}: must be at most 149"):
            load_dataset(workers, Streams(0))


def test_declared_bounds_override_those_of_iris_and_count_what_they_cut() -> None:
    flowers = datasets.load_iris().data
    below = int((flowers[:, 0] < 5.0).sum())
    dataset = load_dataset(Workers(input_lower=(5.0, 2.0, 1.0, 0.1)), Streams(0))
    assert dataset.clipped_values == below > 0
    dataset = load_dataset(Workers(input_lower=(0.0,), input_upper=(10.0,)), Streams(0))
    assert all_rows(dataset) == rows(flowers / 10, datasets.load_iris().target)


@pytest.mark.parametrize(
    ("bounds", "complaint"),
    [
        ({"input_lower": (0.0, 1.0)}, r"workers\.input_lower has 2 values: must have 1, .* or 4"),
        ({"input_upper": (9.0,) * 5}, r"workers\.input_upper has 5 values"),
        ({"input_upper": (9.0, 9.0, 1.0, 9.0)}, r"workers\.input_upper = 1 for input 3: must be above .* = 1,"),
        ({"input_lower": (-1.7e308,), "input_upper": (1.7e308,)}, "finite distance"),
    ],
)
def test_wrong_bounds_are_refused(bounds: dict[str, tuple[float, ...]], complaint: str) -> None:
    with pytest.raises(ScenarioError, match=complaint):
        load_dataset(Workers(**bounds), Streams(0))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("bounds", "named"),
    [
        ({}, r"\[workers\.bounds\] lacks 'a', 'b': write a line"),
        ({"input_lower": (0.0,)}, r"workers\.input_upper: must be declared"),
        ({"input_upper": (0.0,)}, r"workers\.input_lower: must be declared"),
    ],
)
def test_own_data_needs_declared_bounds(tmp_path: Path, bounds: dict[str, tuple[float, ...]], named: str) -> None:
    (tmp_path / "mine.csv").write_text("a,b,label\n1,2,x\n3,4,y\n")
    workers = Workers(dataset=str(tmp_path / "mine.csv"), train_samples=1, **bounds)  # type: ignore[arg-type]
    with pytest.raises(DataError, match=f"^{named}.* would leak"):
        load_dataset(workers, Streams(0))


def test_own_csv_and_npz_give_the_same_data_set(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("a,b,kind\n1,20,x\n3,40,y\n5,60,x\n-9,0,y\n")
    np.savez(tmp_path / "mine.npz", inputs=[[1, 20], [3, 40], [5, 60], [-9, 0]], labels=["x", "y", "x", "y"])
    loaded = [
        load_dataset(
            Workers(
                dataset=str(tmp_path / name),
                train_samples=3,
                label_column="kind",
                input_lower=(0.0,),
                input_upper=(5.0, 40.0),
            ),
            Streams(9),
        )
        for name in ("mine.csv", "mine.npz")
    ]
    for dataset in loaded:
        assert dataset.clipped_values == 2  # -9 lies below 0, 60 above 40
        assert all_rows(dataset) == [(0.0, 0.0, 1.0), (0.2, 0.5, 0.0), (0.6, 1.0, 1.0), (1.0, 1.0, 0.0)]
    np.testing.assert_array_equal(loaded[0].train_inputs, loaded[1].train_inputs)
    np.testing.assert_array_equal(loaded[0].test_labels, loaded[1].test_labels)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("irsi", ".*did you mean iris"),
        ("Mnist", ".*did you mean mnist"),
        ("digit", ".*did you mean digits"),
        ("data.txt", " file$"),  # like none of them
    ],
)
def test_an_unknown_data_set_is_named_with_the_valid_ones(name: str, near: str) -> None:
    with pytest.raises(ScenarioError, match=f"iris, digits, mnist, .*csv.*npz{near}") as caught:
        load_dataset(Workers(dataset=name), Streams(0))
    assert f"workers.dataset = '{name}'" in str(caught.value)


def test_a_pool_of_one_class_is_fine(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("a,label\n1,x\n2,y\n")
    workers = Workers(dataset=str(tmp_path / "mine.csv"), train_samples=1, input_lower=(0.0,), input_upper=(2.0,))
    dataset = load_dataset(workers, Streams(0))
    assert (dataset.train_samples, dataset.label_dim) == (1, 2)


@pytest.mark.parametrize("preset", ["paper-iris", "digits"])
def test_the_presets_load(preset: str) -> None:
    workers = Scenario.preset(preset).workers
    assert load_dataset(workers, Streams(0)).train_samples == workers.train_samples
