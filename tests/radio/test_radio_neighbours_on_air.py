"""What an imperfect air must not do to neighbours: no row decides for all, and all that a worker adds is counted."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from airmixml import Scenario, ScenarioError
from airmixml.data import DataSet
from airmixml.privacy.statements import state_jointly
from airmixml.radio.air import air_of
from airmixml.radio.draws import AirSetting, draw_slots
from airmixml.radio.system import System, adversary_named
from airmixml.radio.tally import rehearse
from airmixml.radio.transmission import make_sender
from airmixml.streams import Secret

WORKERS = 400
AMPLIFIED = Scenario().with_overrides(
    *("workers.dataset=iris", "workers.encoder=clip", "workers.clip_norm=1", "privacy.sensitivity=encoder"),
    *(f"workers.count={WORKERS}", f"radio.scheduled={WORKERS}", "radio.slots=1", "mixing.policy=equalmix"),
    *("mixing.power=dp", "privacy.adversary=server", "privacy.accountant=gdp", "privacy.delta=1e-5"),
    *("privacy.epsilon=10", "workers.side_metres=10", "workers.min_distance_metres=7.07", "workers.label_weight=0.1"),
    *("air.pilot_symbols=1", "air.amplifier_saturation_dbm=0", "air.amplifier_smoothness=2"),
)


def rows(last: float) -> DataSet:
    inputs = np.zeros((WORKERS, 4), np.float32)
    inputs[:, 0] = 0.8
    inputs[-1, 0] = last
    labels = np.zeros(WORKERS, int)
    parts = {"train_inputs": inputs, "train_labels": labels, "test_inputs": inputs[:2], "test_labels": labels[:2]}
    return DataSet(name="unit", **parts, class_names=("a", "b"), image_shape=None, clipped_values=0)


def received(scenario: Scenario, last: float, secret: Secret) -> tuple[torch.Tensor, float, float]:
    """Return the sum of a slot, the largest share of a worker and the largest power."""
    setting = replace(AirSetting.of(scenario, 4, 2, np.full(WORKERS, 7.07)), secret=secret)
    drawn = draw_slots(setting, range(1))
    payload = make_sender(setting.scenario, rows(last), torch.device("cpu"), secret=secret)
    arrival = air_of(setting.scenario).arrive(setting, payload, drawn.scheduled_workers, drawn, range(1))
    return arrival.clean[0], float(drawn.ratios.max()), float(drawn.power_watts.max())


def test_one_row_does_not_decide_whether_amplifiers_bend_all() -> None:
    """Saturation where a symbol of 0.8 is just linear and one of 0.81 is not: only the one worker's part may move."""
    secret = Secret()
    strongest = received(AMPLIFIED, 0.8, secret)[2]
    for squared_drive in np.geomspace(0.01, 0.2, 12):  # the threshold is somewhere here
        saturation_dbm = 10.0 * math.log10(0.64 * strongest / squared_drive * 1e3)
        scenario = AMPLIFIED.with_overrides(f"air.amplifier_saturation_dbm={saturation_dbm!r}")
        one, share, _ = received(scenario, 0.8, secret)
        other, _, _ = received(scenario, 0.83, secret)
        assert float((one - other).norm()) < 1.05 * share * 0.03


def test_protection_refuses_amplifiers_that_are_modelled_as_noise() -> None:
    ofdm = AMPLIFIED.with_overrides("air.waveform=ofdm")
    with pytest.raises(ScenarioError, match=r"air.amplifier_saturation_dbm = 0: is modelled as noise"):
        make_sender(ofdm, rows(0.8), torch.device("cpu"), secret=Secret())


def test_many_antennas_have_more_than_their_number_where_channels_fade() -> None:
    few = ("workers.count=500", "workers.train_samples=500", "radio.scheduled=500", "workers.features=16")
    one = Scenario.preset("private-mnist").on_air("campus").with_overrides(*few, "air.antennas=1").settled(500, 784)
    design, many = (System.of(each, 16, 10).design(1e-15) for each in (one, one.with_overrides("air.antennas=64")))
    gains = [next(fact for fact in each.facts if type(fact).__name__ == "Antennas").gain for each in (design, many)]
    assert gains[1] / gains[0] > 100.0
    stated = rehearse(one, 16, 10).privacy_against_server
    wanted = rehearse(one.with_overrides("air.antennas=64"), 16, 10)
    assert stated.if_better["64 antennas"] > 2.0 * stated.if_better["+10 dB"]
    assert wanted.privacy_against_server.epsilon <= 10.0
    endless = Scenario.preset("private-mnist").with_overrides(*few, "radio.fading=rayleigh", "mixing.power=max")
    unbounded = rehearse(endless.settled(500, 784), 16, 10).privacy_against_server.if_better["64 antennas"]
    assert unbounded is None or math.isinf(unbounded)


def test_releases_together_have_rows_of_better_receivers_above_their_epsilon() -> None:
    scenario = Scenario.preset("private-iris")
    alone = rehearse(scenario, 5, 3).privacy_against_server
    together = state_jointly([alone] * 3, gaussian=True)
    assert together.if_better.keys() == alone.if_better.keys()
    for name, epsilon in alone.if_better.items():
        both = together.if_better[name]
        assert epsilon is not None
        assert both is not None
        assert both > max(together.epsilon, epsilon)


def test_an_eavesdropper_may_be_in_the_lightest_shadow() -> None:
    near = Scenario.preset("private-iris").with_overrides("privacy.eavesdropper_distance_metres=50")
    gains = [
        adversary_named("eavesdropper", each).gain for each in (near, near.with_overrides("air.shadowing_db=7.82"))
    ]
    assert gains[1] / gains[0] == pytest.approx(10.0 ** (3.0 * 7.82 / 10.0), rel=1e-9)
