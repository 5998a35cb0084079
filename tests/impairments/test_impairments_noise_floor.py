"""Noise known within so many dB: what a run has, what statements assume, and what learners measure."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from airmixml import Scenario
from airmixml.radio.air import Noise
from airmixml.radio.privacy_target import private_received_watts
from airmixml.radio.system import sensitivity_of


def within(decibels: float) -> Scenario:
    return Scenario.preset("private-iris").with_overrides(f"air.noise_uncertainty_db={decibels}")


def test_known_noise_is_the_nominal_one() -> None:
    assert Noise().drawn_watts(within(0)) == Noise().stated_watts(within(0)) == 10.0 ** (-114 / 10 - 3)


@pytest.mark.long
def test_the_floor_of_a_run_is_uniform_in_decibels() -> None:
    drawn = np.array([10.0 * math.log10(Noise().drawn_watts(within(5).with_seed(seed))) + 30.0 for seed in range(400)])
    assert stats.kstest(drawn, stats.uniform(-119.0, 10.0).cdf).pvalue > 1e-3
    for wrong in (2.0 / 3.0, 1.5):
        assert stats.kstest(drawn, stats.uniform(-114.0 - 5.0 * wrong, 10.0 * wrong).cdf).pvalue < 1e-6


def test_the_power_is_set_for_the_lowest_floor() -> None:
    """5 dB of doubt cost 5 dB of received power."""
    sensitivity = sensitivity_of(within(0), 4, 3)
    certain, doubtful = (private_received_watts(within(doubt), sensitivity) for doubt in (0, 5))
    assert doubtful / certain == pytest.approx(10.0**-0.5, rel=1e-3)
