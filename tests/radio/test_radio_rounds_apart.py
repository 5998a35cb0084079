"""Rounds share nothing with the slots before them, and are planned as they are sent."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from airmixml import Scenario
from airmixml.edge import simulate, train
from airmixml.messages import ScenarioError
from airmixml.radio.draws import AirSetting, draw_noise, slots_of_rounds
from airmixml.radio.tally import placed_distances, rehearse
from airmixml.runs.spending import planned_losses
from airmixml.streams import Secret

FEATURES, CLASSES = 20, 3


def with_rounds(preset: str = "private-mnist-rounds", *settings: str) -> Scenario:
    return Scenario.preset(preset).with_overrides("workers.count=500", "radio.scheduled=500", *settings)


@pytest.mark.parametrize("protected", [False, True])
def test_no_round_has_noise_of_the_moments(protected: bool) -> None:
    scenario = with_rounds()
    distances, secret = placed_distances(scenario), Secret() if protected else None
    own = replace(AirSetting.of(scenario, FEATURES, CLASSES, distances), secret=secret)
    rounds = replace(AirSetting.of(scenario, FEATURES, CLASSES, distances, in_rounds=True), secret=secret)
    moments = draw_noise(own, range(scenario.radio.slots)).double().numpy().ravel()
    for slot in slots_of_rounds(scenario):
        noise = draw_noise(rounds, range(slot, slot + 1)).double().numpy().ravel()
        assert np.isin(noise, moments).mean() < 0.1


@pytest.mark.parametrize("air", ["ideal", "line-of-sight", "low-cost"])
def test_a_fixed_power_is_planned_as_it_is_sent(air: str) -> None:
    scenario = with_rounds(
        "private-mnist-rounds", "mixing.power=fixed", "mixing.power_scale_watts=1e-10", f"air.preset={air}"
    )
    tally = rehearse(scenario, FEATURES, CLASSES)
    sent, planned = tally.worker_squared_mu().max(), planned_losses(scenario, FEATURES, CLASSES)["server"]
    assert planned is not None
    assert planned.squared_mu.max() >= sent * (1.0 - 1e-9)
    drawn = tally.worker_epsilons().max()
    tally.before_the_draw = True
    assert tally.privacy_against_server.epsilon >= drawn * (1.0 - 1e-9)


@pytest.mark.parametrize("setting", ["privacy.modulus_bits=0", "privacy.modulus_bits=12"])
def test_integers_are_planned_as_they_are_sent(setting: str) -> None:
    scenario = with_rounds("trustless-digits-rounds", "privacy.arithmetic=integers", "privacy.epsilon=2", setting)
    sent = rehearse(scenario, FEATURES, CLASSES).worker_squared_mu().max()
    planned = planned_losses(scenario, FEATURES, CLASSES)["server"]
    assert planned is not None
    assert planned.squared_mu.max() >= sent * (1.0 - 1e-9)


def test_rounds_of_the_same_slots_are_run_once() -> None:
    mixtures = simulate(Scenario.preset("trustless-digits-rounds"), secret=Secret())
    assert len(mixtures.rounds) == 8
    once, again = (train(mixtures).model[0].weight for _ in range(2))
    assert torch.equal(once, again)
    assert len(mixtures.rounds) == mixtures.report.rounds == 8


def test_gradients_alone_have_no_rounds_besides() -> None:
    with pytest.raises(ScenarioError, match=r"learner\.rounds = 8: must be 0"):
        rehearse(with_rounds("trustless-digits-rounds", "workers.sends=gradients"), FEATURES, CLASSES)
