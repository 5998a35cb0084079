"""The slot for the mean on imperfect airs: what it estimates, and what it costs, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from airmixml import Scenario, simulate
from airmixml.radio.centring import plan_centring
from airmixml.radio.tally import placed_distances, rehearse

BASE = Scenario.preset("private-iris").with_overrides("workers.centre=private", "privacy.epsilon=200")
HALF_NOISE = 10 ** (-11.4 - 3) / 2


def mean_of(*overrides: str) -> np.ndarray:
    """The mean that the server broadcasts; inputs."""
    mean = simulate(BASE.with_overrides(*overrides)).dataset.private_mean
    assert mean is not None
    return mean


def test_the_pilot_divides_out_absences_and_phases() -> None:
    """Phases of 1 rad leave exp(-1/2), 0.61, of what 70 % send; undivided the mean would be 0.42 of what it is."""
    ideal = mean_of()
    rough = mean_of("air.phase_error_radians=1", "air.absent=0.3")
    # 1,400 workers whose shares vary by about 0.7 of their mean; inputs are at most 1.
    np.testing.assert_allclose(rough, ideal, atol=5 * 1.5 / math.sqrt(2000))
    assert np.abs(rough - ideal).max() > 1e-4


@pytest.mark.parametrize("seed", range(3))
def test_what_drifting_phases_take_of_later_numbers_is_divided_out(seed: int) -> None:
    """Of 4 numbers of 1.26 us the last has turned by 0.94 rad since the pilot: undivided 0.6 of it would be left."""
    drift = ("air.frequency_offset_hz=30000", "air.pilot_symbols=1")
    lost = mean_of(*drift, f"seed={seed}") / mean_of(f"seed={seed}")
    # The cosines of 2,000 workers vary by at most 0.4 around their mean.
    assert abs(lost - 1.0).max() < 5 * 0.4 / 0.57 / math.sqrt(2000)
    assert abs(lost[3] - 1.0) > abs(lost[0] - 1.0)


@pytest.mark.parametrize("adjacency", ["remove-one", "replace-one"])
def test_its_power_leaves_room_for_the_bound_on_gains(adjacency: str) -> None:
    """mu^2 = P |g|^2 ||x||^2 / (sigma^2 / 2): 2 dB of gain, 1 dB of doubt, 10 % of pilots that silence takes along."""
    keys = ("privacy.epsilon=5", f"privacy.adjacency={adjacency}")
    ideal = BASE.with_overrides(*keys)
    rough = ideal.with_overrides("air.amplitude_error_db=2", "air.noise_uncertainty_db=1", "air.pilot_share=0.1")
    distances = placed_distances(ideal)
    exact, wide = plan_centring(ideal, 4, distances), plan_centring(rough, 4, distances)
    assert exact is not None
    assert wide is not None
    pilots = 1.1 if adjacency == "remove-one" else 1.0
    assert wide.received_watts == pytest.approx(exact.received_watts / (10**0.2 * 10**0.1 * pilots))
    assert wide.mu(adjacency) == pytest.approx(exact.mu(adjacency))
    assert wide.removal_mu == pytest.approx(math.sqrt(wide.received_watts * 10**0.2 * 1.1 / (HALF_NOISE * 10**-0.1)))
    # The noise that there really is lies within 1 dB of the nominal.
    nominal = math.sqrt(HALF_NOISE / wide.received_watts) / 2000
    assert nominal * 10**-0.05 <= wide.noise_deviation <= nominal * 10**0.05
    assert wide.gain_failure == 0.0
    assert wide.seconds == pytest.approx((4 + 1) / 794e3)


@pytest.mark.parametrize("air", ["lab", "line-of-sight", "low-cost"])
@pytest.mark.parametrize("centre", ["private", "refined"])
def test_the_target_holds_for_every_worker_with_the_mean(air: str, centre: str) -> None:
    scenario = BASE.with_overrides("privacy.epsilon=5", f"workers.centre={centre}").on_air(air)
    scenario = scenario.with_overrides("air.reciprocity_nmse_db=-25", "air.gain_failure=1e-6")
    tally = rehearse(scenario, 5, 3)
    assert tally.worker_epsilons().max() <= 5.0 * (1 + 1e-9)
    assert tally.privacy.epsilon <= 5.0 * (1 + 1e-9)
    # That of the mean's slot, whose gains are bounded, not looked at: 1e-6 of all workers together.
    assert tally.privacy.gain_failure == pytest.approx(1e-6 / scenario.workers.count)
    assert "with the slot that estimated the mean" in tally.privacy.why
