"""Who is silent: in a fade, below the lowest power, absent or not there yet; and what the server makes of it."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from seats_for_tests import aired, drawn_on, gains_of, setting_of

from airmixml import Scenario, ScenarioError, simulate
from airmixml.arrays import dbm_to_watts
from airmixml.impairments.fading import weakest_gain
from airmixml.radio.draws import AirSetting, draw_slots
from airmixml.radio.impaired_air import possible_power
from airmixml.radio.tally import placed_distances, rehearse

FADES = ("radio.fading=rayleigh", "air.truncation_db=-6")
PAPER = Scenario.preset("paper-iris")


def test_workers_in_a_fade_are_silent_and_others_are_not() -> None:
    """Of Rayleigh channels 1 - exp(-c) are below c."""
    drawn = drawn_on(aired(*FADES))
    fading = (drawn.magnitude / drawn.gains.draws.path_gain).square()
    threshold = 10 ** (-0.6)
    assert torch.equal(drawn.ratios > 0.0, fading >= threshold)
    assert torch.equal(drawn.power_watts > 0.0, fading >= threshold)
    share = float((drawn.ratios == 0.0).double().mean())
    assert share == pytest.approx(1.0 - math.exp(-threshold), abs=4 * math.sqrt(0.17 / fading.numel()))


def test_workers_in_a_fade_do_not_limit_the_power_of_others() -> None:
    """beta = P_max min abs(h)^2 / q^2 over those who send; one of them sends with P_max, and nobody with more."""
    drawn = drawn_on(aired(*FADES, "mixing.power=max"))
    sends = drawn.ratios > 0.0
    bounds = torch.where(sends, (drawn.magnitude / drawn.ratios).square(), math.inf)
    limit = dbm_to_watts(23.0)
    np.testing.assert_allclose(drawn.power_scale_watts, limit * bounds.amin(dim=1), rtol=1e-12)
    np.testing.assert_allclose(drawn.power_watts.amax(dim=1), limit, rtol=1e-12)


def test_who_is_silent_does_not_depend_on_who_is_scheduled_or_where() -> None:
    """What the credit for a hidden schedule rests on: the same seats are silent wherever the workers are."""
    scenario = aired(*FADES)
    distances = (np.linspace(10.0, 340.0, 200), np.full(200, 77.0), np.geomspace(340.0, 1.0, 200))
    slots = [draw_slots(setting_of(scenario, distance), range(64)) for distance in distances]
    for other in slots[1:]:
        assert torch.equal(slots[0].ratios, other.ratios)
        np.testing.assert_allclose(slots[0].power_scale_watts, other.power_scale_watts, rtol=1e-9)


def test_truncation_gives_fading_a_floor_and_a_hidden_schedule_its_credit() -> None:
    fading, truncated = PAPER.with_overrides("radio.fading=rayleigh"), PAPER.with_overrides(*FADES)
    assert weakest_gain(fading) == 0.0
    corner = PAPER.radio.path_loss_kind.gain(PAPER.radio, np.array([500.0 / math.sqrt(2.0)]))[0] ** 2
    assert weakest_gain(truncated) == pytest.approx(corner * 10 ** (-0.6), rel=1e-9, abs=0)
    without, with_credit, ideal = (rehearse(each, 4, 3) for each in (fading, truncated, PAPER))
    assert without.privacy.sampling == "none"
    assert with_credit.privacy.sampling == ideal.privacy.sampling == "without-replacement"
    assert with_credit.privacy.epsilon <= 5.0
    assert with_credit.limited_slots == 0
    # As much is received of each who sends as on the ideal air: the corner's worst fade is still below its limit.
    assert max(with_credit.design.received_watts) == pytest.approx(max(ideal.design.received_watts), rel=0.01)


def test_shares_that_follow_channels_leave_no_credit_beside_truncation() -> None:
    """A silent seat keeps its rank, and moves the shares of others."""
    tally = rehearse(PAPER.with_overrides(*FADES, "mixing.assignment=max-min"), 4, 3)
    assert tally.privacy.sampling == "none"
    assert tally.privacy.epsilon <= 5.0


def test_an_antenna_that_is_chosen_by_all_channels_leaves_no_credit() -> None:
    tally = rehearse(PAPER.with_overrides(*FADES, "air.antennas=2"), 4, 3)
    assert tally.privacy.sampling == "none"


def test_a_slot_in_which_all_are_in_a_fade_counts_for_nothing() -> None:
    """Two workers with exp(-2) each to be 3 dB above their mean: three quarters of the slots are empty."""
    scenario = PAPER.with_overrides(
        "radio.fading=rayleigh", "air.truncation_db=3", "radio.scheduled=2", "radio.slots=400", "mixing.power=max"
    )
    sent = simulate(scenario)
    inputs, drawn = sent.inputs.numpy(), draw_slots(sent_setting(scenario), range(400)).numpy()
    empty = ~(drawn.ratios > 0.0).any(axis=1)
    assert np.isfinite(inputs).all()
    assert empty.mean() == pytest.approx((1 - math.exp(-(10**0.3))) ** 2, abs=0.09)
    assert np.isfinite(drawn.power_scale_watts).all()
    assert (drawn.power_watts[empty] == 0.0).all()
    # The server does not know; by their pilots it takes all but a few empty slots for empty.
    assert (np.abs(inputs[empty]).max(axis=1) < 1e-12).mean() > 0.95
    assert np.abs(inputs).max() < 20.0


def sent_setting(scenario: Scenario) -> AirSetting:
    return AirSetting.of(scenario, 4, 3, placed_distances(scenario))


def test_truncation_above_the_mean_needs_fading() -> None:
    with pytest.raises(ScenarioError, match=r'air.truncation_db = 1: must be at most 0 for radio.fading = "none"'):
        aired("air.truncation_db=1")


def test_powers_are_rounded_down_to_the_grid_below_the_limit() -> None:
    """23 dBm less whole steps of 2 dB: 22.9 -> 21, 21 -> 21, 20.99 -> 19 dBm; the limit itself stays."""
    scenario = aired("air.power_step_db=2", "mixing.power=max")
    dbm = torch.tensor([23.0, 22.9, 21.0, 20.99, -40.0], dtype=torch.float64)
    found = possible_power(scenario, 10 ** (dbm / 10 - 3), 1.0)
    np.testing.assert_allclose(10 * np.log10(found.numpy()) + 30, [23.0, 21.0, 21.0, 19.0, -41.0], atol=1e-9)
    assert (found <= 10 ** (dbm / 10 - 3)).all()


def test_who_needs_less_than_the_lowest_power_is_silent() -> None:
    scenario = aired("air.min_power_dbm=-20", "air.power_step_db=2", "mixing.power=max")
    dbm = torch.tensor([-10.0, -19.1, -19.0, -30.0], dtype=torch.float64)
    found = possible_power(scenario, 10 ** (dbm / 10 - 3), 1.0)
    np.testing.assert_allclose(found[[0, 2]], [10**-4.1, 10**-4.9], rtol=1e-9)
    assert (found[[1, 3]] == 0.0).all()
    assert (possible_power(scenario, torch.tensor([1e-3, 1e-4]), 0.1) > 0.0).tolist() == [True, False]


def test_shares_shrink_with_the_amplitude() -> None:
    """Received power of each is beta q^2 = P abs(h)^2, with the powers that were sent."""
    exact, rounded = drawn_on(aired("mixing.power=max")), drawn_on(aired("mixing.power=max", "air.power_step_db=3"))
    received = rounded.power_watts * rounded.magnitude.square()
    np.testing.assert_allclose(rounded.ratios.square() * rounded.power_scale_watts[:, None], received, rtol=1e-9)
    loss = (rounded.ratios / exact.ratios).numpy()
    assert loss.max() <= 1.0
    assert loss.min() >= 10 ** (-3 / 20) * (1 - 1e-9)
    assert loss.mean() < 0.9


@pytest.mark.parametrize("air", ["air.power_step_db=6", "air.min_power_dbm=-45"])
def test_soft_workers_hide_as_well_as_loud_ones(air: str) -> None:
    """They send vectors that are shorter, so credit is kept, for the planned strength and a move with the pilots."""
    ideal, tally = rehearse(PAPER, 4, 3), rehearse(PAPER.with_overrides(air), 4, 3)
    assert tally.privacy.sampling == "without-replacement"
    assert tally.privacy.sensitivity == pytest.approx(7.0 * 1.05, rel=1e-12, abs=0)
    assert 4.99 < tally.privacy.epsilon <= 5.0
    received = max(tally.design.received_watts)
    assert received == pytest.approx(max(ideal.design.received_watts) / 1.05, rel=0.01)
    # Nobody is heard more strongly than planned, and not even all as strongly.
    assert tally.ledger.received_watts.sum() < 0.9 * ideal.ledger.received_watts.sum() / 1.05
    ranked = rehearse(PAPER.with_overrides(air, "mixing.assignment=max-min", "air.min_power_dbm=-120"), 4, 3)
    assert ranked.privacy.sampling == "none"


@settings(deadline=None, max_examples=200)
@given(
    vectors=arrays(np.float64, (2, 5), elements=st.floats(-3, 3)),
    soft=arrays(np.float64, 2, elements=st.floats(0, 1)),
)
def test_shortened_vectors_are_no_farther_apart_than_vectors_or_silence(vectors: np.ndarray, soft: np.ndarray) -> None:
    apart = np.linalg.norm(soft[0] * vectors[0] - soft[1] * vectors[1])
    whole = np.linalg.norm(vectors[0] - vectors[1])
    assert apart <= max(whole, *np.linalg.norm(vectors, axis=1)) + 1e-12


def test_late_workers_are_silent_until_a_block_begins_after_they_came() -> None:
    """794 symbols in blocks of 100 - 1: the block that begins at the share t is missed with probability p (1 - t)."""
    drawn = drawn_on(aired("air.late=0.6", "air.resync_seconds=1.26e-4", "radio.slots=200"), 200)
    gains, lengths = gains_of(drawn).real.reshape(10_000, -1), np.array(drawn.gains.draws.frame.lengths)
    assert lengths.tolist() == [99] * 8 + [2]
    assert set(np.unique(gains)) == {0.0, 1.0}
    assert (np.diff(gains, axis=1) >= 0.0).all()
    begins = 99 * np.arange(9) / 794
    np.testing.assert_allclose(gains.mean(axis=0), 1.0 - 0.6 * (1.0 - begins), atol=4 * math.sqrt(0.25 / 10_000))


def test_a_late_worker_misses_a_slot_of_one_block_as_an_absent_one_does() -> None:
    drawn = drawn_on(aired("air.late=0.3", "radio.slots=200"), 200)
    gains = gains_of(drawn)
    assert gains.shape[2] == 1
    assert (gains == 0.0).mean() == pytest.approx(0.3, abs=4 * math.sqrt(0.21 / gains.size))


def test_the_server_s_mean_gain_holds_for_all_of_a_block_with_late_workers() -> None:
    """At 70 dB above the noise a pilot is right: mixtures of equal shares add up to 1 in their label symbols."""
    scenario = PAPER.with_overrides("air.late=0.5", "mixing.power=max", "radio.slots=200", "radio.scheduled=20")
    labels = simulate(scenario).labels.numpy()
    np.testing.assert_allclose(labels.sum(axis=1), 1.0, atol=0.05)


def test_draws_do_not_depend_on_the_block_of_slots() -> None:
    scenario = aired(
        *FADES, "air.estimation_nmse_db=-20", "air.reciprocity_nmse_db=-25", "air.speed_metres_per_second=50",
        "air.late=0.2", "air.power_step_db=1",
    )  # fmt: skip
    setting = setting_of(scenario)
    whole, part = draw_slots(setting, range(32)), draw_slots(setting, range(20, 32))
    assert torch.equal(whole.ratios[20:], part.ratios)
    np.testing.assert_array_equal(gains_of(whole)[20:], gains_of(part))
