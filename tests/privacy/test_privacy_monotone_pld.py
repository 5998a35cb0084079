from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slots_for_tests import hidden, stronger, worse_versions

from airmixml.privacy import (
    Adversary,
    Design,
    Eavesdropper,
    GaussianSlots,
    Release,
    Sensitivity,
    certified_epsilon,
    facts,
    state_privacy,
)

# How much the steps of the losses may move an epsilon.
DISCRETISATION = 1e-3


def assert_grows(mechanism: GaussianSlots, factor: float, delta: float) -> None:
    base = certified_epsilon("pld", mechanism, delta)
    for name, worse in worse_versions(mechanism, factor).items():
        assert certified_epsilon("pld", worse, delta) >= base * (1.0 - DISCRETISATION), name
    assert certified_epsilon("pld", mechanism, delta / factor) >= base * (1.0 - DISCRETISATION)
    if base > 0.0:
        assert certified_epsilon("pld", stronger(mechanism, 2.0), delta) > base
        assert certified_epsilon("pld", mechanism, delta / 4.0) > base


@pytest.mark.long
@given(
    log_exponent=st.floats(-2, 0.5),
    count=st.integers(5, 60),
    sampled=st.integers(1, 2),
    population=st.integers(20, 200),
    factor=st.floats(1.01, 2.0),
    log_delta=st.floats(-7, -1),
)
@settings(max_examples=3, deadline=None)
def test_pld_grows_with_all_that_tells_more(
    log_exponent: float, count: int, sampled: int, population: int, factor: float, log_delta: float
) -> None:
    assert_grows(hidden((10.0**log_exponent,), (count,), sampled, population), factor, 10.0**log_delta)


@pytest.mark.long
def test_pld_of_removal_grows_with_all_that_tells_more() -> None:
    assert_grows(hidden((0.5,), (100,), 2, 40, "remove-one"), 1.3, 1e-4)


@pytest.mark.parametrize("adjacency", ["replace-one", "remove-one"])
def test_pld_with_a_coarser_step_is_never_below_and_not_far_above(adjacency: str) -> None:
    for squared_shift, count, population, delta in [(0.5, 100, 20, 1e-4), (4.0, 50, 100, 1e-3)]:
        mechanism = hidden((squared_shift,), (count,), 1, population, adjacency)
        fine, coarse = (certified_epsilon("pld", mechanism, delta, quickly=quickly) for quickly in (False, True))
        assert fine * (1 - 1e-6) <= coarse <= fine * 1.02


def test_coarsening_does_not_lower_epsilon_of_slots_of_many_kinds() -> None:
    """Twenty kinds within a decade are more than pld tells apart; all of them at the weakest bound it from below."""
    squared_shifts = tuple(float(s) for s in np.geomspace(0.2, 2.0, 20))
    many = hidden(squared_shifts, (5,) * 20, 1, 20)
    lower = certified_epsilon("pld", hidden((0.2, 1.0), (50, 50), 1, 20), 1e-3)
    upper = certified_epsilon("pld", hidden((2.0,), (100,), 1, 20), 1e-3)
    eight = tuple(float(np.mean(squared_shifts[a : a + 3])) for a in range(0, 20, 3))
    averaged = certified_epsilon("pld", hidden(eight, (15, 15, 15, 15, 15, 15, 10), 1, 20), 1e-3)
    epsilon = certified_epsilon("pld", many, 1e-3)
    assert lower < averaged <= epsilon <= min(upper, 1.3 * averaged)


DESIGN = Design(
    workers=200,
    scheduled=4,
    received_watts=(0.5, 2.0),
    counts=(60, 20),
    sensitivity=Sensitivity(removal=1.0, replacement=1.5),
    noise_watts=4.0,
    facts=(facts.Transmitters(weakest_gain=0.5),),
)
NEAR = Eavesdropper(gain=0.3, own_noise_watts=3.0)


def louder(adversary: Adversary, factor: float) -> Adversary:
    if isinstance(adversary, Eavesdropper) and adversary.gain is not None:
        return replace(adversary, gain=factor * adversary.gain)
    return adversary


def quieter_noise(design: Design, adversary: Adversary, factor: float) -> tuple[Design, Adversary]:
    if isinstance(adversary, Eavesdropper):
        return design, replace(adversary, own_noise_watts=adversary.own_noise_watts / factor)
    return replace(design, noise_watts=design.noise_watts / factor), adversary


@pytest.mark.parametrize("adversary", [Release(), NEAR])
def test_pld_grows_with_colluders_sensitivity_and_power_and_falls_with_noise(adversary: Adversary) -> None:
    def epsilon(design: Design, who: Adversary) -> float:
        return state_privacy(design, who, "pld", adjacency="replace-one", delta=1e-4).epsilon

    base = epsilon(DESIGN, adversary)
    wider = Sensitivity(removal=1.2, replacement=1.8)
    assert epsilon(DESIGN, replace(adversary, colluders=50)) > 1.1 * base
    assert epsilon(DESIGN, replace(adversary, colluders=100)) > 1.1 * epsilon(DESIGN, replace(adversary, colluders=50))
    assert epsilon(replace(DESIGN, sensitivity=wider), adversary) > 1.02 * base
    assert epsilon(*quieter_noise(DESIGN, adversary, 1.2)) > 1.02 * base
    assert epsilon(*quieter_noise(DESIGN, adversary, 0.5)) < base
    if isinstance(adversary, Eavesdropper):
        assert epsilon(DESIGN, louder(adversary, 1.2)) > 1.02 * base
