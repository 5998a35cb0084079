"""Symbols of a few bits: which levels there are, that they are right on average, and that no norm grows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airmixml.arrays import Singles
from airmixml.workers.payloads import quantise, shorten


def rounded(values: Singles, *, largest: float, bits: int, seed: int = 0) -> Singles:
    chance = np.random.default_rng(seed).random(values.shape, dtype=np.float32)
    return quantise(values, chance, largest=largest, bits=bits)


@pytest.mark.parametrize(
    ("bits", "levels"),
    [
        (1, [-1.0, 1.0]),
        (2, [-1.0, 0.0, 1.0]),
        (3, [-1.0, -2 / 3, -1 / 3, 0.0, 1 / 3, 2 / 3, 1.0]),
    ],
)
def test_the_levels_are_those_that_the_bits_can_name(bits: int, levels: list[float]) -> None:
    values = np.linspace(-1.5, 1.5, 20_000, dtype=np.float32)
    found = np.unique(np.round(rounded(values * np.float32(0.25), largest=0.25, bits=bits), 6))
    assert found == pytest.approx(np.array(levels) * 0.25, abs=2e-6)
    assert len(found) <= 2**bits


@pytest.mark.parametrize("bits", [1, 2, 3, 8])
@pytest.mark.parametrize("value", [-0.9, -0.31, 0.05, 0.6])
def test_rounding_is_right_on_average(bits: int, value: float) -> None:
    """A mean of 40 000 errs by at most half a step over 200, one in ten thousand beyond four of them.

    A third of the value more or less, 2/3 and 3/2 of it, are refused wherever they are that far away.
    """
    step = 2.0 if bits == 1 else 1.0 / (2 ** (bits - 1) - 1)
    mean = float(rounded(np.full(40_000, value, dtype=np.float32), largest=1.0, bits=bits).mean(dtype=np.float64))
    error = 4.0 * step / 2.0 / 200.0
    assert abs(mean - value) < error
    if abs(value) / 3.0 > 2.0 * error:
        for wrong in (2.0 / 3.0, 1.5):
            assert abs(mean - wrong * value) > error


@pytest.mark.parametrize("bits", [2, 3, 8, 16])
def test_silence_stays_silent_and_levels_stay_where_they_are(bits: int) -> None:
    assert not rounded(np.zeros(10_000, dtype=np.float32), largest=0.7, bits=bits).any()
    ends = np.tile(np.array([-0.7, 0.7], dtype=np.float32), 5000)
    found = rounded(ends, largest=0.7, bits=bits)
    # Of 32767 steps float32 loses the last digits of the chance: then it may be one step off.
    assert np.allclose(found, ends, rtol=1e-6, atol=1e-6 if bits < 16 else 1.01 * 0.7 / 32767)
    assert np.isclose(found, ends, rtol=1e-6, atol=1e-6).mean() > 0.99


def test_values_beyond_the_outermost_level_are_cut() -> None:
    for bits in (1, 2, 5):
        values = np.tile(np.array([-9.0, 9.0, 1.0000001], dtype=np.float32), 500)
        found = rounded(values, largest=1.0, bits=bits)
        assert np.unique(found.reshape(500, 3), axis=0).tolist() == [[-1.0, 1.0, 1.0]]


def test_sixteen_bits_are_nearly_analog() -> None:
    """Within one step of 1 / 32767."""
    values = np.linspace(-1.0, 1.0, 5001, dtype=np.float32)
    found = rounded(values, largest=1.0, bits=16)
    assert float(np.abs(found - values).max()) < 1.01 / 32767
    assert float(np.abs(found - values).max()) > 0.1 / 32767


@given(seed=st.integers(0, 10**6), size=st.integers(1, 60), bits=st.integers(1, 8), norm=st.floats(0.01, 2.0))
@settings(max_examples=80, deadline=None)
def test_no_rounded_vector_is_longer_than_declared(seed: int, size: int, bits: int, norm: float) -> None:
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((8, size))
    vectors *= norm / np.linalg.norm(vectors, axis=1, keepdims=True)
    long_ones = rounded(vectors.astype(np.float32), largest=norm, bits=bits, seed=seed).astype(np.float64)
    short = shorten(long_ones.astype(np.float32), norm).astype(np.float64)
    assert np.linalg.norm(short, axis=1).max() <= norm
    long = np.linalg.norm(long_ones, axis=1) > norm
    assert np.linalg.norm(short[long], axis=1) == pytest.approx(np.full(long.sum(), norm), rel=1e-5)
    # The direction is kept, and what is short enough is left alone.
    kept = np.linalg.norm(long_ones, axis=1) < norm * 0.999
    assert short[kept].tolist() == long_ones[kept].tolist()


def test_a_zero_vector_can_be_shortened() -> None:
    assert not shorten(np.zeros((2, 3), dtype=np.float32), 0.5).any()
