"""An assignment of one's own: who gets which ratio, what that costs in privacy, and what is refused."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from airmixml import AirMixClassifier, Scenario, ScenarioError, simulate
from airmixml.messages import PluginError
from airmixml.privacy import PrivacyStatement, state_privacy
from airmixml.radio.mixing import Assignment
from airmixml.radio.system import adversary_named, planned_design, sensitivity_of
from airmixml.scenario import Mixing

PAPER = Scenario.preset("paper-iris").with_overrides("mixing.alpha=5")


class ToTheWeakest(Assignment):
    """The larger ratio to the weaker channel."""

    about = "the larger ratio to the weaker channel"

    def assign(self, ratios: Any, magnitude: Any, chances: Any) -> Any:
        rank = (-magnitude).argsort(axis=1).argsort(axis=1)
        return np.take_along_axis(np.sort(ratios, axis=1), rank, axis=1)


def stated(scenario: Scenario, adversary: str, accountant: str) -> PrivacyStatement:
    """State what holds before anything is drawn, at a received power that is the same for all."""
    design = planned_design(scenario, sensitivity_of(scenario, 4, 3), received_watts=2e-17)
    whom, privacy = adversary_named(adversary, scenario), scenario.privacy
    return state_privacy(design, whom, accountant, adjacency=privacy.adjacency, delta=privacy.delta)


def on(assignment: Any, base: Scenario = PAPER) -> Scenario:
    return replace(base, mixing=replace(base.mixing, assignment=assignment))


def test_ratios_go_where_the_object_says() -> None:
    ours, random = (simulate(on(each)).examples.draws for each in (ToTheWeakest(), "random"))
    assert (ours.ratios.argmax(axis=1) == ours.magnitude.argmin(axis=1)).all()
    np.testing.assert_array_equal(np.sort(ours.ratios, axis=1), np.sort(random.ratios, axis=1))
    np.testing.assert_array_equal(ours.scheduled_workers, random.scheduled_workers)


def test_what_follows_channels_hides_no_schedule() -> None:
    """Another worker in a seat may change all ratios: only what the server's epsilon says holds for a release."""
    base = PAPER.with_overrides("mixing.power=fixed", "mixing.power_scale_watts=1e-15", "radio.max_power_dbm=60")
    found = {}
    for name, assignment in (("own", ToTheWeakest()), ("random", "random"), ("max-min", "max-min")):
        found[name] = [stated(on(assignment, base), each, "pld").epsilon for each in ("release", "server")]
    assert found["own"][0] == pytest.approx(found["own"][1], rel=1e-9)
    assert found["own"][1] == pytest.approx(found["random"][1], rel=1e-9)
    assert found["random"][0] < found["own"][0]
    assert found["max-min"][0] == pytest.approx(found["random"][0], rel=1e-9)
    why = stated(on(ToTheWeakest(), base), "release", "gdp").why
    assert "shares may depend on who was scheduled" in why


@pytest.mark.parametrize("gives", [None, "all", 0.5, np.ones(3)])
def test_what_is_no_order_is_refused_in_one_line(gives: Any) -> None:
    class Wrong(Assignment):
        about = "no order"

        def assign(self, ratios: Any, magnitude: Any, chances: Any) -> Any:
            return gives * ratios if isinstance(gives, float) else gives

    with pytest.raises(PluginError, match=r"^mixing\.assignment = Wrong: its assign must return the ratios") as told:
        simulate(on(Wrong()))
    assert "\n" not in str(told.value)


def test_what_it_is_given_is_a_copy() -> None:
    class Greedy(Assignment):
        about = "changes what it is given"

        def assign(self, ratios: Any, magnitude: Any, chances: Any) -> Any:
            kept = ratios.copy()
            ratios[:], magnitude[:] = 0.0, 1e9
            return kept

    ours, random = (simulate(on(each)).examples.draws for each in (Greedy(), "random"))
    np.testing.assert_array_equal(ours.ratios, random.ratios)
    np.testing.assert_array_equal(ours.magnitude, random.magnitude)


def test_estimator_and_wrong_types() -> None:
    model = AirMixClassifier(assignment=ToTheWeakest(), centre="own")
    assert model._scenario(30, 5).mixing.assignment.startswith("object:ToTheWeakest-")
    for wrong in (3, None, object()):
        with pytest.raises(ScenarioError, match=r"^mixing\.assignment = .*must be one of .*or an object of your own"):
            Mixing(assignment=wrong)
