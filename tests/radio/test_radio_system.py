"""What follows from a scenario is derived once, and the same wherever it is asked for."""

import math
import pickle
from dataclasses import replace

import numpy as np
import pytest

from airmixml import Scenario
from airmixml.privacy import Sensitivity, facts
from airmixml.radio.system import System
from airmixml.workers.encoder import Inputs

IRIS = Scenario.preset("paper-iris")
MASKED = Scenario.preset("trustless-iris").with_overrides("workers.count=60", "radio.scheduled=60")


def test_facts_are_derived_once_and_not_handed_to_other_processes() -> None:
    system = System.of(MASKED, 5, 3)
    assert system.signal is system.signal
    sent = pickle.loads(pickle.dumps(system))
    assert "signal" not in vars(sent)
    assert sent == system
    assert sent.sensitivity == system.sensitivity


def test_the_weakest_channel_is_that_of_the_farthest_worker() -> None:
    """With n = 2 and -32 dB the corner, 353.55 m away, has a gain of 10^-3.2 / 125000; a kilometre has 10^-9.2."""
    assert System.of(IRIS, 4, 3).floor == pytest.approx(10**-3.2 / 125_000)
    assert System.of(IRIS, 4, 3, np.array([1.0, 1000.0])).floor == pytest.approx(10**-9.2)
    assert System.of(IRIS, 4, 3, np.array([1.0, 10.0])).floor == pytest.approx(10**-3.2 / 125_000)


def test_a_design_lists_what_each_stage_states() -> None:
    ideal = System.of(IRIS, 4, 3).design(1e-15)
    assert [type(each) for each in ideal.facts] == [facts.Antennas, facts.Transmitters]
    rough = IRIS.with_overrides("air.amplitude_error_db=3", "air.power_step_db=1", "mixing.assignment=max-min")
    stated = {type(each) for each in System.of(rough, 4, 3).design(1e-15).facts}
    assert {facts.GainsTell, facts.RanksTell, facts.ImperfectAir, facts.OthersInSeats} <= stated
    assert System.of(MASKED, 5, 3).design(1e-15).says(facts.WorkersNoise)


def test_what_workers_can_move_may_be_given_in_place_of_dimensions() -> None:
    moves = Sensitivity(removal=2.0, replacement=3.0)
    design = System.moving(IRIS, moves).design(1e-15)
    assert design.sensitivity == moves
    assert math.isclose(design.received_watts[0], 1e-15)


def test_an_encoder_whose_class_is_written_anew_is_another_system() -> None:
    """Its pickle, by which scenarios name it, tells the two classes not apart; what they declare differs."""

    def system() -> System:
        moments = Scenario.preset("private-iris").with_overrides("privacy.adjacency=replace-one", "workers.centre=none")
        return System.of(replace(moments, workers=replace(moments.workers, encoder=Rewritten())), 5, 3)

    found = []
    for never_negative in (True, False):
        Rewritten.never_negative = never_negative
        found.append(system().sensitivity.replacement)
    assert found[0] < found[1]


class Rewritten(Inputs):
    """An encoder of a user's notebook."""

    def __init__(self) -> None:
        super().__init__("inputs of bounded norm", bounds_norm=True)
