"""Mixing ratios of one's own: dealt out at random, and refused where they are no shares."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from airmixml import Scenario, ScenarioError, simulate
from airmixml.messages import PluginError
from airmixml.radio.draws import SlotDraws
from airmixml.radio.mixing import Ratios
from airmixml.scenario import Mixing

PAPER = Scenario.preset("paper-iris")


class Falling(Ratios):
    """Gives the first seat the most."""

    about = "each share a part of the one before"

    def __init__(self, part: float = 0.5) -> None:
        self.part = part

    def shares(self, chances: Any) -> Any:
        weights = self.part ** np.arange(chances.shape[1])
        return np.tile(weights / weights.sum(), (len(chances), 1))


def on(policy: Any, base: Scenario = PAPER) -> Scenario:
    return replace(base, mixing=replace(base.mixing, policy=policy))


def draws_of(scenario: Scenario) -> SlotDraws:
    return simulate(scenario).examples.draws


def test_shares_are_those_of_the_object_in_random_order() -> None:
    ratios = draws_of(on(Falling())).ratios
    expected = 2.0 ** np.arange(8) / 255.0  # of eight workers per slot
    np.testing.assert_allclose(np.sort(ratios, axis=1), np.tile(expected, (len(ratios), 1)))
    assert len(set(ratios.argmax(axis=1).tolist())) > 1  # not always the first seat
    strongest = on(Falling())
    strongest = replace(strongest, mixing=replace(strongest.mixing, assignment="max-min"))
    drawn = draws_of(strongest)
    assert (drawn.ratios.argmax(axis=1) == drawn.magnitude.argmax(axis=1)).all()


def test_the_largest_share_sets_the_power() -> None:
    """beta max q^2 is what the target allows, whatever the shares; so is epsilon."""
    reports = [simulate(on(policy)).report for policy in ("equalmix", Falling())]
    assert reports[1].privacy.epsilon == pytest.approx(reports[0].privacy.epsilon, rel=1e-9)
    equal, falling = (draws_of(on(policy)) for policy in ("equalmix", Falling()))
    largest = [each.power_scale_watts * each.ratios.max(axis=1) ** 2 for each in (equal, falling)]
    np.testing.assert_allclose(largest[1], largest[0], rtol=1e-9)


@pytest.mark.parametrize("wrong", [-0.25, np.nan, 0.3])
def test_what_are_no_shares_is_refused(wrong: float) -> None:
    class Wrong(Ratios):
        about = "no shares"

        def shares(self, chances: Any) -> Any:
            return np.full(chances.shape, wrong)

    with pytest.raises(PluginError, match=r"^mixing\.policy = Wrong: its shares must have the shape") as caught:
        simulate(on(Wrong()))
    assert "\n" not in str(caught.value)


def test_what_may_leave_workers_without_a_share_brings_no_noise() -> None:
    iris = Scenario.preset("trustless-iris")
    with pytest.raises(ScenarioError, match=r"workers without a share would hide nobody"):
        simulate(on(Falling(), iris))
    with pytest.raises(ScenarioError, match=r"^mixing\.policy = 3: must be one of .*or an object of your own"):
        Mixing(policy=3)
