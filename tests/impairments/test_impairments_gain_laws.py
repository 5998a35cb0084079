"""Bounds on gains: never exceeded more often than stated, by Monte Carlo, mpmath and at extremes; and not loose."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from airmixml import Scenario
from airmixml.impairments.frame import frame_of
from airmixml.impairments.gain_bound import largest_power_gain
from airmixml.impairments.gain_laws import (
    GaussianError,
    UniformError,
    fading_cells,
    gain_failure_of,
    joint_bound,
    rice_tail,
)
from airmixml.impairments.gains import SeatDraws, draw_gains
from airmixml.privacy import Release, Sensitivity, Server, facts
from airmixml.radio.system import planned_design
from airmixml.randomness.slot_words import slot_words
from airmixml.streams import Streams

LIKE_MNIST = Scenario.preset("private-mnist").with_overrides("workers.features=16")
FADING = {"rayleigh": ("radio.fading=rayleigh",), "rician": ("radio.fading=rician", "radio.rician_k=3")}
REAL = (
    "air.truncation_db=-10",
    "air.estimation_nmse_db=-20",
    "air.reciprocity_nmse_db=-22",
    "air.amplitude_error_db=2.5",
    "air.speed_metres_per_second=1",
)


def exact_tail(amplitude: float, deviation: float) -> mpmath.mpf:
    """P(abs(1 + e) > amplitude), e ~ CN(0, deviation^2): Marcum's Q, integrated with 20 digits."""
    with mpmath.workdps(20):
        a, b = mpmath.sqrt(2) / deviation, mpmath.sqrt(2) / deviation * mpmath.mpf(amplitude)

        def density(x: mpmath.mpf) -> mpmath.mpf:
            return x * mpmath.exp(-((x - a) ** 2) / 2) * mpmath.besseli(0, a * x) * mpmath.exp(-a * x)

        return mpmath.quad(density, [b, b + 4, b + 20])


@pytest.mark.parametrize("deviation", [0.01, 0.3, 5.0])
def test_a_rice_tail_is_never_too_small_and_hardly_too_large(deviation: float) -> None:
    for quantile in (0.5, 2.0, 6.0):
        amplitude = 1.0 + quantile * deviation
        found, exact = float(rice_tail(np.array(amplitude), deviation)), float(exact_tail(amplitude, deviation))
        assert exact * (1 - 1e-9) <= found <= 1.3 * exact
    assert rice_tail(np.array([0.5, 1.0, 1.5]), 0.0).tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize("direct", [0.0, 3.0])
def test_cells_of_fading_hold_all_of_its_law(direct: float) -> None:
    """2 (K + 1) u is noncentral chi-square: by drawing direct and scattered paths."""
    powers, chances = fading_cells(direct, 0.1)
    rng = np.random.default_rng(1)
    scattered = (rng.standard_normal((2, 400_000)) / math.sqrt(2 * (direct + 1))).T
    drawn = (scattered[:, 0] + math.sqrt(direct / (direct + 1))) ** 2 + scattered[:, 1] ** 2
    counts = np.histogram(drawn, [*powers, np.inf])[0]
    spread = np.sqrt(400_000 * chances * (1 - np.minimum(chances, 1.0)) + 1)
    assert (counts <= 400_000 * chances + 6 * spread).all()
    assert chances[:-1].sum() < 1.2
    assert powers[0] == 0.1


def largest_drawn(scenario: Scenario, symbols: int, seats: int, seed: int = 0) -> np.ndarray:
    """abs(g)^2 of the strongest piece of each seat, with channels drawn by NumPy; shape seats."""
    radio, rng = scenario.radio, np.random.default_rng(seed)
    direct = radio.rician_k if radio.fading == "rician" else 0.0
    noise = rng.standard_normal((2, seats)) / math.sqrt(2 * (direct + 1))
    fading = np.hypot(noise[0] + math.sqrt(direct / (direct + 1)), noise[1])
    found = []
    for part in range(0, seats, 2000):
        magnitude = torch.from_numpy(fading[part : part + 2000])[None]
        frame = frame_of(scenario.air, symbols)
        draws = SeatDraws(
            slots=range(1),
            frame=frame,
            workers=torch.arange(part, part + magnitude.shape[1])[None],
            magnitude=magnitude,
            path_gain=torch.ones_like(magnitude),
            source=slot_words(Streams(seed), "air"),
            in_slot=seats,
            first_seat=part,
        )
        gains = draw_gains(scenario, draws).abs().square().amax(dim=2)
        found.append((gains * (magnitude.square() >= 0.1))[0].numpy())
    return np.concatenate(found)


@pytest.mark.long
@pytest.mark.parametrize("fading", list(FADING))
def test_seats_exceed_a_bound_no_more_often_than_stated_and_nearly_as_often(fading: str) -> None:
    """One seat at a time: every seat is a trial, with all its blocks and pieces."""
    scenario, trials = LIKE_MNIST.on_air("line-of-sight").with_overrides(*FADING[fading], *REAL), 150_000
    drawn = largest_drawn(scenario, 900, trials)
    assert frame_of(scenario.air, 900).block_count > 2
    for failure in (1e-2, 1e-3, 1e-4):
        bound = largest_power_gain(scenario.with_overrides(f"air.gain_failure={failure}"), 1, 900)
        assert (drawn > bound).sum() <= failure * trials + 4 * math.sqrt(failure * trials)
        a_decibel_less = bound / 10**0.1
        assert (drawn > a_decibel_less).sum() > failure * trials


@pytest.mark.parametrize("also", [(), ("air.amplitude_error_db=0",)])
def test_joining_laws_gains_over_bounding_each_alone(also: tuple[str, ...]) -> None:
    """Worst channel, worst error of each kind and worst amplitude at once, by hand; the bound is well below."""
    scenario = LIKE_MNIST.on_air("line-of-sight").with_overrides(
        *FADING["rayleigh"], *REAL, *also, "air.gain_failure=1e-9"
    )
    each = math.log(60_000 * frame_of(scenario.air, 1500).pieces * 4 / 1e-9)
    air = scenario.air
    alone = (1 + math.sqrt(0.01 / 0.1 * each)) * (1 + math.sqrt(10 ** (air.reciprocity_nmse_db / 10) * each))
    alone *= 10 ** (air.amplitude_error_db / 20)  # and movement on top
    assert largest_power_gain(scenario, 60_000, 1500) < 0.95 * alone**2


ERRORS = st.lists(
    st.one_of(
        st.builds(UniformError, st.floats(1e-6, 4.0)),
        st.builds(
            GaussianError,
            st.floats(1.0, 3.0),
            st.floats(0.0, 10.0),
            st.booleans(),
            st.sampled_from(["slot", "block", "piece"]),
            st.sampled_from([((1, 1.0),), ((2, 0.1), (1, 0.5), (3, 1.0))]),
        ),
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=10, deadline=None)
@given(
    errors=ERRORS,
    direct=st.floats(0.0, 1e3),
    floor=st.floats(1e-6, 10.0),
    places=st.integers(1, 1 << 20),
    failure=st.floats(1e-15, 0.5),
)
def test_bounds_at_extremes(
    errors: list[GaussianError | UniformError], direct: float, floor: float, places: int, failure: float
) -> None:
    """Finite, no less than the means, no more than all errors at their worst, and monotone."""
    found = joint_bound(tuple(errors), direct, floor, places, 1.0 / failure)
    worst = 1.0
    for error in errors:
        if isinstance(error, UniformError):
            worst *= math.exp(error.largest)
        else:
            reach = math.sqrt(math.log(1 / 1e-40) * error.variance / (floor if error.over_fading else 1.0))
            worst *= error.mean + reach
    quietest = math.exp(-sum(each.largest for each in errors if isinstance(each, UniformError)))
    assert quietest * (1 - 1e-9) <= found <= worst * (1 + 1e-6) or math.isinf(found)
    assert joint_bound(tuple(errors), direct, floor, places, 10.0 / failure) >= found
    assert joint_bound(tuple(errors), direct, floor, 2 * places, 1.0 / failure) >= found


def test_delta_contains_one_worker_s_share_of_the_failure() -> None:
    """0.01 for 60,000 workers together; a hidden schedule of fixed size counts all gains."""
    aired = LIKE_MNIST.with_overrides("air.reciprocity_nmse_db=-20", 'air.renewed_errors=["reciprocity_nmse_db"]')
    assert gain_failure_of(aired) == 1e-2
    design = planned_design(aired, Sensitivity(removal=1.0, replacement=2.0), received_watts=1e-15)
    assert Server().mechanism(design, "remove-one").gain_failure == pytest.approx(1e-2 / 60_000)
    few = aired.with_overrides("radio.scheduled=64", "radio.slots=100")
    design = planned_design(few, Sensitivity(removal=1.0, replacement=2.0), received_watts=1e-15)
    assert design.fact(facts.ImperfectAir).gain_failure == pytest.approx(0.02 * 1e-5 * 64)
    assert Server().mechanism(design, "replace-one").gain_failure == pytest.approx(2e-7)
    hidden, known = Release().views(design, "replace-one")
    assert hidden.gain_failure == pytest.approx(128e-7)
    assert known.gain_failure == pytest.approx(2e-7)
