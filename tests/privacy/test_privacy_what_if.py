"""Epsilon where a receiver is better than assumed: against mu times the square root of the power, by mpmath."""

from __future__ import annotations

import math

import mpmath
import pytest

from airmixml import Scenario
from airmixml.planning.account import account_numbers, account_scenario
from airmixml.planning.known_inputs import data_dimensions
from airmixml.privacy import Design, Release, Sensitivity, Server, facts, state_privacy
from airmixml.privacy.adversaries import Eavesdropper, Everyone
from airmixml.privacy.gaussian import gaussian_mu
from airmixml.privacy.statements import UNCHANGED
from airmixml.radio.tally import rehearse

ONE_SLOT = Design(
    workers=50,
    scheduled=50,
    received_watts=(0.25,),
    counts=(1,),
    sensitivity=Sensitivity(removal=1.0, replacement=2.0),
    noise_watts=2.0,
)


def delta_of(mu: float, epsilon: float) -> float:
    """Of a Gaussian mechanism, by Balle and Wang."""
    with mpmath.workdps(30):
        first, second = mpmath.ncdf(mu / 2 - epsilon / mu), mpmath.ncdf(-mu / 2 - epsilon / mu)
        return float(first - mpmath.exp(epsilon) * second)


def test_a_server_with_more_antennas_or_less_noise_has_that_much_larger_mu() -> None:
    stated = state_privacy(ONE_SLOT, Server(), "gdp", adjacency="remove-one", delta=1e-5)
    assert list(stated.if_better) == ["+3 dB", "+10 dB", "64 antennas"]
    for name, factor in {"+3 dB": 10**0.3, "+10 dB": 10.0, "64 antennas": 64.0}.items():
        epsilon = stated.if_better[name]
        assert epsilon is not None
        assert delta_of(math.sqrt(0.25 * factor), epsilon) == pytest.approx(1e-5, rel=1e-6)
    assert "assumes 1 antenna, the stated noise floor and amplitudes" in stated.receiver_in_words
    assert f"{stated.if_better['64 antennas']:.4g} with 64 antennas" in stated.receiver_in_words


def test_the_numbers_that_the_documents_name() -> None:
    """At delta = 1e-5, 64 antennas turn 10 into 195 and 1 into 10.9; 9 dB turn 1 into 3."""
    for target, many in ((10.0, 195.0), (1.0, 10.9)):
        mu = gaussian_mu(target, 1e-5)
        design = ONE_SLOT.scaled(4.0 * mu**2)
        stated = state_privacy(design, Server(), "gdp", adjacency="remove-one", delta=1e-5)
        assert stated.epsilon == pytest.approx(target)
        assert stated.if_better["64 antennas"] == pytest.approx(many, rel=5e-3)


def test_antennas_that_are_assumed_are_not_counted_twice() -> None:
    four = ONE_SLOT.stating(facts.Antennas(gain=4.0, count=4))
    stated = state_privacy(four, Server(), "gdp", adjacency="remove-one", delta=1e-5)
    epsilon = stated.if_better["64 antennas"]
    assert epsilon is not None
    assert delta_of(math.sqrt(0.25 * 64.0), epsilon) == pytest.approx(1e-5, rel=1e-6)
    many = ONE_SLOT.stating(facts.Antennas(gain=64.0, count=64))
    assert list(state_privacy(many, Server(), "gdp", adjacency="remove-one", delta=1e-5).if_better) == [
        "+3 dB",
        "+10 dB",
    ]


def test_a_release_has_the_mixtures_of_one_antenna_and_an_eavesdropper_its_own() -> None:
    asked = {"adjacency": "remove-one", "delta": 1e-5}
    assert list(state_privacy(ONE_SLOT, Release(), "gdp", **asked).if_better) == ["+3 dB", "+10 dB"]
    sent = ONE_SLOT.stating(facts.Transmitters(weakest_gain=1e-3, limit_watts=1e9))
    two = Eavesdropper(gain=1e-6, own_noise_watts=2.0, own_antennas=2)
    stated = state_privacy(sent, two, "gdp", **asked)
    assert stated.antennas == 2
    assert stated.if_better["64 antennas"] == pytest.approx(
        state_privacy(sent, Eavesdropper(gain=32e-6, own_noise_watts=2.0), "gdp", **asked).epsilon
    )


def test_nothing_changes_against_everyone() -> None:
    hidden = ONE_SLOT.stating(facts.WorkersNoise(alone_watts=1.0, in_sum_watts=5.0, by="noise"))
    stated = state_privacy(hidden, Everyone(), "gdp", adjacency="remove-one", delta=1e-5)
    assert stated.if_better == {}
    assert stated.receiver_in_words == UNCHANGED
    louder = state_privacy(
        hidden.stating(facts.Antennas(gain=64.0, count=64)), Everyone(), "gdp", adjacency="remove-one", delta=1e-5
    )
    assert louder.epsilon == stated.epsilon


@pytest.mark.parametrize("name", ["paper-iris", "private-iris", "private-mnist", "trustless-iris"])
def test_every_account_has_rows_of_what_its_receiver_is_assumed_to_be(name: str) -> None:
    scenario = Scenario.preset(name)
    account = account_scenario(scenario, *data_dimensions(scenario, None, None), accountants=("paper-loose", "gdp"))
    rows = {each.name: each.epsilons for each in account.what_if}
    if name == "trustless-iris":
        assert any("less noise" in row for row in rows)
        return
    assert list(rows) == ["+3 dB", "+10 dB", "64 antennas"]
    assert scenario.privacy.adversary in rows["+3 dB"]
    exact = next(each for each in account.statements if (each.adversary, each.accountant) == ("server", "gdp"))
    mu = gaussian_mu(exact.epsilon, exact.delta)
    assert delta_of(8.0 * mu, rows["64 antennas"]["server"]) == pytest.approx(exact.delta, rel=1e-4)


def test_plain_numbers_have_them_too() -> None:
    account = account_numbers(workers=100, scheduled=100, slots=1, noise_multiplier=2.0, delta=1e-5)
    rows = {each.name: each.epsilons["server"] for each in account.what_if}
    assert delta_of(0.5 * math.sqrt(10.0), rows["+10 dB"]) == pytest.approx(1e-5, rel=1e-6)


def test_a_slot_for_a_mean_is_received_as_well() -> None:
    scenario = Scenario.preset("private-iris").with_overrides("workers.centre=refined", "privacy.epsilon=2")
    stated = rehearse(scenario, 5, 3).privacy
    mu = gaussian_mu(stated.epsilon, stated.delta)
    epsilon = stated.if_better["+10 dB"]
    assert epsilon is not None
    assert delta_of(mu * math.sqrt(10.0), epsilon) == pytest.approx(stated.delta, rel=1e-3)


def test_what_was_not_asked_for_still_says_what_a_better_receiver_does() -> None:
    # Maximum power has no target; at so large an epsilon it grows in proportion to the power, 10^0.3 and 10.
    first = rehearse(Scenario.preset("digits").with_overrides("radio.slots=200"), 64, 10).statements[0]
    assert (first.accountant, first.target_epsilon) == ("paper-loose", None)
    assert first.if_better == {
        "+3 dB": pytest.approx(10.0**0.3 * first.epsilon, rel=1e-3),
        "+10 dB": pytest.approx(10.0 * first.epsilon, rel=1e-3),
    }
    assert "epsilon by paper-loose" in first.receiver_in_words
    assert "e+" not in first.receiver_in_words
