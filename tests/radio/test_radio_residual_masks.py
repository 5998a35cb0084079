"""What complex gain errors of relative size g leave of masks: e^2 k N g^2 / 2, since only their real part stays."""

import numpy as np
import pytest

from airmixml import Scenario
from airmixml.impairments.gain_bound import gain_spread
from airmixml.radio.air import expected_noise
from airmixml.radio.masking import masking_of

SEATS, DRAWS, SYMBOLS = 400, 60, 40


def masked(nmse_db: float) -> Scenario:
    keys = (f"workers.count={SEATS}", f"radio.scheduled={SEATS}", "radio.slots=1", "privacy.mask_degree=8")
    return Scenario.preset("trustless-iris").with_overrides(*keys, f"air.reciprocity_nmse_db={nmse_db}")


@pytest.mark.parametrize("nmse_db", [-30.0, -20.0])
def test_half_of_the_squared_error_stays(nmse_db: float) -> None:
    scenario, nmse = masked(nmse_db), 10.0 ** (nmse_db / 10.0)
    masking = masking_of(scenario)
    assert masking is not None
    assert masking.graph is not None
    rng = np.random.default_rng(1)
    left = 0.0
    for _ in range(DRAWS):  # masks formed one by one, on a ring in which everybody has k neighbours
        errors = rng.standard_normal((2, SEATS)) * np.sqrt(nmse / 2.0)
        gains = 1.0 + errors[0] + 1j * errors[1]
        added = np.zeros((SEATS, SYMBOLS))
        for apart in range(1, masking.graph.degree // 2 + 1):
            mask = np.sqrt(masking.pair_watts) * rng.standard_normal((SEATS, SYMBOLS))
            added += mask - np.roll(mask, apart, axis=0)
        left += float(((gains @ added).real ** 2).mean()) / DRAWS
    stays = masking.pair_watts * masking.graph.degree * SEATS * nmse / 2.0
    assert left == pytest.approx(stays, rel=0.08)  # 2,400 numbers: 5 % at 1.7 deviations, and gains differ
    # And so do plans: powers of complex symbols are twice the variance of their real part. 512 gains are drawn.
    assert gain_spread(scenario) == pytest.approx(nmse / 2.0, rel=0.2)
    assert not masking.self_watts
    assert expected_noise(scenario).gains_watts / 2.0 == pytest.approx(left, rel=0.25)
