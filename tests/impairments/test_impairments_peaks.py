"""Peak limits: the amplitude they leave, and what clipping does to the waveform of many subcarriers."""

from __future__ import annotations

import math

import pytest
import torch
from scipy.integrate import quad

from airmixml import Scenario
from airmixml.impairments.hardware import clipped_gaussian, gaussian_peak, limit_amplitude


def test_the_amplitude_follows_from_the_power() -> None:
    """A limit of 1 mW: who sends with 1 mW may reach 1, with 4 mW 1/2, and who is silent anything."""
    limited = Scenario().with_overrides("air.peak_power_dbm=0")
    found = limit_amplitude(limited.air.peak_power_dbm, torch.tensor([[1e-3, 4e-3, 0.0]]))
    assert found is not None
    assert found[0].tolist() == pytest.approx([1.0, 0.5, math.inf])
    assert limit_amplitude(Scenario().air.peak_power_dbm, torch.ones(1, 1)) is None


@pytest.mark.parametrize("squared_limit", [0.05, 0.5, 1.0, 4.0, 9.0])
def test_clipping_a_gaussian_waveform_by_quadrature(squared_limit: float) -> None:
    """The magnitude of CN(0, 1) has the density 2 r exp(-r^2)."""
    limit = math.sqrt(squared_limit)

    def mean(of: object) -> float:
        parts = [quad(lambda r: of(r) * 2.0 * r * math.exp(-r * r), *ends)[0] for ends in ((0, limit), (limit, 30))]  # type: ignore[operator]
        return sum(parts)

    gain = mean(lambda r: r * min(r, limit))
    error = mean(lambda r: (min(r, limit) - gain * r) ** 2)
    found, variance = clipped_gaussian(torch.tensor([squared_limit], dtype=torch.float64))
    assert float(found) == pytest.approx(gain, rel=1e-8)
    assert float(variance) == pytest.approx(error, rel=1e-6, abs=1e-12)


def test_without_a_limit_nothing_is_clipped_and_with_none_left_nothing_is_sent() -> None:
    gain, variance = clipped_gaussian(torch.tensor([math.inf, 0.0], dtype=torch.float64))
    assert gain.tolist() == [1.0, 0.0]
    assert variance.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("samples", [64, 1024, 535_040])
def test_the_largest_of_many_samples(samples: int) -> None:
    """The mean of the largest of n exponentials is the n-th harmonic number."""
    assert gaussian_peak(samples) == pytest.approx(
        sum(1.0 / n for n in range(1, samples + 1)), rel=0.01 if samples == 64 else 1e-3
    )
