"""Estimates with an error: its law, what pilots make of it, and the bound on what is then received."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, stats
from seats_for_tests import aired, drawn_on, gains_of, has_deviation

from airmixml import Scenario, ScenarioError
from airmixml.arrays import db_to_ratio
from airmixml.impairments.gain_errors import EstimationError, ReciprocityError
from airmixml.radio.tally import rehearse

NMSE = "air.estimation_nmse_db=-10"
# A channel that fades by so little that its magnitude is the mean, and is estimated all the same.
HARDLY_FADING = ("radio.fading=rician", "radio.rician_k=1e9", "air.truncation_db=-0.001")


def test_the_error_of_an_estimate_has_its_mean_square() -> None:
    error = gains_of(drawn_on(aired(NMSE, *HARDLY_FADING))) - 1.0
    deviation = math.sqrt(0.1)
    assert has_deviation(error, deviation)
    assert not has_deviation(error, deviation * 2 / 3)
    assert not has_deviation(error, deviation * 3 / 2)


def test_without_fading_an_estimate_tells_the_phase_alone() -> None:
    """The angle of 1 + e, against draws of NumPy's; the magnitude is known from all blocks before."""
    gains, rng = gains_of(drawn_on(aired(NMSE))), np.random.default_rng(5)
    assert np.allclose(np.abs(gains), 1.0, atol=1e-12)
    for nmse, agrees in ((0.1, True), (0.1 * 4 / 9, False), (0.1 * 9 / 4, False)):
        error = math.sqrt(nmse / 2.0) * (rng.standard_normal((2, 20_000)).T @ [1, 1j])
        found = stats.ks_2samp(np.angle(gains).ravel(), np.angle(1.0 + error))
        assert (found.pvalue > 1e-4) == agrees
    assert EstimationError.of(aired(NMSE)).largest_power_gain(1e-20) == 1.0


def test_every_block_has_an_estimate_of_its_own_and_pieces_of_a_block_share_it() -> None:
    scenario = aired(NMSE, "air.resync_seconds=5e-4", "air.frequency_offset_hz=100", *HARDLY_FADING)
    drawn = drawn_on(scenario)
    blocks = np.array(drawn.gains.draws.frame.blocks)
    error = np.abs(gains_of(drawn)) - 1.0  # without the turns of a frequency offset, which cuts blocks into pieces
    assert np.bincount(blocks).tolist()[:2] == [4, 4]
    assert np.allclose(error[:, :, blocks == 1], error[:, :, blocks == 1][:, :, :1], atol=1e-6)  # float32
    first, second = error[:, :, blocks == 0][:, :, 0], error[:, :, blocks == 1][:, :, 0]
    assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 4.0 / math.sqrt(first.size)


def test_the_error_is_of_the_mean_channel_so_that_it_weighs_more_in_a_fade() -> None:
    drawn = drawn_on(aired(NMSE, "radio.fading=rayleigh", "air.truncation_db=-200"))
    fading = (drawn.magnitude / drawn.gains.draws.path_gain).numpy()
    error = (gains_of(drawn)[:, :, 0] - 1.0) * fading
    assert has_deviation(error, math.sqrt(0.1))
    assert not has_deviation(error, math.sqrt(0.1) * 2 / 3)
    assert not has_deviation(error, math.sqrt(0.1) * 3 / 2)


@pytest.mark.parametrize("failure", [1e-3, 1e-9, 1e-20])
def test_what_is_received_exceeds_its_bound_no_more_often_than_stated(failure: float) -> None:
    """2 abs(1 + e)^2 / NMSE is noncentral chi-squared with 2 degrees of freedom and noncentrality 2 / NMSE."""
    for impairment in (
        EstimationError.of(aired(NMSE, *HARDLY_FADING)),
        ReciprocityError.of(aired("air.reciprocity_nmse_db=-10")),
    ):
        bound = impairment.largest_power_gain(failure)
        chance = stats.ncx2.sf(2.0 * bound / 0.1, 2, 2.0 / 0.1)
        assert failure / 100 < chance <= failure


def test_one_in_a_thousand_is_one_in_a_thousand() -> None:
    peaks = np.abs(gains_of(drawn_on(aired(NMSE, "radio.slots=2000", *HARDLY_FADING), 2000))) ** 2
    bound = EstimationError.of(aired(NMSE, *HARDLY_FADING)).largest_power_gain(1e-3)
    expected = stats.ncx2.sf(20.0 * bound, 2, 20.0)
    assert np.mean(peaks > bound) == pytest.approx(expected, rel=0.35)
    assert np.mean(peaks > bound) < 1e-3


@pytest.mark.parametrize("failure", [1e-3, 1e-6])
def test_the_bound_holds_over_truncated_fading(failure: float) -> None:
    """Given the fading y >= c, abs(1 + e / h)^2 is noncentral chi-squared with NMSE / y; y is exponential above c."""
    scenario = aired("air.estimation_nmse_db=-20", "radio.fading=rayleigh", "air.truncation_db=-10")
    bound, floor = EstimationError.of(scenario).largest_power_gain(failure), 0.1

    def chance(fading: float) -> float:
        scale = 2.0 * fading / 0.01
        return math.exp(floor - fading) * stats.ncx2.sf(scale * bound, 2, scale)

    assert integrate.quad(chance, floor, 5.0, limit=200)[0] <= failure
    assert bound == pytest.approx((1.0 + math.sqrt(0.1 * math.log(1.0 / failure))) ** 2, rel=1e-12, abs=0)


@pytest.mark.parametrize("fading", ["radio.fading=rayleigh", "radio.fading=rician radio.rician_k=3"])
def test_without_a_floor_the_bound_is_that_of_a_heavy_tail(fading: str) -> None:
    """Of Rayleigh fading P(abs(e / h)^2 > x) = NMSE / (NMSE + x); of Rician by drawing."""
    scenario = aired("air.estimation_nmse_db=-20", "mixing.power=max", *fading.split())
    ratio = math.sqrt(EstimationError.of(scenario).largest_power_gain(1e-2)) - 1.0
    if "rayleigh" in fading:
        assert 0.5e-2 < 0.01 / (0.01 + ratio**2) <= 1e-2
        return
    rng = np.random.default_rng(3)
    error, scattered = (rng.standard_normal((2, 300_000)).T @ [1, 1j] / math.sqrt(2.0) for _ in range(2))
    channel = math.sqrt(3 / 4) + scattered / 2.0
    assert np.mean(np.abs(0.1 * error / channel) > ratio) <= 1e-2


def test_pilots_give_the_error_of_the_best_linear_estimate() -> None:
    """Least squares weights of h on what pilots show of it, found by regression and not by the formula."""
    scenario = aired("air.estimation_pilots=8", "air.estimation_power_dbm=-40", "mixing.power=max")
    gain = scenario.radio.path_loss_kind.gain(scenario.radio, np.array([353.5533905932738]))[0]
    snr = 8 * db_to_ratio(-70.0) / db_to_ratio(-144.0) * gain**2
    rng = np.random.default_rng(4)
    channel, noise = (rng.standard_normal((2, 200_000)).T @ [1, 1j] / math.sqrt(2.0) for _ in range(2))
    seen = channel + noise / math.sqrt(snr)
    weight = np.vdot(seen, channel) / np.vdot(seen, seen)
    assert EstimationError.of(scenario).nmse == pytest.approx(np.mean(np.abs(channel - weight * seen) ** 2), rel=0.02)


def test_far_workers_know_their_channel_less_well() -> None:
    scenario = aired("air.estimation_pilots=8", "air.estimation_power_dbm=-40", "mixing.power=max", *HARDLY_FADING)
    drawn = drawn_on(scenario)
    path = drawn.gains.draws.path_gain.numpy()
    error = (gains_of(drawn)[:, :, 0] - 1.0) * np.sqrt(1.0 + 8 * db_to_ratio(-70.0 + 144.0) * path**2)
    assert has_deviation(error, 1.0)
    assert not has_deviation(error, 2 / 3)
    assert not has_deviation(error, 3 / 2)
    assert EstimationError.of(scenario).follows_worker
    assert not EstimationError.of(aired(NMSE)).follows_worker


def test_a_schedule_that_errors_follow_has_no_credit_and_keeps_its_target() -> None:
    """Pilots of 23 dBm leave hardly any error, but one that follows distance: no power is so low that it hides that."""
    paper = Scenario.preset("paper-iris")
    tallies = [
        rehearse(paper.with_overrides(air), 4, 3) for air in ("air.estimation_nmse_db=-70", "air.estimation_pilots=8")
    ]
    assert [tally.privacy.sampling for tally in tallies] == ["without-replacement", "none"]
    assert max(tally.privacy.epsilon for tally in tallies) <= 5.0
    assert tallies[1].largest_power_watts < tallies[0].largest_power_watts / 50


def test_a_fade_without_a_floor_is_refused_where_a_target_must_be_kept() -> None:
    with pytest.raises(ScenarioError, match=r"air.estimation_nmse_db = -10: needs air.truncation_db for radio.fading"):
        aired(NMSE, "radio.fading=rayleigh")
    assert aired(NMSE, "radio.fading=rayleigh", "mixing.power=max").air.estimation_nmse_db == -10


def test_the_target_holds_for_every_worker_as_received() -> None:
    scenario = Scenario.preset("private-iris").with_overrides(
        "air.estimation_nmse_db=-15", "air.reciprocity_nmse_db=-20"
    )
    tally = rehearse(scenario, 5, 3)
    assert tally.privacy.epsilon <= scenario.privacy.epsilon
    assert tally.worker_epsilons().max() <= scenario.privacy.epsilon
