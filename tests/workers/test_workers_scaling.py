from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airmixml import ScenarioError
from airmixml.data import declare_bounds, scale_to_unit

FINITE = st.floats(allow_nan=False, allow_infinity=False)


def test_every_byte_becomes_its_255th_part() -> None:
    inputs = np.arange(256, dtype=np.uint8).reshape(1, 256)
    scaled, clipped = scale_to_unit(inputs, 0.0, 255.0)
    assert scaled.dtype == np.float32
    assert clipped == 0
    assert scaled[0].tolist() == [float(np.float32(value / 255)) for value in range(256)]


def test_values_outside_are_clipped_and_counted() -> None:
    inputs = np.array([[-1.0, 5.0], [0.0, 10.0], [2.0, 30.1], [4.0, 30.0], [4.5, 20.0]])
    scaled, clipped = scale_to_unit(inputs, [0.0, 10.0], [4.0, 30.0])
    assert scaled.tolist() == [[0.0, 0.0], [0.0, 0.0], [0.5, 1.0], [1.0, 1.0], [1.0, 0.5]]
    assert clipped == 4


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_value_stored_on_the_bound_is_not_clipped(dtype: type[np.floating]) -> None:
    inputs = np.array([[0.1, 7.9], [0.3, 2.3]], dtype=dtype)
    scaled, clipped = scale_to_unit(inputs, [0.1, 2.3], [0.3, 7.9])
    assert clipped == 0
    assert scaled.tolist() == [[0.0, 1.0], [1.0, 0.0]]


def test_bounds_that_a_narrow_type_cannot_tell_apart_still_work() -> None:
    inputs = np.array([[1.0], [1.0]], dtype=np.float16)
    scaled, clipped = scale_to_unit(inputs, [1.0], [1.0 + 1e-9])
    assert scaled.tolist() == [[0.0], [0.0]]
    assert clipped == 0
    scaled, _ = scale_to_unit(np.array([[2000.0]], dtype=np.float16), [0.0], [1e6])
    assert scaled[0, 0] == np.float32(0.002)


def test_the_caller_keeps_its_inputs() -> None:
    inputs = np.array([[-1.0], [3.0]])
    scale_to_unit(inputs, 0.0, 1.0)
    assert inputs.tolist() == [[-1.0], [3.0]]


@settings(deadline=None)
@given(st.lists(FINITE, min_size=1, max_size=20), FINITE, FINITE)
def test_the_result_lies_in_the_unit_interval_whatever_the_numbers(
    values: list[float], one: float, other: float
) -> None:
    low, high = min(one, other), max(one, other)
    if not (low < high and np.isfinite(high - low)):
        return
    inputs = np.array(values).reshape(-1, 1)
    scaled, clipped = scale_to_unit(inputs, [low], [high])
    assert ((scaled >= 0) & (scaled <= 1)).all()
    assert clipped == sum(value < low or value > high for value in values)
    assert (scaled[inputs >= high] == 1).all()
    assert (scaled[inputs <= low] == 0).all()


def test_many_blocks_give_the_same_as_one() -> None:
    inputs = np.random.default_rng(0).integers(0, 256, size=(4000, 784), dtype=np.uint8)
    scaled, _ = scale_to_unit(inputs, 0.0, 255.0)
    np.testing.assert_array_equal(scaled, (inputs / 255).astype(np.float32))


def test_bytes_are_not_all_turned_into_doubles() -> None:
    inputs = np.zeros((20_000, 784), dtype=np.uint8)  # 63 MB as float32, 125 MB as float64
    tracemalloc.start()
    scale_to_unit(inputs, 0.0, 255.0)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 20_000 * 784 * 4 + 30e6


def test_one_declared_value_serves_all_inputs() -> None:
    lower, upper = declare_bounds([0.0], [1.0, 2.0, 3.0], count=3)
    assert lower.tolist() == [0.0, 0.0, 0.0]
    assert upper.tolist() == [1.0, 2.0, 3.0]


def test_the_names_in_complaints_can_be_chosen() -> None:
    with pytest.raises(ValueError, match="input_max = 0 for input 1: must be above input_min = 0"):
        declare_bounds([0.0], [0.0], count=2, names=("input_min", "input_max"))


def test_many_bytes_are_scaled_by_a_table() -> None:
    inputs = np.random.default_rng(0).integers(0, 256, (1200, 1000)).astype(np.uint8)
    scaled, clipped = scale_to_unit(inputs, np.full(1000, 10.0), np.full(1000, 250.0))
    assert scaled.dtype == np.float32
    assert np.array_equal(scaled, np.clip((inputs.astype(np.float64) - 10.0) / 240.0, 0.0, 1.0).astype(np.float32))
    assert clipped == int(((inputs < 10) | (inputs > 250)).sum())
    # Bounds of their own for each input: no table serves all.
    lower = np.arange(1000) % 2 * 10.0
    own, _ = scale_to_unit(inputs, lower, np.full(1000, 255.0))
    assert np.array_equal(own[:, 1], np.clip((inputs[:, 1] - 10.0) / 245.0, 0.0, 1.0).astype(np.float32))


def test_too_many_bounds_of_columns_say_where_to_name_them() -> None:
    with pytest.raises(ScenarioError, match=r"has 3 values: must have 1, .* one for each number column; \[wor"):
        declare_bounds([1.0, 2.0, 3.0], [3.0], count=2, columns=("a", "b"), what="number column")
