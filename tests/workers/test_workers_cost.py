"""Multiply-accumulates and bytes of a worker, counted by hand from the rules that the module states."""

from __future__ import annotations

import pytest

from airmixml.scenario import Scenario, Workers
from airmixml.workers import Signal, WorkerCost, encoded_dim, worker_cost


def cost_of(workers: Workers, input_dim: int, classes: int) -> WorkerCost:
    return worker_cost(workers, input_dim, Signal.of(workers, encoded_dim(workers, input_dim), classes))


def test_plain_samples_cost_their_scaling() -> None:
    """Two operations a number; the sample in memory, before and after."""
    assert cost_of(Workers(), 784, 10) == WorkerCost(
        multiply_accumulates=1568, constant_bytes=0, working_bytes=4 * 1568, symbols=794
    )


def test_a_projection_by_hand() -> None:
    """64 numbers to 20: 128 to scale, 1280 to project, 40 to centre, 40 + 2 x 10 for the norm; 1280 signs, 20 means."""
    workers = Workers(encoder="projection", features=20, centre="public")
    assert cost_of(workers, 64, 10) == WorkerCost(
        multiply_accumulates=128 + 1280 + 40 + 40 + 20,
        constant_bytes=1280 // 8 + 4 * 20,
        working_bytes=4 * (64 + 20),
        symbols=30,
    )


def test_moments_of_gradients_by_hand() -> None:
    """The private-mnist preset: 784 pixels, 300 histogram values mixed into 1000 features, all their products.

    Straightening 11 a pixel, gradients 2 + 2 x 10 + 8, roots 3000; 300 000 signs, and 4 x 300 before them;
    1568 to scale, 2000 to centre, 2000 + 20 for the norm, 500 500 products and 1000 with the label.
    """
    workers = Scenario.preset("private-mnist").workers
    assert cost_of(workers, 784, 10) == WorkerCost(
        multiply_accumulates=1568 + 784 * (11 + 30) + 3000 + 300_000 + 1200 + 2000 + 2020 + 500_500 + 1000,
        constant_bytes=300_000 // 8,
        working_bytes=4 * (784 + 1000 + 300),
        symbols=510_500,
    )


def test_bits_cost_three_operations_a_symbol() -> None:
    plain, rounded = (cost_of(Workers(encoder="clip", bits=bits), 4, 3) for bits in (0, 8))
    assert rounded.multiply_accumulates - plain.multiply_accumulates == 3 * 7
    assert rounded.to_dict() == {
        "multiply_accumulates": plain.multiply_accumulates + 21,
        "constant_bytes": 0,
        "working_bytes": 32,
        "symbols": 7,
    }


@pytest.mark.parametrize(("features", "filters"), [(0, 32), (25, 1), (26, 2), (100, 4)])
def test_a_filter_gives_25_features(features: int, filters: int) -> None:
    """25 products a pixel and filter, four cells a pixel, 100 bytes a filter."""
    workers = Workers(encoder="convolution", features=features)
    count = features or 800
    found = cost_of(workers, 64, 10)
    assert found.multiply_accumulates == 128 + filters * 64 * (25 + 4) + 2 * count + 20
    assert found.constant_bytes == 100 * filters
