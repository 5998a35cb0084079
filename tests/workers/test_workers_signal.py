"""How many symbols a slot has and how large they can be together, counted by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airmixml.scenario import Radio, Scenario, Workers
from airmixml.workers import Signal, encoded_dim


@pytest.mark.parametrize(
    ("features", "classes", "samples", "moments"),
    [
        (1, 2, 1 + 2, 1 + 2),
        (3, 2, 3 + 2, 6 + 6),
        (5, 3, 5 + 3, 15 + 15),
        (784, 10, 794, 307_720 + 7_840),
        (1000, 10, 1010, 500_500 + 10_000),
    ],
)
def test_symbols_by_hand(features: int, classes: int, samples: int, moments: int) -> None:
    """Moments: d on the diagonal and d (d - 1) / 2 above it, and one product of each number with each class."""
    assert Signal(features=features, classes=classes).symbols == samples
    signal = Signal(features=features, classes=classes, moments=True)
    assert signal.symbols == moments == signal.input_symbols + signal.label_symbols
    assert signal.label_symbols == features * classes


@pytest.mark.parametrize(
    ("name", "input_dim", "classes", "symbols"),
    [
        ("private-iris", 4, 3, 15 + 15),
        ("private-mnist", 784, 10, 535_040),
        ("private-mnist-release", 784, 10, 650),
        ("paper-mnist", 784, 10, 794),
    ],
)
def test_symbols_of_the_presets(name: str, input_dim: int, classes: int, symbols: int) -> None:
    workers = Scenario.preset(name).workers
    assert Signal.of(workers, encoded_dim(workers, input_dim), classes).symbols == symbols


@given(seed=st.integers(0, 10**6), size=st.integers(1, 12), classes=st.integers(2, 5), weight=st.floats(0.01, 1.0))
@settings(max_examples=60, deadline=None)
def test_norms_of_what_is_sent_are_those_of_the_products(seed: int, size: int, classes: int, weight: float) -> None:
    """||x x^T||_F^2 + w^2 ||x l^T||_F^2 = ||x||^4 + w^2 ||x||^2, by NumPy on the full matrices."""
    rng = np.random.default_rng(seed)
    x, label = rng.standard_normal(size), np.eye(classes)[rng.integers(classes)]
    squares = float(np.square(np.outer(x, x)).sum() + weight**2 * np.square(np.outer(x, label)).sum())
    moments = Signal(features=size, classes=classes, moments=True, label_weight=weight)
    assert moments.largest_squared_norm(float(x @ x)) == pytest.approx(squares, rel=1e-12)
    samples = Signal(features=size, classes=classes, label_weight=weight)
    assert samples.largest_squared_norm(float(x @ x)) == pytest.approx(float(x @ x) + weight**2, rel=1e-12)


def test_distances_by_hand() -> None:
    """C = 1: samples 4 + 2 w^2 centred, 2 + 2 w^2 else; moments with w = 1: 2 (1 + 1) + 1/2; rounded: 4 (1 + w^2)."""
    assert Signal(features=4, classes=2).largest_squared_distance(1.0, 4.0) == 6.0
    assert Signal(features=4, classes=2, label_weight=0.5).largest_squared_distance(1.0, 2.0) == 2.5
    assert Signal(features=4, classes=2, moments=True).largest_squared_distance(1.0, 4.0) == 4.5
    assert Signal(features=4, classes=2, moments=True).largest_squared_distance(1.0, 2.0) == 4.0
    assert Signal(features=4, classes=2, bits=3).largest_squared_distance(1.0, 2.0) == 8.0
    assert Signal(features=4, classes=2, moments=True, bits=1).largest_squared_distance(1.0, 2.0) == 8.0


def test_a_slot_lasts_as_given_or_as_long_as_its_symbols_need() -> None:
    """794 symbols, the paper's MNIST sample, take its 1 ms."""
    assert Signal(features=784, classes=10).slot_seconds(Radio(slot_seconds=0)) == pytest.approx(1e-3, rel=1e-15)
    assert Signal(features=784, classes=10).slot_seconds(Radio(slot_seconds=0.25)) == 0.25
    moments = Signal(features=5, classes=3, moments=True)
    assert moments.slot_seconds(Radio(slot_seconds=0)) == pytest.approx(30 / 794_000, rel=1e-15)
    assert moments.slot_seconds(Radio()) == 1e-3


def test_a_signal_follows_the_workers_table() -> None:
    workers = Workers(encoder="clip", sends="moments", label_weight=0.25, bits=3)
    assert Signal.of(workers, 7, 4) == Signal(features=7, classes=4, moments=True, label_weight=0.25, bits=3)
