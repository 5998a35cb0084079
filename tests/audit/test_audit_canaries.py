"""Canaries as they are really sent: never farther apart than declared, and just as far wherever that can be."""

from __future__ import annotations

import numpy as np
import pytest

from airmixml import Scenario
from airmixml.audit.canaries import sent_of, worst_samples
from airmixml.radio.system import sensitivity_of

MOMENTS = ("workers.sends=moments", "learner.model=lda")
CENTRED = ("workers.encoder=clip", "workers.centre=own")
CASES = {
    # name: (overrides, features, whether the removal is reached, whether the replacement is)
    "scale": ((), 4, True, True),
    "clip": (("workers.encoder=clip",), 4, True, True),
    "clip, long": (("workers.encoder=clip", "workers.clip_norm=3"), 64, True, True),
    "clip, longer than half the cube": (("workers.encoder=clip", "workers.clip_norm=7"), 64, True, True),
    "clip, longer than the cube": (("workers.encoder=clip", "workers.clip_norm=9"), 64, True, True),
    "dct": (("workers.encoder=dct", "workers.dataset=digits"), 16, True, True),
    "centred, unit, constant": (
        (*CENTRED, "workers.norm=unit", "workers.constant=0.5"),
        5,
        True,
        False,  # the constant points the same way in both
    ),
    "label weight": (
        ("workers.encoder=gradients", "workers.label_weight=0.5", "workers.dataset=digits"),
        32,
        True,
        True,
    ),
    "moments": (("workers.encoder=clip", *MOMENTS), 4, True, True),
    "moments, signed": ((*CENTRED, *MOMENTS), 4, True, True),
    "moments, short": (
        ("workers.encoder=clip", "workers.centre=own", "workers.clip_norm=0.5", *MOMENTS),
        4,
        True,
        True,
    ),
    "moments, constant": (
        ("workers.encoder=clip", "workers.centre=public", "workers.constant=0.5", *MOMENTS),
        5,
        True,
        True,
    ),
}


def scenario_of(*overrides: str) -> Scenario:
    return Scenario.preset("paper-iris").with_overrides("privacy.sensitivity=encoder", *overrides)


def sent(scenario: Scenario, features: int) -> np.ndarray:
    return sent_of(scenario, worst_samples(scenario, features, 3))


@pytest.mark.parametrize("name", CASES)
def test_no_farther_apart_than_declared(name: str) -> None:
    overrides, features, removal_reached, replacement_reached = CASES[name]
    scenario = scenario_of(*overrides)
    declared = sensitivity_of(scenario, features, 3)
    canary, other, third = sent(scenario, features)
    removal, replacement = float(canary @ canary), float((canary - other) @ (canary - other))
    assert removal <= declared.removal * (1 + 1e-6)
    assert replacement <= declared.replacement * (1 + 1e-6)
    for one in (canary, other):
        assert float((one - third) @ (one - third)) <= declared.replacement * (1 + 1e-6)
    assert (removal == pytest.approx(declared.removal, rel=1e-4)) is removal_reached
    assert (replacement == pytest.approx(declared.replacement, rel=1e-4)) is replacement_reached


def test_hand_values() -> None:
    canary, other, _ = sent(scenario_of(), 4)
    np.testing.assert_array_equal(canary, [1, 1, 1, 1, 1, 0, 0])
    np.testing.assert_array_equal(other, [0, 0, 0, 0, 0, 1, 0])
    # The paper's bound for both is d_X + d_Y = 7.
    assert (canary @ canary, (canary - other) @ (canary - other)) == (5.0, 6.0)
    # Moments with equal labels: s = x . x' = -1/2 and so 2 (1 + 1) + 1/2.
    canary, other, _ = sent(scenario_of(*CENTRED, *MOMENTS), 4)
    assert (canary - other) @ (canary - other) == pytest.approx(4.5, rel=1e-4)


@pytest.mark.parametrize("task", ["regression", "multi-label"])
@pytest.mark.parametrize("sends", ["samples", "moments"])
@pytest.mark.parametrize("constant", [0.0, 0.5])
def test_canaries_with_opposite_labels_reach_both_bounds(task: str, sends: str, constant: float) -> None:
    scenario = Scenario.preset("private-table").with_overrides(
        f"workers.task={task}",
        f"workers.sends={sends}",
        f"workers.constant={constant}",
        "workers.count=9",
        "learner.rounds=0",
    )
    features = 5
    sensitivity = sensitivity_of(scenario.settled(9), features, 2)
    vectors = sent_of(scenario, worst_samples(scenario, features, 2))
    assert np.square(vectors[0]).sum() == pytest.approx(sensitivity.removal, rel=1e-4)
    reached = np.square(vectors[0] - vectors[1]).sum()
    assert reached <= sensitivity.replacement
    # The constant is the same for all, so inputs of samples cannot be quite opposite.
    assert reached > (0.999 if sends == "moments" or not constant else 0.8) * sensitivity.replacement
