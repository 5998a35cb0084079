"""A path loss of one's own: what is received over which distance, what bounds rest on, and what is refused."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from airmixml import AirMixClassifier, Scenario, ScenarioError, simulate
from airmixml.impairments.fading import PathLoss, best_power_gain, weakest_gain
from airmixml.messages import PluginError
from airmixml.planning.account import account_scenario
from airmixml.privacy import PrivacyStatement, state_privacy
from airmixml.radio.system import adversary_named, planned_design, sensitivity_of
from airmixml.scenario import Radio

PRIVATE = Scenario.preset("private-iris")


class Slopes(PathLoss):
    """20 dB per decade up to a distance, 40 dB beyond."""

    about = "two slopes"

    def __init__(self, at_metres: float = 100.0) -> None:
        self.at_metres = at_metres

    def loss_db(self, distance_metres: Any) -> Any:
        beyond = np.maximum(distance_metres / self.at_metres, 1.0)
        return 32.0 + 20.0 * np.log10(distance_metres) + 20.0 * np.log10(beyond)


def stated(scenario: Scenario, adversary: str, accountant: str) -> PrivacyStatement:
    """State what holds before anything is drawn, at a received power that is the same for all."""
    design = planned_design(scenario, sensitivity_of(scenario, 4, 3), received_watts=2e-17)
    whom, privacy = adversary_named(adversary, scenario), scenario.privacy
    return state_privacy(design, whom, accountant, adjacency=privacy.adjacency, delta=privacy.delta)


def on(path_loss: Any, base: Scenario = PRIVATE) -> Scenario:
    return replace(base, radio=replace(base.radio, path_loss=path_loss))


def test_gains_follow_the_decibels() -> None:
    gains = Slopes().gain(Radio(path_loss=Slopes()), np.array([10.0, 100.0, 1000.0])) ** 2
    np.testing.assert_allclose(gains, [10**-5.2, 10**-7.2, 10**-11.2], rtol=1e-12)


def test_a_single_slope_is_the_power_law() -> None:
    """The same distances, gains, powers and epsilons."""
    plain, same = (simulate(on(each)).report for each in ("power-law", Slopes(1e9)))
    assert same.energy_joules == pytest.approx(plain.energy_joules, rel=1e-9)
    assert same.privacy.epsilon == pytest.approx(plain.privacy.epsilon, rel=1e-9)


def test_distant_workers_pay_and_privacy_stays() -> None:
    """Channels are inverted: power grows by what is lost beyond 100 m, worker by worker; epsilon does not change."""
    base = PRIVATE.with_overrides("radio.max_power_dbm=60")
    plain, steep = (simulate(on(each, base)) for each in ("power-law", Slopes()))
    assert steep.report.privacy.epsilon == pytest.approx(plain.report.privacy.epsilon, rel=1e-9)
    metres = 10 ** (-(20.0 * np.log10(plain.examples.draws.magnitude) + 32.0) / 20.0)
    expected = np.maximum(metres / 100.0, 1.0) ** 2
    found = steep.examples.draws.power_watts / plain.examples.draws.power_watts
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_bounds_are_those_of_the_farthest_and_the_nearest_place() -> None:
    scenario = on(Slopes())
    corner = PRIVATE.workers.side_metres / math.sqrt(2.0)
    expected = 10**-3.2 / corner**2 / max(corner / 100.0, 1.0) ** 2
    assert weakest_gain(scenario) == pytest.approx(expected, rel=1e-9)
    assert best_power_gain(scenario, 5.0) == pytest.approx(10**-3.2 / 25.0, rel=1e-9)


def test_an_eavesdropper_hears_by_the_same_law() -> None:
    """It is heard by an eavesdropper at one metre 20 dB more softly, who then learns less."""

    class Softer(Slopes):
        def loss_db(self, distance_metres: Any) -> Any:
            return super().loss_db(distance_metres) + 20.0

    base = PRIVATE.with_overrides("mixing.power=fixed", "mixing.power_scale_watts=1e-17")
    base = base.with_overrides("privacy.eavesdropper_distance_metres=1", "radio.max_power_dbm=60")
    heard = [stated(on(each, base), "eavesdropper", "rdp").epsilon for each in (Slopes(), Softer())]
    # Workers send 20 dB more, and it hears 20 dB less.
    assert heard[1] == pytest.approx(heard[0], rel=1e-6)


@pytest.mark.parametrize("gives", [math.nan, math.inf, None, "much", np.ones(3)])
def test_what_no_path_has_is_refused_in_one_line(gives: Any) -> None:
    class Wrong(PathLoss):
        about = "no loss"

        def loss_db(self, distance_metres: Any) -> Any:
            return distance_metres + gives if isinstance(gives, float) else gives

    with pytest.raises(PluginError, match=r"^radio\.path_loss = Wrong: its loss_db must return one finite") as told:
        simulate(on(Wrong()))
    assert "\n" not in str(told.value)


def test_a_loss_that_falls_is_refused_before_anything_is_sent() -> None:
    """The farthest corner would not be the weakest."""

    class Dip(Slopes):
        def loss_db(self, distance_metres: Any) -> Any:
            return super().loss_db(distance_metres) - 30.0 * (distance_metres > 340.0)

    with pytest.raises(PluginError, match=r"^radio\.path_loss = Dip: its loss_db falls with the distance"):
        account_scenario(on(Dip()), 4, 3)


def test_estimator_and_wrong_types() -> None:
    model = AirMixClassifier(path_loss=Slopes(), centre="own")
    assert model._scenario(30, 5).radio.path_loss.startswith("object:Slopes-")
    for wrong in (3, None, object()):
        with pytest.raises(ScenarioError, match=r"^radio\.path_loss = .*must be .*or an object of your own"):
            Radio(path_loss=wrong)
