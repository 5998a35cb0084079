"""Statements for both kinds of neighbours, air time and energy of slots that last as long as their symbols."""

from __future__ import annotations

import math

import numpy as np
import pytest

from airmixml import Scenario, simulate
from airmixml.privacy import ADJACENCIES, gaussian_epsilon
from airmixml.radio.system import System
from airmixml.radio.tally import placed_distances, rehearse

NOISE_WATTS = 10 ** (-14.4)


def moments(*changes: str) -> Scenario:
    return Scenario.preset("private-iris").with_overrides("workers.count=300", "radio.scheduled=300", *changes)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_both_kinds_of_neighbours_are_stated(adjacency: str) -> None:
    """mu^2 of one kind over mu^2 of the other is the ratio of their moves: 2 to 4.5 for moments with C = w = 1."""
    report = rehearse(moments(f"privacy.adjacency={adjacency}"), 5, 3)
    stated = [each for each in report.statements if (each.adversary, each.accountant) == ("server", "gdp")]
    assert stated[0].adjacency == adjacency
    assert {each.adjacency for each in stated} == set(ADJACENCIES)
    assert {each.adjacency: each.sensitivity for each in stated} == {"remove-one": 2.0, "replace-one": 4.5}
    assert stated[0].target_epsilon == 5.0
    assert stated[1].target_epsilon is None
    assert stated[0].epsilon == pytest.approx(5.0, rel=1e-6)
    power = report.design.received_watts[0] / (NOISE_WATTS / 2)
    for each in stated:
        assert each.epsilon == pytest.approx(gaussian_epsilon(math.sqrt(power * each.sensitivity), 0.01), rel=1e-9)


def test_the_release_is_worth_what_the_server_has_when_everybody_sends() -> None:
    statements = rehearse(moments(), 5, 3).statements
    for adjacency in ADJACENCIES:
        own = {
            each.epsilon
            for each in statements
            if each.adjacency == adjacency and each.adversary in ("release", "server") and each.accountant == "gdp"
        }
        assert len(own) == 1
    hidden = rehearse(
        moments("radio.scheduled=100", "privacy.accountant=pld", "privacy.adjacency=replace-one"), 5, 3
    ).statements
    pld = {
        each.adversary: each.epsilon for each in hidden if (each.accountant, each.adjacency) == ("pld", "replace-one")
    }
    assert pld["release"] < 0.9 * pld["server"]


def test_time_and_energy_of_slots_as_long_as_their_symbols() -> None:
    """Two slots of 15 + 15 symbols; a worker radiates P ||v||^2 a symbol time, and ||v||^2 <= 2."""
    scenario = moments("radio.slots=2")
    report = simulate(scenario).report
    assert report.air_seconds == pytest.approx(2 * 30 / 794_000, rel=1e-12)
    beta = report.design.received_watts[0]
    gains = 10**-3.2 / placed_distances(scenario) ** 2
    assert report.worker_energy_joules == pytest.approx(2 * beta / gains * 2.0 / 794_000, rel=1e-6)
    assert report.to_dict()["symbols_per_slot"] == 30
    assert report.to_dict()["air_seconds"] == report.air_seconds


def test_no_worker_radiates_more_than_is_counted() -> None:
    """sum of P |symbol|^2 over the symbols of a slot, from the samples really sent, against the bound."""
    mixtures = simulate(moments("workers.label_weight=0.7"))
    x = mixtures.dataset.train_inputs[mixtures.population.sample_index].astype(np.float64)
    square = np.square(x).sum(axis=1)
    radiated = square**2 + 0.49 * square
    power = mixtures.report.design.received_watts[0] * placed_distances(mixtures.scenario) ** 2 / 10**-3.2
    assert (radiated * power / 794_000 <= mixtures.report.worker_energy_joules * (1 + 1e-9)).all()


def test_a_given_slot_length_counts_as_the_paper_does() -> None:
    """tau sum P, whatever is sent: 1 ms of full amplitude."""
    scenario = moments("radio.slot_seconds=1e-3")
    report = simulate(scenario).report
    assert report.air_seconds == 1e-3
    watts = report.design.received_watts[0] * placed_distances(scenario) ** 2 / 10**-3.2
    assert report.worker_energy_joules == pytest.approx(1e-3 * watts, rel=1e-6)
    iris = Scenario.preset("paper-iris").with_overrides("radio.slots=50")
    blocks = simulate(iris)
    assert blocks.report.air_seconds == pytest.approx(0.05)
    draws = blocks.examples.draws
    powers = np.square(draws.ratios) * draws.power_scale_watts[:, None] / draws.magnitude**2
    assert draws.power_watts == pytest.approx(powers, rel=1e-9)
    assert blocks.examples.joules_per_watt == pytest.approx(1e-3)


@pytest.mark.parametrize(
    ("changes", "squares"),
    [
        (("workers.encoder=scale", "workers.sends=samples", "workers.constant=0", "workers.centre=none"), 4 + 1),
        (("workers.sends=samples", "workers.constant=0", "workers.label_weight=0.5"), 1.25),
        (("workers.clip_norm=0.5",), 0.0625 + 0.25),
    ],
)
def test_energy_is_counted_by_the_largest_norm(changes: tuple[str, ...], squares: float) -> None:
    scenario = moments(*changes)
    features = 5 if scenario.workers.constant else 4
    found = System.of(scenario, features, 3).joules_per_watt
    assert found == pytest.approx(squares / 794_000, rel=1e-12)
