import numpy as np
import pytest
from laws import same_distribution
from scipy import stats

from airmixml.radio.channel import draw_fading, generate_channel, path_gain
from airmixml.scenario import Radio

DRAWS = 40_000


@pytest.mark.parametrize(
    ("distance", "exponent", "gain"),
    [
        (1.0, 2.0, 10 ** (-32 / 20)),
        (100.0, 2.0, 10 ** (-72 / 20)),  # 40 dB more than at one metre
        (100.0, 4.0, 10 ** (-112 / 20)),  # 80 dB more
        (250.0, 0.0, 10 ** (-32 / 20)),
    ],
)
def test_path_gain_by_hand(distance: float, exponent: float, gain: float) -> None:
    assert path_gain(np.array([distance]), exponent, -32.0) == pytest.approx([gain], rel=1e-12)


def rice(k: float) -> object:
    """|g| of a Rician channel of unit power: direct amplitude sqrt(K/(K+1)), scattered variance 1/(K+1)."""
    sigma = np.sqrt(1 / (2 * (k + 1)))
    return stats.rice(np.sqrt(k / (k + 1)) / sigma, scale=sigma).cdf


@pytest.mark.parametrize(
    ("fading", "k", "law"),
    [
        ("rayleigh", 3.0, stats.rayleigh(scale=np.sqrt(0.5)).cdf),
        ("rician", 0.0, stats.rayleigh(scale=np.sqrt(0.5)).cdf),
        ("rician", 1.0, rice(1.0)),
        ("rician", 10.0, rice(10.0)),
    ],
)
def test_fading_has_its_law_and_not_that_of_two_thirds_or_three_halves(fading: str, k: float, law: object) -> None:
    magnitude = draw_fading(fading, k, (DRAWS,), np.random.default_rng(1))
    assert same_distribution(magnitude, law)
    assert not same_distribution(magnitude * 2 / 3, law)
    assert not same_distribution(magnitude * 3 / 2, law)


@pytest.mark.parametrize(("fading", "k"), [("rayleigh", 1.0), ("rician", 0.0), ("rician", 2.5), ("rician", 1e6)])
def test_fading_has_unit_power(fading: str, k: float) -> None:
    power = draw_fading(fading, k, (200_000,), np.random.default_rng(2)) ** 2
    assert power.mean() == pytest.approx(1.0, abs=5 * power.std() / np.sqrt(200_000) + 1e-9)


def test_no_fading_and_infinite_rician_factor_are_the_same() -> None:
    rng = np.random.default_rng(3)
    assert np.array_equal(draw_fading("none", 1.0, (5, 4), rng), np.ones((5, 4)))
    assert np.array_equal(draw_fading("rician", np.inf, (5, 4), rng), np.ones((5, 4)))


def test_channel_is_path_gain_times_fading_with_a_uniform_phase() -> None:
    workers = np.arange(3000).reshape(1000, 3) % 7
    gain = np.linspace(1e-4, 1e-3, 7)
    radio = Radio(fading="rayleigh")
    channel = generate_channel(radio, gain, workers, np.random.default_rng(4), np.random.default_rng(5))
    fading = draw_fading("rayleigh", 1.0, workers.shape, np.random.default_rng(4))
    assert channel.magnitude == pytest.approx(gain[workers] * fading)
    assert channel.phase_radians is not None
    assert same_distribution(channel.phase_radians, stats.uniform(0, 2 * np.pi).cdf)
    assert np.abs(channel.gain) == pytest.approx(channel.magnitude)
    assert np.angle(channel.gain) % (2 * np.pi) == pytest.approx(channel.phase_radians)
