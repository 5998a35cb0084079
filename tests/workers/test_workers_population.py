from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest

from airmixml.messages import DataError, ScenarioError
from airmixml.scenario import Workers
from airmixml.streams import Streams
from airmixml.workers import deploy, place_workers

STANDARD_ERRORS = 5.0  # a sound generator fails such a test once in two million seeds, and the seeds are fixed


def test_mean_squared_distance_is_a_sixth_of_the_squared_side() -> None:
    count, side = 400_000, 500.0
    squared = place_workers(count, side, 1e-9, np.random.default_rng(1)) ** 2
    # With x, y uniform on (-s/2, s/2): E[x^2] = s^2/12 and Var[x^2] = s^4/180.
    standard_error = side**2 / math.sqrt(90 * count)
    assert abs(squared.mean() - side**2 / 6) < STANDARD_ERRORS * standard_error


def test_the_inscribed_circle_holds_pi_quarters_of_the_workers() -> None:
    count, side = 400_000, 30.0
    distance = place_workers(count, side, 1e-9, np.random.default_rng(2))
    share = math.pi / 4
    standard_error = math.sqrt(share * (1 - share) / count)
    assert abs((distance < side / 2).mean() - share) < STANDARD_ERRORS * standard_error
    assert distance.max() <= side / math.sqrt(2)


def test_nearer_workers_count_as_being_at_the_least_distance() -> None:
    count, side, least = 100_000, 100.0, 40.0
    near = place_workers(count, side, least, np.random.default_rng(3))
    free = place_workers(count, side, 1e-9, np.random.default_rng(3))
    assert near.min() == least
    np.testing.assert_array_equal(near[free > least], free[free > least])
    share = math.pi * least**2 / side**2
    assert abs((near == least).mean() - share) < STANDARD_ERRORS * math.sqrt(share * (1 - share) / count)


def test_each_sample_is_held_equally_often() -> None:
    count, samples = 200_000, 50
    population = deploy(Workers(count=count), samples, Streams(4))
    held = np.bincount(population.sample_index, minlength=samples)
    assert held.size == samples
    expected = count / samples
    chi_squared = ((held - expected) ** 2 / expected).sum()
    assert abs(chi_squared - (samples - 1)) < STANDARD_ERRORS * math.sqrt(2 * (samples - 1))


def test_the_seed_decides_places_and_holdings_which_do_not_depend_on_each_other() -> None:
    workers = Workers(count=1000)
    first, again, other = (deploy(workers, 100, Streams(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.distance_metres, again.distance_metres)
    np.testing.assert_array_equal(first.sample_index, again.sample_index)
    assert not np.array_equal(first.distance_metres, other.distance_metres)
    assert not np.array_equal(first.sample_index, other.sample_index)
    wider = deploy(Workers(count=1000, side_metres=1000.0, min_distance_metres=2.0), 100, Streams(1))
    np.testing.assert_array_equal(first.sample_index, wider.sample_index)
    np.testing.assert_allclose(wider.distance_metres, 2 * first.distance_metres)


def test_the_streams_are_those_that_are_published() -> None:
    sequence = np.random.SeedSequence(7, spawn_key=(1, 1))
    holdings = np.random.Generator(np.random.PCG64DXSM(sequence)).integers(0, 60, size=20)
    population = deploy(Workers(count=20), 60, Streams(7))
    assert population.sample_index.tolist() == holdings.tolist()
    assert population.sample_index.dtype == np.int64
    assert population.count == 20


def test_a_million_workers_need_tens_of_megabytes() -> None:
    tracemalloc.start()
    population = deploy(Workers(count=1_000_000), 60_000, Streams(0))
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert population.count == 1_000_000
    assert peak_bytes < 60e6


def test_an_empty_pool_is_refused() -> None:
    with pytest.raises(DataError, match="has 0 samples"):
        deploy(Workers(), 0, Streams(0))


def test_dealt_samples_are_on_one_worker_each() -> None:
    population = deploy(Workers(count=300, holding="dealt"), 1000, Streams(6))
    assert len(set(population.sample_index.tolist())) == 300
    assert population.sample_index.dtype == np.int64
    whole = deploy(Workers(count=1000, holding="dealt"), 1000, Streams(6))
    assert sorted(whole.sample_index.tolist()) == list(range(1000))
    assert whole.sample_index.tolist() != list(range(1000))
    drawn = deploy(Workers(count=300), 1000, Streams(6))
    assert len(set(drawn.sample_index.tolist())) < 300
    np.testing.assert_array_equal(drawn.distance_metres, population.distance_metres)


def test_every_sample_is_dealt_equally_often() -> None:
    """4 of 10 samples, 5000 times: each 2000 times, with a deviation of sqrt(5000 x 0.4 x 0.6)."""
    workers = Workers(count=4, holding="dealt")
    held = np.bincount(np.concatenate([deploy(workers, 10, Streams(seed)).sample_index for seed in range(5000)]))
    assert np.abs(held - 2000).max() < STANDARD_ERRORS * math.sqrt(5000 * 0.24)


def test_more_workers_than_samples_cannot_be_dealt_to() -> None:
    with pytest.raises(ScenarioError, match=r"^workers\.count = 11: must be at most the 10 samples of the pool"):
        deploy(Workers(count=11, holding="dealt"), 10, Streams(0))
