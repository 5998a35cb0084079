"""Amplifiers: closed forms, what they never do to distances, Gaussian waveforms, and when they are left out."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from seats_for_tests import aired

from airmixml.impairments.hardware import amplified_gaussian, amplify, clipped_gaussian, expansion, is_linear
from airmixml.radio.system import sensitivity_of
from airmixml.scenario import Air


def made(smoothness: float = 2.0, degrees: float = 0.0, **keys: str) -> Air:
    return Air(amplifier_saturation_dbm=20.0, amplifier_smoothness=smoothness, amplifier_turn_degrees=degrees, **keys)  # type: ignore[arg-type]


def sent(air: Air, values: np.ndarray, saturation: float = 1.0) -> np.ndarray:
    along, across = amplify(air, torch.from_numpy(values), saturation)
    return along.numpy() + 1j * across.numpy()


def test_saturation_and_small_signals() -> None:
    """Small amplitudes pass, large ones end at A, at A itself the amplitude is 2^(-1 / 2p) of it; signs are kept."""
    values = np.array([1e-3, -1e-3, 2.0, -1e9, 0.0])
    found = sent(made(3.0), values, 2.0)
    assert np.allclose(found, [1e-3, -1e-3, 2.0 * 2.0 ** (-1.0 / 6.0), -2.0, 0.0], rtol=1e-9)


def test_the_phase_turns_with_the_power() -> None:
    """Half of the turn at A, all of it far in saturation, whichever the sign."""
    found = sent(made(2.0, 40.0), np.array([1.0, -1.0, 1e6]))
    assert np.rad2deg(np.angle(found[0])) == pytest.approx(20.0)
    assert np.rad2deg(np.angle(-found[1])) == pytest.approx(20.0)
    assert np.rad2deg(np.angle(found[2])) == pytest.approx(40.0)


@pytest.mark.parametrize(("smoothness", "degrees"), [(0.5, 0.0), (1.0, 0.0), (2.0, 0.0), (2.0, 40.0), (8.0, 0.0)])
def test_no_vector_gets_longer_and_no_two_get_farther_apart(smoothness: float, degrees: float) -> None:
    air, rng = made(smoothness, degrees), np.random.default_rng(3)
    assert expansion(air) == 1.0
    first = rng.standard_normal((4000, 6)) * 10.0 ** rng.uniform(-2, 2, (4000, 1))
    second = np.where(rng.random((4000, 6)) < 0.5, first + 0.01 * rng.standard_normal((4000, 6)), -first)
    one, other = sent(air, first), sent(air, second)
    assert (np.abs(one) <= np.abs(first) * (1.0 + 1e-12)).all()
    assert (np.linalg.norm(one - other, axis=1) <= np.linalg.norm(first - second, axis=1) * (1.0 + 1e-9)).all()


def test_where_the_phase_sets_symbols_farther_apart_the_stated_factor_covers_it() -> None:
    """A sharp amplifier that turns by 90 degrees is expansive: finite differences come near the factor, never above."""
    air = made(8.0, 90.0)
    factor = expansion(air)
    assert factor > 1.05
    places = np.geomspace(1e-3, 1e3, 200_001)
    moved = np.abs(np.diff(sent(air, places))) / np.diff(places)
    assert 0.999 * factor < moved.max() ** 2 <= factor
    straight = aired("mixing.power=max", "privacy.adversary=server", "privacy.accountant=gdp")
    turned = straight.with_overrides(
        *("air.amplifier_saturation_dbm=20", "air.amplifier_smoothness=8", "air.amplifier_turn_degrees=90"),
        "air.pilot_share=1e-12",
    )
    before, after = (sensitivity_of(each, 4, 3) for each in (straight, turned))
    assert after.replacement == pytest.approx(factor * before.replacement)
    assert after.removal == pytest.approx(before.removal)


def test_samples_of_ofdm_are_complex_and_move_in_two_directions() -> None:
    air, rng = made(2.0, 40.0, waveform="ofdm"), np.random.default_rng(4)
    factor = expansion(air)
    assert 1.0 < factor < 1.2
    place = rng.standard_normal(200_000) + 1j * rng.standard_normal(200_000)
    step = 1e-5 * np.exp(2j * np.pi * rng.random(200_000))

    def through(samples: np.ndarray) -> np.ndarray:
        return sent(air, np.abs(samples)) * np.exp(1j * np.angle(samples))

    moved = np.abs(through(place + step) - through(place)) / np.abs(step)
    assert 0.99 * factor < moved.max() ** 2 <= factor * (1.0 + 1e-5)


def test_a_gaussian_waveform_has_the_gain_and_error_of_its_samples() -> None:
    rng = np.random.default_rng(5)
    samples = (rng.standard_normal(400_000) + 1j * rng.standard_normal(400_000)) / math.sqrt(2.0)
    air = made(2.0, 40.0)
    gain, error = amplified_gaussian(air, torch.tensor([0.5, 4.0], dtype=torch.float64))
    for place, square in enumerate((0.5, 4.0)):
        out = sent(air, np.abs(samples), math.sqrt(square)) * np.exp(1j * np.angle(samples))
        slope = (out * samples.conj()).mean()
        assert complex(gain[place]) == pytest.approx(slope, abs=5e-3)
        assert float(error[place]) == pytest.approx((np.abs(out - slope * samples) ** 2).mean(), rel=0.03)


def test_a_sharp_amplifier_is_a_clipper() -> None:
    squares = torch.tensor([0.3, 1.0, 3.0], dtype=torch.float64)
    gain, error = amplified_gaussian(made(60.0), squares)
    expected_gain, expected_error = clipped_gaussian(squares)
    assert torch.allclose(gain.real, expected_gain, atol=5e-3)
    assert torch.allclose(error, expected_error, atol=5e-3)


def test_it_is_left_out_where_it_changes_less_than_a_thousandth() -> None:
    for air, square in ((made(2.0), 0.06), (made(2.0, 40.0), 1.4e-3)):
        assert is_linear(air, square)
        assert abs(complex(sent(air, np.array([square**0.5]))[0]) / square**0.5 - 1.0) < 1e-3
    for air, square in ((made(2.0), 0.07), (made(2.0, 40.0), 1.5e-3)):
        assert not is_linear(air, square)
