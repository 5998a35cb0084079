"""Symbols of a few bits: which levels there are, that they are right on average, and that no norm grows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from airmixml.radio.senders import quantise, shorten


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(
    ("bits", "levels"),
    [
        (1, [-1.0, 1.0]),
        (2, [-1.0, 0.0, 1.0]),
        (3, [-1.0, -2 / 3, -1 / 3, 0.0, 1 / 3, 2 / 3, 1.0]),
    ],
)
def test_the_levels_are_those_that_the_bits_can_name(bits: int, levels: list[float]) -> None:
    values = torch.linspace(-1.5, 1.5, 20_000)
    found = np.unique(np.round(quantise(values * 0.25, largest=0.25, bits=bits, generator=generator()).numpy(), 6))
    assert found == pytest.approx(np.array(levels) * 0.25, abs=2e-6)
    assert len(found) <= 2**bits


@pytest.mark.parametrize("bits", [1, 2, 3, 8])
@pytest.mark.parametrize("value", [-0.9, -0.31, 0.05, 0.6])
def test_rounding_is_right_on_average(bits: int, value: float) -> None:
    """A mean of 40 000 errs by at most half a step over 200, one in ten thousand beyond four of them.

    A third of the value more or less, 2/3 and 3/2 of it, are refused wherever they are that far away.
    """
    step = 2.0 if bits == 1 else 1.0 / (2 ** (bits - 1) - 1)
    mean = float(quantise(torch.full((40_000,), value), largest=1.0, bits=bits, generator=generator()).double().mean())
    error = 4.0 * step / 2.0 / 200.0
    assert abs(mean - value) < error
    if abs(value) / 3.0 > 2.0 * error:
        for wrong in (2.0 / 3.0, 1.5):
            assert abs(mean - wrong * value) > error


@pytest.mark.parametrize("bits", [2, 3, 8, 16])
def test_silence_stays_silent_and_levels_stay_where_they_are(bits: int) -> None:
    assert not quantise(torch.zeros(10_000), largest=0.7, bits=bits, generator=generator()).any()
    ends = torch.tensor([-0.7, 0.7]).repeat(5000)
    found = quantise(ends, largest=0.7, bits=bits, generator=generator())
    # Of 32767 steps float32 loses the last digits of the chance: then it may be one step off.
    assert torch.allclose(found, ends, rtol=1e-6, atol=1e-6 if bits < 16 else 1.01 * 0.7 / 32767)
    assert torch.isclose(found, ends, rtol=1e-6, atol=1e-6).double().mean() > 0.99


def test_values_beyond_the_outermost_level_are_cut() -> None:
    for bits in (1, 2, 5):
        found = quantise(
            torch.tensor([-9.0, 9.0, 1.0000001]).repeat(500), largest=1.0, bits=bits, generator=generator()
        )
        assert found.reshape(500, 3).unique(dim=0).tolist() == [[-1.0, 1.0, 1.0]]


def test_sixteen_bits_are_nearly_analog() -> None:
    """Within one step of 1 / 32767."""
    values = torch.linspace(-1.0, 1.0, 5001)
    found = quantise(values, largest=1.0, bits=16, generator=generator())
    assert float((found - values).abs().max()) < 1.01 / 32767
    assert float((found - values).abs().max()) > 0.1 / 32767


@given(seed=st.integers(0, 10**6), size=st.integers(1, 60), bits=st.integers(1, 8), norm=st.floats(0.01, 2.0))
@settings(max_examples=80, deadline=None)
def test_no_rounded_vector_is_longer_than_declared(seed: int, size: int, bits: int, norm: float) -> None:
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((8, size))
    vectors *= norm / np.linalg.norm(vectors, axis=1, keepdims=True)
    rounded = quantise(torch.from_numpy(vectors).float(), largest=norm, bits=bits, generator=generator(seed))
    short = shorten(rounded, norm).double().numpy()
    assert np.linalg.norm(short, axis=1).max() <= norm
    long = np.linalg.norm(rounded.double().numpy(), axis=1) > norm
    assert np.linalg.norm(short[long], axis=1) == pytest.approx(np.full(long.sum(), norm), rel=1e-5)
    # The direction is kept, and what is short enough is left alone.
    kept = np.linalg.norm(rounded.double().numpy(), axis=1) < norm * 0.999
    assert short[kept].tolist() == rounded.double().numpy()[kept].tolist()


def test_a_zero_vector_can_be_shortened() -> None:
    assert not shorten(torch.zeros(2, 3), 0.5).any()
