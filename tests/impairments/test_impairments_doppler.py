"""Moving workers: correlation after Jakes, jointly over a block, for any fading; how slots are cut; the bound."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import j0
from seats_for_tests import aired, drawn_on, gains_of

from airmixml import ScenarioError
from airmixml.impairments.frame import frame_of
from airmixml.impairments.gain_errors import Doppler, innovations
from airmixml.scenario import Air

# 300 m/s at 2.4 GHz: 2402 Hz; a block of 0.8 coherence times is 112 symbols.
FAST = ("air.speed_metres_per_second=300", "air.coherence_share=0.8", "radio.slots=240")
# All but scattered, and with a magnitude that is all but the mean.
HARDLY_FADING = ("radio.fading=rayleigh", "air.truncation_db=-0.001")
DOPPLER_HZ = 300 * 2.4e9 / 299_792_458


def channels_of(*fading: str) -> tuple[np.ndarray, np.ndarray]:
    """Return h(0) and the h(t) of a block over the path gain; samples, and samples x pieces; and the times."""
    drawn = drawn_on(aired(*FAST, "mixing.power=max", *fading), 240)
    seats = drawn.gains.draws
    before = (drawn.magnitude / seats.path_gain).numpy().ravel()
    inside = np.array(seats.frame.blocks) == 1
    after = before[:, None] * gains_of(drawn)[:, :, inside].reshape(len(before), -1)
    return np.column_stack([before, after]), np.concatenate([[0.0], np.array(seats.frame.seconds)[inside]])


def test_a_rayleigh_channel_stays_the_process_of_jakes() -> None:
    """Started at abs(h) of the slot, all pieces have the covariance J_0(2 pi f (t - s)) and stay CN(0, 1)."""
    channel, seconds = channels_of("radio.fading=rayleigh")
    assert len(seconds) > 10
    found = channel.T @ channel.conj() / len(channel)
    expected = j0(2.0 * math.pi * DOPPLER_HZ * (seconds[:, None] - seconds[None, :]))
    assert np.abs(found - expected).max() < 5.0 / math.sqrt(len(channel))
    assert expected.min() < 0.4
    for piece in (1, len(seconds) // 2, len(seconds) - 1):
        squares = np.abs(channel[:, piece]) ** 2
        assert stats.kstest(squares, stats.expon.cdf).pvalue > 1e-4
        assert stats.kstest(squares, stats.expon(scale=4 / 9).cdf).pvalue < 1e-9
        assert stats.kstest(squares, stats.expon(scale=9 / 4).cdf).pvalue < 1e-9


def test_without_fading_gains_have_the_mean_and_the_spread_of_the_process() -> None:
    channel, seconds = channels_of()
    kept = j0(2.0 * math.pi * DOPPLER_HZ * seconds)
    assert np.abs(channel.mean(axis=0) - kept).max() < 5.0 / math.sqrt(len(channel))
    off = channel - kept
    found = off.T @ off.conj() / len(off)
    expected = j0(2.0 * math.pi * DOPPLER_HZ * (seconds[:, None] - seconds[None, :])) - np.outer(kept, kept)
    assert np.abs(found - expected).max() < 5.0 / math.sqrt(len(channel))


def test_of_a_rician_channel_the_scattered_part_moves_and_the_direct_one_stays() -> None:
    """E h(t) h(0)* = (K + J_0) / (K + 1)."""
    channel, seconds = channels_of("radio.fading=rician", "radio.rician_k=3")
    found = (channel * channel[:, :1]).mean(axis=0)
    expected = (3.0 + j0(2.0 * math.pi * DOPPLER_HZ * seconds)) / 4.0
    assert np.abs(found - expected).max() < 5.0 / math.sqrt(len(channel))


def test_blocks_are_independent_and_start_anew() -> None:
    drawn = drawn_on(aired(*FAST, "radio.fading=rayleigh", "mixing.power=max"), 240)
    gains, blocks = gains_of(drawn).reshape(12_000, -1), np.array(drawn.gains.draws.frame.blocks)
    last = [np.nonzero(blocks == block)[0][-1] for block in (0, 1)]
    fading = (drawn.magnitude / drawn.gains.draws.path_gain).numpy().reshape(-1)
    kept = j0(2.0 * math.pi * DOPPLER_HZ * np.array(drawn.gains.draws.frame.seconds))
    first, second = (fading * (gains[:, piece] - kept[piece]) for piece in last)
    assert abs(np.vdot(first, second)) / np.vdot(first, first).real < 5.0 / math.sqrt(len(first))


def test_few_directions_carry_all_of_a_short_block() -> None:
    seconds = tuple(np.linspace(1e-6, 1e-4, 40))
    factor = innovations(seconds, 100.0)
    turns = 2.0 * math.pi * 100.0 * np.array(seconds)
    assert factor.shape[1] <= 3
    expected = j0(turns[:, None] - turns[None, :]) - np.outer(j0(turns), j0(turns))
    assert np.abs(factor @ factor.T - expected).max() < 1e-8


@pytest.mark.parametrize(
    "fading", [("radio.fading=rayleigh", "air.truncation_db=-6"), ("radio.fading=rician", "air.truncation_db=-10")]
)
def test_gains_exceed_their_bound_no_more_often_than_stated(fading: tuple[str, ...]) -> None:
    scenario = aired(*FAST, *fading)
    drawn = drawn_on(scenario, 240)
    sends = drawn.ratios.numpy() > 0.0
    squares = np.abs(gains_of(drawn)[sends]) ** 2
    impairment = Doppler.of(scenario)
    for failure in (1e-1, 1e-3):
        above = (squares > impairment.largest_power_gain(failure)).mean(axis=0).max()
        assert above <= failure + 3.0 * math.sqrt(failure / len(squares))
    assert squares.max() > 1.5


def test_the_bound_of_a_full_turn_is_that_of_an_unrelated_channel() -> None:
    """Past the first zero of J_0 the scattered part is all new: (1 + sqrt(ln 1 / p))^2."""
    scenario = aired("air.speed_metres_per_second=300", "air.coherence_share=1", *HARDLY_FADING)
    assert Doppler.of(scenario).largest_power_gain(1e-3) == pytest.approx((1 + math.sqrt(math.log(1e3))) ** 2, rel=1e-3)


def test_a_slot_is_cut_at_a_share_of_the_coherence_time() -> None:
    """1.5 m/s at 2.4 GHz: 12.008 Hz, 35.2 ms; a twentieth has 1398 symbols, of which 2 + 3 + 4 are overhead."""
    air = Air(speed_metres_per_second=1.5, pilot_symbols=2, guard_symbols=3, estimation_pilots=4)
    assert air.doppler_hz == pytest.approx(12.0083, rel=1e-4)
    frame = frame_of(air, 10_000)
    assert frame.block_count == -(-10_000 // (1398 - 9)) == 8
    assert frame.overhead_symbols == 8 * 9
    assert sum(frame.lengths) == 10_000
    longest = max(frame.seconds)
    assert longest < 1398 / 794_000
    # Within a piece the channel turns by at most 0.2 rad.
    assert 2 * math.pi * air.doppler_hz * max(frame.lengths) / 794_000 <= 0.2


def test_a_worker_too_fast_for_its_pilots_is_refused() -> None:
    with pytest.raises(
        ScenarioError, match=r"air.speed_metres_per_second = 9000: leaves blocks of .* no symbol is left"
    ):
        aired("air.speed_metres_per_second=9000", "air.pilot_symbols=20")


@pytest.mark.parametrize("fading", [(), ("radio.fading=rician", "radio.rician_k=inf")])
def test_one_path_turns_by_a_shift_of_its_own_and_keeps_its_power(fading: tuple[str, ...]) -> None:
    scenario = aired(*FAST, "mixing.power=max", *fading, 'air.renewed_errors=["speed_metres_per_second"]')
    drawn = drawn_on(scenario, 240)
    gains, seconds = gains_of(drawn), np.array(drawn.gains.draws.frame.seconds)
    assert np.allclose(np.abs(gains), 1.0, atol=1e-12)
    shift_hz = np.angle(gains[:, :, 0]) / (2.0 * math.pi * seconds[0])
    assert np.abs(shift_hz).max() <= DOPPLER_HZ * (1.0 + 1e-6)  # angles are float32
    # The cosine of a uniform angle has the arcsine law.
    assert stats.kstest(shift_hz.ravel() / DOPPLER_HZ, stats.arcsine(loc=-1, scale=2).cdf).pvalue > 1e-4
    assert Doppler.of(scenario).largest_power_gain(1e-20) == 1.0
