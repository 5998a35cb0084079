"""A law of fading of one's own: what it draws, what follows from it, and what is refused."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaincinv

from airmixml import AirMixClassifier, Scenario, ScenarioError, simulate
from airmixml.impairments.fading import Fading, RayleighFading, RicianFading, silent_share
from airmixml.messages import PluginError
from airmixml.randomness.slot_words import slot_words
from airmixml.scenario import Air, Radio
from airmixml.streams import Streams

PRIVATE = Scenario.preset("private-iris")


class Nakagami(Fading):
    """The power has a gamma law of shape m and mean 1."""

    about = "Nakagami-m fading"

    def __init__(self, m: float) -> None:
        self.m = m

    def quantile(self, chances: Any) -> Any:
        return gammaincinv(self.m, chances) / self.m


def on(fading: Any, base: Scenario = PRIVATE, **air: Any) -> Scenario:
    return replace(base, radio=replace(base.radio, fading=fading), air=Air(**air))


def powers(radio: Radio, draws: int = 40_000) -> np.ndarray:
    source = slot_words(Streams(3), "fading")
    return radio.fading_kind.draw(radio, range(draws // 4), 4, source).numpy().ravel() ** 2


@pytest.mark.parametrize("m", [0.5, 1.0, 3.0])
def test_a_nakagami_channel_has_its_law(m: float) -> None:
    found = stats.kstest(powers(Radio(fading=Nakagami(m))), stats.gamma(m, scale=1.0 / m).cdf)
    assert found.pvalue > 1e-3
    silent = silent_share(on(Nakagami(m), truncation_db=-10.0))
    assert silent == pytest.approx(stats.gamma(m, scale=1.0 / m).cdf(0.1), rel=1e-9)


def test_of_shape_one_it_is_rayleigh_fading() -> None:
    ours, theirs = on(Nakagami(1.0), truncation_db=-5.0), on("rayleigh", truncation_db=-5.0)
    assert silent_share(ours) == pytest.approx(silent_share(theirs), rel=1e-9)
    radio = Radio(rician_k=3.0)
    assert RayleighFading().share_below(radio, 0.2) == pytest.approx(1.0 - np.exp(-0.2), rel=1e-9)
    drawn = powers(Radio(fading="rician", rician_k=3.0))
    assert RicianFading().share_below(radio, 0.2) == pytest.approx(np.mean(drawn < 0.2), abs=0.01)


def test_channels_are_inverted_and_the_target_is_kept() -> None:
    """Received power does not depend on fading, so neither does epsilon; the energy does: E[1 / power] is m / (m - 1).

    Workers in a fade below -30 dB, one in 10^8 for m = 3, stay silent.
    """
    steady, faded = (simulate(on(fading, truncation_db=-30.0)).report for fading in ("none", Nakagami(3.0)))
    assert faded.privacy.epsilon == pytest.approx(steady.privacy.epsilon, rel=1e-6)
    assert faded.energy_joules / steady.energy_joules == pytest.approx(1.5, rel=0.2)


def test_the_estimator_takes_it() -> None:
    model = AirMixClassifier(fading=Nakagami(2.0), centre="own", air=Air(truncation_db=-20.0))
    assert model._scenario(30, 5).radio.fading.startswith("object:Nakagami-")


@pytest.mark.parametrize(
    "air",
    [
        {"estimation_nmse_db": -20.0},
        {"speed_metres_per_second": 1.0},
        {"antennas": 2},
    ],
)
def test_bounds_that_follow_from_another_law_are_refused(air: dict[str, Any]) -> None:
    refused = r"^radio\.fading = 'object:Nakagami-.*: has no Rician K, from which bounds on errors"
    simulate(on("rayleigh", truncation_db=-10.0, **air))
    with pytest.raises(ScenarioError, match=refused):
        simulate(on(Nakagami(2.0), truncation_db=-10.0, **air))


def test_a_target_and_deep_fades_need_a_floor_as_ever() -> None:
    with pytest.raises(ScenarioError, match=r"needs air\.truncation_db for radio\.fading = .object:Nakagami"):
        on(Nakagami(2.0), estimation_nmse_db=-20.0)


class Faulty(Fading):
    about = "gives what no channel has"

    def __init__(self, gives: Any) -> None:
        self.gives = gives

    def quantile(self, chances: Any) -> Any:
        return chances + self.gives if isinstance(self.gives, float) else self.gives


@pytest.mark.parametrize("gives", [-2.0, float("nan"), float("inf"), None, "much", np.ones(3)])
def test_what_no_channel_has_is_refused_in_one_line(gives: Any) -> None:
    with pytest.raises(PluginError, match=r"^radio\.fading = Faulty: its quantile must return one power") as caught:
        powers(Radio(fading=Faulty(gives)), 100)
    assert "\n" not in str(caught.value)


def test_a_law_that_falls_is_refused_where_a_share_is_asked_for() -> None:
    class Falling(Fading):
        about = "the wrong way round"

        def quantile(self, chances: Any) -> Any:
            return 2.0 - 2.0 * chances

    with pytest.raises(PluginError, match="its quantile falls; must rise"):
        silent_share(on(Falling(), truncation_db=-10.0))


def test_a_wrong_type_is_told() -> None:
    for wrong in (3, None, object()):
        with pytest.raises(ScenarioError, match=r"^radio\.fading = .*must be one of .*or an object of your own"):
            Radio(fading=wrong)
