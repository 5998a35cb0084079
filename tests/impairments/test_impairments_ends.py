"""Every law at the ends of its random words: what happens once in 10^7 draws happens in every run of 60,000 workers."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from extreme_words import draw_nothing_but_ends
from seats_for_tests import aired, drawn_on, setting_of

from airmixml import Scenario, simulate
from airmixml.impairments.gains import impairments_of
from airmixml.radio.draws import draw_slots
from airmixml.randomness.slot_words import PhiloxWords, exponentials, log_gammas, normal_pairs, uniforms
from airmixml.scenario.air import AIR_PRESETS

FADES = ("radio.fading=rayleigh", "radio.fading=rician", "radio.fading=none")
MOVING = ("air.speed_metres_per_second=1", "air.carrier_hz=3.5e9", "air.truncation_db=-3")
LAWS = {
    "phase": ("air.phase_error_radians=0.1", "air.phase_noise_hz=1", "air.resync_seconds=5e-5"),
    "frequency": ("air.frequency_offset_hz=200", "air.resync_seconds=5e-5"),
    "amplitude": ("air.amplitude_error_db=2.5",),
    "late": ("air.late=0.1", "air.resync_seconds=5e-5"),
    "absent": ("air.absent=0.1",),
    "doppler": MOVING,
    "renewed": (*MOVING, "air.fading_renewal=coherence"),
    "renewed on antennas": (*MOVING, "air.fading_renewal=coherence", "air.antennas=64"),
    "antennas": ("air.antennas=8", "air.truncation_db=-3"),
    "estimation": ("air.estimation_nmse_db=-20", "air.truncation_db=-10"),
    "pilots": ("air.estimation_pilots=4", "air.truncation_db=-10"),
    "reciprocity": ("air.reciprocity_nmse_db=-22",),
    "timing": ("air.timing_offset_symbols=0.3",),
    "shadowing": ("air.shadowing_db=8",),
    "clusters": ("air.waveform=ofdm", "air.delay_spread_seconds=1e-7", "air.estimation_nmse_db=-20"),
    "subcarriers": ("air.waveform=ofdm", "air.timing_offset_symbols=0.3", "air.delay_spread_seconds=1e-7"),
    "hardware": ("air.amplifier_saturation_dbm=-60", "air.amplifier_turn_degrees=10", "air.carrier_leakage_db=-20"),
    "converters": ("air.dac_bits=6", "air.adc_bits=6", "air.adc_gain=causal", "air.power_step_db=1"),
}

ECHOES = ("clusters", "subcarriers")  # which are fading
CASES = [(law, fading) for law in LAWS for fading in FADES if not (law in ECHOES and fading == FADES[-1])]


@pytest.mark.parametrize(("law", "fading"), CASES)
def test_every_law_is_finite_at_the_ends(law: str, fading: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Magnitudes, ratios, powers, peaks and gains themselves; before, 0 / 0 made a peak that is no number."""
    draw_nothing_but_ends(monkeypatch)
    drawn = drawn_on(aired("mixing.power=max", "radio.scheduled=200", fading, *LAWS[law]), slots=8)
    assert drawn.gains is not None
    found = [drawn.magnitude, drawn.ratios, drawn.power_watts, drawn.gains.peaks]
    found += [torch.view_as_real(drawn.gains.with_pilots(part)) for part in drawn.gains.parts]
    assert all(bool(torch.isfinite(each).all()) for each in found)
    assert float(drawn.magnitude.min()) > 0.0


@pytest.mark.parametrize("air", AIR_PRESETS)
@pytest.mark.parametrize("preset", ["private-iris", "trustless-iris", "private-table"])
def test_a_run_drawn_from_ends_alone_is_finite(air: str, preset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All stages of a slot, on every profile; what cannot be stated there is refused before the first draw."""
    draw_nothing_but_ends(monkeypatch)
    scenario = Scenario.preset(preset).with_overrides(f"air.preset={air}", "privacy.epsilon=100")
    sent = simulate(scenario)
    numbers = sent.report.to_dict()
    assert all(math.isfinite(numbers[name]) for name in ("energy_joules", "snr_db", "air_seconds"))
    assert bool(torch.isfinite(sent.inputs).all() & torch.isfinite(sent.labels).all())


def test_every_impairment_is_looked_at() -> None:
    """A new one must be added to the laws above."""
    from airmixml.registries import IMPAIRMENTS

    seen = {
        type(each).__name__
        for law, fading in CASES
        for each in impairments_of(aired("mixing.power=max", fading, *LAWS[law]))
    }
    assert seen == {IMPAIRMENTS.load(name).__name__ for name in IMPAIRMENTS.own}


MANY = 10**8
_AT_ONCE = 1 << 21


def blocks_of_words() -> list[range]:
    return [range(first, min(first + _AT_ONCE, MANY)) for first in range(0, MANY, _AT_ONCE)]


@pytest.mark.long
def test_of_many_draws_none_is_at_an_end() -> None:
    """Of 10^8 words about three have a uniform number that float32 rounds to 1, by which both normals were 0."""
    source = PhiloxWords((1, 2), torch.device("cpu"))
    shortest, tops, counted = math.inf, 0, np.zeros(2)
    for block in blocks_of_words():
        words = source.words(block, 1)[:, 0]
        tops += int((words >> 24 & (1 << 40) - 1 >= (1 << 40) - (1 << 15)).sum())
        along, across = normal_pairs(words)
        square = along.square() + across.square()
        shortest = min(shortest, float(square.min()))
        counted += [float(square.sum()), len(words)]
        for law in (uniforms(words), exponentials(words), square):
            assert bool((torch.isfinite(law) & (law > 0.0)).all())
    assert tops >= 1  # else nothing was tested
    assert shortest > 0.0
    assert counted[0] / counted[1] == pytest.approx(2.0, abs=5 * 2.0 / math.sqrt(MANY))


@pytest.mark.long
@pytest.mark.parametrize("shape", [0.5, 62.5])
def test_many_gammas_are_finite(shape: float) -> None:
    source = PhiloxWords((3, 4), torch.device("cpu"))
    shapes = torch.tensor([shape], dtype=torch.float64)
    for block in blocks_of_words()[:: 5 if shape < 1.0 else 1][:10]:
        words = source.words(block, 3).view(len(block), 1, 3)

        def more(places: torch.Tensor, attempt: int) -> torch.Tensor:
            return source.words_at(range(1), 1, places, attempt)

        values = log_gammas(shapes, words, more)
        assert bool(torch.isfinite(values).all())


@pytest.mark.long
@pytest.mark.parametrize("law", LAWS)
def test_many_gains_are_finite(law: str) -> None:
    setting = setting_of(aired("mixing.power=max", FADES[0], *LAWS[law], "radio.slots=1000000000"))
    drawn, first, at_once = 0, 0, 4000
    while drawn < MANY:
        slots = draw_slots(setting, range(first, first + at_once))
        assert slots.gains is not None
        gains = slots.gains.with_pilots(slots.gains.parts[0])
        assert all(bool(torch.isfinite(each).all()) for each in (slots.gains.peaks, slots.power_watts, gains.real))
        drawn, first = drawn + gains.numel(), first + at_once
