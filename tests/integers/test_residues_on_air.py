"""Residues on the air: hand values, and bit planes with gain errors and noise."""

from __future__ import annotations

import numpy as np
import pytest

from airmixml.messages import ScenarioError
from integers_by_hand import add_up
from residues_on_air import (
    add_up_on_air,
    analog_gain_error,
    analog_snr_db,
    largest_group,
    plane_error_rate,
    symbols_in_planes,
    symbols_one_by_one,
)


def test_an_analog_residue_needs_an_impossible_link() -> None:
    """12 x 2^40 at six deviations is 131.2 dB; gains right to 1 / (12 x 2^20 sqrt(5000))."""
    assert analog_snr_db(20, 6.0) == pytest.approx(131.2, abs=0.05)
    assert analog_gain_error(20, 60_000, 6.0) == pytest.approx(1.124e-9, rel=1e-3)


def test_bit_planes_come_through_where_the_rate_says_so() -> None:
    residues = np.random.default_rng(0).integers(0, 1 << 12, size=(300, 50), dtype=np.uint64)
    good = {"group": 100, "gain_error": 0.005, "snr_db": 25.0}
    assert plane_error_rate(100, 0.005, 25.0) < 1e-15
    found = add_up_on_air(residues, 12, **good, generator=np.random.default_rng(1))  # type: ignore[arg-type]
    assert (found == add_up(residues, 12)).all()


def test_the_rate_of_wrong_planes() -> None:
    """One plane of 64 workers with gains off by 8 per cent: 2 Q(0.5 / sqrt(0.1024 + 0.025)) = 16.1 per cent."""
    rate = plane_error_rate(64, 0.08, 10.0)
    assert rate == pytest.approx(0.1613, abs=1e-4)
    generator = np.random.default_rng(2)
    wrong = 0
    for _ in range(1000):
        residues = generator.integers(0, 2, size=(64, 1), dtype=np.uint64)
        received = add_up_on_air(residues, 8, group=64, gain_error=0.08, snr_db=10.0, generator=generator)
        wrong += int((received & np.uint64(127))[0] != add_up(residues, 8)[0])
    # Of the seven planes that are looked at six hold no ones: a count below 0 is known to be 0, so half as many err.
    assert wrong / 1000 == pytest.approx(1 - (1 - rate) * (1 - rate / 2) ** 6, abs=4 * 0.5 / 1000**0.5)


def test_the_largest_group() -> None:
    group = largest_group(0.01, 25.0, 1e-10)
    assert plane_error_rate(group, 0.01, 25.0) <= 1e-10 < plane_error_rate(group + 1, 0.01, 25.0)
    with pytest.raises(ScenarioError, match=r"snr_db = 10: must be above 16\.\d"):
        largest_group(0.01, 10.0, 1e-10)


def test_symbols_per_number() -> None:
    assert symbols_one_by_one(60_000, 20, 6) == 200_000
    assert symbols_in_planes(60_000, 20, 250) == 4800
