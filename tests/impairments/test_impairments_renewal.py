"""Fading that is renewed within a slot: its law, who is silent when, power, energy, antennas, bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats
from seats_for_tests import aired, drawn_on, gains_of

from airmixml import Scenario
from airmixml.impairments.frame import frame_of
from airmixml.impairments.gain_bound import antenna_gain_bound, largest_fading_ratio
from airmixml.impairments.renewal import by_fading, draw_other_antennas, draw_renewed
from airmixml.radio.tally import rehearse

# 200 m/s at 2.4 GHz: a coherence time of 264 us has 209 symbols, a slot of 794 symbols has four of them.
MOVING = ("air.speed_metres_per_second=200", "air.coherence_share=0.25", "mixing.power=max")
RENEWED = (*MOVING, "radio.fading=rayleigh", "air.fading_renewal=coherence")
FLOOR = 10.0**-0.3


def test_a_coherence_time_has_as_many_blocks_as_fit() -> None:
    air = aired(*RENEWED).air
    assert air.coherence_seconds == pytest.approx(0.423 * 299_792_458 / (200 * 2.4e9))
    assert air.blocks_per_fading == 4
    assert aired(*MOVING).air.blocks_per_fading == 0
    assert aired("radio.fading=rayleigh", "air.fading_renewal=coherence", "mixing.power=max").air.blocks_per_fading == 0


def test_fading_is_renewed_and_independent() -> None:
    """Each coherence time has |f|^2 of an exponential law, without correlation to the next; blocks within share it."""
    drawn = drawn_on(aired(*RENEWED))
    scenario, seats = drawn.gains.scenario, drawn.gains.draws
    fading = draw_renewed(scenario, seats).square().numpy()
    assert fading.shape[2] == -(-seats.frame.block_count // 4) >= 4
    assert stats.kstest(fading.ravel(), stats.expon.cdf).pvalue > 1e-4
    first, second = fading[:, :, 0].ravel(), fading[:, :, 1].ravel()
    assert abs(np.corrcoef(first, second)[0, 1]) < 5.0 / math.sqrt(len(first))
    by_block = (by_fading(scenario, seats, lambda magnitude: magnitude) / seats.path_gain[:, :, None]).square().numpy()
    assert np.allclose(by_block[:, :, :4], fading[:, :, :1])
    assert np.allclose(by_block[:, :, 4], fading[:, :, 1])


def test_a_direct_path_fades_less() -> None:
    """2 (K + 1) |f|^2 is noncentral chi-square with two degrees of freedom and noncentrality 2 K."""
    drawn = drawn_on(aired(*MOVING, "radio.fading=rician", "radio.rician_k=5", "air.fading_renewal=coherence"))
    fading = draw_renewed(drawn.gains.scenario, drawn.gains.draws).square().numpy()
    assert stats.kstest(12.0 * fading.ravel(), stats.ncx2(2, 10.0).cdf).pvalue > 1e-4


def test_workers_are_silent_in_coherence_times_in_a_fade_alone() -> None:
    """The share of silence is P(|f|^2 < c) = 1 - exp(-c); who is silent all along has no share."""
    drawn = drawn_on(aired(*RENEWED, "air.truncation_db=-3"))
    gains = np.abs(gains_of(drawn))
    silent = (gains == 0.0).mean()
    assert silent == pytest.approx(1.0 - math.exp(-FLOOR), abs=5.0 * math.sqrt(0.25 / (64 * 50 * 4)))
    all_along = (gains == 0.0).all(axis=2)
    assert np.array_equal(all_along, drawn.ratios.numpy() == 0.0)


def test_energy_is_the_mean_over_the_slot_and_the_limit_holds_in_every_coherence_time() -> None:
    drawn = drawn_on(aired(*RENEWED, "air.truncation_db=-3"))
    scenario, seats = drawn.gains.scenario, drawn.gains.draws
    frame = frame_of(scenario.air, sum(seats.frame.lengths))
    power = draw_renewed(scenario, seats).numpy() ** 2
    symbols = np.bincount(np.array(frame.blocks) // 4, frame.lengths)
    # beta q^2 over the square of the path gain.
    wanted = (drawn.power_scale_watts[:, None] * (drawn.ratios / seats.path_gain).square()).numpy()
    in_interval = wanted[:, :, None] * np.where(power >= FLOOR, 1.0 / power, 0.0)
    mean = (in_interval * symbols).sum(axis=2) / symbols.sum()
    assert np.allclose(drawn.power_watts.numpy(), mean, rtol=1e-9)
    limit_watts = 1e-3 * 10.0 ** (scenario.radio.max_power_dbm / 10.0)
    assert in_interval.max() == pytest.approx(limit_watts)  # maximum power: the weakest worker is at its limit
    assert mean.max() < 0.999 * limit_watts


def test_all_antennas_have_their_sum_in_the_worst_coherence_time() -> None:
    """The chosen channel is at least the floor; the sum over three others has a gamma law: the bound is never met."""
    changes = ("air.truncation_db=-3", "air.antennas=4")
    drawn = drawn_on(aired(*RENEWED, *changes))
    scenario, seats = drawn.gains.scenario, drawn.gains.draws
    chosen = draw_renewed(scenario, seats).square()
    others = draw_other_antennas(scenario, seats, chosen.shape[2])
    assert stats.kstest(others.numpy().ravel(), stats.gamma(3).cdf).pvalue > 1e-4
    assert abs(np.corrcoef(chosen.numpy().ravel(), others.numpy().ravel())[0, 1]) < 5.0 / math.sqrt(chosen.numel())
    gain = ((chosen + others) / chosen).where(chosen >= FLOOR, 1.0).amax(dim=2)
    assert torch.allclose(drawn.antenna_gain, gain)
    bound = antenna_gain_bound(scenario, 50)
    assert float(drawn.antenna_gain.max()) < bound


@pytest.mark.parametrize("antennas", [2, 64])
def test_other_antennas_have_the_direct_path_too(antennas: int) -> None:
    """2 (K + 1) times the sum over m of them is noncentral chi-square: 2 m degrees of freedom, noncentrality 2 K m."""
    rician = ("radio.fading=rician", "radio.rician_k=5", "air.fading_renewal=coherence", f"air.antennas={antennas}")
    drawn, others = drawn_on(aired(*MOVING, *rician, "air.truncation_db=-10")), antennas - 1
    found = 12.0 * draw_other_antennas(drawn.gains.scenario, drawn.gains.draws, 4).numpy().ravel()
    assert stats.kstest(found, stats.ncx2(2 * others, 10.0 * others).cdf).pvalue > 1e-4


def test_the_bound_on_all_antennas_is_exceeded_as_often_as_stated() -> None:
    """One antenna above the floor and five others, drawn two million times: 2000 exceed the bound of 1e-3."""
    bound, rng = largest_fading_ratio(6, FLOOR, 1e-3), np.random.default_rng(8)
    one, others = rng.exponential(size=2_000_000), rng.gamma(5.0, size=2_000_000)
    assert np.mean((1.0 + others / one > bound) & (one >= FLOOR)) == pytest.approx(1e-3, rel=0.12)
    assert bound < stats.gamma(6).isf(1e-3) / FLOOR


def test_channels_that_stand_still_are_not_renewed() -> None:
    still = aired("radio.fading=rayleigh", "mixing.power=max", "air.absent=0.1")
    renewed = still.with_overrides("air.fading_renewal=coherence")
    before, after = (draw for draw in map(drawn_on, (still, renewed)))
    assert torch.equal(before.magnitude, after.magnitude)


def test_a_target_holds_with_renewed_fading() -> None:
    """Drawn gains stay below the bound that the power was set for, and the worst worker below its target."""
    scenario = Scenario.preset("private-iris").with_overrides(
        *RENEWED[:2], "workers.centre=own", "radio.fading=rayleigh", "air.fading_renewal=coherence",
        "air.truncation_db=-3", "air.estimation_nmse_db=-20", "air.antennas=4",
    )  # fmt: skip
    tally = rehearse(scenario.settled(100, 4), 4, 3)
    assert 0.1 * scenario.privacy.epsilon < tally.privacy.epsilon <= scenario.privacy.epsilon
