"""Several antennas: which is chosen, how good it is, and how much more all of them have of a worker."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from airmixml import Scenario
from airmixml.impairments.fading import choose_antenna
from airmixml.impairments.gain_bound import antenna_gain_bound, largest_fading_sum
from airmixml.randomness.slot_words import slot_words
from airmixml.streams import Streams

SLOTS = range(20_000)


def on_antennas(antennas: int, *changes: str) -> Scenario:
    return Scenario().with_overrides("radio.fading=rayleigh", f"air.antennas={antennas}", *changes)


def chosen(scenario: Scenario, workers: int) -> tuple[torch.Tensor, torch.Tensor]:
    source = slot_words(Streams(5), "fading")
    first = scenario.radio.fading_kind.draw(scenario.radio, SLOTS, workers, source)
    return choose_antenna(scenario, first, torch.ones_like(first), SLOTS, source)


@pytest.mark.parametrize(("antennas", "workers"), [(1, 4), (2, 4), (5, 3)])
def test_the_weakest_worker_is_as_strong_as_the_best_of_so_many_antennas_makes_it(antennas: int, workers: int) -> None:
    """The weakest of S exponentials is one of mean 1 / S, and the largest of M of those has the mean H_M / S.

    Its deviation is at most 1 / S * sqrt(pi^2 / 6): five of them over 20 000 slots, less than 5 % of the mean.
    """
    scenario = on_antennas(max(antennas, 2)) if antennas > 1 else on_antennas(1)
    magnitude, _ = chosen(scenario, workers)
    harmonic = sum(1.0 / number for number in range(1, antennas + 1))
    assert float(magnitude.square().amin(dim=1).mean()) == pytest.approx(harmonic / workers, rel=0.05)


def test_all_antennas_together_have_the_sum_of_all_channels() -> None:
    """sum_a |h_a|^2 of four antennas has the gamma law of shape 4, whichever is chosen."""
    magnitude, gain = chosen(on_antennas(4), 2)
    together = (gain * magnitude.square()).flatten().numpy()
    assert stats.kstest(together, stats.gamma(4).cdf).pvalue > 1e-3
    assert stats.kstest(together, stats.gamma(3).cdf).pvalue < 1e-9
    assert float(gain.min()) > 1.0


def test_without_fading_antennas_are_alike() -> None:
    scenario = Scenario().with_overrides("air.antennas=8")
    first = torch.rand(10, 3, dtype=torch.float64)
    magnitude, gain = choose_antenna(scenario, first, first, range(10), slot_words(Streams(0), "fading"))
    assert torch.equal(magnitude, first)
    assert gain.unique().tolist() == [8.0]
    assert antenna_gain_bound(scenario, 3) == 8.0


def test_the_bound_with_truncation_is_a_quantile_over_the_floor() -> None:
    scenario = on_antennas(4, "air.truncation_db=-10", "radio.slots=50", "air.gain_failure=1e-4")
    bound = antenna_gain_bound(scenario, 6)
    assert stats.gamma(4).sf(0.1 * bound) * 50 * 6 == pytest.approx(0.5e-4, rel=1e-6)


def test_fading_without_truncation_has_no_bound() -> None:
    assert antenna_gain_bound(on_antennas(2), 6) == np.inf
    assert antenna_gain_bound(on_antennas(1), 6) == 1.0


@pytest.mark.parametrize("factor", [0.0, 1.0, 6.0])
def test_a_direct_path_stays_within_the_bound(factor: float) -> None:
    """Exceeded at most as often as stated, by scipy's noncentral chi-square; without a direct path exactly so."""
    radio = Scenario().with_overrides("radio.fading=rician", f"radio.rician_k={factor}").radio
    bound = largest_fading_sum(radio, 3, 1e-3)
    if factor == 0.0:
        assert stats.gamma(3).sf(bound) == pytest.approx(1e-3)
        return
    tail = stats.ncx2(6, 6.0 * factor).sf(2.0 * (factor + 1.0) * bound)
    assert 1e-9 < tail <= 1e-3
