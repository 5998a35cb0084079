"""Pilots are received with the gains of their own time, drawn together with those of the data."""

import math

import numpy as np
import pytest
import torch
from scipy.special import j0

from airmixml import Scenario
from airmixml.impairments.frame import Frame, expected_drift, frame_of
from airmixml.impairments.gains import SeatDraws, SeatGains
from airmixml.randomness.slot_words import slot_words
from airmixml.scenario import Air
from airmixml.streams import Streams

RATE = 794e3
SEATS = 20_000
# Blocks of 0.5 ms: 397 symbols, of which 3 are for the workers' estimates, 2 for the server, 28 silent.
BLOCKS = ("air.resync_seconds=5e-4", "air.estimation_pilots=3", "air.pilot_symbols=2", "air.guard_symbols=28")
PILOT = (3 + 2 / 2) / RATE


def drawn(*changes: str) -> tuple[Frame, torch.Tensor, torch.Tensor]:
    """Draw one slot of three blocks; its frame, g of data, seats x pieces, and of pilots, seats x 3."""
    scenario = Scenario().with_overrides(*BLOCKS, "air.estimation_power_dbm=100", *changes)
    frame = frame_of(scenario.air, 1000)
    ones = torch.ones((1, SEATS), dtype=torch.float64)
    draws = SeatDraws(
        slots=range(1),
        frame=frame,
        workers=torch.arange(SEATS)[None],
        magnitude=ones,
        path_gain=ones,
        source=slot_words(Streams(3), "air"),
        in_slot=SEATS,
    )
    gains = SeatGains(scenario=scenario, draws=draws)
    assert len(gains.parts) == 1
    largest = torch.maximum(*(each.abs().square().amax(dim=2) for each in both(gains))).double()
    assert torch.allclose(gains.peaks, largest, rtol=1e-5)  # of float32, and a turn is softer by 5e-7
    pieces, pilots = both(gains)
    return frame, pieces[0].expand(-1, frame.pieces), pilots[0]


def both(gains: SeatGains) -> tuple[torch.Tensor, torch.Tensor]:
    return gains.of(gains.parts[0]), gains.of_pilots(gains.parts[0])


def test_the_time_of_pilots_by_hand() -> None:
    frame = frame_of(Scenario().with_overrides(*BLOCKS).air, 1000)
    assert frame.pilot_seconds == pytest.approx(PILOT)
    assert (frame.longest_block, frame.pilot_count, frame.with_pilots.pieces) == (397 - 33, 3, 3 + frame.pieces)
    assert frame.with_pilots.symbols == frame.symbols
    assert frame.with_pilots.pilots == tuple(sorted((*frame.pilots, 0, 1, 2)))
    off_time = Air(timing_offset_symbols=0.3, pilot_symbols=1, resync_seconds=5e-4)
    # Silence follows the pilot, so that it rings into no data.
    first = frame_of(off_time, 1000, piece_symbols=1).seconds[0]
    assert frame_of(off_time, 1000).pilot_seconds == pytest.approx(0.5 / RATE)
    assert first == pytest.approx((1 + off_time.ringing_symbols + 0.5) / RATE)


def test_pilots_of_subcarriers_by_hand() -> None:
    keys = {"waveform": "ofdm", "subcarriers": 10, "cyclic_prefix": 0.15, "cluster_subcarriers": 4}
    air = Air(**keys, resync_seconds=62.5 / RATE, pilot_symbols=11, estimation_pilots=1, guard_symbols=0)
    frame = frame_of(air, 45)  # 12 symbols of time each: one for the estimates, two of pilots, two of data
    assert frame.pilot_seconds == pytest.approx(2 * 12 / RATE)
    whole = frame.with_pilots
    assert whole.lengths == (0, 0, 0, 8, 8, 4, 0, 0, 0, 8, 8, 4, 0, 0, 4, 1)[: len(whole.lengths)]
    assert whole.clusters[:6] == (0, 1, 2, 0, 1, 2)
    assert whole.hertz[:3] == pytest.approx(air.grid.centres_hz)
    assert [whole.lengths[place] for place in frame.pieces_then_pilots[: frame.pieces]] == list(frame.lengths)


def test_an_offset_has_turned_pilots_by_their_time() -> None:
    frame, pieces, pilots = drawn("air.frequency_offset_hz=200")
    # So little that no angle wraps around.
    assert np.allclose(pilots.angle(), PILOT / frame.seconds[0] * pieces.angle()[:, :1], atol=1e-9)
    assert float(pilots.angle().std()) == pytest.approx(2 * math.pi * 200 * PILOT, rel=0.03)


def test_phase_noise_walks_on_from_the_pilot() -> None:
    frame, pieces, pilots = drawn("air.phase_noise_hz=100")
    per_second = 2 * math.pi * 100
    first = frame.blocks.index(1)
    at_pilot, at_piece = pilots.angle()[:, 1], pieces.angle()[:, first]
    assert float(at_pilot.var()) == pytest.approx(per_second * PILOT, rel=0.06)
    since = frame.seconds[first] - PILOT
    assert float((at_piece - at_pilot).var()) == pytest.approx(per_second * since, rel=0.06)
    assert abs(float(torch.corrcoef(torch.stack([at_piece - at_pilot, at_pilot]))[0, 1])) < 5 / math.sqrt(SEATS)
    assert abs(float(torch.corrcoef(torch.stack([pilots.angle()[:, 0], at_pilot]))[0, 1])) < 5 / math.sqrt(SEATS)


def test_a_moving_worker_has_moved_little_by_its_pilot() -> None:
    """E g = r(t) and cov(g(t), g(s)) = r(t - s) - r(t) r(s) for r = J_0(2 pi f_D t), pilots included."""
    keys = ("radio.fading=rayleigh", "air.truncation_db=-10", "air.speed_metres_per_second=60")
    frame, pieces, pilots = drawn(*keys, "air.coherence_share=1", "air.resync_seconds=5e-4", "air.carrier_hz=3.5e9")
    doppler = 2 * math.pi * 60 * 3.5e9 / 299_792_458
    last = [place for place, block in enumerate(frame.blocks) if block == 0][-1]
    pilot, piece, apart = j0(doppler * PILOT), j0(doppler * frame.seconds[last]), frame.seconds[last] - PILOT
    assert complex(pilots[:, 0].mean()) == pytest.approx(pilot, abs=5 * math.sqrt(1 - pilot**2) / math.sqrt(SEATS))
    together = ((pieces[:, last] - piece) * (pilots[:, 0] - pilot).conj()).mean()
    scale = math.sqrt((1 - piece**2) * (1 - pilot**2))
    assert complex(together) == pytest.approx(j0(doppler * apart) - pilot * piece, abs=5 * scale / math.sqrt(SEATS))


def test_drift_is_expected_from_the_pilot_on() -> None:
    scenario = Scenario().with_overrides(*BLOCKS, "air.frequency_offset_hz=200", "air.phase_noise_hz=100")
    frame = frame_of(scenario.air, 1000)
    seconds = np.array(frame.seconds)
    squares = (2 * math.pi * 200) ** 2 * (seconds**2 - PILOT**2) + 2 * math.pi * 100 * (seconds - PILOT)
    np.testing.assert_allclose(expected_drift(scenario, frame), np.exp(-squares / 2))
