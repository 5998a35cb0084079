"""Which rows a worker holds: gathered from the data, or dealt unequally."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import digamma

from airmixml.data import DataSet
from airmixml.messages import ScenarioError
from airmixml.scenario import Workers
from airmixml.streams import Streams
from airmixml.workers import deploy
from airmixml.workers.population import NOBODY, deal_rows, gather_rows


def pool(labels: NDArray[np.int64], classes: int, holders: NDArray[np.int64] | None = None) -> DataSet:
    return DataSet(
        name="pool",
        train_inputs=np.zeros((len(labels), 1), dtype=np.float32),
        train_labels=labels,
        test_inputs=np.zeros((0, 1), dtype=np.float32),
        test_labels=labels[:0],
        class_names=tuple(map(str, range(classes))),
        image_shape=None,
        clipped_values=0,
        holders=holders,
    )


@given(seed=st.integers(0, 10**6), count=st.integers(1, 12), max_rows=st.integers(0, 6))
def test_rows_are_gathered_as_a_loop_would(seed: int, count: int, max_rows: int) -> None:
    rng = np.random.default_rng(seed)
    holders = rng.integers(NOBODY, count, size=int(rng.integers(1, 40)))
    found = gather_rows(holders, count, max_rows, rng)
    for worker in range(count):
        own = set(np.flatnonzero(holders == worker))
        rows = found.rows[worker][found.present[worker]]
        assert set(rows) <= own
        assert len(rows) == len(set(rows)) == found.sizes[worker] == min(len(own), max_rows or len(own))


def test_chance_picks_the_rows_that_enter() -> None:
    """Three of five rows, 4000 times: each enters in 60 % +- 4 standard errors of 0.8 %."""
    rng = np.random.default_rng(1)
    entered = np.zeros(5)
    for _ in range(4000):
        found = gather_rows(np.zeros(5, dtype=np.int64), 1, 3, rng)
        entered[found.rows[0]] += 1
    assert entered / 4000 == pytest.approx(np.full(5, 0.6), abs=0.032)


def shares_of(workers: Workers, labels: NDArray[np.int64], classes: int, seed: int) -> NDArray[np.float64]:
    """Rows of each class on each worker; workers x classes."""
    owners = deal_rows(workers, pool(labels, classes), np.random.default_rng(seed))
    table = np.zeros((workers.count, classes))
    np.add.at(table, (owners[owners != NOBODY], labels[owners != NOBODY]), 1)
    return table


@pytest.mark.parametrize("skew", [0.2, 1.0, 20.0])
def test_label_skew_is_the_dirichlet_one(skew: float) -> None:
    """Dirichlet-multinomial counts: Var = n p (1 - p) (n + A) / (1 + A), A = K skew; 1000 workers of 20 rows."""
    classes, rows = 4, 20
    labels = np.repeat(np.arange(classes), 5000)
    workers = Workers(count=1000, holding="label-skewed", skew=skew, sends="moments", encoder="clip")
    table = shares_of(workers, labels, classes, 3)
    assert (table.sum(axis=1) == rows).all()
    assert table.sum(axis=0).tolist() == [5000] * classes
    total = classes * skew
    variance = rows * 0.25 * 0.75 * (rows + total) / (1.0 + total)
    assert table.var() == pytest.approx(variance, rel=0.1)


@pytest.mark.parametrize("skew", [0.3, 1.0, 50.0])
def test_size_skew_is_the_dirichlet_one(skew: float) -> None:
    """Sizes less one are Dirichlet-multinomial: mean 9, and variance n p (1 - p) (n + A) / (1 + A), A = N skew."""
    count, samples = 2000, 20_000
    labels = np.arange(samples) % 2
    workers = Workers(count=count, holding="size-skewed", skew=skew)
    sizes = shares_of(workers, labels, 2, 5).sum(axis=1)
    assert sizes.sum() == samples
    assert sizes.min() >= 1
    left, p, total = samples - count, 1.0 / count, count * skew
    assert sizes.var() == pytest.approx(left * p * (1 - p) * (left + total) / (1.0 + total), rel=0.15)
    # The mean of the logarithm tells the shape from others of that variance (gamma for large n).
    if skew >= 1.0:
        expected = digamma(skew) + np.log(9.0 / skew)
        assert np.log(np.maximum(sizes - 1, 0.5)).mean() == pytest.approx(expected, abs=0.25)


def test_rows_per_worker_leave_the_others_out() -> None:
    workers = Workers(count=10, holding="label-skewed", rows_per_worker=3)
    owners = deal_rows(workers, pool(np.arange(100) % 5, 5), np.random.default_rng(0))
    assert np.bincount(owners[owners != NOBODY]).tolist() == [3] * 10
    assert (owners == NOBODY).sum() == 70


def test_unequal_classes_stay_as_frequent_as_they_are() -> None:
    """A rare class is asked for as rarely: hardly any seat takes what is left over."""
    labels = np.repeat([0, 1], [9000, 1000])
    workers = Workers(count=500, holding="label-skewed", skew=0.1)
    table = shares_of(workers, labels, 2, 0)
    assert table.sum(axis=0).tolist() == [9000, 1000]
    assert (table[:, 1] > 15).sum() > 10  # of 20 rows, some workers have nearly only the rare class
    assert (table[:, 1] == 0).mean() > 0.6


def test_more_than_the_pool_has_is_refused() -> None:
    for changes, complaint in (
        ({"rows_per_worker": 30}, "workers.rows_per_worker = 30: must be at most 10"),
        ({"count": 101}, "workers.count = 101: must be at most 100"),
    ):
        workers = Workers(**{"count": 10, "holding": "size-skewed", **changes})
        with pytest.raises(ScenarioError, match=complaint):
            deal_rows(workers, pool(np.arange(100) % 5, 5), np.random.default_rng(0))


def test_people_are_dealt_and_drawn_like_samples() -> None:
    holders = np.array([0, 1, 1, 2, 2, 2])
    data = pool(np.array([0, 1, 0, 1, 0, 1]), 2, holders)
    dealt = deploy(Workers(count=3, holding="dealt", worker_column="w"), data, Streams(0))
    assert dealt.holdings is not None
    assert dealt.holdings.sizes.tolist() == [1, 2, 3]
    assert sorted(dealt.sample_index) == [0, 1, 2]
    assert deploy(Workers(count=9, worker_column="w"), data, Streams(0)).sample_index.max() <= 2
    with pytest.raises(ScenarioError, match="at most the 3 workers of the pool"):
        deploy(Workers(count=4, holding="dealt", worker_column="w"), data, Streams(0))
    skewed = deploy(Workers(count=2, holding="size-skewed"), data, Streams(0))
    assert skewed.holdings is not None
    assert skewed.holdings.sizes.sum() == 6
