"""The law of residual masks: formed masks with gains that err, the code's own choice of powers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.sparse import csr_array

from airmixml import Scenario
from airmixml.masks.graph import draw_graph, who_is_left
from airmixml.radio.air import expected_noise
from airmixml.radio.masking import (
    gain_error_of,
    mask_share_of,
    masking_of,
    times_the_noise,
)

CASES = [(300, 0.02), (300, 0.2), (1500, 0.08)]


def left_in_sum(workers: int, error: float, share: float, rng: np.random.Generator) -> float:
    """Variance of what noise and masks leave in a sum, over sigma_0^2, of masks that are formed one by one."""
    graph = draw_graph(workers, 32, 5)
    inverse = who_is_left(graph).inverse_per_pair  # of masks alone, e^2 (S^-1)_ii
    own, pair = 1.0 / (1.0 - share) / workers, inverse / share  # 1 / (N s^2) + inverse / e^2 = 1
    masks, symbols, total = len(graph.edges), 100, 0.0
    ends = np.repeat(np.arange(masks), 2)
    added_by = csr_array((np.tile([1.0, -1.0], masks), (graph.edges.ravel(), ends)), shape=(workers, masks))
    for _ in range(8):
        gains = 1.0 + error * rng.standard_normal(workers)
        gains /= gains.mean()
        added = math.sqrt(own) * rng.standard_normal((workers, symbols))
        added += added_by @ (math.sqrt(pair) * rng.standard_normal((masks, symbols)))
        total += float(np.mean(np.square(gains @ added)))
    return total / 8


@pytest.mark.parametrize(("workers", "error"), CASES)
def test_formed_masks_leave_what_the_law_says(workers: int, error: float) -> None:
    rng = np.random.default_rng(1)
    share = 1.0 - 1.0 / times_the_noise(workers, error)
    deviation = math.sqrt(left_in_sum(workers, error, share, rng))
    assert deviation == pytest.approx(times_the_noise(workers, error), rel=0.06)
    worse = [left_in_sum(workers, error, other, rng) for other in (share / 3.0, 1.0 - (1.0 - share) / 3.0)]
    assert min(worse) > deviation**2


@pytest.mark.parametrize("nmse_db", [-60, -40, -20])
@pytest.mark.parametrize("workers", [1500, 6000])
def test_powers_are_chosen_by_the_law(workers: int, nmse_db: int) -> None:
    """Reciprocity errors of complex nMSE e^2 spread gains by e / sqrt(2) in phase."""
    few = (f"workers.count={workers}", f"radio.scheduled={workers}", "privacy.mask_degree=64")
    exact, rough = (
        Scenario.preset("trustless-digits").with_overrides(*few, *more)
        for more in ((), (f"air.reciprocity_nmse_db={nmse_db}",))
    )
    error = 10.0 ** (nmse_db / 20.0) / math.sqrt(2.0)
    assert gain_error_of(rough) == pytest.approx(error, rel=0.1)  # of 512 drawn gains
    law = times_the_noise(workers, gain_error_of(rough))
    masking = masking_of(rough)
    assert masking is not None
    noise = expected_noise(rough)
    left = math.sqrt((noise.own_watts + noise.gains_watts) / 2.0 / masking.hidden_watts)
    assert left == pytest.approx(max(law, 1.0 / math.sqrt(0.9)), rel=0.05)  # masks have a tenth of the loss at least
    assert mask_share_of(rough) == pytest.approx(max(0.1, 1.0 - 1.0 / law), rel=1e-9)
    assert mask_share_of(exact) == 0.1


def test_sixty_thousand_workers_bear_half_a_percent() -> None:
    assert times_the_noise(60_000, 0.004) == pytest.approx(2.0, abs=0.03)
    assert times_the_noise(60_000, 0.3) == pytest.approx(74.5, abs=0.1)
