"""Gains that are joined per seat, block and piece: products of all impairments in every piece, the draws as ever."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from airmixml import Scenario, simulate
from airmixml.impairments.frame import frame_of
from airmixml.impairments.gains import SeatDraws, SeatGains, draw_with_peaks, impairments_of
from airmixml.randomness.slot_words import slot_words
from airmixml.streams import Streams

CAMPUS = Scenario.preset("private-mnist").on_air("campus")
# Seats 2 and 3 in slots 5 and 6, in piece 100 and the last, as drawn before gains were joined.
AS_EVER = [
    (0.727666 - 0.026744j),
    0j,
    0j,
    (1.30738 + 0.053391j),
    (1.250675 - 0.010753j),
    (1.224481 + 0.052511j),
    0j,
    0j,
]


def seats(scenario: Scenario, slots: int = 2, scheduled: int = 6) -> SeatDraws:
    path_gain = torch.linspace(1e-6, 1e-5, slots * scheduled, dtype=torch.float64).view(slots, scheduled)
    return SeatDraws(
        slots=range(5, 5 + slots),
        frame=frame_of(scenario.air, 39_800).with_pilots,
        workers=torch.arange(slots * scheduled).view(slots, scheduled),
        magnitude=path_gain,
        path_gain=path_gain,
        source=slot_words(Streams(3), "air", torch.device("cpu")),
        in_slot=scheduled,
    )


@pytest.mark.parametrize("changes", [(), ("radio.fading=rician", "radio.rician_k=4", "air.late=0.3")])
def test_gains_are_the_product_of_what_each_impairment_does(changes: tuple[str, ...]) -> None:
    scenario = CAMPUS.with_overrides(*changes)
    draws = seats(scenario)
    frame = draws.frame
    assert (frame.pieces, frame.block_count, frame.per_block) == (
        608,
        122,
        5,
    )  # the last block is shorter than the others
    product, moved = np.ones((2, 6, frame.pieces), dtype=complex), np.ones((2, 6, frame.pieces))
    for impairment in impairments_of(scenario):
        gains = impairment.gains(draws).numpy().astype(complex)
        gains = gains[:, :, list(frame.blocks)] if gains.shape[2] == frame.block_count else gains
        product *= gains
        moved *= 1.0 if impairment.angle(draws) is not None else np.abs(gains)
    found, peaks = draw_with_peaks(scenario, seats(scenario))
    assert found.numpy() == pytest.approx(product, rel=1e-5, abs=2e-6)
    assert peaks.numpy() == pytest.approx((moved**2).max(axis=2), rel=1e-5)


def test_draws_are_as_ever() -> None:
    found, _ = draw_with_peaks(CAMPUS, seats(CAMPUS))
    assert found[:, 2:4, [100, -1]].flatten().numpy() == pytest.approx(np.array(AS_EVER), abs=2e-6)


def test_parts_of_a_slot_have_the_gains_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    draws = seats(CAMPUS, slots=1)
    every = draw_with_peaks(CAMPUS, draws)[0]
    monkeypatch.setattr("airmixml.impairments.gains._GAINS_AT_ONCE", 2048)
    monkeypatch.setattr("airmixml.impairments.gains._GAINS_IN_CACHE", 1300)
    gains = SeatGains(scenario=CAMPUS, draws=replace(draws, frame=frame_of(CAMPUS.air, 39_800)))
    assert len(gains.parts) == 3
    found = torch.cat([gains.with_pilots(part) for part in gains.parts], dim=1)
    assert torch.allclose(found, every[:, :, torch.from_numpy(gains.draws.frame.pieces_then_pilots)])


def test_slots_formed_several_at_once_are_those_formed_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Amplifiers near saturation: every vector is formed. In the time of the whole preset it was the dearest step."""
    few = Scenario.preset("digits").on_air("campus").with_overrides("radio.slots=40", "radio.scheduled=3")
    at_once = simulate(few).inputs
    monkeypatch.setattr("airmixml.workers.signal.STREAMED_AT_ONCE", 1)
    assert simulate(few).inputs == pytest.approx(at_once, rel=1e-6, abs=1e-9)
