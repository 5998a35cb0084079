"""OFDM: the grid, slopes of phase, echoes and their inversion, and what does not fit."""

import numpy as np
import pytest
import torch

from airmixml import Scenario
from airmixml.impairments.frame import frame_of
from airmixml.impairments.gains import SeatDraws
from airmixml.impairments.renewal import SilentFades, draw_responses, echoes_of, inverted_amplitude, standard_profile
from airmixml.impairments.timing import TimingSlope, draw_offsets
from airmixml.messages import ScenarioError
from airmixml.radio.system import sensitivity_of
from airmixml.randomness.slot_words import slot_words
from airmixml.scenario import Air
from airmixml.streams import Streams

RATE = 794_000
OFDM = ("air.waveform=ofdm", "air.subcarriers=64", "air.cyclic_prefix=0.1", "air.cluster_subcarriers=4")
ECHOES = (*OFDM, "radio.fading=rayleigh", "air.delay_spread_seconds=8e-7")


def seats(asked: Scenario, slots: int = 2000, scheduled: int = 5, *, piece_symbols: int = 0) -> SeatDraws:
    ones = torch.ones((slots, scheduled), dtype=torch.float64)
    return SeatDraws(
        slots=range(slots),
        frame=frame_of(asked.air, 794, piece_symbols=piece_symbols),
        workers=ones.long(),
        magnitude=ones,
        path_gain=ones,
        source=slot_words(Streams(3), "air"),
        in_slot=scheduled,
    )


def test_the_grid_by_hand() -> None:
    grid = Air(waveform="ofdm", subcarriers=10, cyclic_prefix=0.15, cluster_subcarriers=4, guard_symbols=3).grid
    assert (grid.prefix, grid.length, grid.widths, grid.firsts) == (2, 12, (4, 4, 2), (0, 4, 8))
    assert grid.centres_hz == pytest.approx([(1.5 - 4.5) * RATE / 10, (5.5 - 4.5) * RATE / 10, (8.5 - 4.5) * RATE / 10])
    # 100 symbols of time hold 8 OFDM symbols beside the guard, one of them pilots.
    assert grid.fitting(100 / RATE) == 7


def test_symbols_fill_clusters_run_after_run() -> None:
    air = Air(waveform="ofdm", subcarriers=10, cyclic_prefix=0.15, cluster_subcarriers=4, resync_seconds=50.5 / RATE)
    frame = frame_of(air, 75)  # blocks of 3 OFDM symbols of data and one of pilots
    assert frame.lengths == (12, 12, 6, 12, 12, 6, 8, 7)
    assert frame.blocks == (0, 0, 0, 1, 1, 1, 2, 2)
    assert frame.clusters == (0, 1, 2, 0, 1, 2, 0, 1)
    assert frame.pilots == (0, 1, 2, 3, 4, 5, 6, 7)
    assert frame.seconds[0] == pytest.approx(2.5 * 12 / RATE)
    assert frame.symbols == 8 * 12 + 3 * 12
    fine = frame_of(air, 75, piece_symbols=1)
    assert len(fine.lengths) == 75
    assert fine.pilots[12] == 1
    assert fine.hertz[:5] == pytest.approx([(k - 4.5) * RATE / 10 for k in (0, 1, 2, 3, 0)])
    assert fine.seconds[4] - fine.seconds[3] == pytest.approx(12 / RATE)


def test_being_late_within_the_prefix_is_a_slope_of_phase() -> None:
    """Against the waveform itself: subcarriers as sampled exponentials with a prefix, heard late by whole symbols."""
    grid = Air(waveform="ofdm", subcarriers=16, cyclic_prefix=0.25, cluster_subcarriers=1).grid
    sent = np.random.default_rng(1).standard_normal(16)
    hertz = np.array([grid.hertz(k) for k in range(16)])
    time = np.arange(-grid.prefix, 16) / RATE
    waveform = np.exp(2j * np.pi * time[:, None] * hertz) @ sent
    for late in (0, 1, 3):
        window = waveform[grid.prefix - late : grid.prefix - late + 16]  # the server listens too early
        heard = np.exp(-2j * np.pi * np.arange(16)[None, :] / RATE * hertz[:, None]) @ window / 16
        assert np.allclose(heard, sent * np.exp(-2j * np.pi * hertz * late / RATE))
    asked = Scenario().with_overrides(*OFDM, "air.timing_offset_symbols=0.4")
    draws = seats(asked, 50, 3, piece_symbols=1)
    slope = TimingSlope.of(asked)
    assert slope is not None
    seconds = 0.4 * draw_offsets(draws).numpy()[:, :, None] / RATE
    assert np.allclose(slope.gains(draws).numpy(), np.exp(-2j * np.pi * seconds * np.array(draws.frame.hertz)))
    assert draw_offsets(draws).abs().max() <= 1.0


@pytest.mark.parametrize("changes", [(), ("radio.fading=rician", "radio.rician_k=4")])
def test_echoes_have_the_correlation_of_an_exponential_profile(changes: tuple[str, ...]) -> None:
    """Against echoes that are drawn one by one: delays of an exponential density, each of equal power."""
    asked = Scenario().with_overrides(*ECHOES, *changes)
    echoes = echoes_of(asked)
    assert echoes is not None
    drawn = draw_responses(echoes, seats(asked)).reshape(-1, 16).numpy()
    scattered, direct = (1.0, 0.0) if not changes else (0.2, np.sqrt(0.8))
    apart = np.array(asked.air.grid.centres_hz)[:, None] - np.array(asked.air.grid.centres_hz)
    delays = np.random.default_rng(4).exponential(8e-7, 20_000)
    by_echoes = np.exp(-2j * np.pi * apart[:, :, None] * delays).mean(axis=2)
    error = 5.0 / np.sqrt(len(drawn))
    assert np.abs(drawn.mean(axis=0) - direct).max() < error
    found = drawn.T @ drawn.conj() / len(drawn)
    assert np.abs(found - (scattered * by_echoes + direct**2)).max() < error + 5.0 / np.sqrt(len(delays))
    assert np.abs(found - np.eye(16)).max() > 0.5  # neighbours are alike


def test_inversion_costs_the_harmonic_mean_and_leaves_fades_silent() -> None:
    asked = Scenario().with_overrides(
        *ECHOES, "air.truncation_db=-7", "air.cluster_subcarriers=7", "air.delay_spread_seconds=5e-7"
    )
    draws, echoes = seats(asked, 300), echoes_of(asked)
    assert echoes is not None
    power = draw_responses(echoes, draws).abs().square().numpy()
    widths, heard = np.array([7] * 9 + [1]), power >= 10**-0.7
    needed = np.where(heard, 1.0 / power, 0.0) @ widths / 64
    found = inverted_amplitude(asked, echoes, draws).numpy()
    some = heard.any(axis=2)
    assert np.allclose(found[some], needed[some] ** -0.5)
    assert (found[~some] ** 2 < 10**-0.7).all()
    assert some.mean() > 0.5
    silent = SilentFades.of(asked)
    assert silent is not None
    assert np.array_equal(silent.gains(draws).numpy(), heard[:, :, list(draws.frame.clusters)])
    assert (~heard).mean() == pytest.approx(1 - np.exp(-(10**-0.7)), abs=0.03)


@pytest.mark.parametrize("name", ["tdl-a", "tdl-c", "tdl-d", "cdl-b", "cdl-e"])
def test_profiles_are_those_that_sionna_draws(name: str) -> None:
    pytest.importorskip("sionna")
    from sionna.phy.channel import cir_to_ofdm_channel
    from sionna.phy.channel.tr38901 import CDL, TDL, Antenna

    asked = Scenario().with_overrides(*ECHOES, f"air.profile={name}")
    echoes = echoes_of(asked)
    assert echoes is not None
    hertz, model = torch.tensor(asked.air.grid.centres_hz, dtype=torch.float32), name[-1].upper()
    if name.startswith("tdl"):
        channel = TDL(model, 8e-7, 2.4e9)
    else:
        antenna = Antenna("single", "V", "omni", 2.4e9)
        channel = CDL(model, 8e-7, 2.4e9, antenna, antenna, "uplink")
    paths, delays = channel(4000, 1, 1e4)
    drawn = cir_to_ofdm_channel(hertz, paths, delays, normalize=False).reshape(4000, -1).numpy().astype(complex)
    found = drawn.T @ drawn.conj() / len(drawn)
    assert np.abs(found - echoes.covariance - echoes.direct**2).max() < 5.0 / np.sqrt(4000)


def test_a_missing_extra_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "sionna", None)
    with pytest.raises(ScenarioError, match=r"air.profile = 'tdl-a': needs Sionna .* pip install 'airmixml\[sionna\]'"):
        standard_profile("tdl-a")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (("air.delay_spread_seconds=1e-7",), "must be 0 on a single carrier"),
        ((*OFDM, "air.delay_spread_seconds=1e-7"), "radio.fading is 'none'"),
        ((*OFDM, "air.cyclic_prefix=0", "air.timing_offset_symbols=0.2"), "at most half the cyclic prefix"),
        ((*ECHOES, "air.delay_spread_seconds=1e-5"), "outlast the cyclic prefix"),
        ((*ECHOES, "air.cluster_subcarriers=32"), "air.cluster_subcarriers = 32: the channel changes"),
        ((*ECHOES, "radio.fading=rician", "air.profile=tdl-a"), "says itself how strong"),
        ((*ECHOES, "air.antennas=2"), "air.antennas = 2: must be 1"),
        ((*OFDM, "air.frequency_offset_hz=2000"), "phases turn by"),
        ((*OFDM, "air.resync_seconds=1e-4"), "no room for 1 of pilots"),
        (("air.timing_offset_symbols=0.1", "air.resync_seconds=2e-5"), "no symbol is left for data"),
        (("air.roll_off=0",), "air.roll_off = 0"),
    ],
)
def test_what_does_not_fit_is_one_line(changes: tuple[str, ...], message: str) -> None:
    with pytest.raises(ScenarioError, match=message) as caught:
        Scenario().with_overrides(*changes)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("prefix", "least"), [(0.1, 1.5), (1.0, 2.0)])
def test_a_cyclic_prefix_sends_part_of_a_vector_twice(prefix: float, least: float) -> None:
    """Energy on the air of the worst cosine along the subcarriers, symbol and prefix, over that of its symbols."""
    changes = ("air.waveform=ofdm", "air.subcarriers=64", "air.pilot_share=1e-12")
    repeated, plain = (
        sensitivity_of(Scenario.preset("paper-iris").with_overrides(*changes, f"air.cyclic_prefix={length}"), 60, 4)
        for length in (prefix, 0.0)
    )
    places, length = np.arange(64), int(np.ceil(64 * prefix))
    waves = np.fft.ifft(np.cos(2.0 * np.pi * np.outer(np.arange(1, 32), places) / 64), axis=1, norm="ortho")
    energy = np.square(np.abs(waves))
    worst = float(((energy.sum(axis=1) + energy[:, 64 - length :].sum(axis=1)) / energy.sum(axis=1)).max())
    assert worst == pytest.approx(least)
    assert repeated.removal / plain.removal >= worst * (1.0 - 1e-9)
    assert repeated.replacement / plain.replacement >= worst * (1.0 - 1e-9)
