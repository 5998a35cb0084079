import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airmixml.privacy import (
    Adversary,
    Design,
    Eavesdropper,
    Release,
    Sensitivity,
    calibrate_power,
    facts,
    state_privacy,
)

NEAR = Eavesdropper(gain=1e-8, own_noise_watts=4e-15)


def design_of(watts: tuple[float, ...], counts: tuple[int, ...], workers: int) -> Design:
    return Design(
        workers=workers,
        scheduled=2,
        received_watts=watts,
        counts=counts,
        sensitivity=Sensitivity(removal=7.0, replacement=9.0),
        noise_watts=4e-15,
        facts=(facts.Transmitters(weakest_gain=1e-7),),
    )


ONE_KIND = design_of((3e-15,), (200,), 100)
TWO_KINDS = design_of((1e-15, 2e-14), (60, 10), 100)


def assert_calibrated(design: Design, adversary: Adversary, adjacency: str, epsilon: float, delta: float) -> None:
    factor = calibrate_power(design, adversary, "pld", adjacency=adjacency, epsilon=epsilon, delta=delta)

    def spent(scale: float) -> float:
        return state_privacy(design.scaled(scale), adversary, "pld", adjacency=adjacency, delta=delta).epsilon

    assert spent(factor) <= epsilon
    assert spent(1.01 * factor) > epsilon


@pytest.mark.long
@given(
    workers=st.sampled_from([6, 40]),
    slots=st.sampled_from([50, 400]),
    log_epsilon=st.floats(math.log(0.05), math.log(60.0)),
    log_delta=st.floats(-7, -2),
)
@settings(max_examples=3, deadline=None)
def test_pld_meets_targets_of_replacement_and_no_more(
    workers: int, slots: int, log_epsilon: float, log_delta: float
) -> None:
    design = design_of((3e-15,), (slots,), workers)
    assert_calibrated(design, Release(), "replace-one", math.exp(log_epsilon), 10.0**log_delta)


@pytest.mark.parametrize(
    ("design", "adversary", "adjacency", "epsilon", "delta"),
    [
        (ONE_KIND, NEAR, "replace-one", 1e8, 1e-5),
        (TWO_KINDS, Release(colluders=30), "replace-one", 3.0, 1e-5),
    ],
)
def test_pld_meets_targets_of_several_kinds_and_adversaries_and_no_more(
    design: Design, adversary: Adversary, adjacency: str, epsilon: float, delta: float
) -> None:
    assert_calibrated(design, adversary, adjacency, epsilon, delta)
