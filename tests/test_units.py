"""Decibels at both ends of what a double holds."""

import math

import pytest

from airmixml.arrays import db_to_ratio, dbm_to_watts, ratio_to_db, watts_to_dbm


@pytest.mark.parametrize(("decibels", "ratio"), [(5e3, math.inf), (1e308, math.inf), (math.inf, math.inf)])
def test_more_than_a_double_holds_is_infinite(decibels: float, ratio: float) -> None:
    assert db_to_ratio(decibels) == dbm_to_watts(decibels) == ratio


@pytest.mark.parametrize("decibels", [-5e3, -1e308, -math.inf])
def test_less_than_a_double_holds_is_nothing(decibels: float) -> None:
    assert db_to_ratio(decibels) == dbm_to_watts(decibels) == 0.0


@pytest.mark.parametrize(("ratio", "decibels"), [(0.0, -math.inf), (5e-324, -3233.06), (1e308, 3080.0)])
def test_the_way_back(ratio: float, decibels: float) -> None:
    assert float(ratio_to_db(ratio)) == pytest.approx(decibels, abs=0.01)
    assert float(watts_to_dbm(ratio)) == pytest.approx(decibels + 30.0, abs=0.01)
