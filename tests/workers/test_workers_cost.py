"""Multiply-accumulates and bytes of a worker, counted by hand from the rules that the module states."""

from __future__ import annotations

from dataclasses import replace

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
    """The private-mnist preset: 784 pixels, 128 histogram values mixed into 1024 features, all their products.

    Straightening 8 a pixel, gradients 2 + 3 + 8, roots 1280; 8 blocks of two transforms with 1 + 7 additions a number,
    and 4 x 128 before them; 1568 to scale, 2048 to centre, 2048 + 20 for the norm, 524 800 products and 1024 with the
    label. Two signs a number and block.
    """
    workers = Scenario.preset("private-mnist").workers
    assert cost_of(workers, 784, 10) == WorkerCost(
        multiply_accumulates=1568 + 784 * 21 + 1280 + 16 * 128 * 8 + 512 + 2048 + 2068 + 524_800 + 1024,
        constant_bytes=8 * 2 * 128 // 8,
        working_bytes=4 * (784 + 1024 + 128),
        symbols=535_040,
    )


def test_moments_of_cells_by_hand() -> None:
    """784 pixels, at most 8 x 49 edges, 49 for the brightness and 64 for colours, 1024 waves of them, all products.

    17 a pixel, two hard operations for each power, 4 x 505 for norms and means; one block of two transforms of 512 with
    1 + 9 additions a number, a cosine or sine each; then as above, without a centre.
    """
    workers = replace(Scenario.preset("private-mnist").workers, encoder="cells", centre="none")
    assert cost_of(workers, 784, 10) == WorkerCost(
        multiply_accumulates=1568 + 784 * 17 + 392 * 20 + 4 * 505 + 2 * 512 * 10 + 10_240 + 2068 + 524_800 + 1024,
        constant_bytes=2 * 512 // 8,
        working_bytes=4 * (784 + 1024 + 512),
        symbols=535_040,
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


@pytest.mark.parametrize(("features", "filters"), [(0, 32), (16, 1), (17, 2), (64, 4)])
def test_a_filter_gives_16_features(features: int, filters: int) -> None:
    """25 products a pixel and filter, four cells a pixel, 100 bytes a filter."""
    workers = Workers(encoder="convolution", features=features)
    count = features or 512
    found = cost_of(workers, 64, 10)
    assert found.multiply_accumulates == 128 + filters * 64 * (25 + 4) + 2 * count + 20
    assert found.constant_bytes == 100 * filters


def test_a_gradient_takes_scores_softmax_products_and_a_norm() -> None:
    """5 numbers and 3 classes: 15 for the scores, 15 products; of each class 10 for softmax, one for error and norm."""
    workers = Workers(encoder="clip", constant=0.5, sends="gradients")
    sent, plain = (cost_of(each, 4, 3) for each in (workers, replace(workers, sends="samples")))
    assert sent.multiply_accumulates - plain.multiply_accumulates == 15 + 15 + 3 * (10 + 2)
    assert sent.symbols == 15


def test_before_a_gradient_a_model_and_a_clip_are_broadcast() -> None:
    sent = (Signal(features=5, classes=3, payload=name) for name in ("gradients", "moments", ""))
    assert [each.downlink_bits for each in sent] == [32 * (5 * 3 + 3 + 1), 0, 0]
