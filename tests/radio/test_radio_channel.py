import numpy as np
import pytest
import torch
from complex_baseband import ChannelRealisation
from laws import same_distribution
from scipy import stats

from airmixml.impairments.fading import PowerLaw, draw_magnitude, draw_phase
from airmixml.randomness.slot_words import slot_words
from airmixml.scenario import Radio
from airmixml.streams import Streams

DRAWS = 40_000


def faded(fading: str, k: float, draws: int) -> np.ndarray:
    """So many values of abs(g), four in a slot."""
    radio, source = Radio(fading=fading, rician_k=k), slot_words(Streams(2), "fading")
    return radio.fading_kind.draw(radio, range(draws // 4), 4, source).numpy().ravel()


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
    assert PowerLaw().gain(Radio(path_loss_exponent=exponent), np.array([distance])) == pytest.approx([gain], rel=1e-12)


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
    magnitude = faded(fading, k, DRAWS)
    assert same_distribution(magnitude, law)
    assert not same_distribution(magnitude * 2 / 3, law)
    assert not same_distribution(magnitude * 3 / 2, law)


@pytest.mark.parametrize(("fading", "k"), [("rayleigh", 1.0), ("rician", 0.0), ("rician", 2.5), ("rician", 1e6)])
def test_fading_has_unit_power(fading: str, k: float) -> None:
    power = faded(fading, k, 200_000) ** 2
    assert power.mean() == pytest.approx(1.0, abs=5 * power.std() / np.sqrt(200_000) + 1e-9)


def test_no_fading_and_infinite_rician_factor_are_the_same() -> None:
    assert np.array_equal(faded("none", 1.0, 20), np.ones(20))
    assert np.array_equal(faded("rician", np.inf, 20), np.ones(20))


def test_channel_is_path_gain_times_fading_with_a_uniform_phase() -> None:
    workers, slots = np.arange(3000).reshape(1000, 3) % 7, range(1000)
    gain, radio = np.linspace(1e-4, 1e-3, 7), Radio(fading="rayleigh")
    fading, phase = (slot_words(Streams(0), name) for name in ("fading", "phase"))
    magnitude = draw_magnitude(radio, torch.from_numpy(gain), torch.from_numpy(workers), slots, fading).numpy()
    assert magnitude == pytest.approx(gain[workers] * radio.fading_kind.draw(radio, slots, 3, fading).numpy())
    channel = ChannelRealisation(magnitude=magnitude, phase_radians=draw_phase(slots, 3, phase).numpy())
    assert channel.phase_radians is not None
    assert same_distribution(channel.phase_radians, stats.uniform(0, 2 * np.pi).cdf)
    assert np.abs(channel.gain) == pytest.approx(magnitude)
    assert np.angle(channel.gain) % (2 * np.pi) == pytest.approx(channel.phase_radians)
    without = draw_magnitude(Radio(fading="none"), torch.from_numpy(gain), torch.from_numpy(workers), slots, fading)
    assert np.array_equal(without.numpy(), gain[workers])
